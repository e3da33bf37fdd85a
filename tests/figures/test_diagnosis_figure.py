import pandas as pd
import pytest

from usfa.figures import save
from usfa.figures.diagnosis import diagnosis_figure


def tables(policies, rules=("cautious", "gpi")):
    names = [f"{number},0" for number in range(policies)]
    shares = {f"{kind}, {rule}": [0.5 / policies] * policies for rule in rules for kind in ("followed", "improved")}
    candidates = pd.DataFrame({"policy": names, "distance": 0.0, "promised": 1.0, "realised": 0.5, **shares})
    actors = pd.DataFrame(
        [("rule", rule, 3.0, 1.0, 0.5, 0.1, 0.6, 70) for rule in rules]
        + [("policy", name, 1.0, 1.0, 0.0, 0.0, 0.0, 0) for name in names],
        columns=["actor", "name", "score", "std", "improved", "undone", "idle", "longest_idle"],
    )
    features = pd.DataFrame(
        [(name, feature, 1.0, -0.5, 0.25 * feature) for name in names for feature in (1, 2, 3)],
        columns=["policy", "feature", "promised", "realised", "error"],
    )
    return actors, candidates, features


@pytest.mark.parametrize(("policies", "rules"), [(1, ("gpi",)), (4, ("cautious", "gpi")), (5, ("a", "b", "c"))])
def test_tables_give_a_figure_and_the_same_bytes_twice(tmp_path, policies, rules):
    for name in ("one.png", "two.png"):
        save(diagnosis_figure(*tables(policies, rules), "title"), tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_every_rule_and_policy_is_named():
    figure = diagnosis_figure(*tables(3), "title", ("tv", "ball", "hat"))
    promises, trust, errors, outcomes, *_ = figure.axes
    assert [label.get_text() for label in promises.get_yticklabels()] == ["0,0", "1,0", "2,0"]
    assert [label.get_text() for label in errors.get_xticklabels()] == ["tv", "ball", "hat"]
    assert [label.get_text() for label in outcomes.get_yticklabels()][:2] == ["rule cautious", "rule gpi"]
    legend = [text.get_text() for text in trust.get_legend().get_texts()]
    assert legend == ["cautious: followed", "cautious: improved upon", "gpi: followed", "gpi: improved upon"]
    assert [text.get_text() for text in outcomes.texts] == ["60% idle", "60% idle", "0% idle", "0% idle", "0% idle"]


def test_of_many_policies_the_most_trusted_are_shown():
    actors, candidates, features = tables(30)
    candidates.loc[29, "followed, gpi"] = 0.9
    figure = diagnosis_figure(actors, candidates, features, "title")
    shown = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(shown) == 12
    assert "29,0" in shown
