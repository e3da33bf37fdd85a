// One player on the page: picture, map or graph, and the values behind its decision.

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

export const describe = (info) => [
  KINDS[info.agent.kind],
  ...(info.agent.kind === "usfa" ? [nameOfSet(info.candidates)] : []),
  ...(info.rule_choices.length > 1 ? [nameOfRule(info.rule)] : []),
].join(", ");
const nameOfSet = (candidates) => (typeof candidates === "string" ? SETS[candidates] : `C = ${candidates.length} chosen z`);

export class PlayerView {
  // change.candidates(C) and change.rule(name) are called when the user changes them; task() returns the current task.
  constructor(index, session, change, task) {
    this.index = index;
    this.session = session;
    this.info = session.players[index];
    this.change = change;
    this.task = task;
    this.root = find("player-template").content.firstElementChild.cloneNode(true);
    this.part = (name) => this.root.querySelector(name);
    this.drawn = 0;
    this.#build();
  }

  #build() {
    const { session, info } = this;
    this.root.setAttribute("aria-label", `Player ${this.index + 1}`);
    this.part(".name").textContent = info.agent.name;
    this.counts = session.features.map(countOf);
    this.part(".collected").replaceChildren(...this.counts.map(({ root }) => root));
    const mine = this.index ? "two" : "one";
    const isMdp = session.kind === "mdp";
    this.part(".picture").hidden = isMdp;
    this.part(".mdp").hidden = !isMdp;
    this.part(".map").hidden = session.kind !== "room";
    this.part(".action").hidden = isMdp; // the graph shows it
    this.graph = isMdp ? new MdpGraph(this.part(".mdp"), session.plan, session.actions) : null;
    this.map = session.kind === "room" ? new RoomMap(this.part(".map"), session.plan, session.features, mine) : null;
    this.q = new Bars(this.part(".q"), { differences: true });
    this.q.build(session.actions);
    this.values = new Bars(this.part(".values"));
    this.psi = new Bars(this.part(".psi"));
    this.psi.build(session.features.map(({ name }) => name));
    this.part(".features").hidden = !info.has_psi;
    this.part(".policies").hidden = !info.has_psi;
    this.part(".no-psi").hidden = info.has_psi;
    this.#ruleChooser();
    this.#setChooser();
    this.showRule(info);
  }

  #ruleChooser() {
    const select = this.part(".rule"), { rule, rule_choices: rules } = this.info;
    const names = rules.includes(rule) ? rules : [rule, ...rules];
    options(select, names.map((name) => [name, optionOfRule(name)]), rule);
    select.parentElement.hidden = rules.length < 2;
    select.onchange = () => this.change.rule(select.value);
  }

  #setChooser() {
    const select = this.part(".candidates");
    const sets = this.info.candidate_choices.map((name) => [name, SETS[name]]);
    options(select, this.info.accepts_list ? [...sets, [OWN, "C = custom list"]] : sets, OWN);
    select.disabled = sets.length < 2;
    select.onchange = () => this.change.candidates(select.value === OWN ? this.z : select.value);
    this.part(".add").onclick = () => this.change.candidates([...this.z, this.task()]);
  }

  // Show the rule that the server uses.
  showRule({ rule }) {
    this.info = { ...this.info, rule };
    this.part(".rule").value = rule;
    this.part(".kind").textContent = describe(this.info);
    this.part(".q-hint").textContent = this.info.has_psi ? hintOfActions(rule) : "value of each action";
    this.part(".hint").replaceChildren(...hintOfPolicies(rule));
  }

  // Show the candidate set that the server uses.
  showPolicies({ candidates, z, names }) {
    this.z = z;
    const own = typeof candidates !== "string";
    const labels = names.map((name) => name.replaceAll("-", "−"));
    const same = this.values.labels?.join() === labels.join() && this.own === own;
    this.own = own;
    this.info = { ...this.info, candidates };
    this.part(".candidates").value = own ? OWN : candidates;
    this.part(".own").hidden = !own;
    this.part(".kind").textContent = describe(this.info);
    if (same) return;
    const remove = own && z.length > 1 ? (index) => this.change.candidates(this.z.filter((_, other) => other !== index)) : null;
    this.values.build(labels, { remove, titles: z.map((entries) => `z = [${entries.join(", ")}]`) });
  }

  // Show this player in a frame, and its picture if there is a new one.
  show(player, frame, picture) {
    if (player.step === 0 || player.step < this.step) this.map?.clear();
    this.step = player.step;
    if (player.position && this.map) this.map.show(player.position);
    if (player.collected) {
      this.#count(player.collected, frame.oracle_collected);
      this.#showDecision(player);
    }
    if (picture) this.#paint(picture);
  }

  // Show the collected amount of each feature, and the oracle's.
  #count(collected, byOracle) {
    this.counts.forEach(({ number, oracle }, index) => {
      number.textContent = amount(collected[index]);
      oracle.textContent = byOracle ? `/${amount(byOracle[index])}` : "";
    });
  }

  #showDecision({ step, improved = 0, returned, decision, over, position }) {
    const ended = this.part(".over");
    ended.hidden = !over || this.session.kind === "mdp";
    ended.textContent = over ? `Episode over: return ${plain(returned, 1)}` : "";
    const action = decision ? this.session.actions[decision.action] : "";
    this.part(".action").textContent = action;
    this.part(".picture").setAttribute("aria-label", `View of ${this.info.agent.name}. Next action: ${action || "none"}.`);
    this.graph?.show(position, decision ? decision.action : null);
    const share = step ? Math.round((100 * improved) / step) : 0;
    this.part(".share").textContent = step ? `followed ${100 - share} %, improved ${share} %` : "";
    if (!decision) return;
    this.q.show(decision.q, decision.action);
    if (!this.info.has_psi) return;
    const relation = this.part(".relation");
    relation.textContent = `${decision.improved ? "improves on" : "follows"} ${this.values.labels?.[decision.trusted] ?? "?"}`;
    relation.dataset.improves = decision.improved;
    this.values.show(decision.values, decision.trusted);
    this.psi.show(decision.psi, -1);
  }

  async #paint(blob) {
    const turn = ++this.drawn;
    const bitmap = await createImageBitmap(blob);
    if (turn < this.painted) return bitmap.close(); // a newer picture is already painted
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

  // Width of the view in pixels of the screen.
  get size() {
    const { width } = this.part(".view").getBoundingClientRect();
    return Math.round(clamp(width * (window.devicePixelRatio || 1), 160, 512) / 16) * 16;
  }
}

const amount = (value) => plain(value, Number.isInteger(value) ? 0 : 2);

function countOf(feature) {
  const mark = feature.picture ? element("img", { src: feature.picture, alt: feature.name }) : element("b");
  if (!feature.picture) mark.style.background = feature.colour;
  const number = element("span", { textContent: "0" }), oracle = element("small", { title: "collected by the oracle so far" });
  return { root: element("span", { title: feature.name }, mark, number, oracle), number, oracle };
}
