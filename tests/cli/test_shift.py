"""`jumbot shift` as a pipeline runs it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from jumbot.cli import main

pandas = pytest.importorskip("pandas", reason="pandas is not installed")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shift")
    rng = np.random.default_rng(0)
    for name, by in (("before", 0.0), ("after", 3.0)):
        frame = pandas.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "c"])
        frame.assign(c=frame.c + by, sold=np.where(frame.a > 0, "yes", "no")).to_csv(
            folder / f"{name}.csv", index=False
        )
    return str(folder / "before.csv"), str(folder / "after.csv"), folder


def test_text_page_and_status(files, capsys) -> None:
    before, after, folder = files
    page = folder / "page.html"
    assert main(["shift", before, after, "--label", "sold", "--fail-above", "0.1", "--out", str(page)]) == 1
    output = capsys.readouterr().out
    assert output.startswith("There is a shift (p = 0.0025).")
    assert "Columns that moved, in standard deviations: c (" in output
    assert "Classes of after: no" in output
    assert page.exists()
    assert json.loads(page.with_suffix(".json").read_text())["proportions"]["no"]["reference"] > 0.3


def test_json_and_a_bar_that_is_not_reached(files, capsys) -> None:
    before, after, _ = files
    assert main(["shift", before, after, "--drop", "c", "--fail-above", "0.3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["p_value"] > 0.01
    assert [column["name"] for column in found["columns"]].count("c") == 0


def test_bad_input_is_refused_before_any_work(files, capsys) -> None:
    before, after, folder = files
    for words, output in (
        (["shift", before, str(folder / "none.csv")], "none.csv: does not exist"),
        (["shift", before, after, "--groups", "a", "--blocks", "3"], "--groups and --blocks"),
        (["shift", before, after, "--fail-above", "2"], "fail_above"),
        (["shift", before, after, "--out", "page.pdf"], "out must be the name of a page"),
        (["shift", before, after, "--groups", "who"], "no column 'who'"),
        (["shift", before], "CURRENT"),
    ):
        assert main(words) == 2
        assert output in capsys.readouterr().err.replace("--fail-above", "fail_above")
