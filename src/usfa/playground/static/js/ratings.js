// Ratings by the user, and the task estimated from them.

import { find, options, plain, signed } from "./dom.js";

export class RatingsPanel {
  constructor(send) {
    this.send = send;
    find("good").onclick = () => this.rate(1);
    find("bad").onclick = () => this.rate(-1);
    find("clear-ratings").onclick = () => send({ type: "clear-ratings" });
    find("rate").onclick = () => this.rate(Number(find("rating").value), Number(find("rating-steps").value));
    find("rating").oninput = () => (find("rating-value").value = signed(Number(find("rating").value), 1));
  }

  build(session) {
    this.session = session;
    const spans = session.kind === "mdp" ? [[1, "step"], [2, "2 steps"], [10, "10 steps"]]
      : [1, 3, 5, 10].map((seconds) => [Math.round(seconds * session.rate), seconds === 1 ? "second" : `${seconds} seconds`]);
    options(find("rating-steps"), spans, spans[1][0]);
    find("estimate").textContent = "";
    find("clear-ratings").disabled = true;
  }

  rate(reward, steps = this.session?.rating_steps) {
    this.send({ type: "rate", reward, steps });
  }

  show(estimate) {
    find("clear-ratings").disabled = estimate.ratings === 0;
    const seen = estimate.phi.map((value, index) => [value, this.session.features[index].name]).filter(([value]) => value !== 0);
    const about = seen.map(([value, name]) => `${name} ${plain(value, Number.isInteger(value) ? 0 : 2)}`).join(", ");
    const entries = estimate.w ? ` Estimate: ${this.session.features.map(({ name }, index) =>
      `${name} ${signed(estimate.w[index])} ± ${estimate.std[index].toFixed(2)}`).join(", ")}.` : "";
    find("estimate").textContent = (about ? `Rated steps: ${about}. ` : "") +
      (estimate.ratings ? `${estimate.ratings} rating${estimate.ratings > 1 ? "s" : ""}.` : "") + entries + " " + estimate.message;
  }
}
