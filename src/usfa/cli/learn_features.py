"""`usfa learn-features`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from usfa.cli.options import HELP, Output
from usfa.cli.parsing import parse
from usfa.cli.tables import print_table
from usfa.cli.terminal import print_lines, print_next, progress_console
from usfa.errors import InputError
from usfa.registry import import_modules
from usfa.runs import FeaturesConfig, learn_features
from usfa.runs.features import quality_table

__all__ = ["LearnFeatures", "run"]


@dataclass(frozen=True)
class LearnFeatures:
    """Settings for learning φ, and the run directory."""

    config: Annotated[FeaturesConfig, tyro.conf.arg(name="")]
    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)


def run(words: list[str]) -> None:
    if not words or words[0].startswith("-"):
        print(HELP["learn-features"])
        raise InputError("An environment is missing; expected its name, such as Acrobot-v1.")
    environment, *rest = words
    import_modules(rest)
    words = ["--environment", environment, *rest]
    command = parse(LearnFeatures, f"learn-features {environment}", words, about=HELP["learn-features"])
    path = command.output.path(f"features-{re.sub(r'[:/]', '-', environment)}")
    phi = learn_features(config=command.config, out=path, existing=command.output.existing, console=progress_console())
    table = quality_table(phi)
    chosen = table[table.chosen].drop(columns=["chosen", "features"])
    if len(chosen):
        print_table(chosen, f"{phi.features} features: {', '.join(phi.feature_names)}")
        print_lines("r2: on held-out episodes; unexplained: share of the reward that φ cannot express.")
    print_lines(f"Figures: {path / 'figures'}")
    print_next(f"train {environment} --phi {path}{' --trust' if phi.functions else ''}")
