"""The agents that a playground offers. A visitor chooses by name: no path of theirs is ever opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from usfa.agents import SfGpiTables, TrainedAgent, UsfaAgent
from usfa.decisions import RULES
from usfa.errors import InputError, unknown_name
from usfa.playground.protocol import AgentCard
from usfa.playground.worlds import World, make_world
from usfa.runs import SHIPPED_AGENTS, load

__all__ = ["Repertoire", "candidate_choices", "explains", "quantities", "rule_choices"]


class Repertoire:
    """Agents by the name that the page shows, all loaded.

    Args:
        agents: names of shipped agents, runs or agent directories; the first is shown first.
        environment: where they act, in place of where they were trained.
        trust: whether their files may name modules to import.
    """

    def __init__(self, agents: Sequence[str], environment: str | None = None, trust: bool = False) -> None:
        if not agents:
            raise InputError(f"No agent was given; expected one of {', '.join(SHIPPED_AGENTS)}, or a run directory.")
        self.environment, self.trust = environment, trust
        self.paths: dict[str, str] = {}
        self._agents: dict[str, TrainedAgent] = {}
        for path in dict.fromkeys(agents):
            name = self._new_name(path)
            self.paths[name], self._agents[name] = path, load(path)
        opening = self.world(self.first)  # says now what would go wrong with the first visitor
        self.opening_rules = opening.rules
        opening.close()

    def _new_name(self, path: str) -> str:
        short = path if path in SHIPPED_AGENTS else Path(path).resolve().name
        return short if short not in self.paths else path

    @property
    def first(self) -> str:
        """The agent to begin with."""
        return next(iter(self._agents))

    def __getitem__(self, name: str) -> TrainedAgent:
        if name not in self._agents:
            raise unknown_name("agent", name, self._agents)
        return self._agents[name]

    def world(self, name: str) -> World:
        """A world of its own for one of the agents."""
        return make_world(self[name], self.environment, self.trust)

    def environment_of(self, name: str) -> str:
        return self[name].file.environment if self.environment is None else self.environment

    def card(self, name: str) -> AgentCard:
        return AgentCard(name, self[name].file.kind, self.environment_of(name), self.paths[name])

    def cards(self) -> list[AgentCard]:
        return [self.card(name) for name in self._agents]


def candidate_choices(agent: TrainedAgent) -> list[str]:
    """The named candidate sets that the agent can have."""
    match agent.file.kind:
        case "usfa":
            return ["task", "train", "train+task", "sample:5", "sample:30"]
        case "uvfa":
            return ["task"]
        case "sf-gpi-tables":
            return ["train"]


def rule_choices(agent: TrainedAgent) -> list[str]:
    """The named rules that differ for this agent. A UVFA has one policy; with exact tables, caution changes nothing."""
    match agent.file.kind:
        case "usfa":
            return list(RULES)
        case "uvfa":
            return []
        case "sf-gpi-tables":
            return [name for name in RULES if name != "cautious"]


def explains(agent: TrainedAgent) -> bool:
    """Whether it has successor features."""
    return isinstance(agent.actor, UsfaAgent | SfGpiTables)


def quantities(agent: TrainedAgent, world: World) -> dict[str, str]:
    """What a heat map can show of the agent, in words."""
    shown = {"score": "Score: return of an episode"}
    exact = world.kind == "mdp" and not agent.actor.remembers
    if exact:
        shown |= {"gap": "Gap to the optimum"}
    if agent.file.kind == "usfa":
        shown |= {"distance": "Distance to the nearest z in C, min ‖w′ − z‖"}
    if agent.file.kind == "usfa" and exact:
        shown |= {
            "distance-term": "Bound of Eq. 3, first term: 2H ‖φ‖ min δd(z)",
            "approximation-term": "Bound of Eq. 3, second term: 2H ‖w′‖ max δψ(z)",
            "bound": "Bound of Eq. 3: both terms",
        }
    return shown
