"""Tests of differences, against formulas written out and against known examples."""

import math

import numpy as np
import pandas as pd
import pytest

from usfa.paper.comparisons import Comparison, holm, paired, strongest, unpaired, verdict_of

RNG = np.random.default_rng(0)


def tail(t, freedom):
    """P(|T| > |t|) of Student's distribution, by summing its density."""
    x = np.linspace(-abs(t), abs(t), 200_001)
    size = math.gamma((freedom + 1) / 2) / (math.sqrt(freedom * math.pi) * math.gamma(freedom / 2))
    return 1 - np.trapezoid(size * (1 + x**2 / freedom) ** (-(freedom + 1) / 2), x)


@pytest.mark.parametrize("runs", [2, 3, 6, 10])
def test_paired_is_students_test(runs):
    x = RNG.normal(0.3, 1, runs)
    found = paired("it", pd.Series(x))
    error = x.std(ddof=1) / math.sqrt(runs)
    assert found.effect == pytest.approx(x.mean())
    assert found.p == pytest.approx(tail(x.mean() / error, runs - 1), abs=1e-6)
    assert tail((found.high - found.effect) / error, runs - 1) == pytest.approx(0.05, abs=1e-6)
    assert found.low + found.high == pytest.approx(2 * found.effect)


def test_unpaired_is_welchs_test():
    x, y = RNG.normal(0, 1, 6), RNG.normal(1, 3, 5)
    found = unpaired("it", pd.Series(x), pd.Series(y))
    a, b = x.var(ddof=1) / 6, y.var(ddof=1) / 5
    freedom = (a + b) ** 2 / (a**2 / 5 + b**2 / 4)
    assert found.effect == pytest.approx(x.mean() - y.mean())
    assert found.p == pytest.approx(tail(found.effect / math.sqrt(a + b), freedom), abs=1e-6)
    assert tail((found.high - found.effect) / math.sqrt(a + b), freedom) == pytest.approx(0.05, abs=1e-6)


def test_runs_that_all_agree():
    assert paired("", pd.Series([0.1, 0.1, 0.1])).p == 0
    assert paired("", pd.Series([0.0, 0.0])).p == 1
    assert unpaired("", pd.Series([2.0, 2.0]), pd.Series([1.0, 1.0])).p == 0


def test_too_few_runs_decide_nothing():
    for found in (paired("it", pd.Series([0.5])), unpaired("it", pd.Series([1.0, 2.0]), pd.Series([3.0]))):
        assert math.isnan(found.p)
        assert verdict_of(found, found.p) == "not decided"
        assert found.describe(found.p) == "it: too few runs"


def test_holm():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
    found = holm([math.nan, 0.02, 0.04])
    assert math.isnan(found[0])
    assert found[1:] == pytest.approx([0.04, 0.04])


def test_a_family_without_effects_is_rarely_decided():
    """20 comparisons of 6 runs: one or more is decided in 5 % of families at most, within 3 standard deviations."""
    families = 400
    decided = 0
    for _ in range(families):
        tests = [paired("", pd.Series(RNG.normal(0, 1, 6))) for _ in range(20)]
        corrected = holm([test.p for test in tests])
        decided += any(verdict_of(*one) != "not decided" for one in zip(tests, corrected, strict=True))
    assert 0 < decided <= families * 0.05 + 3 * math.sqrt(families * 0.05 * 0.95)


def test_verdicts_have_a_direction():
    up = Comparison("it", 0.2, 0.1, 0.3, 0.001, "paired")
    assert verdict_of(up, 0.001) == "holds"
    assert verdict_of(up._replace(effect=-0.2), 0.001) == "does not hold"
    assert verdict_of(up, 0.06) == "not decided"
    assert up.describe(0.0004) == "it +0.20 [+0.10, +0.30], p < 0.001 (paired)"
    assert up.describe(0.012) == "it +0.20 [+0.10, +0.30], p = 0.012 (paired)"


def test_the_strongest_pays_for_the_number_of_tasks():
    tasks = [
        Comparison(name, effect, 0, 0, p, "paired")
        for name, effect, p in [("a", 1, 0.2), ("b", 2, 0.01), ("c", -1, 0.001)]
    ]
    assert strongest("better", tasks, 1)[:2] == ("better (b)", 2)
    assert strongest("better", tasks, 1).p == pytest.approx(0.03)
    assert strongest("worse", tasks, -1).p == pytest.approx(0.003)
    assert strongest("worse", tasks[:2], -1).p == 1
    assert math.isnan(strongest("worse", [], -1).p)
