// One player on the page: view, map or graph, and what it thinks.

import { Bars } from "./bars.js";
import { clamp, element, find, options, plain } from "./dom.js";
import { MdpGraph } from "./mdp.js";
import { RoomMap } from "./roommap.js";
import { hintOfActions, hintOfPolicies, nameOfRule, optionOfRule } from "./rules.js";

const KINDS = { usfa: "USFA", uvfa: "UVFA", "sf-gpi-tables": "SF&GPI, exact" };
const SETS = {
  task: "C = {w′}", train: "C = M", "train+task": "C = M ∪ {w′}", "sample:5": "C = 5 sampled z", "sample:30": "C = 30 sampled z",
};
const OWN = "own";

export const describe = (card) => [
  KINDS[card.agent.kind],
  ...(card.agent.kind === "usfa" ? [nameOfSet(card.candidates)] : []),
  ...(card.rules.length > 1 ? [nameOfRule(card.rule)] : []),
].join(", ");
const nameOfSet = (candidates) => (typeof candidates === "string" ? SETS[candidates] : `C = ${candidates.length} own z`);

export class PlayerView {
  // chosen.candidates(C) and chosen.rule(name) are called when the visitor changes them; task() is what the sliders say.
  constructor(index, scene, chosen, task) {
    this.index = index;
    this.scene = scene;
    this.card = scene.players[index];
    this.chosen = chosen;
    this.task = task;
    this.root = find("player-template").content.firstElementChild.cloneNode(true);
    this.part = (name) => this.root.querySelector(name);
    this.drawn = 0;
    this.#build();
  }

