"""Your own decision rule: an object with a method `decide`. This one keeps to a policy for some steps."""

from dataclasses import dataclass

import torch

import usfa
from usfa.decisions import Decision, Situation
from usfa.functional import mask_illegal, policy_actions, q_values


@dataclass(frozen=True)
class Commit:
    """Follow the policy with the largest value on w, and choose again only after a number of steps."""

    steps: int
    name = "commit"  # shown in tables of scores
    remembers = True  # its decision depends on more than the state, so scores are from episodes

    def decide(self, situation: Situation) -> Decision:
        psi, w, z, legal, *_, state = situation
        q = mask_illegal(q_values(psi, w), legal[:, None])  # [B, N, A]
        own = policy_actions(psi, z, legal)  # [B, N]
        best = q.gather(-1, own[..., None]).squeeze(-1).argmax(dim=-1)  # [B]
        kept, left = (best, torch.zeros_like(best)) if state is None else state
        policy = torch.where(left > 0, kept, best)
        left = torch.where(left > 0, left - 1, self.steps - 1)
        action = own.gather(-1, policy[:, None]).squeeze(-1)
        return Decision(action, policy, torch.zeros_like(legal[:, 0]), q.amax(dim=-2), (policy, left))


def main() -> None:
    agent = usfa.load("room")
    rules = (Commit(steps=15), "cautious", "gpi")
    table = usfa.evaluate(agent, [-1, 1, 0, 0], "train", rules, episodes=2)
    print(table[["rule", "score", "std"]].round(1).to_string(index=False))
    policy = agent.policy([-1, 1, 0, 0], rule=Commit(steps=15))  # acts by this rule
    print(policy.rule)


if __name__ == "__main__":
    main()
