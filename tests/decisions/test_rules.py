import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from usfa.decisions import (
    DEFAULT_RULE,
    GAP_RULE,
    PAPER_RULE,
    RULES,
    CandidateSet,
    Cautious,
    Decision,
    Follow,
    Gpi,
    Rule,
    Situation,
    Steady,
    parse_rule,
    rule_name,
)
from usfa.decisions import decided as checked
from usfa.errors import InputError
from usfa.functional import choose, choose_cautiously, choose_steadily, gpi

B, N, A, D = 40, 3, 4, 3


class FixedMargin:
    """The example of docs/decision-rules.md."""

    name = "fixed margin"

    def decide(self, situation):
        psi, w, z, legal, *_ = situation
        return Decision(*choose(psi, w, z, legal, margin=0.05))


class Unnamed:
    def decide(self, situation):
        raise NotImplementedError


# --- names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("gpi", Gpi()),
        ("follow", Follow()),
        ("cautious", Cautious()),
        ("cautious:1", Cautious()),
        ("cautious:0.5", Cautious(0.5)),
        ("cautious:0", Cautious(0)),
        ("steady", Steady()),
        ("steady:2", Steady(2.0)),
    ],
)
def test_rules_are_read(text, rule):
    assert parse_rule(text) == rule


@pytest.mark.parametrize("name", RULES)
def test_every_listed_rule_is_read_and_keeps_its_name(name):
    assert isinstance(parse_rule(name), Rule)
    assert rule_name(name) == rule_name(parse_rule(name)) == name


def test_defaults_are_listed():
    assert {DEFAULT_RULE, GAP_RULE, PAPER_RULE} <= RULES.keys()


@dataclass(frozen=True)
class Margin(FixedMargin):
    margin: float = 0.1


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        (f"{__name__}:FixedMargin", FixedMargin, "fixed margin"),
        (f"{__name__}:Unnamed", Unnamed, "Unnamed"),
        (f'{__name__}:Margin{{"margin": 0.5}}', Margin, "fixed margin"),
    ],
)
def test_own_rules_are_read(text, kind, name):
    rule = parse_rule(text)
    assert type(rule) is kind
    assert rule_name(text) == name
    if kind is Margin:
        assert rule == Margin(0.5)


@pytest.mark.parametrize("rule", [FixedMargin(), Unnamed(), Cautious(3.0)])
def test_objects_with_decide_stay(rule):
    assert parse_rule(rule) is rule


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("gppi", r"Unknown rule 'gppi': did you mean 'gpi'\?"),
        ("cautios", r"Unknown rule 'cautios': did you mean 'cautious'\?"),
        ("x", r"Unknown rule 'x': known are cautious, follow, gpi, steady\."),
        ("", r"Unknown rule '': known are"),
        ("gpi:3", r"The rule is 'gpi:3'; expected 'gpi', which has no setting\."),
        ("follow:", r"The rule is 'follow:'; expected 'follow', which has no setting\."),
        ("cautious:abc", r"The rule is 'cautious:abc'; expected a number from 0 after the colon, such as 0\.5\."),
        ("cautious:nan", r"The rule is 'cautious:nan'; expected a number from 0"),
        ("cautious:inf", r"The rule is 'cautious:inf'; expected a number from 0"),
        ("cautious:-1", r"The rule is 'cautious:-1'; expected a number from 0"),
        ("cautious:", r"The rule is 'cautious:'; expected a number from 0"),
        ("steady:-1", r"The rule is 'steady:-1'; expected a number from 0"),
        ("single", r"The rule is 'single', which is only for evaluations, in hindsight; expected another rule\."),
        ("this:Own", r"The rule 'this:Own' is in the module 'this', which is not imported; im"),
        (f"{__name__}:B", r"The rule '.*:B' is 40; expected a class with a method decide\."),
        ("subprocess:Popen", r"The rule 'subprocess:Popen' is <class .*>; expected a class with a method decide\."),
        (f'{__name__}:Margin{{"m": 1}}', r"The rule '.*' cannot be made: TypeError: .*unexpected keyword argument 'm'"),
        (3, r"The rule is 3; expected a name \(cautious, steady, gpi, follow\) or an object with decide\(\)\."),
        (None, r"The rule is None; expected a name"),
        (Gpi, r"The rule is <class '.*Gpi'>; expected a name"),  # not an object yet
    ],
)
def test_bad_rules_are_refused(text, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        parse_rule(text)


@pytest.mark.parametrize("kind", [Cautious, Steady])
@pytest.mark.parametrize("caution", [-0.1, math.nan, math.inf])
def test_caution_is_a_number_from_0(kind, caution):
    with pytest.raises(InputError, match=rf"^The caution is {caution}; expected a number from 0"):
        kind(caution)


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("single", "single"),
        ("cautious:1.0", "cautious"),
        ("cautious:0.50", "cautious:0.5"),
        (Cautious(2.0), "cautious:2"),
        (FixedMargin(), "fixed margin"),
        (Unnamed(), "Unnamed"),
    ],
)
def test_tables_call_rules_by_name(rule, name):
    assert rule_name(rule) == name


