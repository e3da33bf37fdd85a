// Single-key shortcuts, inactive while the user types, drags a slider or has a dialog open.

export function startShortcuts(actions) {
  document.addEventListener("keydown", (event) => {
    const busy = event.target.closest("input, select, textarea, canvas[tabindex]") || (event.key === " " && event.target.closest("button, a"));
    if (busy || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
