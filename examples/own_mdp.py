"""Your own finite MDP: solve it exactly, look at GPI and at both terms of the bound of Proposition 1."""

import torch

from usfa.functional import (
    TabularMDP,
    gpi_bound,
    gpi_policy,
    optimal_policy,
    optimal_return,
    policy_return,
    successor_features,
)


def random_mdp(states: int, actions: int, features: int, gamma: float, seed: int) -> TabularMDP:
    generator = torch.Generator().manual_seed(seed)
    transition = torch.rand(states, actions, states, generator=generator, dtype=torch.float64)
    return TabularMDP(
        transition=transition / transition.sum(-1, keepdim=True),
        phi=torch.rand(states, actions, states, features, generator=generator, dtype=torch.float64),
        discount=torch.full((states, actions, states), gamma, dtype=torch.float64),
        legal=torch.ones(states, actions, dtype=torch.bool),
        start=torch.full((states,), 1 / states, dtype=torch.float64),
    )


def main() -> None:
    mdp = random_mdp(states=20, actions=4, features=3, gamma=0.9, seed=0)
    training = torch.eye(3, dtype=torch.float64)  # M: one feature each
    psi = successor_features(mdp, optimal_policy(mdp, training))  # [N, S, A, D]
    for task in ([1.0, 1.0, 0.0], [0.5, -1.0, 0.5], [-1.0, -1.0, -1.0]):
        w = torch.tensor(task, dtype=torch.float64)
        score = policy_return(mdp, gpi_policy(mdp, psi, w), w)
        bound = gpi_bound(mdp, w, training, psi, psi)
        print(
            f"task {task}: GPI over M {score:.3f}, optimal {optimal_return(mdp, w):.3f}, "
            f"bound {bound.distance_term:.2f} (distance) + {bound.approximation_term:.2f} (approximation)"
        )


if __name__ == "__main__":
    main()
