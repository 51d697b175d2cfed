/* Tabs: click or arrow keys. Each tab names its panel by `aria-controls`. */

function tabsOf(list) {
  return [...list.querySelectorAll('[role="tab"]')];
}

function showTab(shown) {
  for (const tab of tabsOf(shown.closest('[role="tablist"]'))) {
    const isShown = tab === shown;
    const panel = byId(tab.getAttribute("aria-controls"));
    panel.hidden = !isShown;
    tab.setAttribute("aria-selected", String(isShown));
    tab.tabIndex = isShown ? 0 : -1;
  }
}

function moveTab(event) {
  const steps = { ArrowLeft: -1, ArrowRight: 1 };
  if (!(event.key in steps)) return;
  const tabs = tabsOf(event.currentTarget.closest('[role="tablist"]'));
  const at = tabs.indexOf(event.currentTarget) + steps[event.key];
  const next = tabs[(at + tabs.length) % tabs.length];
  showTab(next);
  next.focus();
}

for (const tab of document.querySelectorAll('[role="tab"]')) {
  tab.addEventListener("click", () => showTab(tab));
  tab.addEventListener("keydown", moveTab);
}
