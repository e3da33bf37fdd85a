"""The options of the commands, except those of `train` and `reproduce`, which are settings of training.

No torch here, so that help and the errors of options do not wait for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from usfa.errors import InputError
from usfa.names import PRESET_NAMES
from usfa.runs.watch_options import Watch

if TYPE_CHECKING:
    from usfa.runs.directory import OnExisting

__all__ = [
    "HELP",
    "OPTIONS",
    "CheckEnv",
    "Diagnose",
    "Evaluate",
    "Export",
    "Front",
    "Output",
    "PlanCluster",
    "Play",
    "Plot",
    "WatchCommand",
]


@dataclass(frozen=True)
class Output:
    """Options of commands that write a run directory."""

    out: Path | None = None
    """Run directory; by default runs/NAME."""
    resume: bool = False
    """Continue the run in this directory."""
    overwrite: bool = False
    """Replace the run in this directory."""

    def __post_init__(self) -> None:
        if self.resume and self.overwrite:
            raise InputError("--resume and --overwrite were both given; expected one of them at most.")

    @property
    def existing(self) -> OnExisting:
        return "resume" if self.resume else "overwrite" if self.overwrite else "refuse"

    def path(self, name: str) -> Path:
        path = self.out if self.out is not None else Path("runs") / name
        if self.resume and not path.exists():
            raise InputError(f"Run directory {path} does not exist; expected a run to resume.")
        return path


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """Options of commands that let a trained agent act."""

    run: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]
    """A run directory, an agent directory, the name of a shipped agent, or hf://OWNER/NAME."""
    seed: int | None = None
    """Training seed of the agent, if there are several; the first by default."""
    rng: int = 0
    """Random seed of the episodes: environments, exploration, sample:N."""
    trust: bool = False
    """Allow the agent's file to name modules to import, for its environment, network, sampler or agent class."""

    def __post_init__(self) -> None:
        if not 0 <= self.rng < 2**63:
            raise InputError(f"--rng is {self.rng}; expected a whole number from 0, below 2^63.")


@dataclass(frozen=True, kw_only=True)
class Evaluate(AgentOptions):
    """Score a trained agent on any tasks, without learning.

    Examples:
      usfa evaluate trip --task 0.7,0.7
      usfa evaluate room --task room-hard --candidates train task
      usfa evaluate room --task room-hard --rule cautious gpi single
      usfa evaluate runs/trip-usfa --task 1,-0.5 11 --candidates task train train+task sample:5 "1,0;0.5,0.5"
      usfa evaluate runs/trip-usfa --task trip-directions --seed 3
      usfa evaluate runs/acrobot --task 1,0 --rewards own_rewards:height
    """

    task: tuple[str, ...]
    """Tasks w': "1,-1,0,0", the paper's shorthand "1-100", or the name of a set such as trip-directions."""
    candidates: tuple[str, ...] = ()
    """Candidate sets C: task, train, train+task, sample:N, or vectors "1,0;0,1".
    By default train+task; train if only policies near M were learned, task for a UVFA."""
    rule: tuple[str, ...] = ()
    """Decision rules: cautious, steady, cautious:0.5, gpi (Eq. 3), follow; single is the best policy of C in hindsight.
    By default the agent's rule, and also single if C has several policies."""
    episodes: int = 20
    """Episodes per task, candidate set and rule, if the score is not exact."""
    epsilon: float = 0.001
    """Probability of a random action in these episodes."""
    break_loops: bool = True
    """Let agents leave loops in episodes, if another action promises more than the loop is worth."""
    rewards: tuple[str, ...] = ()
    """True reward of each task, as in usfa learn-features, if φ·w only approximates it; scores are returns in these."""
    csv: bool = False
    """Print CSV instead of a table."""


