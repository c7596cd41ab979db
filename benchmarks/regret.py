"""What rules that need no labels cost: the accuracy of what each picks, minus that of the best candidate.

    python -m benchmarks.regret --data DIR [--tables full partial ...] [--tasks amazon-webcam ...] [--out regret]

Every task is tuned with labels at hand, which `jumbot.tune` records and does not use, and with all candidates trained
whole.  `--early` also asks what it picks when the poor half is stopped early.  Tasks in `OUT/regret.json` are
not repeated; the others are folders `OUT/TABLE/TASK`, and those that were stopped go on.

Tables: Office-Caltech10's features (`DIR/office_caltech10/features.npz`), "full"; "partial", the target has the first
five classes; "imbalanced", every second class of the target has an eighth of its samples; "pixels", 1,500 digits of
USPS and MNIST as rows of pixels (`DIR/{usps,mnist}/train.npz`), where every candidate is mostly wrong, full, partial
and imbalanced; and "digits", the embedded digits of `jumbot demo`, balanced and imbalanced.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import jumbot
from benchmarks.origin import origin
from benchmarks.settings import TARGETS, cut, rows
from jumbot._base.files import write_text
from jumbot.data._benchmarks import keep_classes, partial_classes, thin_classes
from jumbot.data.embedded import embedded

DOMAINS = ("amazon", "caltech10", "dslr", "webcam")
PAIRS = [f"{s}-{t}" for s, t in permutations(DOMAINS, 2)]
PIXELS = [f"{task}-{target}" for task in ("usps-mnist", "mnist-usps") for target in TARGETS]
TABLES = {
    "full": PAIRS,
    "partial": PAIRS,
    "imbalanced": PAIRS,
    "pixels": PIXELS,
    "digits": ["balanced", "imbalanced"],
}
RULES: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "evidence": lambda row: row["evidence"],
    "modularity": lambda row: row["modularity"],
    "agreement": lambda row: row["agreement"],
    "entropy": lambda row: -row["entropy"],
    "infomax": lambda row: row["infomax"],
    "snd": lambda row: row["snd"],
    "proportions": lambda row: -row["proportions_distance"],
}
EARLY = "evidence, stopped early"


def task(table: str, name: str, data: Path) -> dict[str, Any]:
    """Source, target, and what else `jumbot.tune` takes."""
    if table == "digits":
        source, target, test = embedded(name)
        return {"source": source, "target": target, "evaluate_on": test, "recipe": "embedded"}
    if table == "pixels":
        names, _, kind = name.rpartition("-")
        here, there = (rows("pixels", domain, data, seed) for seed, domain in enumerate(names.split("-")))
        return {"source": here, "target": cut(there, kind)}
    file = data / "office_caltech10" / "features.npz"
    source, target = (jumbot.data.as_domain(f"{file}:{domain}") for domain in name.split("-"))
    if table == "partial":
        target = keep_classes(target, partial_classes("first:5", source.classes))
    return {"source": source, "target": thin_classes(target, 8) if table == "imbalanced" else target}


def run(table: str, name: str, options: argparse.Namespace) -> dict[str, float]:
    """The accuracy of what each rule picks on one task."""
    out: Path = options.out / table / name
    early = out.parent / f"{name}-early.json"
    settings = {"jobs": options.jobs, "seed": options.seed, "show": True}
    if options.steps is not None:
        settings["steps"] = options.steps
    if options.early and not early.exists():
        jumbot.tune(**task(table, name, options.data), out=out, **settings)
        early.write_text((out / "tune.json").read_text(encoding="utf-8"), encoding="utf-8")
    jumbot.tune(**task(table, name, options.data), out=out, **settings, stop_early=False)
    record = json.loads((out / "tune.json").read_text(encoding="utf-8"))
    return judged(record, json.loads(early.read_text(encoding="utf-8")) if early.exists() else None)


def judged(record: Mapping[str, Any], early: Mapping[str, Any] | None = None) -> dict[str, float]:
    """Accuracies of the picks of all rules, of the best candidate, of the default and of source-only."""
    rows = record["candidates"]
    accuracy = {row["candidate"]: row["accuracy_not_used"] for row in rows}
    found = {rule: max(rows, key=score)["accuracy_not_used"] for rule, score in RULES.items()}
    found = {"tune": accuracy[record["picked"]], **found}
    if early is not None:
        found[EARLY] = accuracy[early["picked"]]
    named = {"default": accuracy[record["default"]], "source-only": accuracy["source-only"]}
    return {**found, **named, "best": max(accuracy.values())}


def rows_of(tasks: Sequence[Mapping[str, float]]) -> list[dict[str, str]]:
    """A row per rule, means over tasks in points."""
    rows = []
    for rule in tasks[0]:
        mean = statistics.fmean(found[rule] for found in tasks)
        less = {o: [100 * (found[rule] - found[o]) for found in tasks] for o in ("best", "default", "source-only")}
        rows.append(
            {"rule": rule, "accuracy": f"{100 * mean:.1f}"}
            | {f"minus {other}": f"{statistics.fmean(each):+.1f}" for other, each in less.items()}
            | {"least minus source-only": f"{min(less['source-only']):+.1f}"}
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("JUMBOT_DATA", "data")))
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--tasks", nargs="+", help="some of each table's tasks; others are left out")
    parser.add_argument("--out", type=Path, default=Path("regret"))
    parser.add_argument("--jobs", type=int, help="runs at the same time (default: one per core)")
    parser.add_argument("--steps", type=int, help="of adaptation (default: the recipe's)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--early", action="store_true", help="also what is picked when the poor half is stopped early")
    options = parser.parse_args()
    chosen = {table: [t for t in TABLES[table] if not options.tasks or t in options.tasks] for table in options.tables}
    if unknown := set(options.tasks or ()) - {name for names in chosen.values() for name in names}:
        parser.error(f"--tasks: {', '.join(sorted(unknown))}: not in {', '.join(options.tables)}")
    file, made = options.out / "regret.json", origin("regret", sys.argv[1:])
    settings = {"seed": options.seed, "settings": {"steps": options.steps, "stop_early": options.early}}
    record = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"command": [], "tasks": {}, **settings}
    if any(record[name] != value for name, value in settings.items()):
        parser.error(f"--out: {file} has other settings; give another folder")
    earlier = [record["command"]] if isinstance(record["command"], str) else record["command"]
    made["command"] = list(dict.fromkeys([*earlier, made["command"]]))
    found: dict[str, dict[str, dict[str, float]]] = record["tasks"]
    for table, names in chosen.items():
        for name in names:
            tasks = found.setdefault(table, {})
            if name not in tasks:
                tasks[name] = run(table, name, options)
            rules = {title: rows_of(list(each.values())) for title, each in found.items()}
            record |= {**made, "tasks": found, "rules": rules}
            write_text(file, json.dumps(record, indent=1) + "\n")
    for title, lines in record["rules"].items():
        print(f"{title}: {', '.join(found[title])}", *lines, sep="\n")


if __name__ == "__main__":
    main()
