"use strict";
(() => {
  const root = document.documentElement;

  // Light and dark: the system's choice until the button is pressed.
  const theme = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const name = () => {
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", `Switch to ${theme.textContent.toLowerCase()} colours`);
  };
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  system.addEventListener("change", name);
  theme.hidden = false;
  name();

  // Tabs: links that become tabs, and sections that become panels, of which one is shown.
  const list = document.getElementById("tabs");
  const tabs = [...list.querySelectorAll("a")];
  const panelOf = (tab) => document.getElementById(tab.hash.slice(1));
  const show = (chosen, focus) => {
    for (const tab of tabs) {
      const is = tab === chosen;
      tab.setAttribute("aria-selected", String(is));
      tab.tabIndex = is ? 0 : -1;
      panelOf(tab).hidden = !is;
    }
    if (focus) chosen.focus();
  };
  list.setAttribute("role", "tablist");
  for (const tab of tabs) {
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", panelOf(tab).id);
    panelOf(tab).setAttribute("role", "tabpanel");
    panelOf(tab).tabIndex = 0;
    tab.addEventListener("click", (event) => {
      event.preventDefault();
      show(tab, true);
    });
  }
  list.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(document.activeElement);
    if (at < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const n = tabs.length;
    const to = { ArrowRight: (at + 1) % n, ArrowLeft: (at + n - 1) % n, Home: 0, End: n - 1, " ": at }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    show(tabs[to], true);
  });
  const asked = () => tabs.find((tab) => location.hash && tab.hash === location.hash);
  addEventListener("hashchange", () => asked() && show(asked(), false));
  root.classList.add("tabbed");
  show(asked() || tabs[0], false);

  // Tables that sort: headings become buttons.
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  const sort = (table, head, column) => {
    const up = head.getAttribute("aria-sort") === "descending" || (!head.hasAttribute("aria-sort") && !head.matches(".number"));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows];
    const numeric = head.matches(".number");
    rows.sort((a, b) => {
      const x = valueOf(a, column);
      const y = valueOf(b, column);
      // What has no number comes last, whichever way.
      if (numeric && typeof x !== typeof y) return typeof x === "number" ? -1 : 1;
      return up ? compare(x, y) : compare(y, x);
    });
    table.tBodies[0].append(...rows);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => sort(table, head, column));
    });
  }
})();
