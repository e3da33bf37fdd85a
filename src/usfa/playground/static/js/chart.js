// Return over the episode: every player, and the oracle in the same layout. In an MDP, whose episodes are short, the
// return of each episode and the optimum.

import { colour, element, find, font, plain, sharpened } from "./dom.js";

const KEPT = 60; // short episodes

export class Chart {
  constructor() {
    this.canvas = find("chart");
    this.begin([], { plan: {} });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  begin(names, session) {
    this.short = session.kind === "mdp";
    this.decisions = session.plan.decisions ?? null;
    this.episodes = 0;
    find("returns-title").textContent = this.short ? "Return of each episode" : "Return of this episode";
    const best = { name: this.short ? "optimum" : "oracle", colour: "quiet", dashed: true };
    this.lines = [...names.map((name, index) => ({ name, colour: index ? "two" : "one" })), best];
    find("legend").replaceChildren(...this.lines.map((line) => {
      line.points = [];
      line.item = element("li", { className: line.dashed ? "dashed" : "" }, `${line.name} `, element("b", { textContent: "0" }));
      line.item.style.setProperty("--colour", `var(--${line.colour})`);
      return line.item;
    }));
    this.lines.at(-1).item.hidden = true;
  }

  rename(names) {
    names.forEach((name, index) => {
      this.lines[index].name = name;
      this.lines[index].item.firstChild.textContent = `${name} `;
    });
  }

  // Begin a new episode.
  clear() {
    if (!this.short) for (const line of this.lines) line.points = [];
  }

  show(frame) {
    const best = this.lines.at(-1);
    best.item.hidden = frame.oracle === undefined;
    if (this.short) this.#showShort(frame, best);
    else {
      frame.players.forEach(({ step, returned }, index) => this.#add(this.lines[index], step, returned));
      if (frame.oracle !== undefined) this.#add(best, Math.max(...frame.players.map(({ step }) => step)), frame.oracle);
    }
    this.draw();
  }

  #showShort(frame, best) {
    if (!frame.players.every(({ over }) => over)) return;
    this.episodes += 1;
    frame.players.forEach(({ returned }, index) => this.#add(this.lines[index], this.episodes, returned));
    if (frame.oracle !== undefined) this.#add(best, this.episodes, frame.oracle);
    for (const { points } of this.lines) if (points.length > KEPT) points.shift();
  }

  #add(line, step, value) {
    line.item.lastChild.textContent = plain(value, Math.abs(value) < 10 && !Number.isInteger(value) ? 2 : 1);
    const last = line.points.at(-1);
    if (last && last[0] === step) last[1] = value;
    else line.points.push([step, value]);
  }

  draw() {
    const [pen, width, height] = sharpened(this.canvas);
    pen.clearRect(0, 0, width, height);
    const values = this.lines.flatMap(({ points }) => points.map(([, value]) => value));
    const steps = this.lines.flatMap(({ points }) => points.map(([step]) => step));
    const first = this.short ? Math.min(...steps, this.episodes) : 0;
    const last = this.decisions ?? Math.max(first + 1, ...steps);
    const low = Math.min(0, ...values), high = Math.max(low + 0.1, ...values);
    const left = 34, bottom = 16;
    const x = (step) => left + ((width - left - 6) * (step - first)) / (last - first);
    const y = (value) => 6 + (height - bottom - 10) * (1 - (value - low) / (high - low));
    this.#axes(pen, { y, low, high, left, width, height, last });
    for (const line of [...this.lines].reverse()) this.#line(pen, line, x, y);
    this.canvas.setAttribute("aria-label", `${find("returns-title").textContent}: ` + this.lines.filter(({ points }) => points.length)
      .map(({ name, points }) => `${name} ${plain(points.at(-1)[1])}`).join(", "));
  }

  #axes(pen, { y, low, high, left, width, height, last }) {
    pen.font = font(11);
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    pen.strokeStyle = colour("line");
    pen.fillStyle = colour("quiet");
    pen.lineWidth = 1;
    const crowded = (value) => value !== 0 && Math.abs(y(value) - y(0)) < 12;
    for (const value of [0, low, high].filter((value) => !crowded(value))) {
      pen.beginPath();
      pen.moveTo(left, y(value));
      pen.lineTo(width - 6, y(value));
      pen.stroke();
      pen.fillText(plain(value, Math.abs(value) < 10 && value !== 0 ? 1 : 0), left - 6, y(value));
    }
    pen.fillText(this.short ? "episodes" : `${last} steps`, width - 6, height - 6);
  }

  #line(pen, { points, colour: name, dashed }, x, y) {
    pen.strokeStyle = colour(name);
    pen.lineWidth = dashed ? 1.6 : 2.2;
    pen.setLineDash(dashed ? [5, 4] : []);
    pen.beginPath();
    let before = null;
    for (const [step, value] of points) { // returns jump: a staircase, not a slope
      if (before !== null && !this.short) pen.lineTo(x(step), y(before));
      pen.lineTo(x(step), y(value));
      before = value;
    }
    pen.stroke();
    pen.setLineDash([]);
    if (!this.short) return;
    pen.fillStyle = colour(name);
    for (const [step, value] of points) pen.fillRect(x(step) - 2, y(value) - 2, 4, 4);
  }
}
