"""Names that users write, each with a description. Does not import torch, so that `usfa list` and help are fast."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["CANDIDATE_SETS", "PRESET_NAMES", "RULES", "SHIPPED_AGENTS", "SINGLE", "short_names"]

SHIPPED_AGENTS: dict[str, str] = {
    "trip": "USFA for the Trip MDP, preset trip-usfa, seed 0",
    "room": "USFA for the room, from pixels, preset room-laptop for 7 million frames, seed 2",
    "room-uvfa": "UVFA for the room, to compare with, preset room-laptop-uvfa, seed 0",
}
"""Agents in the package."""

RULES: dict[str, str] = {
    "cautious": "follow the best policy in C, improve on it beyond the measured error of ψ; cautious:2 doubles it",
    "steady": "follow the best policy in C, improve on it where the gain is several times its cost",
    "gpi": "Eq. 3, the paper's: the action with the largest value under any policy in C",
    "follow": "follow the policy in C with the largest value on w', never improve on it",
}
"""Decision rules."""

SINGLE = "single"
"""Baseline of evaluations, not a rule: the best policy of C for each task in hindsight, followed alone."""

CANDIDATE_SETS: dict[str, str] = {
    "task": "C = {w'}: only the policy of the task itself, as a UVFA would",
    "train": "C = M: the policies of the training tasks, as SF&GPI would",
    "train+task": "C = M ∪ {w'}: both",
    "sample:N": "C = N policies drawn from D_z(·|w'), as random(5) in the paper's Trip MDP",
}


def _variants_in_the_room(name: str, about: str) -> dict[str, str]:
    return {
        name: f"USFA in the room, {about}",
        f"{name}-sf-gpi": "the same with the points of M as its only policies",
        f"{name}-sigma-0.5": "the same with D_z = N(w, 0.5 I)",
        f"{name}-8-tasks": "the same with the eight-task M",
        f"{name}-uvfa": "UVFA, learning each trajectory for the task that made it",
        f"{name}-uvfa-off-policy": "UVFA, learning each trajectory for every task in M",
    }


PRESET_NAMES: dict[str, str] = {
    "trip-usfa": "USFA on the Trip MDP, Section 4.1",
    "trip-uvfa": "UVFA on the Trip MDP, learning each step for the task that made it",
    "trip-uvfa-off-policy": "UVFA on the Trip MDP, learning each step for every task in M",
    "trip-sf-gpi": "learned SF&GPI on the Trip MDP",
    "one-state-usfa": "USFA on the one-state MDP, Appendix A",
    "one-state-uvfa": "UVFA on the one-state MDP, fitted to three tasks",
    **_variants_in_the_room("room-laptop", "42×42 pixels and a small network, for 2 cores"),
    **_variants_in_the_room("room-paper", "with the paper's network and environments"),
}
"""Presets; their configurations are in usfa.runs.presets."""


def short_names(rewards: Sequence[str]) -> tuple[str, ...]:
    """Names of rewards for figures and pages, without their modules and prefixes where that leaves them different."""
    short = [reward.removeprefix("task:").rpartition(":")[2] for reward in rewards]
    return tuple(own if short.count(own) == 1 else reward for own, reward in zip(short, rewards, strict=True))
