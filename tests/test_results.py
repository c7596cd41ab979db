"""The tables of the pages are those of the records, and the records say where they come from."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from jumbot.adaptation._grid import rules_table
from jumbot.report import format_table

ROOT = Path(__file__).resolve().parent.parent
TABLES: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "tables.py"))


@pytest.mark.parametrize("page", TABLES["PAGES"], ids=lambda page: page.name)
def test_the_tables_of_a_page_are_those_of_the_records(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert TABLES["filled"](text) == text, "run `make tables`"
    assert text.count("<!-- table: ") == text.count("<!-- end of ") == len(TABLES["BLOCK"].findall(text)) > 0


def test_every_table_stands_on_a_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in TABLES["PAGES"])
    assert {name for _, name, _ in TABLES["BLOCK"].findall(text)} == set(TABLES["TABLES"])


@pytest.mark.parametrize(
    "file",
    [*ROOT.glob("results/*/*.json"), *ROOT.glob("results/digits/*/*/config.json")],
    ids=lambda f: f"{f.parent.name}-{f.name}",
)
def test_a_record_says_where_it_comes_from(file: Path) -> None:
    record = json.loads(file.read_text(encoding="utf-8"))
    assert record["command"]
    assert record.get("created") or record.get("date")
    assert "seed" in record or "seeds" in record
    assert record.get("settings") or record.get("training") or record.get("steps")


def test_no_file_of_the_records_is_larger_than_a_mebibyte() -> None:
    large = [file.name for file in (ROOT / "results").rglob("*") if file.is_file() and file.stat().st_size > 2**20]
    assert large == []


def test_a_shortened_record_gives_the_same_row(tmp_path: Path) -> None:
    """The number of updates and the evaluations exactly, the mass between labels as a mean of every tenth step."""
    tool = runpy.run_path(str(ROOT / "tools" / "record.py"))
    run = min((ROOT / "results" / "digits" / "U-M").glob("jumbot-*"))
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    whole = TABLES["row_of"](run)
    tool["record"].__globals__["THOUSANDS"] = 100
    row = TABLES["row_of"](tool["record"](run, tmp_path))
    assert len((tmp_path / "U-M" / run.name / "metrics.jsonl").read_text().splitlines()) < len(lines) / 4
    same = ("updates", "curve", "accuracy", "by_norms", "variant", "task")
    assert [row[name] for name in same] == [whole[name] for name in same]
    assert row["wrong_mass"] == pytest.approx(whole["wrong_mass"], rel=0.1)


def test_the_summary_of_digits_has_the_longest_runs_at_the_papers_settings() -> None:
    def row(method: str, words: str, updates: list[int]) -> dict[str, Any]:
        variant = {"task": "U-M", "method": method, "variant": f"{method}-{words}", "updates": updates}
        norms = {"running": 0.9, "target": 0.9 if "batch_normtarget" in words else None}
        return variant | {"training": {"batch_size": 100 if "batch_size100" in words else 500}, "by_norms": norms}

    rows = [
        row("jumbot", "ones-epochs20", [140, 280]),
        row("jumbot", "ones", [140, 1400]),
        row("jumbot", "ones-mixed_precisionbf16", [140, 1400]),
        row("jumbot", "ones-batch_size100-steps1400", [140, 1400]),
        row("jumbot", "product-epochs500", [140, 7000]),
        row("deepjdot", "batch_size100-source_epochs1-epochs20", [72, 1440]),
        row("deepjdot", "eta10.1-eta20.1-epochs200", [140, 2800]),
        row("dann", "reversal_steps10000", [140, 1400]),
        row("alda", "mixed_precisionbf16", [140, 1400]),
        row("alda", "batch_size100-steps1400-batch_normtarget", [140, 1400]),
        row("alda", "batch_size100-source_steps1400-steps700-batch_normtarget", [1400, 700]),
    ]
    assert TABLES["longest"](rows) == [rows[1], rows[2], rows[5], rows[9]]


def test_figure_6_is_of_the_papers_weights_and_no_point_is_lost() -> None:
    records, points, others = TABLES["fig6_points"]()
    assert len(points) + len(others) == sum(len(record["data"]["points"]) for record in records)
    named = [(row["over"], row["method"], row["task"], row["value"]) for row in points]
    assert len(named) == len(set(named))
    assert all("eta1 0.1, eta2 0.1" in row["method"] for row in others)


def test_rows_tell_their_seeds_and_means_are_over_the_same_tasks() -> None:
    table = format_table({"a": {"s": [0.1], "t": [0.2]}, "b": {"s": [0.1, 0.3], "t": [0.2, 0.4]}, "c": {"s": [0.5]}})
    rows = {line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]] for line in table.splitlines()}
    assert rows["method"] == ["seeds", "s", "t", "mean"]
    assert [rows[name][0] for name in "abc"] == ["1", "2", "1"]
    assert rows["a"][-1] == "15.0"
    assert rows["c"][-1] == "–"  # noqa: RUF001
    runs = [
        {"method": method, "task": task, "by_rule": {"last": 0.5}}
        for method, tasks in (("a", "st"), ("c", "s"))
        for task in tasks
    ]
    assert rules_table({"runs": runs}).splitlines()[-2:] == ["| a | 50.0 |", "| c | - |"]
