// Decision rules in words: how an agent gets from the values of the policies in C to an action.

import { element } from "./dom.js";

const OPTIONS = { cautious: "cautious", gpi: "gpi (Eq. 3)", follow: "follow" };
const EQ_3 = "gpi";

export const optionOfRule = (rule) => OPTIONS[rule] ?? rule;
export const nameOfRule = (rule) => (rule === EQ_3 ? "Eq. 3" : rule);

// What the bars of actions and of policies are under a rule, see _values in thoughts.py.
export const hintOfActions = (rule) => (rule === EQ_3 ? "max over z of ψ(s, a, z)·w" : "max over z of ψ(s, a, z)·w, less doubt");
export const hintOfPolicies = (rule) => (rule === EQ_3
  ? ["A bar is the value of z’s best action here, max over a of ψ(s, a, z)·w."]
  : ["A bar is the value of following z here, ψ(s, π", element("sub", { textContent: "z" }), "(s), z)·w, less the doubt about z."]);

// The comparison that one click sets up.
export const COMPARED = [EQ_3, "cautious"];
