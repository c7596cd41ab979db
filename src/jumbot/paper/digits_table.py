"""Table 1, digits: U->M, M->MM and S->M in the paper's protocol, each run a folder, the table from their records."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jumbot.adaptation.config import INSTEAD
from jumbot.adaptation.runs.folder import read_config, read_metrics
from jumbot.adaptation.runs.grid import Pair, Run, outcome, train_all
from jumbot.adaptation.runs.variants import Variant, share_changes
from jumbot.data import load
from jumbot.errors import ArgumentError, JumbotError, suggest
from jumbot.paper.record import Record

#: source, target, side and channels of the network's input
TASKS = {"U-M": ("usps", "mnist", 28, 1), "M-MM": ("mnist", "mnistm", 28, 3), "S-M": ("svhn", "mnist", 32, 3)}
#: accuracies of the paper at the end of training
PAPER = {
    "dann": {"U-M": 92.2, "M-MM": 96.1, "S-M": 88.7},
    "cdan-e": {"U-M": 99.2, "M-MM": 95.0, "S-M": 90.9},
    "alda": {"U-M": 97.0, "M-MM": 96.4, "S-M": 96.1},
    "deepjdot": {"U-M": 96.4, "M-MM": 91.8, "S-M": 95.4},
    "jumbot": {"U-M": 98.2, "M-MM": 97.0, "S-M": 98.9},
}
QUICK = {"source_epochs": 1, "epochs": 1, "batch_size": 50, "evaluate_samples": 500}
#: options that change the schedule, and so the name of the folder
SCHEDULE = ("source_epochs", "source_steps", "epochs", "steps")
#: options of training that `jumbot reproduce` has
OPTIONS = ("source_epochs", "epochs", "steps", "evaluate_samples")
#: share of the plan's mass between different labels along training on U->M, in the paper's text
PAPER_WRONG_MASS = {"deepjdot": 0.07, "jumbot": 0.007}


def run(
    folder: Path,
    *,
    quick: bool = False,
    seed: int = 0,
    seeds: int = 1,
    tasks: Sequence[str] = ("U-M",),
    methods: Sequence[str] = ("jumbot", "deepjdot", "source-only"),
    reference: str = "ones",
    show: bool = True,
    root: str | Path | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """Train every (task, method, seed) that is not finished, and write `digits.json` and `digits.md` with the paper's
    figures beside.

    Runs are folders `digits/TASK/METHOD-seedN`; those that were stopped go on from their last checkpoint.  `changes`
    are options of training (`epochs`, `source_epochs`, `evaluate_samples`, ...): a schedule other than the paper's is
    part of the folder's name and of the record.
    """
    for task in tasks:
        if task not in TASKS:
            raise ArgumentError(f"task: {task!r} is not known; {suggest(task, TASKS)}")
    if quick:
        replaced = {INSTEAD[name] for name in changes if name in INSTEAD}
        changes = {name: value for name, value in QUICK.items() if name not in replaced} | changes
    fixed = {} if "scale" in changes else {"scale": None}  # the paper's cost has no unit of its own
    own: dict[str, dict[str, Any]] = {"jumbot": {"reference": reference, **fixed}, "deepjdot": fixed}
    chosen = share_changes(methods, "digits", changes, own)
    record = Record(
        "digits",
        "Accuracy on the target's test split at the end of training",
        {"reference": reference, **changes},
        seed,
        quick,
    )
    rows = []
    for task in tasks:
        source, target, size, channels = TASKS[task]
        parts = ((source, "train"), (target, "train"), (target, "test"))
        pair = Pair(task, *(_some(load(name, split, root), quick) for name, split in parts))
        runs = [
            Run(
                pair, variant, number, _folder(folder, task, variant, reference, changes, number), "digits",
                {**options, "size": size, "channels": channels},
                command=_command(task, variant.label, number, reference, quick, changes),
            )
            for variant, options in chosen for number in range(seed, seed + seeds)
        ]  # fmt: skip
        for why in train_all(runs, show=show).values():
            raise JumbotError(why)
        rows += [row_of(run.folder) for run in runs]
    record.data["runs"] = rows
    for task in tasks:
        for name in methods:
            found = [100 * row["accuracy"] for row in rows if (row["task"], row["method"]) == (task, name)]
            if (printed := PAPER.get(name, {}).get(task)) is not None:
                record.claim(
                    f"{task}, {name}: {printed} at the end of training", statistics.fmean(found) >= printed - 0.5,
                    accuracies=found, paper=printed,
                )  # fmt: skip
    (folder / "digits.md").write_text(table(folder), encoding="utf-8")
    return record.save(folder)


def table(folder: Path) -> str:
    """Markdown: every finished run in the folder, with its schedule and the paper's figures beside."""
    found = [row_of(file.parent) for file in sorted((folder / "digits").glob("*/*/results.json"))]
    lines = [
        "| task | method | seed | epochs, source + adaptation | accuracy | paper | mass between labels | paper |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in found:
        training, paper = row["training"], row["paper"]
        before, after = (
            f"{training[steps]} steps" if training[steps] is not None else training[epochs]
            for steps, epochs in (("source_steps", "source_epochs"), ("steps", "epochs"))
        )  # fmt: skip
        printed = PAPER_WRONG_MASS.get(row["method"]) if row["task"] == "U-M" else None
        cells = [
            row["task"], row["variant"], row["seed"], f"{before} + {after}",
            f"{100 * row['accuracy']:.2f}", paper or "-", _percent(row["wrong_mass"]), _percent(printed),
        ]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _folder(folder: Path, task: str, variant: Variant, reference: str, changes: dict[str, Any], seed: int) -> Path:
    name = f"{variant.folder}-{reference}" if variant.method == "jumbot" else variant.folder
    schedule = "".join(f"-{key}{changes[key]}" for key in SCHEDULE if key in changes)
    return folder / "digits" / task / f"{name}{schedule}-seed{seed}"


def _command(task: str, name: str, seed: int, reference: str, quick: bool, changes: dict[str, Any]) -> str:
    """The command of this one run, as far as the command has its options."""
    given = {"task": task, "methods": name, "seed": seed, "reference": reference}
    given |= {key: changes[key] for key in OPTIONS if key in changes and (not quick or changes[key] != QUICK.get(key))}
    words = [f"--{key.replace('_', '-')} {value}" for key, value in given.items()]
    return " ".join(["jumbot reproduce digits", *words, *(["--quick"] if quick else [])])


def row_of(out: Path) -> dict[str, Any]:
    """What the folder of a finished run says, for the record and the table."""
    config, row = read_config(out), outcome(out, out.parent.name)
    name, reference = row["method"], config["method"].get("reference")
    records = read_metrics(out)
    steps = [r for r in records if r["event"] == "step" and "wrong_mass" in r]
    half = steps[len(steps) // 2 :]
    return row | {
        "variant": f"{name}-{reference}" if reference else name, "training": config["training"],
        "wrong_mass": statistics.fmean(r["wrong_mass"] for r in half) if half else None,
        "mass": statistics.fmean(r["mass"] for r in half) if half else None,
        "curve": [[r["epoch"], r["accuracy"]] for r in records if r["event"] == "evaluation"],
        "paper": PAPER.get(name, {}).get(row["task"]),
    }  # fmt: skip


def _some(domain: Any, quick: bool) -> Any:
    return domain.subset(range(min(1000, len(domain)))) if quick else domain