@dataclass(frozen=True, kw_only=True)
class Diagnose(AgentOptions):
    """Explain an agent's score on a task: ψ·w and return of each policy, the policies that rules trust, idle steps.

    Examples:
      usfa diagnose room --task -1100
      usfa diagnose room --task -1100 --candidates train+task --rule gpi cautious follow
      usfa diagnose runs/mine --task 1,-0.5 --episodes 30 --out runs/why
      usfa diagnose runs/mine --measure          (measure the error of ψ, if it was not measured after training)
    """

    task: str | None = None
    """The task w: "1,-1,0,0" or the paper's shorthand "1-100"."""
    candidates: str | None = None
    """Candidate set C: task, train, train+task, sample:N, or vectors; by default that of the agent."""
    rule: tuple[str, ...] = ()
    """Decision rules to compare: cautious, steady, gpi, follow; by default the agent's rule and gpi."""
    episodes: int = 10
    """Episodes for each rule, and for each policy alone."""
    epsilon: float = 0.001
    """Probability of a random action."""
    break_loops: bool = True
    """Let agents leave loops, except where a policy is followed alone."""
    out: Path | None = None
    """Directory for the tables and the figure; by default runs/diagnose-RUN-TASK."""
    overwrite: bool = False
    """Replace earlier results; with --measure, an earlier measurement."""
    measure: bool = False
    """Measure the error of ψ and save it with the agent, before any diagnosis."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.task is None and not self.measure:
            raise InputError("--task is missing; expected a task, such as 1,0, or --measure.")

    @property
    def path(self) -> Path:
        name = re.sub(r"[:/;]", "-", f"diagnose-{Path(self.run).resolve().name}-{self.task}")
        return self.out if self.out is not None else Path("runs") / name


@dataclass(frozen=True, kw_only=True)
class Front(AgentOptions):
    """Score a trained agent over many preferences: expected utility, hypervolume and other indicators, with figures.

    Every number is printed with its γ, reference point, preferences and number of episodes.

    Examples:
      usfa front trip
      usfa front trip --candidates task --preferences simplex:500 --reference 0,0 --names coffee food
      usfa front runs/deep-sea --gamma 0.99 --reference 0,-50 --episodes 1 --trust
      usfa front runs/mine --preferences lattice:12 --known "1.5,0,-1;0,1.5,-1" --out runs/mine-front
    """

    preferences: str = "simplex:100"
    """Preferences w: simplex:N, lattice:H (multiples of 1/H), corners, the name of a set, or vectors "1,0;0.5,0.5"."""
    candidates: str | None = None
    """Candidate set C: task, train, train+task, sample:N, or vectors. By default train+task; train if
    only policies near M were learned, task for a UVFA."""
    rule: str | None = None
    """Decision rule: cautious, steady, gpi (Eq. 3), follow; by default that of the agent."""
    gamma: float | None = None
    """Discount factor of the values; by default that of training."""
    reference: str | None = None
    """Reference point of the hypervolume, such as 0,-50; without it no hypervolume is computed."""
    known: str = "env"
    """Known front: env (from the environment), none, values "0.7,-1;8.2,-3", or a CSV file of values."""
    episodes: int = 5
    """Episodes per preference; 1 is enough if nothing is random."""
    epsilon: float = 0.0
    """Probability of a random action."""
    break_loops: bool = True
    """Let agents leave loops in episodes, if another action promises more than the loop is worth."""
    names: tuple[str, ...] = ()
    """Names of the objectives, as printed and in the figures; by default the environment's."""
    out: Path | None = None
    """Directory for front.csv, indicators.csv, known.csv and figures/; by default runs/front-RUN."""
    overwrite: bool = False
    """Replace earlier results."""

    @property
    def path(self) -> Path:
        return self.out if self.out is not None else Path("runs") / f"front-{Path(self.run).resolve().name}"