def test_unknown_rules_have_no_name():
    with pytest.raises(InputError, match=r"^Unknown rule 'folow': did you mean 'follow'"):
        rule_name("folow")


# --- decisions, against the formulas in plain loops ---------------------------------------------------------


def random_situation(seed=0, optimism=0.3):
    """B states, a part of them with a task that no policy in C serves; float64, so that rounding decides nothing."""
    rng = np.random.default_rng(seed)
    psi, w = rng.exponential(size=(B, N, A, D)), rng.standard_normal((B, D))
    z = rng.standard_normal((B, N, D))
    against = np.sign(np.einsum("bnd,bd->bn", z, w))[: B // 4, :, None]
    z[: B // 4] *= -against
    legal = rng.random((B, A)) < 0.7
    legal[:, 1] = True
    errors = 0.2 * rng.random((B, D)), optimism * rng.random((B, N)), 30 * rng.random(B), 0.1 + 0.9 * rng.random(B)
    return Situation(*map(torch.from_numpy, (psi, w, z, legal, *errors)))


def literal_cautious(situation, b, caution, margins=True):
    """Action, policy and improved in state b, from the formulas of docs/decision-rules.md."""
    psi, w, z, legal, step_error, optimism = (x[b].numpy() for x in situation[:6])
    actions = np.flatnonzero(legal)
    own = [max(actions, key=lambda a, n=n: psi[n, a] @ z[n]) for n in range(N)]
    doubt, margin = np.zeros(N), np.zeros(N)
    for n in range(N):
        c = (w @ z[n]) / (z[n] @ z[n])
        for i in range(D):
            size = abs(psi[n, own[n], i])
            doubt[n] += caution * optimism[n] * size * abs(w[i])
            margin[n] += 2 * caution * step_error[i] * size * abs(w[i] - c * z[n, i])
    if not any(z[n] @ w > 0 for n in range(N)):
        margin[:] = 0
    if not margins:
        margin[:] = np.inf
    worth = [psi[n, own[n]] @ w - doubt[n] for n in range(N)]
    promise = {(a, n): psi[n, a] @ w - doubt[n] - margin[n] for a in actions for n in range(N)}
    action, policy = max(promise, key=promise.get)
    if promise[action, policy] < max(worth):
        policy = int(np.argmax(worth))
        action = own[policy]
    return action, policy, action != own[policy]


def literal_steady(situation, b, caution):
    """As :func:`literal_cautious`, with the formulas of `steady`."""
    psi, w, z, legal, step_error, optimism, horizon, gap_scale = (x[b].numpy() for x in situation[:8])
    actions = np.flatnonzero(legal)
    own = [max(actions, key=lambda a, n=n: psi[n, a] @ z[n]) for n in range(N)]
    served = any(z[n] @ w > 0 for n in range(N))

    def value(a, n):
        at_own = psi[n, own[n]]
        gain = psi[n, a] - at_own
        if served:
            along = (gain @ z[n]) / (z[n] @ z[n]) * z[n]
            trust = 1 / (1 + caution * max(step_error) * horizon) if z[n] @ w > 0 else 1
            gain = gap_scale * (along + trust * (gain - along))
        return (at_own + gain) @ w - caution * optimism[n] * np.abs(at_own * w).sum()

    promise = {(a, n): value(a, n) for a in actions for n in range(N)}
    action, policy = max(promise, key=promise.get)
    return action, policy, action != own[policy]


def decided(decision, b):
    return decision.action[b].item(), decision.policy[b].item(), decision.improved[b].item()


@pytest.mark.parametrize(("kind", "literal"), [(Cautious, literal_cautious), (Steady, literal_steady)])
@pytest.mark.parametrize("caution", [0.0, 0.5, 1.0, 4.0])
def test_rules_are_their_literal_formulas(kind, literal, caution):
    for seed in range(5):
        situation = random_situation(seed)
        decision = kind(caution).decide(situation)
        for b in range(B):
            assert decided(decision, b) == literal(situation, b, caution)


def test_follow_is_the_literal_formula():
    situation = random_situation()
    decision = Follow().decide(situation)
    for b in range(B):
        assert decided(decision, b) == literal_cautious(situation, b, caution=1.0, margins=False)
    assert not decision.improved.any()


def test_gpi_is_the_literal_formula():
    situation = random_situation()
    decision = Gpi().decide(situation)
    for b in range(B):
        assert decided(decision, b) == literal_cautious(situation, b, caution=0.0)
    assert decision.improved.any()
    assert not decision.improved.all()


def test_gpi_has_the_ties_of_eq_3():
    """Small integers: sums are exact, and ties are everywhere."""
    rng = np.random.default_rng(0)
    psi, w, z = rng.integers(-2, 3, (400, N, A, D)), rng.integers(-2, 3, (400, D)), rng.integers(-2, 3, (400, N, D))
    legal = torch.from_numpy(rng.random((400, A)) < 0.7)
    psi, w, z = (torch.from_numpy(x).float() for x in (psi, w, z))
    found = Gpi().decide(Situation(psi, w, z, legal, *CandidateSet.believed(z)[1:]))
    some = legal.any(dim=1)
    expected, by_choose = gpi(psi, w, legal), choose(psi, w, z, legal)
    for one, other, another in zip(found[:2], expected[:2], by_choose[:2], strict=True):
        assert torch.equal(one[some], other[some])
        assert torch.equal(one[some], another[some])
    assert torch.equal(found.improved[some], by_choose.improved[some])
    assert torch.equal(found.q, expected.q_max)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("caution", "improves"), [(0.0, True), (1.0, True), (1.0, False)])
def test_the_compiled_decision_is_the_one_of_the_formulas(dtype, caution, improves):
    situation = situation_of(dtype)
    expected = choose_cautiously(*situation[:6], caution, improves)
    rule = Cautious(caution) if improves else Follow()
    found = rule.decide(situation)
    assert_same(found[:3], expected[:3])
    torch.testing.assert_close(found.q, expected.q)


def situation_of(dtype):
    return Situation(*(x if x.dtype == torch.bool else x.to(dtype) for x in random_situation()[:8]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("caution", [0.3, 1.0, 1e9])
def test_the_compiled_steady_decision_is_the_one_of_the_formulas(dtype, caution):
    situation = situation_of(dtype)
    expected, found = choose_steadily(*situation[:8], caution), Steady(caution).decide(situation)
    assert_same(found[:3], expected[:3])
    torch.testing.assert_close(found.q, expected.q)


def test_values_that_are_not_numbers_still_give_a_legal_action():
    situation = random_situation()
    nothing = situation._replace(psi=situation.psi * math.nan)
    for rule in (Gpi(), Follow(), Cautious(), Steady()):
        assert situation.legal.take_along_dim(rule.decide(nothing).action[:, None], dim=1).all()


@pytest.mark.parametrize("rule", [Gpi(), Follow(), Cautious()], ids=rule_name)
def test_shown_values_are_the_best_of_c_and_illegal_actions_are_never_taken(rule):
    situation = random_situation(optimism=0.0)
    decision = rule.decide(situation)
    q = torch.einsum("bnad,bd->bna", situation.psi, situation.w).amax(dim=1)
    torch.testing.assert_close(decision.q, q.masked_fill(~situation.legal, -torch.inf))
    assert situation.legal.take_along_dim(decision.action[:, None], dim=1).all()
    assert decision.action.dtype == decision.policy.dtype == torch.int64
    assert decision.state == ()


def test_doubts_are_subtracted_from_the_shown_values():
    situation = random_situation()
    doubtless = Cautious(0.0).decide(situation).q
    assert (Cautious().decide(situation).q < doubtless)[situation.legal].all()


def assert_same(found, expected, rows=slice(None)):
    for one, other in zip(found[:4], expected[:4], strict=True):
        assert torch.equal(one[rows], other[rows])


def test_no_caution_and_an_exact_psi_are_eq_3():
    situation = random_situation()
    assert_same(Cautious(0.0).decide(situation), Gpi().decide(situation))
    exact = Situation(*situation[:4], *CandidateSet.believed(situation.z)[1:])
    for rule in (Cautious(3.0), Steady(3.0)):
        assert_same(rule.decide(exact), Gpi().decide(exact))


def test_tasks_that_no_policy_serves_are_eq_3_with_doubts():
    situation = random_situation()
    serves = (torch.einsum("bnd,bd->bn", situation.z, situation.w) > 0).any(dim=1)
    assert serves.sum().item() not in (0, B)
    cautious = Cautious().decide(situation)
    assert_same(cautious, Cautious().decide(situation._replace(step_error=0 * situation.step_error)), ~serves)
    believed = situation._replace(optimism=0 * situation.optimism)
    assert_same(Cautious(1e6).decide(believed), Gpi().decide(believed), ~serves)
    assert not torch.equal(Cautious(1e6).decide(believed).action[serves], Gpi().decide(believed).action[serves])


def test_growing_caution_improves_less_and_ends_in_following():
    situation = random_situation(optimism=0.0)
    serves = (torch.einsum("bnd,bd->bn", situation.z, situation.w) > 0).any(dim=1)
    improved = [Cautious(caution).decide(situation).improved[serves] for caution in (0, 0.5, 1, 2, 4, 1e6)]
    counts = [int(steps.sum()) for steps in improved]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[2] > counts[-1] == 0
    assert_same(Cautious(1e6).decide(situation), Follow().decide(situation), serves)


def test_a_gain_across_z_must_be_worth_a_multiple_of_its_cost():
    """One policy for the first feature: the second action costs 1 of it, and gains `gain` of the second feature."""
    w, z, legal = torch.ones(1, 2), torch.tensor([[[1.0, 0.0]]]), torch.ones(1, 2, dtype=torch.bool)
    errors = torch.tensor([[0.1, 0.2]]), torch.zeros(1, 1), torch.tensor([10.0]), torch.tensor([0.3])
    found = {}
    for gain in (0.9, 1.1, 2.9, 3.1):  # ρH is 2: thrice the cost
        psi = torch.tensor([[[[5.0, 1.0], [4.0, 1.0 + gain]]]])
        situation = Situation(psi, w, z, legal, *errors)
        found[gain] = tuple(rule.decide(situation).action.item() for rule in (Gpi(), Steady(0.5), Steady()))
    assert found == {0.9: (0, 0, 0), 1.1: (1, 0, 0), 2.9: (1, 1, 0), 3.1: (1, 1, 1)}


def test_advantage_learning_does_not_make_a_worse_policy_the_better_one():
    """The second policy is worth 0.2; its other action seems to add 2.5 of the first feature, but gaps are tenfold."""
    psi = torch.tensor([[[[2.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [2.5, 0.9]]]])  # [B=1, N=2, A=2, D=2]
    w, z, legal = torch.tensor([[1.0, 0.2]]), torch.eye(2)[None], torch.ones(1, 2, dtype=torch.bool)
    situation = Situation(psi, w, z, legal, *CandidateSet.believed(z)._replace(gap_scale=torch.tensor([0.1]))[1:])
    assert Gpi().decide(situation).policy.item() == 1
    assert Steady().decide(situation).policy.item() == 0


def test_optimism_takes_trust_from_a_policy():
    """Two policies of one action each: the second promises more, in vain by half of what is at stake."""
    psi = torch.tensor([[[[1.0, 0.0]], [[1.0, 0.5]]]])  # [B=1, N=2, A=1, D=2]
    w, z, legal = torch.ones(1, 2), torch.eye(2)[None], torch.ones(1, 1, dtype=torch.bool)
    believed = CandidateSet.believed(z)._replace(optimism=torch.tensor([[0.0, 0.5]]))
    situation = Situation(psi, w, z, legal, *believed[1:])
    assert [rule.decide(situation).policy.item() for rule in (Gpi(), Cautious(0.5), Cautious(), Follow())] == [
        1,
        1,
        0,
        0,
    ]


def test_own_rules_decide():
    situation = random_situation()
    found = parse_rule(FixedMargin()).decide(situation)
    assert_same(found, choose(*situation[:4], margin=0.05))


class Returning:
    """A rule of the user's own that returns what it is told to."""

    def __init__(self, result):
        self.result = result

    def decide(self, situation):
        return self.result


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (None, r"returned a NoneType; expected a usfa\.decisions\.Decision\.$"),
        (torch.zeros(7, dtype=torch.int64), r"of shape \(7,\); expected torch\.int64 of shape \(3,\)\.$"),
        (torch.zeros(3), r"returned actions that are torch\.float32 of shape \(3,\); expected torch\.int64"),
        (torch.tensor([0, 1, 99]), r"returned an action outside of 0 to 3; expected one of these\.$"),
        (torch.tensor([0, 1, -1]), r"returned an action outside of 0 to 3"),
    ],
)
def test_what_own_rules_return_is_checked(action, sentence):
    situation = Situation(
        torch.zeros(3, 2, 4, 2),
        torch.ones(3, 2),
        torch.ones(3, 2, 2),
        torch.ones(3, 4, dtype=torch.bool),
        *CandidateSet.believed(torch.ones(3, 2, 2))[1:],
    )
    no = torch.zeros(3, dtype=torch.bool)
    result = None if action is None else Decision(action, torch.zeros(3, dtype=torch.int64), no, torch.zeros(3, 4))
    with pytest.raises(InputError, match=rf"^The rule 'Returning' {sentence}" if action is None else sentence):
        checked(Returning(result), situation)
    good = Decision(torch.tensor([0, 1, 3]), torch.zeros(3, dtype=torch.int64), no, torch.zeros(3, 4))
    assert checked(Returning(good), situation) is good


@dataclass(frozen=True)
class NamelessMargin:
    """A rule of a user with a setting and no name."""

    margin: float

    def decide(self, situation):
        raise NotImplementedError


def test_rules_with_different_settings_have_different_names():
    assert rule_name(NamelessMargin(0.02)) == 'NamelessMargin{"margin": 0.02}'
    assert rule_name(NamelessMargin(0.05)) != rule_name(NamelessMargin(0.02))


def test_illegal_actions_of_own_rules_are_refused():
    situation = random_situation()
    decision = Gpi().decide(situation)
    illegal = (~situation.legal).int().argmax(dim=1)
    assert (~situation.legal).any(dim=1).any()
    with pytest.raises(InputError, match=r"returned an illegal action; expected one that situation\.legal allows\.$"):
        checked(Returning(decision._replace(action=illegal)), situation)
