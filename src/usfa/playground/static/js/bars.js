// Bar charts: one row per bar, or thin columns when there are many.

import { element, plain } from "./dom.js";

const MOST_ROWS = 12;
const SHRINK = 0.95; // per update

export class Bars {
  // Rows begin at 0, to the left and to the right, so that small differences look small; columns reach from the lowest
  // value to the highest. differences: write that of each row to the best.
  constructor(holder, { differences = false } = {}) {
    this.holder = holder;
    this.differences = differences;
    this.rows = [];
  }

  // labels: one text per bar; remove(index), if given, adds a button to each row.
  build(labels, { remove = null, titles = labels } = {}) {
    this.range = null;
    const many = labels.length > MOST_ROWS;
    this.rows = labels.map((label, index) => (many ? this.#column(titles[index]) : this.#row(label, titles[index], remove && (() => remove(index)))));
    this.holder.classList.toggle("columns", many);
    this.holder.replaceChildren(...this.rows.map(({ row }) => row));
    this.holder.style.setProperty("--label", `${Math.max(...labels.map((label) => label.length)) + 1.5}ch`);
    this.labels = labels;
  }

  #row(label, title, remove) {
    const fill = element("i"), number = element("span", { className: "number" });
    const row = element("div", { className: "bar", title },
      element("span", { className: "label", textContent: label }), element("span", { className: "track" }, fill), number);
    const difference = this.differences ? element("span", { className: "difference", title: "difference to the best" }) : null;
    if (difference) row.append(difference);
    if (remove) {
      const button = element("button", { type: "button", textContent: "×", onclick: remove });
      button.setAttribute("aria-label", `Remove z = ${label}`);
      row.append(button);
    }
    return { row, fill, number, difference };
  }

  // From 0, or the lowest value below it, to the highest; it grows at once and shrinks slowly, so that lengths stay comparable.
  #range(values) {
    const now = [Math.min(...values), Math.max(...values)];
    if (this.rows[0].column) return [now[0], Math.max(now[1], now[0] + 1e-6)];
    const [low, high] = this.range ?? [0, 1e-3];
    this.range = [Math.min(0, now[0], low * SHRINK), Math.max(1e-3, now[1], high * SHRINK)];
    return this.range;
  }

  #column(title) {
    const fill = element("i", { title });
    return { row: fill, fill, column: true };
  }

  // values: null where there is none; chosen: an index, or -1.
  show(values, chosen) {
    const present = values.filter((value) => value !== null);
    if (!present.length || values.length !== this.rows.length) return;
    const [low, high] = this.#range(present), best = Math.max(...present);
    this.holder.style.setProperty("--zero", `${(100 * -low) / (high - low)}%`);
    this.rows.forEach(({ row, fill, number, difference, column }, index) => {
      const value = values[index];
      row.classList.toggle("chosen", index === chosen);
      row.classList.toggle("illegal", value === null);
      const share = value === null ? 0 : column ? 0.06 + (0.94 * (value - low)) / (high - low) : value / (high - low);
      if (column) fill.style.transform = `scaleY(${share})`;
      else fill.style.transform = `translateX(${(100 * -low) / (high - low)}%) scaleX(${share})`;
      if (number) number.textContent = value === null ? "—" : plain(value);
      if (difference) difference.textContent = value === null ? "" : value === best ? "best" : plain(value - best);
    });
  }
}
