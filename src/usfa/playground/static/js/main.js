// The page: what the visitor has chosen, the parts that show it, and the server that does it.

import { Chart } from "./chart.js";
import { Connection } from "./connection.js";
import { clamp, find, options } from "./dom.js";
import { HeatmapPanel } from "./heatmap.js";
import { describe, PlayerView } from "./players.js";
import { COMPARED, nameOfRule } from "./rules.js";
import { startShortcuts } from "./shortcuts.js";
import { asPython, TaskPanel } from "./task.js";
import { TeachPanel } from "./teach.js";
import { startTheme } from "./theme.js";
import { Pace, Transport } from "./transport.js";

// Everything that the server has to be told again after it was gone.
const chosen = { players: null, task: null, seed: 0, speed: 1, paused: false, view: 336, eyes: false };
let agents = [], scene = null, views = [], lastSeed = null, waitingTask = null;

const connection = new Connection({ open: greet, note: read, moment: show, state: tellState });
const ask = (message) => connection.send(message);
const task = new TaskPanel(setTask);
const chart = new Chart();
const heatmap = new HeatmapPanel(ask, (w) => (task.show(w), setTask(w)));
const teach = new TeachPanel(ask);
const transport = new Transport(chosen, ask);
const pace = new Pace();

// --- beginning ---

function greet(hello) {
  agents = hello.agents;
  const names = agents.map(({ name }) => name);
  if (!chosen.players?.every(({ agent }) => names.includes(agent))) {
    chosen.players = [{ agent: names[0] }];
    chosen.task = null;
  }
  setUp();
}

function setUp() {
  ask({ type: "setup", ...chosen });
}

function begin(newScene) {
  scene = newScene;
  chosen.task = scene.task;
  chosen.players = scene.players.map((card) => ({ agent: card.agent.name, candidates: card.candidates, rule: card.rule }));
  task.build(scene.features, scene.presets, scene.task);
  views = scene.players.map((_, player) => new PlayerView(player, scene, {
    candidates: (candidates) => ask({ type: "candidates", player, candidates }),
    rule: (rule) => ask({ type: "rule", player, rule }),
  }, () => chosen.task));
  views[0].onpaint = () => pace.frame();
  document.body.dataset.count = views.length;
  find("players").replaceChildren(...views.map(({ root }) => root));
  chart.begin(nameLines(), scene);
  heatmap.build(scene, nameLines());
  heatmap.setTask(scene.task);
  teach.build(scene);
  transport.build();
  showCast();
  showEyes();
  fitView();
  document.body.dataset.ready = scene.environment;
}

// Two players of one agent are told apart by what differs.
function nameLines() {
  const same = scene.players.length > 1 && scene.players[0].agent.name === scene.players[1].agent.name;
  return scene.players.map((card) => (comparesRules() ? nameOfRule(card.rule) : same ? describe(card) : card.agent.name));
}

function comparesRules() {
  const [first, second] = chosen.players;
  const sets = chosen.players.map(({ candidates }) => JSON.stringify(candidates));
  return Boolean(second) && first.agent === second.agent && sets[0] === sets[1] && first.rule !== second.rule;
}

// --- what the server says ---

function read(note) {
  if (note.type === "scene") begin(note);
  else if (note.type === "policies") {
    views[note.player]?.policy(note);
    remember(note.player, { candidates: note.candidates });
  } else if (note.type === "rule") {
    views[note.player]?.rule(note);
    remember(note.player, { rule: note.rule });
  } else if (note.type === "heatmap") heatmap.show(note);
  else if (note.type === "rated") takeRating(note);
  else if (note.type === "error") tell(note.says);
}

function remember(player, choice) {
  if (!chosen.players[player]) return; // about a player that is just leaving
  Object.assign(chosen.players[player], choice);
  Object.assign(scene.players[player], choice);
  chart.rename(nameLines());
  heatmap.rename(nameLines());
  showComparison();
}

function show(moment, pictures) {
  if (!scene || moment.players.length !== views.length) return;
  if (moment.seed !== lastSeed || (moment.players[0].step === 0 && moment.players[0].collected)) chart.forget();
  lastSeed = moment.seed;
  transport.seed(moment.seed);
  chosen.seed = moment.seed;
  document.body.dataset.step = moment.players[0].step;
  moment.players.forEach((player, index) => views[index].show(player, moment, pictures[index]));
  if (moment.players[0].collected) {
    chart.show(moment);
    pace.answered(moment);
  }
}

function takeRating(rated) {
  teach.show(rated);
  task.doubt(rated.w ? rated : null);
  if (!rated.w) return;
  chosen.task = rated.w.map((value) => clamp(value));
  task.show(chosen.task);
  heatmap.setTask(chosen.task);
}

// --- what the visitor does ---

// A dragged slider speaks once per frame of the screen, with its last word.
function setTask(w) {
  chosen.task = w;
  pace.asked(w);
  if (!waitingTask) requestAnimationFrame(() => {
    ask({ type: "task", w: waitingTask });
    waitingTask = null;
  });
  waitingTask = w;
  heatmap.setTask(w);
}

