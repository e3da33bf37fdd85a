// Light, dark, or as the system says; remembered where the browser allows it.

import { find, forgetColours } from "./dom.js";

const NAMES = { system: ["◐", "as the system"], light: ["☀", "light"], dark: ["☾", "dark"] };

export function startTheme(changed) {
  const button = find("theme");
  const apply = (name) => {
    if (name === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    [button.textContent] = NAMES[name];
    button.setAttribute("aria-label", `Colour scheme: ${NAMES[name][1]}`);
    forgetColours();
    changed();
  };
  let now = remembered();
  button.onclick = () => {
    const names = Object.keys(NAMES);
    now = names[(names.indexOf(now) + 1) % names.length];
    remember(now);
    apply(now);
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply(now));
  apply(now);
}

function remembered() {
  try {
    const name = localStorage.getItem("usfa-theme");
    return name in NAMES ? name : "system";
  } catch {
    return "system";
  }
}

function remember(name) {
  try {
    localStorage.setItem("usfa-theme", name);
  } catch {
    // A browser that keeps nothing still shows everything.
  }
}
