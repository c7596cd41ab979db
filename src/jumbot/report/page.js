// Tables sort by a click on their head; samples are filtered by the class that was predicted.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => {
    head.tabIndex = 0;
    const sort = () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const value = (row) => row.cells[column].textContent.trim();
      const number = (text) => parseFloat(text.replace(/[\s%]/g, ""));
      const rows = [...body.rows].sort((a, b) => {
        const x = number(value(a)), y = number(value(b));
        return Number.isNaN(x) || Number.isNaN(y) ? value(a).localeCompare(value(b)) : x - y;
      });
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.append(...(down ? rows.reverse() : rows));
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
  });
}
for (const select of document.querySelectorAll("select[data-filter]")) {
  select.addEventListener("change", () => {
    for (const each of document.getElementById(select.dataset.filter).querySelectorAll("[data-class]")) {
      each.hidden = select.value !== "" && each.dataset.class !== select.value;
    }
  });
}
