// A map over two features of task space, computed by the server; a click sets the task.

import { clamp, colour, find, font, options, plain, sharpened } from "./dom.js";
import { nameOfRule } from "./rules.js";

// Viridis, in steps.
const SCALE = ["#440154", "#482878", "#3e4a89", "#31688e", "#26838f", "#1f9d8a", "#6cce5a", "#b6de2b", "#fee825"];
const RULED = ["score", "normalised", "gap"]; // quantities that depend on the rule; bounds are those of Eq. 3
const LEFT = 58, BOTTOM = 46, TOP = 12, LEGEND = 84;

export class HeatmapPanel {
  // send(message) sends to the server; choose(w) sets the task.
  constructor(send, choose) {
    this.send = send;
    this.choose = choose;
    this.canvas = find("heatmap-canvas");
    this.cursor = null;
    find("heatmap-start").onclick = () => this.#start();
    find("heatmap-stop").onclick = () => this.#stop();
    find("heatmap-player").onchange = () => this.#quantities();
    this.canvas.onclick = (event) => this.#pick(this.#cellAt(event));
    this.canvas.onmousemove = (event) => this.#point(this.#cellAt(event));
    this.canvas.onmouseleave = () => this.#point(null);
    this.canvas.onkeydown = (event) => this.#key(event);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  build(session, names) {
    this.session = session;
    this.map = null;
    const features = session.features.map(({ name }, index) => [index, name]);
    options(find("heatmap-x"), features, 0);
    options(find("heatmap-y"), features, Math.min(1, features.length - 1));
    options(find("heatmap-player"), names.map((name, index) => [index, name]), 0);
    find("heatmap-player").parentElement.hidden = session.players.length < 2;
    find("heatmap-start").disabled = features.length < 2;
    this.#quantities();
    this.#stopped();
    find("heatmap-status").textContent = features.length < 2
      ? "A map needs two features; this environment has one." : "Choose two features and compute. A click sets the task.";
    this.draw();
  }

  rename(names) {
    names.forEach((name, index) => (find("heatmap-player").options[index].textContent = name));
  }

