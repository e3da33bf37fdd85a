// Helpers to find and build elements.

export const find = (id) => document.getElementById(id);

export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export function options(select, entries, chosen) {
  select.replaceChildren(...entries.map(([value, text]) => element("option", { value, textContent: text })));
  select.value = chosen;
}

export const signed = (value, digits = 2) =>
  (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(value).toFixed(digits);

export const clamp = (value, low = -1, high = 1) => Math.max(low, Math.min(high, value));

export const plain = (value, digits = 2) => (value < 0 ? "−" : "") + Math.abs(value).toFixed(digits);

// Match a canvas to the pixels of the screen; returns its context and its size in CSS pixels.
export function sharpened(canvas) {
  const { width, height } = canvas.getBoundingClientRect();
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  return [pen, width, height];
}

// A font for canvases, of so many pixels at the normal size of type.
export const font = (size) => `${(size * parseFloat(getComputedStyle(document.documentElement).fontSize)) / 14}px system-ui, sans-serif`;

const probe = element("span", { hidden: true });
const known = new Map();

// A colour of the current scheme, for canvases.
export function colour(name) {
  if (!known.has(name)) {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(--${name})`;
    known.set(name, getComputedStyle(probe).color);
  }
  return known.get(name);
}

export const clearColours = () => known.clear();