@dataclass(frozen=True)
class Plot:
    """Compare the learning curves of runs, with 95 % intervals over their seeds.

    Runs that differ only in their seeds are pooled.

    Examples:
      usfa plot runs/trip-usfa runs/trip-uvfa
      usfa plot runs/seed-0 runs/seed-1 runs/other --candidates train --rule gpi --out curves.png
    """

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN...")]
    """Directories of finished runs."""
    candidates: str | None = None
    """Candidate set C; by default the first that all runs were scored with."""
    rule: str | None = None
    """Decision rule; by default likewise."""
    out: Path = Path("runs/plot.png")
    """File of the figure."""
    overwrite: bool = False
    """Replace an earlier figure."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise InputError("A run is missing; expected one or more run directories.")


@dataclass(frozen=True)
class WatchCommand:
    """Record one episode of a policy as a film and a contact sheet, with task, map and collected objects.

    Examples:
      usfa watch room --agent room --task 1,1,-1,0
      usfa watch room --agent room --task 1,1,-1,0 --candidates train --rule gpi
      usfa watch room --task 1,1,-1,0 --policy oracle
      usfa watch room --task 1-100 --policy random --steps 150 --out random.mp4
      usfa watch room --task 11 --arguments types 2 layout "....../..##../..##../....../....../......"
      usfa watch room-doom --task 1,0,0,0 --policy random
    """

    environment: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENVIRONMENT")]
    """A name from `usfa list`, or any other environment with pictures."""
    request: Annotated[Watch, tyro.conf.arg(name="")]


@dataclass(frozen=True)
class Play:
    """The playground: change the task with sliders in the browser, and watch how the agent's behaviour changes.

    Examples:
      usfa play
      usfa play trip
      usfa play runs/mine --agent runs/other room-uvfa   (to compare them)
      usfa play room --environment room-doom             (the same agent in another engine)
      usfa play --host 0.0.0.0 --allow-remote            (for other machines; prints an address with a token)
    """

    first: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="AGENT")] = "room"
    """The first agent: a shipped one, a run directory or an agent directory."""
    agent: tuple[str, ...] = ()
    """More agents to choose from, besides the shipped ones."""
    environment: str | None = None
    """Environment to act in, instead of the one in training; with the same observations, actions and features."""
    host: str = "127.0.0.1"
    """Address to listen on; any other than localhost needs --allow-remote."""
    port: int = 8642
    """Port to listen on; 0 chooses a free one."""
    allow_remote: bool = False
    """Accept connections from other machines that have a token."""
    sessions: int = 16
    """Maximum number of visitors at the same time."""
    browser: bool = True
    """Open the page in the browser."""
    trust: bool = False
    """Allow agents' files to name a module to import their environment from."""


@dataclass(frozen=True)
class Export:
    """Write a trained agent to a directory of its own, for the Hugging Face hub and for ONNX Runtime.

    The directory holds config.json, weights.safetensors and a model card; with --onnx also model.onnx, one step of
    acting with the memory as inputs and outputs.

    Examples:
      usfa export room --onnx
      usfa export runs/trip-usfa --onnx --rule none --out elsewhere   (the model ends in ψ, you decide)
      usfa export runs/trip-usfa                                      (without ONNX: only the hub's layout)
    """

    run: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]
    """A run directory, an agent directory, the name of a shipped agent, or hf://OWNER/NAME."""
    onnx: bool = False
    """Also write model.onnx (extra export: pip install 'usfa[export]')."""
    rule: str | None = None
    """Decision rule inside model.onnx: cautious, steady, gpi, follow, or none; the agent's rule by default."""
    seed: int | None = None
    """Training seed of model.onnx, if there are several; the first by default."""
    out: Path | None = None
    """Directory to write; by default exports/NAME."""
    overwrite: bool = False
    """Replace the agent in this directory."""
    trust: bool = False
    """Allow the agent's file to name modules to import, for its network, sampler or agent class."""


@dataclass(frozen=True)
class CheckEnv:
    """Take random actions in an environment and report each error, with a way to fix it.

    The exit code is 0 if an agent can learn in the environment, and 1 if there are errors.

    Examples:
      usfa check-env minecart-v0
      usfa check-env own_environment:Garden
      usfa check-env fruit-tree-v0 --arguments depth 5
      usfa check-env CartPole-v1 --phi own_features:phi
    """

    environment: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENVIRONMENT")]
    """A name from `usfa list`, an id of Gymnasium or MO-Gymnasium, or your own: module:Class, or module:function."""
    arguments: Annotated[Mapping[str, bool | int | float | str], tyro.conf.arg(aliases=["--environment-arguments"])] = (
        field(default_factory=dict)
    )
    """Arguments of the environment."""
    phi: str = "reward"
    """Source of φ: reward (a vector), info (info["vector_reward"]), or module:function."""
    steps: int = 1000
    """Number of random steps."""
    seed: int = 0
    """Random seed of the environment and of the actions."""

    def __post_init__(self) -> None:
        if "phi" in self.arguments:
            raise InputError("--arguments has an entry phi; expected it as --phi.")


