// Labels of the decision rules.

import { element } from "./dom.js";

const OPTIONS = { cautious: "cautious", steady: "steady", gpi: "gpi (Eq. 3)", follow: "follow" };
const EQ_3 = "gpi";

export const optionOfRule = (rule) => OPTIONS[rule] ?? rule;
export const nameOfRule = (rule) => (rule === EQ_3 ? "Eq. 3" : rule);

// Meaning of the bars of actions and of policies under a rule, see _policy_values in player.py.
const TEMPERED = "; differences from z’s own action are shrunk";
export const hintOfActions = (rule) => (rule === EQ_3
  ? "max over z of ψ(s, a, z)·w"
  : `max over z of ψ(s, a, z)·w − doubt${rule.startsWith("steady") ? TEMPERED : ""}`);
export const hintOfPolicies = (rule) => (rule === EQ_3
  ? ["A bar is the value of z’s best action here, max over a of ψ(s, a, z)·w."]
  : ["A bar is the value of following z here, ψ(s, π", element("sub", { textContent: "z" }), "(s), z)·w, minus the doubt about z."]);

// Rules of the comparison button: Eq. 3 and the agent's default; none if that is Eq. 3.
export const comparedRules = ({ default_rule: own }) => (own === EQ_3 ? [] : [EQ_3, own]);
