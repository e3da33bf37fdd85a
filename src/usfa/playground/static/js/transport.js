// Playback controls (pause, step, speed, seed) and performance figures.

import { clamp, find } from "./dom.js";

export class Transport {
  constructor(settings, send) {
    this.settings = settings;
    find("pause").onclick = () => this.#pause(!settings.paused, send);
    find("step").onclick = () => {
      this.#pause(true, () => {});
      send({ type: "step" });
    };
    find("speed").onchange = ({ target }) => {
      settings.speed = Number(target.value);
      send({ type: "speed", factor: settings.speed });
    };
    find("reset").onclick = () => this.#reset(Number(find("seed").value), send);
    find("seed").onchange = () => this.#reset(Number(find("seed").value), send);
    find("new-seed").onclick = () => this.#reset(Math.floor(Math.random() * 10000), send);
  }

  build() {
    find("speed").value = String(this.settings.speed);
    this.#label();
  }

  #pause(paused, send) {
    this.settings.paused = paused;
    this.#label();
    send({ type: "pause", paused });
  }

  #label() {
    find("pause").textContent = this.settings.paused ? "Resume" : "Pause";
  }

  #reset(wanted, send) {
    const seed = clamp(Math.floor(wanted) || 0, 0, 2147483647);
    this.settings.seed = seed;
    find("seed").value = seed;
    send({ type: "reset", seed });
  }

  // Show the current seed, unless the user is typing one.
  seed(seed) {
    if (document.activeElement !== find("seed")) find("seed").value = seed;
  }
}

// Pictures per second, and the time from a change of the task to the decision for it.
export class PerformanceMonitor {
  constructor() {
    this.frames = [];
    this.latency = null;
    setInterval(() => this.#update(), 500);
  }

  frame() {
    this.frames.push(performance.now());
  }

  taskSent(w) {
    this.sent = { task: w.join(), time: performance.now() };
  }

  frameReceived({ task }) {
    if (!this.sent || task.join() !== this.sent.task) return;
    this.latency = performance.now() - this.sent.time;
    this.sent = null;
    document.body.dataset.latency = this.latency.toFixed(1);
  }

  #update() {
    const now = performance.now();
    this.frames = this.frames.filter((time) => now - time < 2000);
    const rate = this.frames.length / 2;
    const pictures = rate ? [`${Math.round(rate)} pictures/s`] : [];
    document.body.dataset.fps = rate.toFixed(1);
    const reply = this.latency === null ? [] : [`task → action ${Math.round(this.latency)} ms`];
    find("statistics").textContent = [...pictures, ...reply].join(" · ");
  }
}