@dataclass(frozen=True)
class PlanCluster:
    """Measure one actor and the learner on this machine, and predict frames/s for any number of actors.

    Examples:
      usfa plan-cluster room-laptop
      usfa plan-cluster room-paper --actors 8 32 128 512 --gigabits 25 --learner-speedup 40
      usfa plan-cluster room-laptop --shared-cores 16 --actors 1 4 8 16   (one machine with 16 cores)
    """

    preset: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PRESET")]
    """Preset to train, see `usfa list`."""
    actors: tuple[int, ...] = (1, 2, 3, 4, 6, 10, 20, 50, 100, 200, 500, 1000)
    """Numbers of actors to predict for."""
    gigabits: float = 10.0
    """Network bandwidth of the learner in Gbit/s."""
    learner_speedup: float = 1.0
    """Speed of the learner relative to this machine, for example with a GPU."""
    shared_cores: int | None = None
    """Number of cores, if everything runs on one machine; by default actors have nodes of their own."""
    rounds: int = 10
    """Number of trajectories to measure."""
    out: Path | None = None
    """Directory for plan.csv and plan.png; by default runs/plan-PRESET."""

    def __post_init__(self) -> None:
        if not self.actors or min(self.actors) < 1:
            raise InputError(f"--actors is {self.actors}; expected numbers from 1.")
        if not self.learner_speedup > 0:
            raise InputError(f"--learner-speedup is {self.learner_speedup}; expected a positive number.")
        if self.rounds < 1:
            raise InputError(f"--rounds is {self.rounds}; expected at least 1.")


HELP = {
    "train": f"""Train an agent with several seeds at once, freeze snapshots, score them.

The first word is a preset (see `usfa list`), an environment, which gets default
settings for its observations, or the config.json of an earlier run; every
setting can be changed.

Examples:
  usfa train trip-usfa
  usfa train minecart-v0 --learner.gamma 0.98
  usfa train deep-sea-treasure-v0 --frames 5000
  usfa train --env own_environment:Garden --minutes 10
  usfa train --env own_environment:Garden --learner.policies ball:1
  usfa train trip-usfa --seeds 0 1 2 --learner.epsilon 0.3 --out runs/greedier
  usfa train room-laptop --frames 500000
  usfa train trip-usfa --resume
  usfa train Acrobot-v1 --phi runs/features-Acrobot-v1
      (a φ of usfa learn-features)
  usfa train room-laptop --cluster local --actors 2
  usfa train runs/trip-usfa/config.json --out runs/again
      (and --trust, if the file names a module to import)

{fill("Presets: " + ", ".join(PRESET_NAMES) + ".", 80, break_on_hyphens=False)}
`usfa train PRESET --help` shows every setting.""",
    "learn-features": """Learn φ from scalar rewards, for environments without φ; then
`usfa train ENV --phi RUN` trains with it.

The first word is an environment. Its rewards are named, or come with a file of
transitions.

Examples:
  usfa learn-features Acrobot-v1 --rewards own_rewards:height,own_rewards:effort
  usfa learn-features room --rewards tasks:room-train --steps 1000000
  usfa learn-features deep-sea-treasure-v0 --data transitions.npz --features 2
  usfa learn-features CartPole-v1 --learner laplacian --features 8
  usfa learn-features room --rewards tasks:room-train --resume

`usfa learn-features ENV --help` shows every setting.""",
    "reproduce": """usfa reproduce trip|one-state|room: an experiment of the paper, end to end, into
a run directory. `usfa reproduce trip --help` shows every setting.""",
    "list": "usfa list: presets, environments, task and candidate sets, rules and shipped\nagents. It has no options.",
}
"""Help for the commands that have no options of their own here."""

OPTIONS: dict[str, Any] = {
    "evaluate": Evaluate,
    "diagnose": Diagnose,
    "front": Front,
    "plot": Plot,
    "watch": WatchCommand,
    "play": Play,
    "export": Export,
    "check-env": CheckEnv,
    "plan-cluster": PlanCluster,
}
"""Options by command."""
