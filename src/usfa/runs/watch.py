"""Record one episode as a film and a contact sheet, with the task and the collected objects."""

from __future__ import annotations

import importlib.util
import io
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console

from usfa.agents import Policy, TrainedAgent
from usfa.decisions import rule_name
from usfa.environments import LEARNED, Environment, feature_count, feature_names, make
from usfa.environments.batch import failing_in
from usfa.environments.room import OBJECTS, RoomRules
from usfa.environments.room.rules import split_arguments, wall_cells
from usfa.errors import InputError
from usfa.figures.films import MapOfRoom, Pixels, compose, contact_sheet
from usfa.files import require_free, write_atomically
from usfa.progress import progress_bar
from usfa.runs.loading import load
from usfa.runs.watch_options import Watch
from usfa.tasks import format_task, parse_task

__all__ = ["Watch", "watch"]

STATE_POLICIES = ("oracle", "greedy")


def watch(environment: str, request: Watch, console: Console | None = None) -> tuple[Path, Path]:
    """Record one episode; return the paths of the film and of the contact sheet."""
    film = request.path(environment)
    if film.suffix == ".mp4" and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise InputError("A film in .mp4 needs imageio-ffmpeg; install it with pip install 'usfa[video]', or use .gif.")
    sheet = film.with_suffix(".png")
    _check_writable(film, sheet, request.overwrite)
    writer = _Mp4() if film.suffix == ".mp4" else _Gif()
    shown: list[Pixels] = []
    every = max(1, request.steps // 12)
    with progress_bar(f"{request.actor} in {environment}", request.steps, "frames", console) as bar:
        for number, frame in enumerate(_frames(environment, request)):
            writer.add(frame)
            if number % every == 0 and len(shown) < 12:
                shown.append(frame)
            bar.update(number + 1)
    write_atomically(film, writer.content())
    write_atomically(sheet, _encoded(Image.fromarray(contact_sheet(shown, columns=3)), "PNG", optimize=True))
    return film, sheet


def _check_writable(film: Path, sheet: Path, overwrite: bool) -> None:
    """Check before the episode that film and contact sheet can be written."""
    for path in (film, sheet):
        if path.is_dir():
            raise InputError(f"{path} is a directory; expected the name of a film.")
        require_free(path, overwrite)
    for folder in film.parents:
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file; expected a directory for the film.")


def _frames(environment: str, request: Watch) -> Iterator[Pixels]:
    scene, w = _scene(environment, request)
    collected = np.zeros(len(w))
    task = "task  " + "   ".join(f"{name} {weight:+g}" for name, weight in zip(scene.names, w, strict=True))
    for number in range(request.steps):
        collected += scene.step()
        view, plan = scene.look(request.size)
        counts = "   ".join(f"{name} {count:g}" for name, count in zip(scene.names, collected, strict=True))
        status = f"{request.actor}   {number + 1} steps   return {collected @ w:.1f}"
        if scene.policy is not None:
            status += f"   {_decided(scene.policy)}"
        yield compose(view, plan, [task, status, f"collected  {counts}"], request.size)
        if scene.over:
            return


def _decided(policy: Policy) -> str:
    """The rule, and the policy that it follows or improves on."""
    assert policy.decision is not None
    trusted = format_task(policy.z[int(policy.decision.policy)].round(2))
    return f"{rule_name(policy.rule)}   {'improves on' if policy.decision.improved else 'follows'} {trusted}"


def _scene(environment: str, request: Watch) -> tuple[_Scene, NDArray[np.float64]]:
    given = {
        name: value.replace("/", "\n") if name == "layout" and isinstance(value, str) else value
        for name, value in request.arguments.items()
    }
    agent = None if request.agent is None else load(request.agent, trust=request.trust)
    # Arguments of the request override those of the agent's training.
    arguments = {**(agent.file.environment_arguments if agent is not None else {}), **given}
    if environment == "room":
        rules, camera = split_arguments(arguments, "--arguments")
        w, policy = _task_and_policy(agent, request, environment, rules.types)
        return _RoomScene(request, rules, camera, w, policy), w
    if agent is None and request.policy in STATE_POLICIES:
        raise InputError(f"The {request.policy} works only in the environment 'room'; given was {environment!r}.")
    env = _with_pictures(environment, _phi_of(agent, request), arguments)
    w, policy = _task_and_policy(agent, request, environment, feature_count(env))
    return _EnvironmentScene(env, request, w, policy), w


def _task_and_policy(
    agent: TrainedAgent | None, request: Watch, environment: str, features: int
) -> tuple[NDArray[np.float64], Policy | None]:
    if agent is None:
        return parse_task(request.task, features), None
    if agent.file.spec.features != features:
        raise InputError(
            f"The agent {request.agent!r} is for {agent.file.environment!r} with {agent.file.spec.features} features; "
            f"{environment!r} has {features}."
        )
    w = parse_task(request.task, features)
    return w, agent.policy(w, request.candidates, request.rule, seed=request.seed)


def _with_pictures(environment: str, phi: str, arguments: Mapping[str, Any]) -> Environment:
    try:
        return make(environment, phi, render_mode="rgb_array", **arguments)
    except InputError as error:
        if "unexpected keyword argument 'render_mode'" not in str(error):
            raise
        wanted = "expected one that renders rgb_array, such as room"
        raise InputError(f"The environment {environment!r} has no pictures to film; {wanted}.") from error


def _phi_of(agent: TrainedAgent | None, request: Watch) -> str:
    """The source of φ in the request, else that of the agent's training."""
    if request.phi is not None or agent is None:
        return request.phi or "reward"
    own = ":" in agent.file.phi and not agent.file.phi.startswith(LEARNED)
    if own:  # never import a function that an untrusted file names
        raise InputError(f"The agent's φ is the function {agent.file.phi!r}; pass it as --phi if you trust it.")
    return agent.file.phi


class _RoomScene:
    """An episode in the room, with a map. The oracle has access to the true state."""

    over = False

    def __init__(
        self, request: Watch, rules: RoomRules, camera: dict[str, Any], w: NDArray[np.float64], policy: Policy | None
    ) -> None:
        # Imported here because they load the compiler, which no other command needs.
        from usfa.environments.room.env import RoomBatch
        from usfa.environments.room.oracle import Greedy, Oracle, StatePolicy, random_policy

        self.policy = policy
        self._walls = wall_cells(rules)
        self._batch = RoomBatch(1, rules, seeds=[request.seed], **camera)
        self.names = tuple(kind.name for kind in OBJECTS[: rules.types])
        self._colours = [OBJECTS[kind].colour for kind in np.repeat(np.arange(rules.types), rules.objects_per_type)]
        self._path = [self._batch.world.pose[0, :2].copy()]
        policies: dict[str, Callable[[], StatePolicy]] = {
            "oracle": lambda: Oracle(rules),
            "greedy": lambda: Greedy(rules),
            "random": lambda: random_policy(request.seed),
        }
        self._act: Callable[[], NDArray[np.int64]]
        if policy is None:
            chosen = policies[request.policy]()
            self._act = lambda: chosen.act(self._batch.world, w)
        else:
            self._act = lambda: np.array([policy(self._batch.observation[0])])

    def step(self) -> NDArray[np.float64]:
        step = self._batch.step(self._act())
        self.over = bool(step.ended[0])
        self._path.append(self._batch.world.pose[0, :2].copy())
        return step.phi[0].astype(np.float64)

    def look(self, size: int) -> tuple[Pixels, MapOfRoom | None]:
        world, alive = self._batch.world, self._batch.world.alive[0]
        x, y, heading = world.pose[0]
        plan = MapOfRoom(
            side=self._batch.rules.side,
            walls=self._walls,
            objects=world.objects[0][alive],
            colours=[colour for colour, here in zip(self._colours, alive, strict=True) if here],
            path=np.array(self._path[-150:]),
            pose=(float(x), float(y), float(heading)),
        )
        return self._batch.render(size)[0], plan


class _EnvironmentScene:
    """An episode in any environment that renders, for agents and the random policy."""

    over = False

    def __init__(self, env: gym.Env[Any, Any], request: Watch, w: NDArray[np.float64], policy: Policy | None) -> None:
        self._env = env
        self.names = feature_names(env)
        self._rng = np.random.default_rng(request.seed)
        self.policy = policy
        with failing_in("reset", env):
            self._observation, self._info = env.reset(seed=request.seed)
        self._phi: NDArray[np.float64] | None = None  # of the last step

    def step(self) -> NDArray[np.float64]:
        legal = self._info.get("action_mask")
        if self.policy is None:
            assert isinstance(self._env.action_space, gym.spaces.Discrete)
            actions = np.arange(self._env.action_space.n) if legal is None else np.flatnonzero(legal)
            action = int(self._rng.choice(actions))
        else:
            action = self.policy(self._observation, legal, self._phi)
        with failing_in("step", self._env):
            self._observation, phi, terminated, truncated, self._info = self._env.step(action)
        self.over = terminated or truncated
        self._phi = np.array(phi, np.float64)
        return self._phi

    def look(self, size: int) -> tuple[Pixels, MapOfRoom | None]:
        picture: Any = self._env.render()
        if not isinstance(picture, np.ndarray):
            raise InputError(f"The environment {self._env} does not render pictures; expected render_mode 'rgb_array'.")
        return picture, None


_Scene = _RoomScene | _EnvironmentScene


def _encoded(image: Image.Image, encoding: str, **options: Any) -> bytes:
    content = io.BytesIO()
    image.save(content, encoding, **options)
    return content.getvalue()


class _Gif:
    """A film with every second frame, at 7.5 per second and in 128 colours, because GIF files are large."""

    def __init__(self) -> None:
        self._pictures: list[Image.Image] = []
        self._seen = 0

    def add(self, frame: Pixels) -> None:
        if self._seen % 2 == 0:
            self._pictures.append(Image.fromarray(frame).quantize(128))
        self._seen += 1

    def content(self) -> bytes:
        first, *others = self._pictures
        return _encoded(first, "GIF", save_all=True, append_images=others, duration=133, loop=0)


class _Mp4:
    """A film with all frames, at 15 per second."""

    def __init__(self) -> None:
        import imageio.v2 as imageio

        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / "film.mp4"
        self._writer: Any = imageio.get_writer(self._path, fps=15, macro_block_size=2)

    def add(self, frame: Pixels) -> None:
        self._writer.append_data(frame[: frame.shape[0] // 2 * 2, : frame.shape[1] // 2 * 2])

    def content(self) -> bytes:
        self._writer.close()
        content = self._path.read_bytes()
        self._folder.cleanup()
        return content
