// Names the search dialog, and lets the keyboard scroll what is wider than the page; the theme wraps tables later.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
function makeFocusable() {
  for (const each of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) each.tabIndex = 0;
}
makeFocusable();
new MutationObserver(makeFocusable).observe(document.querySelector(".md-content"), { childList: true, subtree: true });
