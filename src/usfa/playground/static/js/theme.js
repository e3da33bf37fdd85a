// Colour scheme (light, dark, or as the system) and size of type; both are stored where the browser allows it.

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
    save("usfa-theme", now);
    apply(now);
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply(now));
  apply(now);
}

// Type for talks: everything that is measured in rem grows.
export function startType(changed) {
  const button = find("type");
  const apply = (large) => {
    document.documentElement.dataset.type = large ? "large" : "normal";
    button.setAttribute("aria-pressed", String(large));
    changed();
  };
  button.onclick = () => {
    const large = button.getAttribute("aria-pressed") !== "true";
    save("usfa-type", large ? "large" : "normal");
    apply(large);
  };
  apply(load("usfa-type") === "large");
}

function loadScheme() {
  const name = load("usfa-theme");
  return name in NAMES ? name : "system";
}

function load(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function save(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Storage is disabled: the choice lasts until the page is closed.
  }
}
