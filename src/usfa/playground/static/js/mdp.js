// A finite MDP as a graph: states in a row, an arrow for every action, the path taken in bold.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 640, HEIGHT = 560, RADIUS = 30, STEP = 190;

function drawn(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const text = (x, y, words, attributes = {}) =>
  drawn("text", { x, y, "text-anchor": "middle", "dominant-baseline": "central", fill: "var(--ink)", ...attributes }, words);

export class MdpGraph {
  constructor(holder, plan, actions) {
    this.arrows = new Map(); // "state action" -> its parts
    this.centres = this.#places(plan.states.length);
    this.svg = drawn("svg", { viewBox: `30 30 ${WIDTH - 30} ${HEIGHT - 60}`, role: "img" });
    plan.states.forEach((_, state) => this.#edges(plan, state, actions));
    this.circles = plan.states.map((name, state) => this.#state(name, this.centres[state]));
    this.token = drawn("circle", { r: 11, fill: "var(--mine)", stroke: "var(--card)", "stroke-width": 3 });
    this.svg.append(this.token);
    holder.replaceChildren(this.svg);
  }

  #places(count) {
    const left = count === 1 ? WIDTH / 2 - 60 : 100;
    const step = count > 1 ? Math.min(STEP, (WIDTH - 320) / (count - 1)) : 0;
    return Array.from({ length: count }, (_, index) => [left + index * step, HEIGHT / 2]);
  }

  #state(name, [x, y]) {
    const circle = drawn("circle", { cx: x, cy: y, r: RADIUS, fill: "var(--card)", stroke: "var(--ink)", "stroke-width": 2 });
    this.svg.append(circle, text(x, y, name, { "font-size": 17 }));
    return circle;
  }

  #edges(plan, state, actions) {
    const here = plan.edges.filter(([from]) => from === state);
    const ends = here.filter(([, , to]) => to < 0);
    const last = !here.some(([, , to]) => to > state);
    here.filter(([, , to]) => to >= 0).forEach(([, action, to, phi]) => this.#arrow(state, action, this.#curve(state, to), actions[action], phi));
    ends.forEach(([, action, , phi], index) => this.#arrow(state, action, this.#ray(state, index, ends.length, last), actions[action], phi));
  }

  // To another state, or back to the same one in a loop.
  #curve(state, to) {
    const [x, y] = this.centres[state], [tx, ty] = this.centres[to];
    if (state === to) return { path: `M ${x - 14} ${y - RADIUS} C ${x - 70} ${y - 120} ${x + 70} ${y - 120} ${x + 14} ${y - RADIUS - 4}`, end: [x, y], label: [x, y - 112] };
    return { path: `M ${x + RADIUS} ${y} L ${tx - RADIUS - 8} ${ty}`, end: [tx, ty], label: [(x + tx) / 2, y - 15] };
  }

  // To an end: a fan to the right of the last state, upwards and downwards from the others.
  #ray(state, index, count, last) {
    const [x, y] = this.centres[state];
    const share = count > 1 ? index / (count - 1) : 0.5;
    const angle = last ? (share - 0.5) * 2.5 : index % 2 ? Math.PI / 2 : -Math.PI / 2;
    const [reachX, reachY] = last ? [Math.min(230, WIDTH - 110 - x), 225] : [0, 190];
    const end = [x + reachX * Math.cos(angle), y + reachY * Math.sin(angle)];
    const near = [x + RADIUS * Math.cos(angle), y + RADIUS * Math.sin(angle)];
    const short = 1 - 16 / Math.hypot(end[0] - x, end[1] - y);
    const tip = [x + (end[0] - x) * short, y + (end[1] - y) * short];
    return { path: `M ${near} L ${tip}`, end, label: last ? [end[0] + 44, end[1]] : [end[0] + 46, end[1]], square: true };
  }

  #arrow(state, action, { path, end, label, square }, name, phi) {
    const line = drawn("path", { d: path, fill: "none", stroke: "var(--quiet)", "stroke-width": 1.5, "stroke-linecap": "round" });
    const shownPhi = `[${phi.map((value) => Number(value.toFixed(2)).toString().replace("-", "−")).join(", ")}]`;
    const title = text(label[0], label[1] - (square ? 8 : 0), name, { "font-size": 15, "font-weight": 600 });
    const features = text(label[0], label[1] + (square ? 9 : 28), shownPhi, { "font-size": 11.5, fill: "var(--quiet)" });
    this.svg.append(line, title, features);
    const place = square ? drawn("rect", { x: end[0] - 7, y: end[1] - 7, width: 14, height: 14, rx: 3, fill: "var(--quiet)" }) : null;
    if (place) this.svg.append(place);
    this.arrows.set(`${state} ${action}`, { line, place, title, end });
  }

  // trail: [state, action] of each step; next: the action that will be taken, or null when the episode is over.
  show({ state, trail }, next) {
    const walked = new Set(trail.map(([from, action]) => `${from} ${action}`));
    const coming = next === null ? null : `${state} ${next}`;
    for (const [key, { line, place, title }] of this.arrows) {
      const chosen = walked.has(key) || key === coming;
      line.setAttribute("stroke", chosen ? "var(--mine)" : "var(--line)");
      line.setAttribute("stroke-width", chosen ? 5 : 1.5);
      line.setAttribute("stroke-dasharray", key === coming ? "2 7" : "none");
      title.setAttribute("fill", chosen ? "var(--mine)" : "var(--ink)");
      place?.setAttribute("fill", chosen ? "var(--mine)" : "var(--quiet)");
    }
    const last = trail.at(-1);
    const at = next === null && last ? this.arrows.get(`${last[0]} ${last[1]}`)?.end : this.centres[state];
    const [x, y] = at ?? this.centres[state];
    this.token.setAttribute("cx", x);
    this.token.setAttribute("cy", next === null ? y : y - RADIUS);
  }
}
