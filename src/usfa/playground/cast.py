"""Who takes the stage for a setup, and what the page is told about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from usfa.errors import InputError
from usfa.playground.player import Player
from usfa.playground.protocol import PlayerCard, PlayerChoice, Scene, Setup
from usfa.playground.repertoire import Repertoire, candidate_choices, explains, quantities, rule_choices
from usfa.playground.worlds.world import preset_group
from usfa.tasks import parse_task

__all__ = ["Cast", "make_cast", "scene_of"]


@dataclass(frozen=True)
class Cast:
    """Players at the start of an episode, made for a setup."""

    setup: Setup
    names: list[str]  # of the agents
    players: list[Player]

    def close(self) -> None:
        for player in self.players:
            player.world.close()


def make_cast(repertoire: Repertoire, setup: Setup) -> Cast:
    """Load, build and check; takes a while, so the director's thread leaves it to others."""
    first = repertoire[setup.players[0].agent]
    w = parse_task(first.training_tasks[0] if setup.task is None else setup.task, first.file.spec.features)
    _check_comparable(repertoire, setup.players)
    players = [
        Player(repertoire[choice.agent], repertoire.world(choice.agent), w, choice.candidates, setup.seed, choice.rule)
        for choice in setup.players
    ]
    return Cast(setup, [choice.agent for choice in setup.players], players)


def _check_comparable(repertoire: Repertoire, choices: Sequence[PlayerChoice]) -> None:
    environments = {repertoire.environment_of(choice.agent) for choice in choices}
    sizes = {repertoire[choice.agent].file.spec.features for choice in choices}
    if len(environments) > 1 or len(sizes) > 1:
        raise InputError(f"The agents act in {' and '.join(sorted(environments))}; expected the same for both.")


def scene_of(cast: Cast, repertoire: Repertoire) -> Scene:
    first = cast.players[0]
    world = first.world
    return Scene(
        environment=repertoire.environment_of(cast.names[0]),
        kind=world.kind,
        features=world.features,
        actions=world.actions,
        players=[_card(repertoire, name, player) for name, player in zip(cast.names, cast.players, strict=True)],
        presets=[preset_group("Trained on, M", first.agent.training_tasks), *world.presets],
        rate=world.rate,
        moment=world.moment,
        task=first.w.tolist(),
        seed=cast.setup.seed,
        eyes=world.eyes() is not None,
        plan=world.plan(),
    )


def _card(repertoire: Repertoire, name: str, player: Player) -> PlayerCard:
    return PlayerCard(
        agent=repertoire.card(name),
        candidates=player.candidates,
        choices=candidate_choices(player.agent),
        own_candidates=player.agent.file.kind == "usfa",
        rule=player.rule,
        rules=rule_choices(player.agent),
        explains=explains(player.agent),
        quantities=quantities(player.agent, player.world),
    )
