import gzip

import numpy as np
import pandas as pd
import pytest

from usfa.errors import InputError
from usfa.evaluation import SCORE_COLUMNS, read_scores, score_table, write_table

LABELS = {"agent": "usfa", "candidates": "task", "rule": "cautious:0.5", "training_set": "1,0;0,1"}
LABELS |= {"policies": "box:0,1", "task_set": "mine"}
COLUMNS = "agent candidates rule training_set policies seed snapshot episodes frames task_set task score optimal"
TASKS = np.array([[1.0, 0.0], [0.0, 1.0], [1 / 3, -0.1]])


def table():
    rng = np.random.default_rng(0)
    runs = {name: np.array(x) for name, x in {"seed": [3, 5], "snapshot": [9, 9], "episodes": [9, 10]}.items()}
    runs["frames"] = np.array([2**40, 7])
    scores = rng.standard_normal((2, 3)) * 10.0 ** rng.integers(-12, 12, (2, 3))
    return scores, score_table(scores, TASKS, np.array([1.0, np.nan, 0.1 + 0.2]), LABELS, runs)


def test_rows_are_runs_times_tasks():
    scores, rows = table()
    assert list(rows.columns) == list(SCORE_COLUMNS) == COLUMNS.split()
    assert rows.seed.tolist() == [3, 3, 3, 5, 5, 5]
    assert rows.frames.tolist() == [2**40] * 3 + [7] * 3
    assert rows.task.tolist() == ["10", "01", f"{1 / 3!r},-0.1"] * 2
    assert rows.score.tolist() == scores.flatten().tolist()
    assert rows.optimal.tolist()[::3] == [1.0, 1.0]
    assert rows.agent.unique().tolist() == ["usfa"]
    assert rows.rule.unique().tolist() == ["cautious:0.5"]


def test_files_read_back_to_the_bit(tmp_path):
    _, rows = table()
    write_table(tmp_path / "scores.csv", rows)
    pd.testing.assert_frame_equal(read_scores(tmp_path / "scores.csv"), rows, check_exact=True)
    before = (tmp_path / "scores.csv").read_bytes()
    write_table(tmp_path / "scores.csv", read_scores(tmp_path / "scores.csv"))
    assert (tmp_path / "scores.csv").read_bytes() == before


def test_older_files_without_a_rule_are_by_eq_3(tmp_path):
    _, rows = table()
    write_table(tmp_path / "scores.csv", rows.drop(columns="rule"))
    read = read_scores(tmp_path / "scores.csv")
    pd.testing.assert_frame_equal(read, rows.assign(rule="gpi"), check_exact=True)


def test_tasks_stay_texts(tmp_path):
    """01 is the task [0, 1], not the number 1."""
    write_table(tmp_path / "scores.csv", table()[1])
    assert read_scores(tmp_path / "scores.csv").task.iloc[1] == "01"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", r"is not a table of scores: "),
        (b"a,b\n1,2\n", r"has the columns \['a', 'b'\]; expected \['agent', "),
        (b"agent,candidates,rule\nusfa,task,gpi\n", r"has the columns \['agent', 'candidates', 'rule'\]; expected "),
        (b"agent,candidates,seed,rule\nusfa,task,1,gpi\n", r"has the columns .*'seed', 'rule'\]; expected "),
        (b"agent\nusfa\n", r"has the columns \['agent'\]; expected \['agent', 'candidates', "),
        (b"\xff\xfe\x00", r"is not a table of scores: "),
        (",".join(SCORE_COLUMNS).encode() + b"\na,\0,b,c,d,0,0,0,0,e,f,1,1\n", r"^.*scores: .*it has a zero byte\.$"),
        (b"agent,rule\na,b,c,d\na,b,c,d,e\n", r"^.* is not a table of scores: ParserError: .* saw 5\.$"),
    ],
)
def test_files_that_are_no_scores(tmp_path, content, sentence):
    (tmp_path / "scores.csv").write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        read_scores(tmp_path / "scores.csv")


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"none\.csv is not a table of scores: "):
        read_scores(tmp_path / "none.csv")


def test_numbers_that_are_none(tmp_path):
    write_table(tmp_path / "scores.csv", table()[1])
    text = (tmp_path / "scores.csv").read_text().replace(",0.30000000000000004\n", ",high\n")
    (tmp_path / "scores.csv").write_text(text)
    with pytest.raises(InputError, match=r"is not a table of scores: "):
        read_scores(tmp_path / "scores.csv")


@pytest.mark.parametrize("column", ["seed", "snapshot", "episodes", "frames"])
@pytest.mark.parametrize("value", ["x", "", "nan", "inf", "1e400", "9" * 400, "0.5", "-1", "1_0", " 7", "+3"])
def test_counts_that_are_no_whole_numbers(tmp_path, column, value):
    rows = table()[1].astype({column: object})
    rows.loc[2, column] = value
    write_table(tmp_path / "scores.csv", rows)
    with pytest.raises(InputError, match=r"scores\.csv is not a table of scores: "):
        read_scores(tmp_path / "scores.csv")


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:12] + b"?" + data[13:], lambda _: b"x"])
def test_compressed_scores_that_are_damaged(tmp_path, damage):
    write_table(tmp_path / "scores.csv", table()[1])
    data = gzip.compress((tmp_path / "scores.csv").read_bytes())
    (tmp_path / "scores.csv.gz").write_bytes(data)
    pd.testing.assert_frame_equal(read_scores(tmp_path / "scores.csv.gz"), read_scores(tmp_path / "scores.csv"))
    (tmp_path / "scores.csv.gz").write_bytes(damage(data))
    with pytest.raises(InputError, match=r"scores\.csv\.gz is not a table of scores: "):
        read_scores(tmp_path / "scores.csv.gz")


def test_names_that_pandas_takes_for_missing(tmp_path):
    write_table(tmp_path / "scores.csv", table()[1].assign(agent="NA", task_set="null"))
    read = read_scores(tmp_path / "scores.csv")
    assert (set(read.agent), set(read.task_set)) == ({"NA"}, {"null"})
