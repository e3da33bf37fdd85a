// Time: pause, step, speed, seed; and how fast everything is.

import { clamp, find } from "./dom.js";

export class Transport {
  constructor(chosen, ask) {
    this.chosen = chosen;
    find("pause").onclick = () => this.#pause(!chosen.paused, ask);
    find("step").onclick = () => {
      this.#pause(true, () => {});
      ask({ type: "step" });
    };
    find("speed").onchange = ({ target }) => {
      chosen.speed = Number(target.value);
      ask({ type: "speed", factor: chosen.speed });
    };
    find("reset").onclick = () => this.#reset(Number(find("seed").value), ask);
    find("seed").onchange = () => this.#reset(Number(find("seed").value), ask);
    find("new-seed").onclick = () => this.#reset(Math.floor(Math.random() * 10000), ask);
  }

  build() {
    find("speed").value = String(this.chosen.speed);
    this.#label();
  }

  #pause(paused, ask) {
    this.chosen.paused = paused;
    this.#label();
    ask({ type: "pause", paused });
  }

  #label() {
    find("pause").textContent = this.chosen.paused ? "Go on" : "Pause";
  }

  #reset(wanted, ask) {
    const seed = clamp(Math.floor(wanted) || 0, 0, 2147483647);
    this.chosen.seed = seed;
    find("seed").value = seed;
    ask({ type: "reset", seed });
  }

  // The seed that the server plays; the field is left alone while somebody types in it.
  seed(seed) {
    if (document.activeElement !== find("seed")) find("seed").value = seed;
  }
}

// Pictures per second, and how long it takes from a slider to the thought about the new task.
export class Pace {
  constructor() {
    this.frames = [];
    this.latency = null;
    setInterval(() => this.#tell(), 500);
  }

  frame() {
    this.frames.push(performance.now());
  }

  asked(w) {
    this.question = { task: w.join(), time: performance.now() };
  }

  answered({ task }) {
    if (!this.question || task.join() !== this.question.task) return;
    this.latency = performance.now() - this.question.time;
    this.question = null;
    document.body.dataset.latency = this.latency.toFixed(1);
  }

  #tell() {
    const now = performance.now();
    this.frames = this.frames.filter((time) => now - time < 2000);
    const rate = this.frames.length / 2;
    const pictures = rate ? [`${Math.round(rate)} pictures/s`] : [];
    document.body.dataset.fps = rate.toFixed(1);
    const reply = this.latency === null ? [] : [`task → action ${Math.round(this.latency)} ms`];
    find("pace").textContent = [...pictures, ...reply].join(" · ");
  }
}
