// Colour scheme: light, dark, or as the system; stored where the browser allows it.

import { find, clearColours } from "./dom.js";

const NAMES = { system: ["◐", "as the system"], light: ["☀", "light"], dark: ["☾", "dark"] };

export function startTheme(changed) {
  const button = find("theme");
  const apply = (name) => {
    if (name === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    [button.textContent] = NAMES[name];
    button.setAttribute("aria-label", `Colour scheme: ${NAMES[name][1]}`);
    clearColours();
    changed();
  };
  let now = loadScheme();
  button.onclick = () => {
    const names = Object.keys(NAMES);
    now = names[(names.indexOf(now) + 1) % names.length];
    saveScheme(now);
    apply(now);
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply(now));
  apply(now);
}

function loadScheme() {
  try {
    const name = localStorage.getItem("usfa-theme");
    return name in NAMES ? name : "system";
  } catch {
    return "system";
  }
}

function saveScheme(name) {
  try {
    localStorage.setItem("usfa-theme", name);
  } catch {
    // Storage is disabled: the choice lasts until the page is closed.
  }
}
