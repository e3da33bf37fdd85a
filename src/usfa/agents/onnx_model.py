"""Export trained agents to ONNX: one step of acting, with or without a decision rule; memory is an input and output.

ONNX Runtime then acts without PyTorch and without this package, see docs/export.md.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from usfa.agents.trained import TrainedAgent
from usfa.decisions import RULES, BuiltIn, CandidateSet, Rule, Situation, Steady, parse_rule, rule_name
from usfa.errors import InputError
from usfa.functional import Choice, choose, choose_cautiously, choose_steadily
from usfa.trajectory import CoreState, Present
from usfa.version import __version__

__all__ = ["NO_RULE", "onnx_model"]

NO_RULE = "none"
"""Instead of a rule: the model ends in ψ, and the caller decides."""

_INPUTS = ("observation", "previous_action", "first", "legal", "w", "z", "optimism")
_EXAMPLE_BATCH, _EXAMPLE_POLICIES = 2, 3  # sizes 0 and 1 would be exported as constants


def onnx_model(agent: TrainedAgent, rule: str | Rule | None = None) -> bytes:
    """One step of acting as an ONNX model, for any batch size B and any number N of policies.

    Args:
        agent: an agent with a network.
        rule: "cautious", "steady:0.5", "gpi" or "follow" inside the model; "none" leaves the decision to the caller;
            by default the agent's rule.
    """
    _require("onnx", "onnxscript")
    step = _Step(agent, _rule(agent, rule))
    *own, memory = step.example()
    names = [*_INPUTS, *(f"memory_{index}" for index in range(len(memory)))]
    sizes = {name: {0: "batch", 1: "policies"} if name in {"z", "optimism"} else {0: "batch"} for name in names}
    with _quietly(), torch.no_grad():
        try:
            axes = _axes(sizes)
            axes_of_memory = tuple(axes[len(own) :])
            shapes = (*axes[: len(own)], axes_of_memory)
            program = torch.export.export(step, (*own, memory), dynamic_shapes=shapes, strict=False)
        except Exception as error:  # raised by the network, the agent or torch's tracer
            name = type(agent.network).__name__
            raise InputError(
                f"The network {name} cannot be exported: {_first_line(error)}; expected operations on tensors of "
                "any batch size (x.shape[0], not len(x)) whose values do not decide which code runs."
            ) from error
        exported = torch.onnx.export(program, input_names=names, output_names=step.outputs, dynamo=True, verbose=False)
    assert exported is not None
    return _finished(exported.model, sizes, step.about())


class _Step(nn.Module):
    """Encoded observations, memory, task and policies -> decision, ψ and memory."""

    def __init__(self, agent: TrainedAgent, rule: BuiltIn | None) -> None:
        super().__init__()
        self.agent = agent
        self.network = agent.network
        self.rule = rule
        self.memory = len(agent.actor.initial_state(1))
        self.trained = agent.candidates(agent.training_tasks[0], agent.actor.only_candidates or "train", _unused())

    @property
    def outputs(self) -> list[str]:
        decision = list(Choice._fields) if self.rule is not None else []
        values = ["psi"] if self.agent.actor.has_psi else [] if decision else ["q"]
        return [*decision, *values, *(f"next_memory_{index}" for index in range(self.memory))]

    def example(self) -> tuple[Any, ...]:
        """Example inputs in the order of :meth:`forward`; unused ones are removed from the model afterwards."""
        spec, batch, policies = self.agent.file.spec, _EXAMPLE_BATCH, _EXAMPLE_POLICIES
        image = len(spec.observation.shape) == 3
        return (
            torch.zeros(batch, *spec.observation.shape, dtype=torch.uint8 if image else torch.float32),
            torch.zeros(batch, dtype=torch.int64),
            torch.zeros(batch, dtype=torch.bool),
            torch.ones(batch, spec.actions, dtype=torch.bool),
            torch.ones(batch, spec.features),
            torch.ones(batch, policies, spec.features),
            torch.zeros(batch, policies),
            self.agent.actor.initial_state(batch),
        )

    def forward(
        self,
        observation: Tensor,
        previous_action: Tensor,
        first: Tensor,
        legal: Tensor,
        w: Tensor,
        z: Tensor,
        optimism: Tensor,
        memory: CoreState,
    ) -> tuple[Tensor, ...]:
        spec = self.agent.file.spec
        if not spec.masked:  # `legal` is then unused, and not an input of the model
            legal = torch.ones(observation.shape[0], spec.actions, dtype=torch.bool)
        present = Present(observation, previous_action, legal, first, tuple(memory))
        step_error, horizon, gap_scale = (
            torch.as_tensor(known, dtype=torch.float32).expand(observation.shape[0], *known.shape)
            for known in (self.trained.step_error, self.trained.horizon, self.trained.gap_scale)
        )
        candidates = CandidateSet(z, step_error, optimism, horizon, gap_scale)
        situation, core_state = self.agent.actor.situation(self.network, present, w, candidates)
        decision = self._decision(situation)
        values = (situation.psi,) if self.agent.actor.has_psi else () if decision else (situation.psi[:, 0, :, 0],)
        return *decision, *values, *core_state

    def _decision(self, situation: Situation) -> tuple[Tensor, ...]:
        if self.rule is None:
            return ()
        if isinstance(self.rule, Steady):
            return choose_steadily(*situation[:-1], self.rule.caution)
        if self.rule.caution == 0:
            return choose(*situation[:4])
        return choose_cautiously(*situation[:6], self.rule.caution, self.rule.improves)

    def about(self) -> dict[str, Any]:
        """Metadata for programs that run the model: training tasks, rule, candidate set and memory."""
        agent, file = self.agent, self.agent.file
        about: dict[str, Any] = {
            "version": __version__,
            "kind": file.kind,
            "environment": file.environment,
            "seed": agent.seed,
            "gamma": file.gamma,
            "rule": NO_RULE if self.rule is None else rule_name(self.rule),
            "training_tasks": agent.training_tasks.tolist(),
            "memory": {f"memory_{i}": list(x.shape[1:]) for i, x in enumerate(agent.actor.initial_state(1))},
        }
        if agent.actor.has_psi:
            known = {name: np.asarray(values).tolist() for name, values in self.trained._asdict().items()}
            about["candidates"] = {name: known[name] for name in ("z", "optimism")}
            about |= {name: known[name] for name in ("step_error", "horizon", "gap_scale")}  # for external rules
        return about


def _unused() -> np.random.Generator:
    """A generator for candidate sets that draw nothing."""
    return np.random.default_rng(0)


def _rule(agent: TrainedAgent, rule: str | Rule | None) -> BuiltIn | None:
    if not agent.actor.trains:
        raise InputError(f"A {agent.file.kind} agent has no network to export; expected a trained agent.")
    if isinstance(rule, str) and rule == NO_RULE:
        return None
    found = parse_rule(agent.default_rule if rule is None else rule)
    if not isinstance(found, BuiltIn):
        raise InputError(
            f"The rule is {rule_name(found)!r}; expected {', '.join(RULES)} inside the model, or {NO_RULE!r} to apply "
            "your own to its psi."
        )
    return found


def _require(*modules: str) -> None:
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise InputError(f"The export to ONNX needs {module}; install it with pip install 'usfa[export]'.")


def _axes(sizes: dict[str, dict[int, str]]) -> list[dict[int, Any]]:
    """The axes of variable size of each input, in the format of `torch.export`."""
    known = {name: torch.export.Dim(name) for name in ("batch", "policies")}
    return [{axis: known[size] for axis, size in axes.items()} for axes in sizes.values()]


def _first_line(error: Exception) -> str:
    """The first line of an error; torch's messages have dozens of lines, and the first says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence the exporter's messages about missing packages and about its own deprecated calls."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _finished(model: Any, sizes: dict[str, dict[int, str]], about: dict[str, Any]) -> bytes:
    """Remove unused inputs, name the axes of variable size, and describe the model in its metadata."""
    import onnx_ir

    graph = model.graph
    first, *others = graph.inputs
    for value in others:  # torch reads the batch size from an arbitrary input
        for node, index in [*value.uses()]:
            if node.op_type == "Shape" and _range(node) == (0, 1):
                node.replace_input_with(index, first)
    for value in [value for value in graph.inputs if not value.uses()]:
        graph.inputs.remove(value)
    names = {str(value.shape[axis]): size for value in graph.inputs for axis, size in sizes[value.name].items()}
    for value in (*graph.inputs, *graph.outputs):
        value.shape = onnx_ir.Shape([names.get(str(size), size) for size in value.shape])
    model.metadata_props["usfa"] = json.dumps(about)
    model.doc_string = f"{about['kind']} agent for {about['environment']}, made by usfa {__version__}"
    return onnx_ir.to_proto(model).SerializeToString()


def _range(node: Any) -> tuple[int, ...]:
    """The range of axes that a Shape node returns."""
    return tuple(node.attributes[name].as_int() if name in node.attributes else -1 for name in ("start", "end"))
