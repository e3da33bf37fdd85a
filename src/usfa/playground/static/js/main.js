// The page: the settings of the user, the panels, and the connection to the server.

import { Chart } from "./chart.js";
import { Connection } from "./connection.js";
import { clamp, find, options } from "./dom.js";
import { HeatmapPanel } from "./heatmap.js";
import { describe, PlayerView } from "./players.js";
import { RatingsPanel } from "./ratings.js";
import { comparedRules, nameOfRule } from "./rules.js";
import { startShortcuts } from "./shortcuts.js";
import { asPython, TaskPanel } from "./task.js";
import { startTheme, startType } from "./theme.js";
import { PerformanceMonitor, Transport } from "./transport.js";

// The setup message, sent again after a lost connection.
const settings = { players: null, task: null, seed: 0, speed: 1, paused: false, picture_size: 336, observation: false };
let agents = [], session = null, views = [], lastSeed = null, waitingTask = null;

const connection = new Connection({ open: onHello, message: onMessage, frame: onFrame, state: showState });
const send = (message) => connection.send(message);
const task = new TaskPanel(setTask);
const chart = new Chart();
const heatmap = new HeatmapPanel(send, (w) => (task.show(w), setTask(w)));
const ratings = new RatingsPanel(send);
const transport = new Transport(settings, send);
const monitor = new PerformanceMonitor();

// --- setup ---

function onHello(hello) {
  agents = hello.agents;
  const names = agents.map(({ name }) => name);
  if (!settings.players?.every(({ agent }) => names.includes(agent))) {
    settings.players = [{ agent: names[0] }];
    settings.task = null;
  }
  setUp();
}

function setUp() {
  send({ type: "setup", ...settings });
}

function begin(newSession) {
  session = newSession;
  settings.task = session.task;
  settings.players = session.players.map((info) => ({ agent: info.agent.name, candidates: info.candidates, rule: info.rule }));
  task.build(session.features, session.presets, session.task);
  views = session.players.map((_, player) => new PlayerView(player, session, {
    candidates: (candidates) => send({ type: "candidates", player, candidates }),
    rule: (rule) => send({ type: "rule", player, rule }),
  }, () => settings.task));
  views[0].onpaint = () => monitor.frame();
  document.body.dataset.count = views.length;
  find("players").replaceChildren(...views.map(({ root }) => root));
  chart.begin(nameLines(), session);
  heatmap.build(session, nameLines());
  heatmap.setTask(session.task);
  ratings.build(session);
  transport.build();
  showAgents();
  showObservationButtons();
  fitPicture();
  document.body.dataset.ready = session.environment;
}

// Two players of one agent are named by their differences.
function nameLines() {
  const same = session.players.length > 1 && session.players[0].agent.name === session.players[1].agent.name;
  return session.players.map((info) => (comparesRules() ? nameOfRule(info.rule) : same ? describe(info) : info.agent.name));
}

function comparesRules() {
  const [first, second] = settings.players;
  const sets = settings.players.map(({ candidates }) => JSON.stringify(candidates));
  return Boolean(second) && first.agent === second.agent && sets[0] === sets[1] && first.rule !== second.rule;
}

// --- messages from the server ---

function onMessage(message) {
  if (message.type === "session") begin(message);
  else if (message.type === "policies") {
    views[message.player]?.showPolicies(message);
    update(message.player, { candidates: message.candidates });
  } else if (message.type === "rule") {
    views[message.player]?.showRule(message);
    update(message.player, { rule: message.rule });
  } else if (message.type === "heatmap") heatmap.show(message);
  else if (message.type === "estimate") showEstimate(message);
  else if (message.type === "error") showBanner(message.message);
}

function update(player, choice) {
  if (!settings.players[player]) return; // a player of the previous setup
  Object.assign(settings.players[player], choice);
  Object.assign(session.players[player], choice);
  chart.rename(nameLines());
  heatmap.rename(nameLines());
  showComparison();
}

function onFrame(frame, pictures) {
  if (!session || frame.players.length !== views.length) return;
  if (frame.seed !== lastSeed || (frame.players[0].step === 0 && frame.players[0].collected)) chart.clear();
  lastSeed = frame.seed;
  transport.seed(frame.seed);
  settings.seed = frame.seed;
  document.body.dataset.step = frame.players[0].step;
  frame.players.forEach((player, index) => views[index].show(player, frame, pictures[index]));
  if (frame.players[0].collected) {
    chart.show(frame);
    monitor.frameReceived(frame);
  }
}

function showEstimate(estimate) {
  ratings.show(estimate);
  task.showUncertainty(estimate.w ? estimate : null);
  if (!estimate.w) return;
  settings.task = estimate.w.map((value) => clamp(value));
  task.show(settings.task);
  heatmap.setTask(settings.task);
}

// --- input of the user ---

// A dragged slider sends its last value, once per frame of the screen.
function setTask(w) {
  settings.task = w;
  monitor.taskSent(w);
  if (!waitingTask) requestAnimationFrame(() => {
    send({ type: "task", w: waitingTask });
    waitingTask = null;
  });
  waitingTask = w;
  heatmap.setTask(w);
}

