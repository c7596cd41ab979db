"""Every problem of two tables in one message, with a command that works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import jumbot
from jumbot._settings.reading import make_reading
from jumbot.cli._app import main
from jumbot.data._pair import Attempt, Encoding
from jumbot.data._remarks import one_error, problems_in
from jumbot.data._sources import Given
from tests.refusals import refused

ROWS = 80


@pytest.fixture
def tables(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> tuple[pd.DataFrame, pd.DataFrame]:
    monkeypatch.chdir(tmp_path)
    y = np.arange(ROWS) % 2
    frame = pd.DataFrame({"age": rng.normal(50, 9, ROWS) + 9 * y, "pulse": rng.normal(80, 9, ROWS)})
    return frame.assign(outcome=np.where(y, "ill", "well")), frame.copy()


def _message(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["adapt", "a.csv", "b.csv", "--out", "run", "--steps", "2", *words]) == 2
    return capsys.readouterr().err


def _works(output: str) -> dict[str, Any]:
    """Run the command that a message ends with; the columns of the model."""
    command = output.rpartition("Try: ")[2]
    assert main([*shlex.split(command)[1:], "--method", "source-only"]) == 0
    model = jumbot.load("run")
    assert model.input.columns is not None
    return {column.name: column.encoded_as for column in model.input.columns.columns}


@pytest.mark.filterwarnings("ignore::jumbot.DataWarning")
def test_everything_at_once_and_the_command_works(
    tables: tuple[pd.DataFrame, pd.DataFrame], rng: np.random.Generator, capsys: pytest.CaptureFixture[str]
) -> None:
    words = np.array(
        ["engine", "brake", "wheel", "noise", "oil", "leak", "window", "door", "seat", "paint", "rust", "horn"]
    )
    for frame in tables:
        frame["patient_id"] = [f"p{i:03}" for i in range(ROWS)]
        frame["seen on"] = pd.date_range("2024-01-01", periods=ROWS).strftime("%Y-%m-%d")
        frame["note"] = [" ".join(rng.choice(words, 5)) for _ in range(ROWS)]
        frame["empty"] = ""
    source, target = tables
    target["weight"] = 1.0
    target["pulse"] = target["pulse"].astype(object)
    target.loc[4, "pulse"] = "high"
    source.to_csv("a.csv", index=False)
    target.to_csv("b.csv", index=False)
    output = _message(capsys)
    assert "7 problems" in output
    for what in (
        "no labels",
        "lacks: weight",
        "'patient_id' contains free text",
        "'seen on' contains dates",
        "'note' contains free text",
        "'empty' is empty",
        "'pulse' contains numbers in the source and 'high' in line 6",
    ):
        assert what in output
    assert _works(output) == {"age": None, "seen on": "dates", "note": "text"}


def test_labels_that_may_be_numbers_next_to_other_problems(
    tables: tuple[pd.DataFrame, pd.DataFrame], rng: np.random.Generator, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tables
    source["outcome"] = rng.permutation(ROWS) * 3
    source["when"] = target["when"] = [f"{i % 28 + 1}.{i % 12 + 1}.2024" for i in range(ROWS)]
    source.to_csv("a.csv", index=False)
    target.to_csv("b.csv", index=False)
    output = _message(capsys, "--label", "outcome")
    assert "task='regression'" in output
    assert "'when' contains dates" in output
    assert output.rstrip().endswith("--label outcome --task regression --dates when")
    assert _works(output) == {"age": None, "pulse": None, "when": "dates"}


def test_options_that_were_given_are_kept(
    tables: tuple[pd.DataFrame, pd.DataFrame], capsys: pytest.CaptureFixture[str]
) -> None:
    for frame in tables:
        frame["e1"], frame["e2"] = "", ""
    tables[0].to_csv("a.csv", index=False)
    tables[1].to_csv("b.csv", index=False)
    output = _message(capsys, "--label", "Outcome", "--drop", "e1")
    assert re.search(r"--label outcome --drop e1 e2$", output.rstrip())
    assert set(_works(output)) == {"age", "pulse"}


def test_one_problem_has_its_own_sentence_and_a_command(
    tables: tuple[pd.DataFrame, pd.DataFrame], capsys: pytest.CaptureFixture[str]
) -> None:
    tables[0].to_csv("a.csv", index=False)
    tables[1].to_csv("b.csv", index=False)
    output = _message(capsys)
    assert "problems" not in output
    assert output.rstrip().endswith("Try: jumbot adapt a.csv b.csv --out run --steps 2 --label outcome")


def test_what_has_no_remedy_is_listed_with_the_others(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    source, target = tables
    source["empty"] = target["empty"] = np.nan
    source["outcome"] = "ill"
    with refused("only one class") as caught:
        jumbot.adapt(source, target, label="outcome")
    assert caught.value.remedy == {}, "no options would do"
    source["outcome"] = ["ill", "well"] * (ROWS // 2)
    source.loc[3, "outcome"] = None
    with refused("have no label"):
        jumbot.adapt(source, target, label="outcome")


def test_a_remedy_can_be_passed_on(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    source, target = tables
    source["when"] = target["when"] = pd.date_range("2024-01-01", periods=ROWS)
    with refused("'when'.*dates=") as caught:
        jumbot.adapt(source, target, label="outcome", steps=2, method="source-only")
    model = jumbot.adapt(source, target, label="outcome", steps=2, method="source-only", **caught.value.remedy)
    assert model.predict(target).shape == (ROWS,)
    with refused("'when'"):
        model.predict(target.drop(columns="when"))


def test_a_file_is_read_once(tables: tuple[pd.DataFrame, pd.DataFrame], monkeypatch: pytest.MonkeyPatch) -> None:
    from jumbot.data import _tablefiles as tablefiles

    tables[0].assign(when="2024-01-01", empty="").to_csv("a.csv", index=False)
    tables[1].assign(when="2024-01-01", empty="").to_csv("b.csv", index=False)
    read, own = list[str](), tablefiles.read_text
    monkeypatch.setattr(tablefiles, "read_text", lambda path, kind: (read.append(str(path)), own(path, kind))[1])
    with pytest.raises(jumbot.ArgumentError):
        jumbot.adapt("a.csv", "b.csv", steps=2)
    assert len(read) <= 4, "twice each: once as asked, once to look for all that is in the way"


def test_a_problem_that_is_none_of_the_tables_is_left_as_it_is(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    source, target = tables
    given = Attempt(Given(source, target), make_reading(label="outcome"), Encoding())
    assert given.problem() is None
    with refused("oracle") as caught:
        jumbot.adapt(source, target, label="outcome", select="oracle", steps=2, judge=False)
    assert caught.value.remedy == {}


def test_only_some_of_very_many_problems_are_listed() -> None:
    """All are in the remedy; a message of a thousand lines would be read by nobody."""
    problems = [f"'t{i}' is empty." for i in range(1000)]
    error = one_error("pets", problems, {"drop": tuple(f"t{i}" for i in range(1000))})
    assert "1000 problems" in str(error)
    assert "970 more" in str(error)
    assert str(error).count("is empty") == 30
    assert len(error.remedy["drop"]) == len(problems_in(error)) == 1000
