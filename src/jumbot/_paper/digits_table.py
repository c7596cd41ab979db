"""Table 2, digits: U->M, M->MM and S->M in the paper's protocol, each run a folder, the table from their records."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jumbot._base.files import write_text
from jumbot._base.schema import to_builtins
from jumbot._base.text_tables import markdown
from jumbot._paper.targets import WRONG_MASS, printed, published
from jumbot._paper.trained import Suite
from jumbot.adaptation._config import option_names
from jumbot.adaptation._runs.folder import outcome, read_config, read_metrics

NORMS = ("running norms", "norms of the target")
"""Columns: the accuracy with the running statistics of the batch norms, and with those of the target."""
NONE = "-"
_LENGTH = re.compile(r"(source_)?(epochs|steps)\d+")
_SIZE = re.compile(r"batch_size\d+|mixed_precision\w+|batch_norm\w+")


def run(
    suite: Suite, *, tasks: Sequence[str] = ("U-M",), methods: Sequence[str] = ("jumbot", "deepjdot", "source-only")
) -> dict[str, Any]:
    """Train every (task, method, seed) that is not finished, and write `digits.json` and `digits.md`, with the paper's
    figures for comparison.
    """
    runs = suite.runs(tasks, methods)
    shows = "Accuracy on the target's test split at the end of training"
    record = suite.record("digits", shows, runs, tasks=tasks, methods=methods)
    record.data["runs"] = rows = [row_of(each.folder) for each in runs]
    for task in tasks:
        for name in methods:
            found = [100 * row["accuracy"] for row in rows if (row["task"], row["method"]) == (task, name)]
            if (figure := printed("digits", name, task)) is not None:
                record.claim(
                    f"{task}, {name}: {figure} at the end of training",
                    statistics.fmean(found) >= figure - 0.5,
                    accuracies=found,
                    paper=figure,
                )
    places = sorted({each.folder.parent for each in runs})
    write_text(
        suite.folder / "digits.md", table(file.parent for place in places for file in place.glob("*/results.json"))
    )
    return record.save(suite.folder)


def row_of(out: Path) -> dict[str, Any]:
    """The row of a finished run for the record and the table, read from its folder.

    The masses are averages over the whole adaptation, as in the paper.
    """
    config, row, records = read_config(out), outcome(out, out.parent.name), read_metrics(out)
    taken = [r for r in records if r["event"] == "step"]
    adapted = [r["step"] for r in taken if r["phase"] == "adapt"]  # a recorded run may keep every tenth step
    steps = [r for r in taken if "wrong_mass" in r]
    end = taken[-1]["step"] + 1 if taken else 0
    begun = adapted[0] if adapted else end
    curve = [r for r in records if r["event"] == "evaluation"]
    return row | {
        "variant": out.name.rpartition("-seed")[0],
        "training": to_builtins(config.training),
        "updates": [begun, end - begun],
        "wrong_mass": statistics.fmean(r["wrong_mass"] for r in steps) if steps else None,
        "mass": statistics.fmean(r["mass"] for r in steps) if steps else None,
        "curve": [[r["epoch"], r["accuracy"]] for r in curve],
        "by_norms": _by_norms(config.training.batch_norm, row["accuracy"], curve),
        "evaluated": curve[0]["n"] if curve else None,
        "paper": printed("digits", row["method"], row["task"]),
    }


def _by_norms(kind: str, accuracy: float, curve: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """The accuracy of the last model with running statistics in its batch norms and with those of the target."""
    if kind == "running":
        return {"running": accuracy, "target": None}
    before = [r["accuracy"] for r in curve if r["step"] == curve[-1]["step"]][:-1]
    return {"running": before[-1] if before else None, "target": accuracy}


def table(folders: Iterable[Path]) -> str:
    """Markdown: every finished run among these, with its schedule and the paper's figures."""
    head = (
        "task",
        "method",
        "seed",
        "epochs, source + adaptation",
        *NORMS,
        "paper",
        "mass between labels",
        "paper",
    )
    lines: list[list[object]] = []
    for row in map(row_of, sorted(folders)):
        shown = WRONG_MASS.get(row["method"]) if row["task"] == "U-M" else None
        accuracies = [NONE if value is None else f"{100 * value:.2f}" for value in row["by_norms"].values()]
        figures = [*accuracies, row["paper"] or "-", percent(row["wrong_mass"]), percent(shown)]
        lines.append([row["task"], describe_variant(row), row["seed"], schedule(row["training"]), *figures])
    return markdown(head, lines, words=2)


def describe_variant(row: dict[str, Any]) -> str:
    """The method and its differences from the paper's settings, except what has its own column.

    >>> describe_variant({"method": "cdan-e", "variant": "cdan-e-epochs20-mixed_precisionbf16"})
    'cdan-e (bf16)'
    >>> describe_variant({"method": "deepjdot", "variant": "deepjdot-eta10.1-eta20.1-epochs20"})
    'deepjdot (eta1 0.1, eta2 0.1)'
    """
    words = row["variant"].removeprefix(row["method"]).split("-")[1:]
    shown = [word for word in words if not _LENGTH.fullmatch(word) and not word.startswith("batch_norm")]
    options = [_describe_option(word, row["method"]) for word in shown]
    return f"{row['method']} ({', '.join(options)})" if options else str(row["method"])


def _describe_option(word: str, method: str) -> str:
    """An option and its value, which the name of a folder writes as one word."""
    name = max((name for name in option_names(method) if word.startswith(name)), key=len, default="")
    value = word.removeprefix(name)
    return value if name in ("", "mixed_precision", "reference") else f"{name.replace('_', ' ')} {value}"


def is_papers_point(row: dict[str, Any]) -> bool:
    """Whether the run has the paper's settings, except for its length, the size of its batches and its precision.

    >>> is_papers_point({"method": "jumbot", "variant": "jumbot-ones-batch_size100-epochs7-mixed_precisionbf16"})
    True
    >>> is_papers_point({"method": "jumbot", "variant": "jumbot-product"})
    False
    """
    words = row["variant"].removeprefix(row["method"]).split("-")[1:]
    usual = published("digits", row["method"]).get("reference")
    return all(word == usual or _LENGTH.fullmatch(word) or _SIZE.fullmatch(word) for word in words)


def schedule(training: dict[str, Any]) -> str:
    """Length on the source alone and of adaptation, as in "10 + 100"."""
    pairs = (("source_steps", "source_epochs"), ("steps", "epochs"))
    return " + ".join(f"{training[s]} steps" if training[s] is not None else str(training[e]) for s, e in pairs)


def percent(share: float | None) -> str:
    """Two digits, or a dash."""
    return "-" if share is None else f"{100 * share:.2f} %"
