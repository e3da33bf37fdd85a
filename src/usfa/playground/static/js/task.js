// The task panel: sliders for w, presets, and the task as Python code.

import { clamp, element, find, signed } from "./dom.js";

const KEYS = { ArrowLeft: -0.05, ArrowDown: -0.05, ArrowRight: 0.05, ArrowUp: 0.05 };

export class TaskPanel {
  // changed(w) is called for every change by the user.
  constructor(changed) {
    this.changed = changed;
    this.inputs = [];
    find("random-task").onclick = () => this.#choose(this.inputs.map(() => Math.round(Math.random() * 40 - 20) / 20));
  }

  build(features, presets, w) {
    this.features = features;
    this.inputs = [];
    find("sliders").replaceChildren(...features.map((feature, index) => this.#slider(feature, index)));
    find("presets").replaceChildren(...presets.map((group) => this.#presets(group)));
    this.show(w);
    this.showUncertainty(null);
  }

  #slider(feature, index) {
    const id = `w-${index}`;
    const input = element("input", { id, type: "range", min: -1, max: 1, step: 0.01 });
    const output = element("output", { htmlFor: id, ariaLive: "off" }); // screen readers announce the slider itself
    const band = element("span", { className: "uncertainty", hidden: true });
    const track = element("div", { className: "track" }, input, element("span", { className: "zero" }), band);
    input.oninput = () => {
      this.#updateOutputs();
      this.changed(this.w);
    };
    input.onkeydown = (event) => {
      const step = KEYS[event.key];
      if (!step) return;
      event.preventDefault();
      this.#choose(this.w.map((value, other) => (other === index ? clamp(Math.round((value + step) * 20) / 20) : value)));
    };
    input.ondblclick = () => this.#choose(this.w.map((value, other) => (other === index ? 0 : value)));
    this.inputs.push({ input, output, band });
    return element("div", { className: "slider" }, pictureOf(feature), element("label", { htmlFor: id, textContent: feature.name }), output, track);
  }

  #presets({ name, tasks }) {
    const buttons = tasks.map(([text, w]) => {
      const button = element("button", { type: "button", title: `w = ${text.replaceAll("-", "−")}` }, ...this.#parts(w));
      button.dataset.task = text;
      button.setAttribute("aria-label", `Task ${describe(w, this.features)}`);
      button.onclick = () => this.#choose(w);
      return button;
    });
    return element("div", {}, element("p", { textContent: name }), element("div", { className: "group" }, ...buttons));
  }

  // The features of a task, wanted ones first: a picture each, crossed out if unwanted, with its size unless that is 1.
  #parts(w) {
    const entries = w.map((value, index) => [value, this.features[index]]).filter(([value]) => value);
    entries.sort(([one], [other]) => (one < 0) - (other < 0));
    return entries.map(([value, feature]) => {
      const mark = element("span", { className: value < 0 ? "mark unwanted" : "mark" }, pictureOf(feature));
      const size = Math.abs(value);
      return element("span", { className: "entry" }, mark, ...(size === 1 ? [] : [`${size}`.replace(/^0/, "")]));
    });
  }

  get w() {
    return this.inputs.map(({ input }) => Number(input.value));
  }

  // Set the sliders without calling changed.
  show(w) {
    this.inputs.forEach(({ input }, index) => (input.value = w[index]));
    this.#updateOutputs();
  }

  #choose(w) {
    this.show(w);
    this.changed(this.w);
  }

  #updateOutputs() {
    for (const { input, output } of this.inputs) {
      const value = Number(input.value);
      output.value = signed(value);
      input.setAttribute("aria-valuetext", output.value);
      input.style.setProperty("--low", (Math.min(value, 0) + 1) / 2); // filled from zero
      input.style.setProperty("--high", (Math.max(value, 0) + 1) / 2);
      input.parentElement.parentElement.classList.toggle("negative", value < 0);
    }
    find("nothing").hidden = this.w.some((value) => value !== 0);
  }

  // A band from w − std to w + std under each slider; null hides it.
  showUncertainty(estimate) {
    this.inputs.forEach(({ band }, index) => {
      band.hidden = !estimate;
      if (!estimate) return;
      const low = Math.max(-1, estimate.w[index] - estimate.std[index]), high = Math.min(1, estimate.w[index] + estimate.std[index]);
      band.style.left = `${50 + 50 * low}%`;
      band.style.width = `${50 * Math.max(high - low, 0.02)}%`;
      band.title = `${signed(estimate.w[index])} ± ${estimate.std[index].toFixed(2)}`;
    });
  }
}

function pictureOf(feature) {
  if (feature.picture) return element("img", { className: "icon", src: feature.picture, alt: "" });
  const swatch = element("span", { className: "swatch" });
  swatch.style.background = feature.colour;
  return swatch;
}

// A task in words, what is wanted first.
export function describe(w, features) {
  const entries = w.map((value, index) => [value, features[index].name]).filter(([value]) => value);
  entries.sort(([one], [other]) => (one < 0) - (other < 0));
  return entries.map(([value, name]) => `${value < 0 ? "minus" : "plus"} ${Math.abs(value) === 1 ? "" : `${Math.abs(value)} `}${name}`).join(" ");
}

export function asPython(agent, w, candidates, rule) {
  const chosen = typeof candidates === "string" ? JSON.stringify(candidates) : JSON.stringify(candidates).replaceAll(",", ", ");
  return `import usfa\n\nagent = usfa.load(${JSON.stringify(agent)})\npolicy = agent.policy(task=[${w.join(", ")}], candidates=${chosen}, rule=${JSON.stringify(rule)})\n`;
}
