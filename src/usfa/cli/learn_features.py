"""`usfa learn-features`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated

import tyro
from rich.console import Console

from usfa.cli.terminal import Output, parse, print_lines, print_next, progress_console, show_help, table_of
from usfa.registry import import_modules
from usfa.runs import FeaturesConfig, learn_features
from usfa.runs.features import quality_table

__all__ = ["LearnFeatures", "run"]


@dataclass(frozen=True)
class LearnFeatures:
    """Learn φ from scalar rewards, for environments without φ; `usfa train ENV --phi RUN` then trains with it.

    The first word is an environment. Its rewards are named, or come with a file of transitions.

    Examples:
      usfa learn-features Acrobot-v1 --rewards own_rewards:height,own_rewards:effort
      usfa learn-features room --rewards tasks:room-train --environment-arguments image_size 42 --steps 1000000
      usfa learn-features deep-sea-treasure-v0 --data transitions.npz --features 2
      usfa learn-features CartPole-v1 --learner laplacian --features 8
      usfa learn-features room --rewards tasks:room-train --resume
    """

    config: Annotated[FeaturesConfig, tyro.conf.arg(name="")]
    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)


def run(words: list[str]) -> None:
    if show_help(words, LearnFeatures.__doc__, "An environment is missing; expected its name, such as Acrobot-v1."):
        return
    environment, *rest = words
    import_modules(rest)
    command = parse(LearnFeatures, f"learn-features {environment}", ["--environment", environment, *rest])
    path = command.output.path(f"features-{re.sub(r'[:/]', '-', environment)}")
    phi = learn_features(config=command.config, out=path, existing=command.output.existing, console=progress_console())
    table = quality_table(phi)
    chosen = table[table.chosen].drop(columns=["chosen", "features"])
    if len(chosen):
        Console().print(table_of(chosen, f"{phi.features} features: {', '.join(phi.feature_names)}"))
        print_lines("r2: on held-out episodes; unexplained: share of the reward that φ cannot express.")
    print_lines(f"Figures: {path / 'figures'}")
    print_next(f"train {environment} --phi {path}")
