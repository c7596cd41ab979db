"""The tables of the pages are those of the records, and the records say where they come from."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from jumbot.adaptation._runs.outcomes import rules_table
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
