"use strict";
(() => {
  const number = new Intl.NumberFormat("en");

  /* Calls what changes the page for paper; what that returns makes it as it was. */
  const aroundPrint = (change) => {
    let undo = () => {};
    window.addEventListener("beforeprint", () => { undo = change(); });
    window.addEventListener("afterprint", () => undo());
  };

  /* Tables: rows come from data, since thousands of them as HTML would make the page slow and large. */
  for (const live of document.querySelectorAll(".live")) {
    const data = JSON.parse(live.querySelector("script").textContent);
    const body = live.querySelector("tbody");
    const more = live.querySelector(".more");
    const filter = live.querySelector("input");
    const count = live.querySelector(".count");
    const heads = [...live.querySelectorAll("th")];
    const portion = Number(live.dataset.shown);
    const words = data.rows.map((row) => row.join(" ").toLowerCase());
    let order = data.rows.map((_, index) => index);
    let limit = portion;

    const matching = () => {
      const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      return wanted.length ? order.filter((index) => wanted.every((word) => words[index].includes(word))) : order;
    };

    const show = () => {
      const found = matching();
      const rows = document.createDocumentFragment();
      for (const index of found.slice(0, limit)) {
        const row = document.createElement("tr");
        data.rows[index].forEach((text, column) => {
          const cell = document.createElement("td");
          cell.className = data.numeric[column] ? "number" : text.length > 60 ? "long" : "";
          cell.textContent = text;
          row.append(cell);
        });
        rows.append(row);
      }
      body.replaceChildren(rows);
      const shown = Math.min(limit, found.length);
      const all = number.format(data.rows.length);
      count.textContent = !found.length ? `none of ${all} rows has all these words` :
        `${number.format(shown)} of ${number.format(found.length)} rows` +
        (found.length < data.rows.length ? `, filtered from ${all}` : "");
      more.hidden = shown === found.length;
    };

    const compare = (column, up) => (one, other) => {
      const [a, b] = [data.keys[one][column], data.keys[other][column]];
      if (data.numeric[column]) {
        if (a === null || b === null) return (a === null) - (b === null) || one - other;
        return (up ? a - b : b - a) || one - other;
      }
      const [x, y] = [data.rows[one][column], data.rows[other][column]];
      return (up ? 1 : -1) * x.localeCompare(y, "en", { numeric: true }) || one - other;
    };

    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      order.sort(compare(column, up));
      show();
    }));
    filter.addEventListener("input", () => { limit = portion; show(); });
    more.addEventListener("click", () => { limit += 10 * portion; show(); });
    live.querySelector(".tools").hidden = data.rows.length < 2;
    aroundPrint(() => {
      const before = limit;
      limit = Math.max(limit, 500);
      show();
      return () => { limit = before; show(); };
    });
    show();
  }

  /* Copying: the clipboard where the browser lets a page have it, the selection elsewhere. */
  const select = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    window.getSelection().removeAllRanges();
    window.getSelection().addRange(range);
  };
  const copy = async (element) => {
    try {
      await navigator.clipboard.writeText(element.textContent);
    } catch {
      select(element);
      return document.execCommand("copy");
    }
    return true;
  };
  const said = document.getElementById("said");
  for (const button of document.querySelectorAll(".copy")) {
    const label = button.firstChild;
    button.hidden = false;
    button.addEventListener("click", async () => {
      label.data = (await copy(button.parentElement.querySelector("code"))) ? "Copied" : "Press Ctrl+C";
      said.textContent = button.textContent;
      setTimeout(() => { label.data = "Copy"; said.textContent = ""; }, 2000);
    });
  }

  aroundPrint(() => {
    const closed = document.querySelectorAll("details:not([open])");
    for (const each of closed) each.open = true;
    return () => { for (const each of closed) each.open = false; };
  });
})();
