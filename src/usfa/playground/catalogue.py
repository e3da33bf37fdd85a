"""The agents that a playground offers. Users choose them by name: no path from a page is ever opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from usfa.agents import TrainedAgent
from usfa.environments import TabularEnv, check_trusted, feature_names, make
from usfa.environments.batch import close_environment
from usfa.errors import InputError, unknown_name
from usfa.evaluation import exact_mdp
from usfa.functional import TabularMDP
from usfa.playground.heatmaps import is_exact, quantities
from usfa.playground.player import Player, candidate_choices, has_psi, rule_choices
from usfa.playground.protocol import AgentInfo, PlayerInfo, SessionInfo, Setup
from usfa.playground.room_view import DoomView, RoomView
from usfa.playground.views import EnvironmentView, MdpView, RenderedView, preset_group
from usfa.runs import SHIPPED_AGENTS, load
from usfa.tasks import parse_task

__all__ = ["Catalogue", "make_view"]


class Catalogue:
    """Loaded agents by the name that the page shows.

    Args:
        agents: names of shipped agents, runs or agent directories; the page starts with the first.
        environment: environment to act in, instead of the ones they were trained in.
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
            self.paths[name], self._agents[name] = path, load(path, trust=trust)
        first = self._view(next(iter(self._agents)))  # fails now rather than with the first user
        self.first_rules = first.rules
        first.close()

    def _new_name(self, path: str) -> str:
        short = path if path in SHIPPED_AGENTS else Path(path).resolve().name
        return short if short not in self.paths else path

    def __getitem__(self, name: str) -> TrainedAgent:
        if name not in self._agents:
            raise unknown_name("agent", name, self._agents)
        return self._agents[name]

    def _view(self, name: str) -> EnvironmentView:
        return make_view(self[name], self.environment, self.trust)

    def _environment_of(self, name: str) -> str:
        return self[name].file.environment if self.environment is None else self.environment

    def agent_info(self, name: str) -> AgentInfo:
        return AgentInfo(name, self[name].file.kind, self._environment_of(name), self.paths[name])

    def agent_infos(self) -> list[AgentInfo]:
        return [self.agent_info(name) for name in self._agents]

    def make_players(self, setup: Setup) -> list[Player]:
        """Players at the start of an episode. Making environments is slow: do not call in the scheduler's thread."""
        first = self[setup.players[0].agent]
        w = parse_task(first.training_tasks[0] if setup.task is None else setup.task, first.file.spec.features)
        names = [choice.agent for choice in setup.players]
        environments = {self._environment_of(name) for name in names}
        if len(environments) > 1 or len({self[name].file.spec.features for name in names}) > 1:
            raise InputError(f"The agents act in {' and '.join(sorted(environments))}; expected the same for both.")
        return [
            Player(one.agent, self[one.agent], self._view(one.agent), w, one.candidates, one.rule, setup.seed)
            for one in setup.players
        ]

    def session_info(self, players: Sequence[Player], seed: int) -> SessionInfo:
        first = players[0]
        view = first.view
        return SessionInfo(
            environment=self._environment_of(first.name),
            kind=view.kind,
            features=view.features,
            actions=view.actions,
            players=[self._player_info(player) for player in players],
            presets=[preset_group("Trained on, M", first.agent.training_tasks), *view.presets],
            rate=view.rate,
            rating_steps=view.rating_steps,
            task=first.w.tolist(),
            seed=seed,
            has_observation_picture=view.observation_picture() is not None,
            plan=view.plan(),
        )

    def _player_info(self, player: Player) -> PlayerInfo:
        return PlayerInfo(
            agent=self.agent_info(player.name),
            candidates=player.candidates,
            candidate_choices=candidate_choices(player.agent),
            accepts_list=player.agent.actor.learns_psi,
            rule=player.rule_name,
            default_rule=player.agent.default_rule,
            rule_choices=rule_choices(player.agent),
            has_psi=has_psi(player.agent),
            quantities=quantities(player.agent, player.view),
            training_tasks=player.agent.training_tasks.tolist(),
            exact=is_exact(player.agent, player.view),
        )


def make_view(agent: TrainedAgent, environment: str | None = None, trust: bool = False) -> EnvironmentView:
    """The environment that an agent was trained in, or another with the same observations, actions and features.

    Args:
        agent: the agent that will act in it.
        environment: a name, instead of the one in the agent's file.
        trust: whether that file may name a module to import, for the environment or for φ.
    """
    check_trusted(agent.file.environment if environment is None else None, trust, agent.file.phi)
    name = agent.file.environment if environment is None else environment
    view = _make_view(name, agent.file.phi, agent.file.environment_arguments)
    spec = agent.file.spec
    found = (view.observation.shape, len(view.actions), len(view.features))
    expected = (spec.observation.shape, spec.actions, spec.features)
    if found != expected:
        raise InputError(
            f"The environment has observations {found[0]}, {found[1]} actions and {found[2]} features; the agent "
            f"expected {expected[0]}, {expected[1]} and {expected[2]}."
        )
    return view


def _with_tables(env: TabularEnv, mdp: TabularMDP, names: tuple[str, ...]) -> TabularEnv:
    """The same environment with other features, such as learned ones."""
    changed = TabularEnv(mdp, env.state_names, env.action_names)
    changed.feature_names = names
    return changed


def _make_view(name: str, phi: str, arguments: Mapping[str, Any]) -> EnvironmentView:
    if name == "room" and phi == "reward":
        return RoomView(arguments)
    if name == "room-doom" and phi == "reward":
        return DoomView(make(name, **arguments, render_mode="rgb_array", positions=True))
    env = make(name, phi, **arguments)
    inner, mdp = env.unwrapped, exact_mdp(env)
    if isinstance(inner, TabularEnv) and mdp is not None:
        return MdpView(inner if mdp is inner.mdp else _with_tables(inner, mdp, feature_names(env)))
    close_environment(env)
    return RenderedView(make(name, phi, **arguments, render_mode="rgb_array"))