  #quantities() {
    const { quantities, exact } = this.session.players[Number(find("heatmap-player").value)];
    find("heatmap-episodes").parentElement.hidden = exact;
    options(find("heatmap-quantity"), Object.entries(quantities), Object.keys(quantities)[0]);
  }

  #start() {
    const [x, y] = [Number(find("heatmap-x").value), Number(find("heatmap-y").value)];
    if (x === y) {
      find("heatmap-status").textContent = "Choose two different features.";
      return;
    }
    this.send({
      type: "heatmap", x, y, quantity: find("heatmap-quantity").value, player: Number(find("heatmap-player").value),
      resolution: Number(find("heatmap-resolution").value), episodes: Number(find("heatmap-episodes").value),
    });
  }

  #stop() {
    this.send({ type: "stop-heatmap" });
    this.#stopped();
  }

  #stopped() {
    find("heatmap-stop").hidden = true;
    find("heatmap-progress").hidden = true;
    find("heatmap-start").disabled = this.session.features.length < 2;
  }

  // A map from the server, done or not.
  show(map) {
    this.map = map;
    const done = map.progress >= 1;
    find("heatmap-stop").hidden = find("heatmap-progress").hidden = done;
    find("heatmap-start").disabled = !done;
    find("heatmap-progress").value = map.progress;
    find("heatmap-status").textContent = map.message || this.#statusText(map, done);
    this.draw();
  }

  #statusText(map, done) {
    const fixed = this.session.features.map(({ name }, index) => [name, index])
      .filter(([, index]) => index !== map.x && index !== map.y).map(([name, index]) => `${name} ${plain(map.task[index])}`);
    const others = fixed.length ? ` Fixed: ${fixed.join(", ")}.` : "";
    const ruled = RULED.includes(map.quantity) && this.session.players[map.player].rule_choices.length > 1;
    const rule = ruled ? ` Rule: ${nameOfRule(map.rule)}.` : "";
    const count = map.episodes ? ` n = ${map.episodes} episode${map.episodes > 1 ? "s" : ""} per cell.`
      : RULED.includes(map.quantity) ? " Exact values." : "";
    const known = this.#trained().length ? " ◆ marks the tasks of M in this plane." : "";
    return `${done ? "Done." : `${Math.round(100 * map.progress)} %, values so far.`}${rule}${count}${others}${known} A click sets the task.`;
  }

  setTask(w) {
    this.task = w;
    this.draw();
  }

  // --- drawing ---

  #plane() {
    const { width, height } = this.canvas.getBoundingClientRect();
    return { left: LEFT, top: TOP, width: width - LEFT - LEGEND, height: height - TOP - BOTTOM };
  }

  draw() {
    if (!this.canvas.offsetParent) return;
    const [pen, width, height] = sharpened(this.canvas);
    pen.clearRect(0, 0, width, height);
    pen.font = font(12);
    const plane = this.#plane();
    pen.fillStyle = colour("sunken");
    pen.fillRect(plane.left, plane.top, plane.width, plane.height);
    if (!this.map) return;
    const known = this.map.values.flat().filter((value) => value !== null);
    const range = known.length ? [Math.min(...known), Math.max(...known)] : [0, 1];
    this.#cells(pen, plane, range);
    this.#axes(pen, plane);
    this.#legend(pen, plane, range, width);
    this.#marks(pen, plane);
  }

  #cells(pen, plane, [low, high]) {
    const count = this.map.ticks.length, cell = [plane.width / count, plane.height / count];
    this.map.values.forEach((row, y) => row.forEach((value, x) => {
      if (value === null) return;
      pen.fillStyle = shade(high > low ? (value - low) / (high - low) : 0.5);
      pen.fillRect(plane.left + x * cell[0], plane.top + (count - 1 - y) * cell[1], cell[0] + 0.5, cell[1] + 0.5);
    }));
  }

  #axes(pen, plane) {
    const { features } = this.session, { x, y } = this.map;
    pen.fillStyle = colour("quiet");
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (const value of [-1, 0, 1]) {
      const [px, py] = this.#at(plane, value, value);
      pen.fillText(plain(value, 0), px, plane.top + plane.height + 12);
      pen.fillText(plain(value, 0), plane.left - 14, py);
    }
    pen.fillStyle = colour("ink");
    pen.fillText(`w of ${features[x].name}`, plane.left + plane.width / 2, plane.top + plane.height + 32);
    pen.save();
    pen.translate(14, plane.top + plane.height / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText(`w of ${features[y].name}`, 0, 0);
    pen.restore();
  }

  #legend(pen, plane, [low, high], width) {
    const x = width - LEGEND + 16, steps = 60;
    for (let step = 0; step < steps; step++) {
      pen.fillStyle = shade(step / (steps - 1));
      pen.fillRect(x, plane.top + plane.height * (1 - (step + 1) / steps), 14, plane.height / steps + 1);
    }
    pen.fillStyle = colour("quiet");
    pen.textAlign = "left";
    pen.fillText(plain(high, digits(high)), x + 20, plane.top + 6);
    pen.fillText(plain(low, digits(low)), x + 20, plane.top + plane.height - 6);
  }

  // The current task as a ring, the selected cell as a frame.
  #marks(pen, plane) {
    const { x, y, ticks } = this.map;
    for (const w of this.#trained()) this.#diamond(pen, this.#at(plane, w[x], w[y]));
    if (this.task) {
      const [px, py] = this.#at(plane, clamp(this.task[x]), clamp(this.task[y]));
      for (const [style, line] of [["#000", 5], ["#fff", 2.5]]) {
        pen.beginPath();
        pen.arc(px, py, 8, 0, 2 * Math.PI);
        pen.strokeStyle = style;
        pen.lineWidth = line;
        pen.stroke();
      }
    }
    if (this.cursor) {
      const cell = [plane.width / ticks.length, plane.height / ticks.length];
      pen.strokeStyle = "#fff";
      pen.lineWidth = 2;
      pen.strokeRect(plane.left + this.cursor[0] * cell[0] + 1, plane.top + (ticks.length - 1 - this.cursor[1]) * cell[1] + 1, cell[0] - 2, cell[1] - 2);
    }
  }

  // Training tasks of the map's player that lie in its plane.
  #trained() {
    const { x, y, task, player } = this.map;
    return this.session.players[player].training_tasks.filter((w) =>
      w.every((value, index) => (index === x || index === y ? Math.abs(value) <= 1 : Math.abs(value - task[index]) < 1e-6)));
  }

  #diamond(pen, [x, y]) {
    pen.beginPath();
    for (const [dx, dy] of [[0, -7], [7, 0], [0, 7], [-7, 0]]) pen.lineTo(x + dx, y + dy);
    pen.closePath();
    pen.fillStyle = "#fff";
    pen.strokeStyle = "#000";
    pen.lineWidth = 2;
    pen.fill();
    pen.stroke();
  }

  // Tasks at the ends of the axes are at the centres of the outer cells.
  #at(plane, x, y) {
    const margin = 1 / (2 * (this.map?.ticks.length ?? 9));
    const share = (value) => margin + (1 - 2 * margin) * (value + 1) / 2;
    return [plane.left + plane.width * share(x), plane.top + plane.height * (1 - share(y))];
  }

  // --- choosing ---

  #cellAt(event) {
    if (!this.map) return null;
    const box = this.canvas.getBoundingClientRect(), plane = this.#plane(), count = this.map.ticks.length;
    const x = Math.floor(((event.clientX - box.left - plane.left) / plane.width) * count);
    const y = count - 1 - Math.floor(((event.clientY - box.top - plane.top) / plane.height) * count);
    return x >= 0 && x < count && y >= 0 && y < count ? [x, y] : null;
  }

  #point(cell) {
    this.cursor = cell;
    if (cell) {
      const { ticks, values, x, y } = this.map, { features } = this.session, value = values[cell[1]][cell[0]];
      find("heatmap-status").textContent = `${features[x].name} ${plain(ticks[cell[0]])}, ${features[y].name} ${plain(ticks[cell[1]])}: ` +
        (value !== null ? plain(value, digits(value)) : this.map.progress < 1 ? "not computed yet" : "not defined");
    }
    this.draw();
  }

  #pick(cell) {
    if (!cell) return;
    const w = [...this.map.task];
    w[this.map.x] = this.map.ticks[cell[0]];
    w[this.map.y] = this.map.ticks[cell[1]];
    this.choose(w);
  }

  #key(event) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (!this.map || !(event.key in moves || event.key === "Enter")) return;
    event.preventDefault();
    const last = this.map.ticks.length - 1, middle = Math.floor(last / 2);
    if (event.key === "Enter") return this.#pick(this.cursor);
    const [x, y] = this.cursor ?? [middle, middle], [dx, dy] = moves[event.key];
    this.#point([clamp(x + dx, 0, last), clamp(y + dy, 0, last)]);
  }
}

const digits = (value) => (Math.abs(value) < 10 ? 2 : 1);

function shade(share) {
  const place = clamp(share, 0, 1) * (SCALE.length - 1), below = Math.min(Math.floor(place), SCALE.length - 2);
  const [a, b] = [SCALE[below], SCALE[below + 1]].map((hex) => [1, 3, 5].map((from) => parseInt(hex.slice(from, from + 2), 16)));
  return `rgb(${a.map((channel, index) => Math.round(channel + (b[index] - channel) * (place - below))).join()})`;
}
