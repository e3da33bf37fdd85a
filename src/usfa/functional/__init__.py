"""Pure functions on tensors: no state, no configuration, no logging.

Letters: φ ``phi`` features of a transition, w ``w`` task, z ``z`` policy encoding, ψ ``psi`` successor features.
Axes, always in this order: T time, B batch, N policies z, A actions, D features; S states of a tabular MDP.
Clock: ``_tm1`` is the source state of a transition, ``_t`` its destination.
"""

from usfa.functional.bounds import GpiBound, dual_norm, gpi_bound
from usfa.functional.decisions import (
    Choice,
    across_error,
    choose,
    choose_cautiously,
    choose_steadily,
    stake,
    temper,
)
from usfa.functional.exact import (
    TabularMDP,
    effective_horizon,
    gpi_policy,
    optimal_policy,
    optimal_return,
    optimal_values,
    policy_features,
    policy_return,
    policy_values,
    successor_features,
)
from usfa.functional.fronts import (
    best_utility,
    convex_coverage,
    expected_utility,
    hypervolume,
    nondominated,
    pareto_front,
    sparsity,
    utility_loss,
)
from usfa.functional.returns import lambda_return, watkins_lambda
from usfa.functional.successor import (
    Gpi,
    gpi,
    greedy_actions,
    mask_illegal,
    policy_actions,
    q_values,
    take_actions,
)
from usfa.functional.task_inference import LARGE_SHARE, InferredTask, infer_task, unexplained_share

__all__ = [
    "LARGE_SHARE",
    "Choice",
    "Gpi",
    "GpiBound",
    "InferredTask",
    "TabularMDP",
    "across_error",
    "best_utility",
    "choose",
    "choose_cautiously",
    "choose_steadily",
    "convex_coverage",
    "dual_norm",
    "effective_horizon",
    "expected_utility",
    "gpi",
    "gpi_bound",
    "gpi_policy",
    "greedy_actions",
    "hypervolume",
    "infer_task",
    "lambda_return",
    "mask_illegal",
    "nondominated",
    "optimal_policy",
    "optimal_return",
    "optimal_values",
    "pareto_front",
    "policy_actions",
    "policy_features",
    "policy_return",
    "policy_values",
    "q_values",
    "sparsity",
    "stake",
    "successor_features",
    "take_actions",
    "temper",
    "unexplained_share",
    "utility_loss",
    "watkins_lambda",
]