  #build() {
    const { scene, card } = this;
    this.root.setAttribute("aria-label", `Player ${this.index + 1}`);
    this.part(".name").textContent = card.agent.name;
    this.counts = scene.features.map(countOf);
    this.part(".collected").replaceChildren(...this.counts.map(({ root }) => root));
    const mine = this.index ? "two" : "one";
    const isMdp = scene.kind === "mdp";
    this.part(".picture").hidden = isMdp;
    this.part(".mdp").hidden = !isMdp;
    this.part(".map").hidden = scene.kind !== "room";
    this.part(".action").hidden = isMdp; // its arrow says it
    this.graph = isMdp ? new MdpGraph(this.part(".mdp"), scene.plan, scene.actions) : null;
    this.map = scene.kind === "room" ? new RoomMap(this.part(".map"), scene.plan, scene.features, mine) : null;
    this.q = new Bars(this.part(".q"));
    this.q.build(scene.actions);
    this.values = new Bars(this.part(".values"));
    this.psi = new Bars(this.part(".psi"), { fromZero: true });
    this.psi.build(scene.features.map(({ name }) => name));
    this.part(".features").hidden = !card.explains;
    this.part(".trust").hidden = !card.explains;
    this.part(".unexplained").hidden = card.explains;
    this.#ruleChooser();
    this.#setChooser();
    this.rule(card);
  }

  #ruleChooser() {
    const select = this.part(".rule"), { rule, rules } = this.card;
    const names = rules.includes(rule) ? rules : [rule, ...rules];
    options(select, names.map((name) => [name, optionOfRule(name)]), rule);
    select.parentElement.hidden = rules.length < 2;
    select.onchange = () => this.chosen.rule(select.value);
  }

  #setChooser() {
    const select = this.part(".candidates");
    const sets = this.card.choices.map((name) => [name, SETS[name]]);
    options(select, this.card.own_candidates ? [...sets, [OWN, "C = own list"]] : sets, OWN);
    select.disabled = sets.length < 2;
    select.onchange = () => this.chosen.candidates(select.value === OWN ? this.policies.z : select.value);
    this.part(".add").onclick = () => this.chosen.candidates([...this.policies.z, this.task()]);
  }

  // The rule as the server has it.
  rule({ rule }) {
    this.card = { ...this.card, rule };
    this.part(".rule").value = rule;
    this.part(".kind").textContent = describe(this.card);
    this.part(".worth").textContent = this.card.explains ? hintOfActions(rule) : "what each action is worth";
    this.part(".hint").replaceChildren(...hintOfPolicies(rule));
  }

  // The candidate set as the server has it.
  policy({ candidates, z, names }) {
    this.policies = { z };
    const own = typeof candidates !== "string";
    const labels = names.map((name) => name.replaceAll("-", "−"));
    const same = this.values.labels?.join() === labels.join() && this.own === own;
    this.own = own;
    this.card = { ...this.card, candidates };
    this.part(".candidates").value = own ? OWN : candidates;
    this.part(".own").hidden = !own;
    this.part(".kind").textContent = describe(this.card);
    if (same) return;
    const remove = own && z.length > 1 ? (index) => this.chosen.candidates(this.policies.z.filter((_, other) => other !== index)) : null;
    this.values.build(labels, { remove, titles: z.map((entries) => `z = [${entries.join(", ")}]`) });
  }

  // This player in a moment, and its picture if there is a new one.
  show(player, moment, picture) {
    if (player.step === 0 || player.step < this.step) this.map?.forget();
    this.step = player.step;
    if (player.place && this.map) this.map.show(player.place);
    if (player.collected) {
      this.#count(player.collected, moment.oracle_collected);
      this.#tell(player);
    }
    if (picture) this.#paint(picture);
  }

  // What was collected of each feature, and by the oracle.
  #count(collected, oracle) {
    this.counts.forEach(({ number, pace }, index) => {
      number.textContent = amount(collected[index]);
      pace.textContent = oracle ? `/${amount(oracle[index])}` : "";
    });
  }

  #tell({ step, improved = 0, returned, thought, over, place }) {
    const ended = this.part(".over");
    ended.hidden = !over || this.scene.kind === "mdp";
    ended.textContent = over ? `Episode over: return ${plain(returned, 1)}` : "";
    const action = thought ? this.scene.actions[thought.action] : "";
    this.part(".action").textContent = action;
    this.part(".picture").setAttribute("aria-label", `View of ${this.card.agent.name}. Next action: ${action || "none"}.`);
    this.graph?.show(place, thought ? thought.action : null);
    const share = step ? Math.round((100 * improved) / step) : 0;
    this.part(".share").textContent = step ? `followed ${100 - share} %, improved ${share} %` : "";
    if (!thought) return;
    this.q.show(thought.q, thought.action);
    if (!this.card.explains) return;
    const does = this.part(".does");
    does.textContent = `${thought.improved ? "improves on" : "follows"} ${this.values.labels?.[thought.trusted] ?? "?"}`;
    does.dataset.improves = thought.improved;
    this.values.show(thought.values, thought.trusted);
    this.psi.show(thought.psi, -1);
  }

  async #paint(blob) {
    const turn = ++this.drawn;
    const bitmap = await createImageBitmap(blob);
    if (turn < this.painted) return bitmap.close(); // a newer one was faster
    this.painted = turn;
    const canvas = this.part(".picture");
    if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) {
      canvas.width = bitmap.width;
      canvas.height = bitmap.height;
      canvas.classList.toggle("pixels", Math.max(bitmap.width, bitmap.height) < 128);
    }
    canvas.getContext("2d").drawImage(bitmap, 0, 0);
    bitmap.close();
    this.onpaint?.();
  }

  // How many pixels the view has on this screen.
  get size() {
    const { width } = this.part(".view").getBoundingClientRect();
    return Math.round(clamp(width * (window.devicePixelRatio || 1), 160, 512) / 16) * 16;
  }
}

const amount = (value) => plain(value, Number.isInteger(value) ? 0 : 2);

function countOf(feature) {
  const mark = feature.picture ? element("img", { src: feature.picture, alt: feature.name }) : element("b");
  if (!feature.picture) mark.style.background = feature.colour;
  const number = element("span", { textContent: "0" }), pace = element("small", { title: "the oracle, so far" });
  return { root: element("span", { title: feature.name }, mark, number, pace), number, pace };
}