function showCast() {
  const [first, second] = chosen.players;
  options(find("agent-0"), agents.map(({ name }) => [name, name]), first.agent);
  const environment = agents.find(({ name }) => name === first.agent).environment;
  const partners = agents.filter((agent) => agent.environment === environment).map(({ name }) => [name, name]);
  options(find("agent-1"), partners, second?.agent ?? first.agent);
  showComparison();
}

function showComparison() {
  const rules = comparesRules(), agents = chosen.players.length > 1 && !rules;
  find("versus").hidden = !agents;
  find("compare").setAttribute("aria-pressed", String(agents));
  find("compare-rules").setAttribute("aria-pressed", String(rules));
  find("compare-rules").hidden = !COMPARED.every((rule) => scene.players[0].rules.includes(rule));
}

find("agent-0").onchange = ({ target }) => {
  chosen.players = [{ agent: target.value }];
  const here = agents.find(({ name }) => name === target.value).environment;
  if (here !== scene.environment) chosen.task = null;
  setUp();
};

find("agent-1").onchange = ({ target }) => {
  chosen.players = [chosen.players[0], partner(target.value)];
  setUp();
};

// The same agent is compared with itself by another candidate set, because that is the paper's question.
function partner(name) {
  const [first] = chosen.players;
  if (name !== first.agent) return { agent: name };
  const other = first.candidates === "train" ? "task" : "train";
  return { agent: name, rule: first.rule, ...(scene.players[0].choices.includes(other) && { candidates: other }) };
}

find("compare").onclick = () => {
  const comparing = find("compare").getAttribute("aria-pressed") === "true";
  chosen.players = [comparesRules() ? withoutRule(chosen.players[0]) : chosen.players[0]];
  const [first] = chosen.players;
  const others = [...find("agent-1").options].map(({ value }) => value).filter((name) => name !== first.agent);
  if (!comparing) chosen.players.push(partner(others[0] ?? first.agent));
  setUp();
};

// One agent by two rules, in the layout that is on the page; again, and it plays alone by its own rule.
find("compare-rules").onclick = () => {
  const alone = withoutRule(chosen.players[0]);
  chosen.players = comparesRules() ? [alone] : COMPARED.map((rule) => ({ ...alone, rule }));
  setUp();
};

const withoutRule = ({ agent, candidates }) => ({ agent, candidates });

find("copy").onclick = async () => {
  const [{ agent }] = scene.players;
  const code = asPython(agent.load, chosen.task, chosen.players[0].candidates, chosen.players[0].rule);
  try {
    await navigator.clipboard.writeText(code);
    tell("Copied.", "notice");
  } catch {
    prompt("Copy this:", code); // clipboards are closed to pages without https
  }
};

// What the agent sees, in place of what a person would.
function showEyes() {
  for (const button of document.querySelectorAll(".eyes")) {
    button.setAttribute("aria-pressed", String(chosen.eyes));
    button.hidden = !scene.eyes;
    button.onclick = () => {
      chosen.eyes = !chosen.eyes;
      showEyes();
      ask({ type: "view", size: chosen.view, eyes: chosen.eyes });
    };
  }
}

function viewAs(name) {
  document.body.dataset.view = name;
  find("heatmap").hidden = name !== "heatmap";
  find("show-values").setAttribute("aria-pressed", String(name === "values"));
  find("show-heatmap").setAttribute("aria-pressed", String(name === "heatmap"));
  heatmap.draw();
  fitView();
}
find("show-values").onclick = () => viewAs("values");
find("show-heatmap").onclick = () => viewAs("heatmap");

// --- the rest of the page ---

let fitting = null;
function fitView() {
  clearTimeout(fitting);
  fitting = setTimeout(() => {
    const size = views[0]?.size;
    if (!size || Math.abs(size - chosen.view) < 0.1 * chosen.view) return;
    chosen.view = size;
    ask({ type: "view", size, eyes: chosen.eyes });
  }, 120);
}
addEventListener("resize", fitView);

let silence = null;
function tell(words, kind = "error") {
  const banner = find("banner");
  banner.textContent = words;
  banner.dataset.kind = kind;
  banner.hidden = false;
  clearTimeout(silence);
  silence = setTimeout(() => (banner.hidden = true), kind === "error" ? 8000 : 2000);
}

function tellState(state, words) {
  const status = find("status");
  status.dataset.state = state;
  status.textContent = state === "open" ? words : "Disconnected";
  clearTimeout(silence);
  find("banner").hidden = state === "open";
  find("banner").dataset.kind = "error";
  find("banner").textContent = words;
}

// Nobody looks at a hidden page: it does not have to be painted.
document.addEventListener("visibilitychange", () => ask({ type: "pause", paused: document.hidden || chosen.paused }));

startTheme(() => {
  views.forEach(({ map }) => map?.draw());
  chart.draw();
  heatmap.draw();
});
startShortcuts({
  " ": () => find("pause").click(),
  ".": () => find("step").click(),
  r: () => find("reset").click(),
  g: () => teach.mark(1),
  b: () => teach.mark(-1),
  h: () => viewAs(document.body.dataset.view === "values" ? "heatmap" : "values"),
  "?": () => find("help").click(),
});
find("help").onclick = () => find("help-dialog").showModal();
