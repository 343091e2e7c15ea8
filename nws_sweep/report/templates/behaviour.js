"use strict";
(() => {
  /* Calls `change` before printing, and the function that it returns afterwards. */
  const aroundPrint = (change) => {
    let undo = () => {};
    window.addEventListener("beforeprint", () => { undo = change(); });
    window.addEventListener("afterprint", () => undo());
  };

  /* The sort key of a cell: its first number, scaled by its unit; of "about 50 to 90 ms" the second. */
  const UNITS = { "µs": 1e-6, ms: 1e-3, min: 60, kB: 1e3, MB: 1e6, GB: 1e9 };
  const MISSING = ["-", "null", "failed", "undecided", "unknown"];
  const valueOf = (text) => {
    const found = /^(?:about \S+ to )?(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?:x?(?: (\S+).*)?)$/.exec(text);
    return found ? found[1] * (UNITS[found[2]] ?? 1) : NaN;
  };

  /* Tables: rows are made from JSON, since thousands of HTML rows would be slow and large. */
  for (const live of document.querySelectorAll(".live")) {
    const data = JSON.parse(live.querySelector("script").textContent);
    const body = live.querySelector("tbody");
    const more = live.querySelector(".more");
    const filter = live.querySelector("input");
    const count = live.querySelector(".count");
    const heads = [...live.querySelectorAll("th")];
    const portion = 25;
    const words = data.map((row) => row.join(" ").toLowerCase());
    const numeric = heads.map((_, column) =>
      data.every((row) => !isNaN(valueOf(row[column])) || MISSING.includes(row[column])));
    let order = data.map((_, index) => index);
    let limit = portion;

    const show = () => {
      const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      const found = order.filter((index) => wanted.every((word) => words[index].includes(word)));
      body.replaceChildren();
      for (const index of found.slice(0, limit)) {
        const row = body.insertRow();
        data[index].forEach((text, column) => {
          const cell = row.insertCell();
          cell.className = numeric[column] ? "number" : text.length > 30 ? "long" : "";
          cell.textContent = text;
        });
      }
      const shown = Math.min(limit, found.length);
      const all = data.length.toLocaleString("en");
      count.textContent = !found.length ? `none of ${all} rows has all these words` :
        `${shown.toLocaleString("en")} of ${found.length.toLocaleString("en")} rows` +
        (found.length < data.length ? `, filtered from ${all}` : "");
      more.hidden = shown === found.length;
    };

    const compare = (column, up) => (one, other) => {
      const [a, b] = [data[one][column], data[other][column]];
      if (!numeric[column]) return (up ? 1 : -1) * a.localeCompare(b, "en", { numeric: true }) || one - other;
      const [x, y] = [valueOf(a), valueOf(b)];
      return isNaN(x) - isNaN(y) || (isNaN(x) ? 0 : up ? x - y : y - x) || one - other;
    };

    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      order.sort(compare(column, up));
      show();
    }));
    heads.forEach((head, column) => { head.className = numeric[column] ? "number" : ""; });
    filter.addEventListener("input", () => { limit = portion; show(); });
    more.addEventListener("click", () => { limit += 10 * portion; show(); });
    live.querySelector(".tools").hidden = data.length <= portion;
    aroundPrint(() => {
      const before = limit;
      limit = Math.max(limit, 500);
      show();
      return () => { limit = before; show(); };
    });
    show();
  }

  /* Copying: by the clipboard if the browser allows it, else by the selection. */
  const copy = async (element) => {
    try {
      await navigator.clipboard.writeText(element.textContent);
    } catch {
      window.getSelection().selectAllChildren(element);
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
