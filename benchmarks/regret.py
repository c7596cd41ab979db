"""What rules that need no labels cost: the accuracy of what each picks, minus that of the best candidate.

    python -m benchmarks.regret --data DIR [--tables full partial ...] [--tasks amazon-webcam ...] [--out regret]

Every task is tuned with labels at hand, which `jumbot.tune` records and does not use, and with all candidates trained
whole.  `--early` also asks what it picks when the poor half is stopped early.  Tasks are folders `OUT/TABLE/TASK`:
finished ones are not repeated, and those that were stopped go on.

Tables: Office-Caltech10's features (`DIR/office_caltech10/features.npz`), "full"; "partial", the target has the first
five classes; "imbalanced", every second class of the target has an eighth of its samples; and "digits", the embedded
digits of `jumbot demo`, balanced and imbalanced.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from itertools import permutations
from pathlib import Path
from typing import Any

import jumbot
from jumbot.data.benchmarks import keep_classes, partial_classes, thin_classes
from jumbot.data.embedded import embedded

DOMAINS = ("amazon", "caltech10", "dslr", "webcam")
PAIRS = [f"{s}-{t}" for s, t in permutations(DOMAINS, 2)]
TABLES = {"full": PAIRS, "partial": PAIRS, "imbalanced": PAIRS, "digits": ["balanced", "imbalanced"]}
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
    record = json.loads((out / "tune.json").read_text(encoding="utf-8")) if (out / "tune.json").exists() else {}
    if record.get("stop_early", True):
        jumbot.tune(**task(table, name, options.data), out=out, **settings, stop_early=False)
        record = json.loads((out / "tune.json").read_text(encoding="utf-8"))
    return judged(record, json.loads(early.read_text(encoding="utf-8")) if early.exists() else None)


def judged(record: Mapping[str, Any], early: Mapping[str, Any] | None = None) -> dict[str, float]:
    """Accuracies of the picks of all rules, of the best candidate, of the default and of source-only."""
    rows = record["candidates"]
    accuracy = {row["candidate"]: row["accuracy_not_used"] for row in rows}
    found = {rule: max(rows, key=score)["accuracy_not_used"] for rule, score in RULES.items()}
    found["evidence"] = accuracy[record["picked"]]
    if early is not None:
        found[EARLY] = accuracy[early["picked"]]
    named = {"default": accuracy[record["default"]], "source-only": accuracy["source-only"]}
    return {**found, **named, "best": max(accuracy.values())}


def table_of(tasks: Sequence[Mapping[str, float]]) -> list[str]:
    """Markdown: a row per rule, means over tasks in points."""
    lines = [
        "| rule | accuracy | minus best | minus default | minus source-only | least minus source-only |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for rule in tasks[0]:
        mean = statistics.fmean(found[rule] for found in tasks)
        less = [[100 * (found[rule] - found[other]) for found in tasks] for other in ("best", "default", "source-only")]
        cells = [f"{100 * mean:.1f}", *(f"{statistics.fmean(each):+.1f}" for each in less), f"{min(less[2]):+.1f}"]
        lines.append(f"| {rule} | {' | '.join(cells)} |")
    return lines


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
    found: dict[str, dict[str, dict[str, float]]] = {}
    for table, names in chosen.items():
        for name in names:
            found.setdefault(table, {})[name] = run(table, name, options)
            text = f"{date.today()}, jumbot {jumbot.__version__}, accuracy in %, differences in points.\n"
            for title, tasks in found.items():
                text += "\n".join(["", f"{title}: {', '.join(tasks)}", "", *table_of(list(tasks.values())), ""])
            (options.out / "regret.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            (options.out / "regret.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
