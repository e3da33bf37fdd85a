// Marks of good and bad, and what they say about the task.

import { find, options, plain, signed } from "./dom.js";

export class TeachPanel {
  constructor(ask) {
    this.ask = ask;
    find("good").onclick = () => this.mark(1);
    find("bad").onclick = () => this.mark(-1);
    find("forget").onclick = () => ask({ type: "forget" });
    find("give").onclick = () => ask({ type: "rate", reward: Number(find("grade").value), steps: Number(find("grade-span").value) });
    find("grade").oninput = () => (find("grade-shown").value = signed(Number(find("grade").value), 1));
  }

  build(scene) {
    this.scene = scene;
    this.moment = scene.moment;
    const spans = scene.kind === "mdp" ? [[1, "step"], [2, "2 steps"], [10, "10 steps"]]
      : [1, 3, 5, 10].map((seconds) => [Math.round(seconds * scene.rate), seconds === 1 ? "second" : `${seconds} seconds`]);
    options(find("grade-span"), spans, spans[1][0]);
    find("rated").textContent = "";
    find("forget").disabled = true;
  }

  mark(reward) {
    this.ask({ type: "rate", reward, steps: this.moment });
  }

  show(rated) {
    find("forget").disabled = rated.ratings === 0;
    const seen = rated.phi.map((value, index) => [value, this.scene.features[index].name]).filter(([value]) => value !== 0);
    const about = seen.map(([value, name]) => `${name} ${plain(value, Number.isInteger(value) ? 0 : 2)}`).join(", ");
    const estimate = rated.w ? ` Estimate: ${this.scene.features.map(({ name }, index) =>
      `${name} ${signed(rated.w[index])} ± ${rated.std[index].toFixed(2)}`).join(", ")}.` : "";
    find("rated").textContent = (about ? `That was about ${about}. ` : "") +
      (rated.ratings ? `${rated.ratings} rating${rated.ratings > 1 ? "s" : ""}.` : "") + estimate + " " + rated.says;
  }
}