function showAgents() {
  const [first, second] = settings.players;
  options(find("agent-0"), agents.map(({ name }) => [name, name]), first.agent);
  const environment = agents.find(({ name }) => name === first.agent).environment;
  const partners = agents.filter((agent) => agent.environment === environment).map(({ name }) => [name, name]);
  options(find("agent-1"), partners, second?.agent ?? first.agent);
  showComparison();
}

function showComparison() {
  const rules = comparesRules(), agents = settings.players.length > 1 && !rules;
  find("versus").hidden = !agents;
  find("compare").setAttribute("aria-pressed", String(agents));
  const button = find("compare-rules"), compared = comparedRules(session.players[0]);
  button.setAttribute("aria-pressed", String(rules));
  button.hidden = !compared.length;
  button.textContent = compared.map(nameOfRule).join(" against ");
}

find("agent-0").onchange = ({ target }) => {
  settings.players = [{ agent: target.value }];
  const here = agents.find(({ name }) => name === target.value).environment;
  if (here !== session.environment) settings.task = null;
  setUp();
};

find("agent-1").onchange = ({ target }) => {
  settings.players = [settings.players[0], partner(target.value)];
  setUp();
};

// The same agent is compared with itself under another candidate set, as in the paper.
function partner(name) {
  const [first] = settings.players;
  if (name !== first.agent) return { agent: name };
  const other = first.candidates === "train" ? "task" : "train";
  return { agent: name, rule: first.rule, ...(session.players[0].candidate_choices.includes(other) && { candidates: other }) };
}

find("compare").onclick = () => {
  const comparing = find("compare").getAttribute("aria-pressed") === "true";
  settings.players = [comparesRules() ? withoutRule(settings.players[0]) : settings.players[0]];
  const [first] = settings.players;
  const others = [...find("agent-1").options].map(({ value }) => value).filter((name) => name !== first.agent);
  if (!comparing) settings.players.push(partner(others[0] ?? first.agent));
  setUp();
};

// Compare one agent under two rules, in the current layout; a second click returns to the agent's default rule.
find("compare-rules").onclick = () => {
  const alone = withoutRule(settings.players[0]);
  settings.players = comparesRules() ? [alone] : comparedRules(session.players[0]).map((rule) => ({ ...alone, rule }));
  setUp();
};

const withoutRule = ({ agent, candidates }) => ({ agent, candidates });

find("copy").onclick = async () => {
  const [{ agent }] = session.players;
  const code = asPython(agent.load, settings.task, settings.players[0].candidates, settings.players[0].rule);
  try {
    await navigator.clipboard.writeText(code);
    showBanner("Copied.", "notice");
  } catch {
    prompt("Copy this:", code); // pages without https have no clipboard
  }
};

// Show the observation of the agent instead of the picture for people.
function showObservationButtons() {
  for (const button of document.querySelectorAll(".observation")) {
    button.setAttribute("aria-pressed", String(settings.observation));
    button.hidden = !session.has_observation_picture;
    button.onclick = () => {
      settings.observation = !settings.observation;
      showObservationButtons();
      send({ type: "picture", size: settings.picture_size, observation: settings.observation });
    };
  }
}

function showPanel(name) {
  document.body.dataset.view = name;
  find("heatmap").hidden = name !== "heatmap";
  find("show-values").setAttribute("aria-pressed", String(name === "values"));
  find("show-heatmap").setAttribute("aria-pressed", String(name === "heatmap"));
  heatmap.draw();
  fitPicture();
}
find("show-values").onclick = () => showPanel("values");
find("show-heatmap").onclick = () => showPanel("heatmap");

// --- the rest of the page ---

let fitting = null;
function fitPicture() {
  clearTimeout(fitting);
  fitting = setTimeout(() => {
    const size = views[0]?.size;
    if (!size || Math.abs(size - settings.picture_size) < 0.1 * settings.picture_size) return;
    settings.picture_size = size;
    send({ type: "picture", size, observation: settings.observation });
  }, 120);
}
addEventListener("resize", fitPicture);

let hiding = null;
function showBanner(text, kind = "error") {
  const banner = find("banner");
  banner.textContent = text;
  banner.dataset.kind = kind;
  banner.hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => (banner.hidden = true), kind === "error" ? 8000 : 2000);
}

function showState(state, text) {
  const status = find("status");
  status.dataset.state = state;
  status.textContent = state === "open" ? text : "Disconnected";
  clearTimeout(hiding);
  find("banner").hidden = state === "open";
  find("banner").dataset.kind = "error";
  find("banner").textContent = text;
}

// A hidden page is paused.
document.addEventListener("visibilitychange", () => send({ type: "pause", paused: document.hidden || settings.paused }));

function redraw() {
  views.forEach(({ map }) => map?.draw());
  chart.draw();
  heatmap.draw();
}
startTheme(redraw);
startType(() => (redraw(), fitPicture()));
startShortcuts({
  " ": () => find("pause").click(),
  ".": () => find("step").click(),
  r: () => find("reset").click(),
  g: () => ratings.rate(1),
  b: () => ratings.rate(-1),
  h: () => showPanel(document.body.dataset.view === "values" ? "heatmap" : "values"),
  t: () => find("type").click(),
  "?": () => find("help").click(),
});
find("help").onclick = () => find("help-dialog").showModal();
