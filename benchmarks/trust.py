"""The study behind the estimate of accuracy and the choice between source-only and JUMBOT: families left out in turn.

    python -m benchmarks.trust [--seeds 0] [--families heart gas] [--out results/trust]     # trains, a line per network
    python -m benchmarks.trust --table [--out results/trust]                                # reads those lines

Every task of `benchmarks.shift_tasks` is trained by source-only and by JUMBOT with the defaults of `jumbot.adapt`, on
folds of the source, exactly as `jumbot.adapt` does before it hands a network over.  The table shows the error of every
vote by family; the interval with its factor fitted on all other families; what the shipped constants give; and what the
rule of harm chooses.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shift_tasks import FAMILIES, Rows, tasks
from jumbot.adaptation._config import make_config
from jumbot.adaptation._evaluation.accuracy import estimate_accuracy
from jumbot.adaptation._evaluation.decision import FEW, SLACK, weigh_witnesses
from jumbot.adaptation._evaluation.task import task_of
from jumbot.adaptation._evaluation.votes import AGREEMENT, Witness
from jumbot.adaptation._training.witnesses import hear
from jumbot.data._domain import ArraySamples, Domain

METHODS = ("source-only", "jumbot")
OUT = Path("results/trust")


def record(task: Rows, seed: int) -> list[dict[str, Any]]:
    """A line per method: the truth on the target, every vote, and the evidence between both."""
    classes = tuple(map(str, range(int(task.y.max()) + 1)))
    source = Domain("source", ArraySamples(task.X), task.y.astype(np.int64), classes)
    target = Domain("target", ArraySamples(task.X_target))
    configs = [make_config(source, method, None, {"seed": seed}) for method in METHODS]
    start = time.perf_counter()
    heard = hear(source, target, configs, task_of(source))
    alone, adapted = (heard.by_method[method] for method in METHODS)
    harm = weigh_witnesses(adapted, alone)
    truth = task.y_target[heard.index]
    return [
        {
            "family": task.family,
            "task": task.name,
            "seed": seed,
            "method": method,
            "n": len(task.y),
            "classes": len(classes),
            "target": len(task.y_target),
            "held": len(witness.labels),
            **truths(witness, truth),
            "votes": {k: round(v, 4) for k, v in witness.votes().items()},
            "gain": round(harm.gain, 4),
            "changed": round(harm.changed, 4),
            "seconds": round(time.perf_counter() - start, 1),
        }
        for method, witness in ((METHODS[0], alone), (METHODS[1], adapted))
    ]


def truths(witness: Witness, labels: np.ndarray) -> dict[str, float]:
    """Accuracy and mean over classes on the target, for class sizes of the source and for equal ones."""
    found: dict[str, list[float]] = {}
    for natural, logits in zip(witness.predicted, witness.target, strict=True):
        for name, said in (("", natural), ("_equal", logits.argmax(1))):
            right = said == labels
            by_class = [right[labels == c].mean() for c in np.unique(labels)]
            found.setdefault(f"accuracy{name}", []).append(float(right.mean()))
            found.setdefault(f"mean_class_accuracy{name}", []).append(float(np.mean(by_class)))
    return {name: round(float(np.mean(values)), 4) for name, values in found.items()}


def used(votes: dict[str, float]) -> list[float]:
    """The votes that are combined."""
    return [value for name, value in votes.items() if name.startswith(AGREEMENT) or name in ("COT", "ATC")]


def table(lines: list[dict[str, Any]]) -> str:
    """The study in Markdown."""
    return "\n\n".join([errors(lines), intervals(lines), choices(lines)]) + "\n"


def errors(lines: list[dict[str, Any]]) -> str:
    """Mean absolute error of every vote and of the median, by family and method."""
    names = [*lines[0]["votes"], "combined"]
    said = [
        "| mean absolute error, points | " + " | ".join(names) + " | accuracy |",
        "| --- |" + " ---: |" * (len(names) + 1),
    ]
    for method in METHODS:
        for family in [*FAMILIES, "all families"]:
            some = [x for x in lines if x["method"] == method and family in (x["family"], "all families")]
            if not some:
                continue
            cells = []
            for name in names:
                found = [np.median(used(x["votes"])) if name == "combined" else x["votes"][name] for x in some]
                cells.append(f"{100 * np.mean([abs(v - x['accuracy']) for v, x in zip(found, some, strict=True)]):.1f}")
            mean = 100 * np.mean([x["accuracy"] for x in some])
            said.append(f"| {method}, {family} ({len(some)}) | " + " | ".join(cells) + f" | {mean:.1f} |")
    return "\n".join(said)


def intervals(lines: list[dict[str, Any]]) -> str:
    """Coverage of the interval: with its factor from the other families, and as it is shipped."""
    values = np.array([np.median(used(x["votes"])) for x in lines])
    scale = 0.1 + np.array([np.std(used(x["votes"])) for x in lines])
    truth, family = np.array([x["accuracy"] for x in lines]), np.array([x["family"] for x in lines])
    ratio = np.abs(truth - values) / scale
    said = [
        "| interval | factor | runs | told | covered | median width | mean absolute error |",
        "| --- |" + " ---: |" * 6,
    ]
    every = []
    for left_out in dict.fromkeys(family.tolist()):
        rest = family != left_out
        weights = np.array([1 / (family == name).sum() for name in family])[rest]
        order = np.argsort(ratio[rest])
        place = np.searchsorted(np.cumsum(weights[order]) / weights.sum(), 0.9)
        factor = float(ratio[rest][order][min(place, rest.sum() - 1)])
        own = ~rest
        low, high = np.minimum(values - factor * scale, 0.85)[own].clip(0), (values + factor * scale)[own].clip(max=1)
        told = high - low <= 0.5
        inside = (truth[own] >= low) & (truth[own] <= high)
        every.append((factor, told, inside, high - low, np.abs(truth - values)[own]))
        said.append(_row(f"{left_out}, factor from the others", f"{factor:.2f}", *every[-1][1:]))
    joined = [np.concatenate([each[i] for each in every]) for i in range(1, 5)]
    said.append(_row("all, each by the others", "", *joined))
    found = [estimate_accuracy(x["votes"], x["target"], x["held"]) for x in lines]
    told = np.array([each.value is not None for each in found])
    inside = np.array([e.value is not None and e.low <= t <= e.high for e, t in zip(found, truth, strict=True)])
    width = np.array([0.0 if e.value is None else e.high - e.low for e in found])
    said.append(_row("all, as shipped", "", told, inside, width, np.abs(truth - values)))
    return "\n".join(said)


def _row(name: str, factor: str, told: Any, inside: Any, width: Any, error: Any) -> str:
    found = f"{100 * inside[told].mean():.0f} % | {100 * np.median(width[told]):.0f} | {100 * error[told].mean():.1f}"
    return f"| {name} | {factor} | {len(told)} | {100 * told.mean():.0f} % | {found if told.any() else ' | | '} |"


def choices(lines: list[dict[str, Any]]) -> str:
    """What handing over by the rule costs and brings, by its slack, and how often harm is named rightly."""
    pairs: dict[tuple[str, str, int], dict[str, dict[str, Any]]] = {}
    for x in lines:
        pairs.setdefault((x["family"], x["task"], x["seed"]), {})[x["method"]] = x
    both = [(p["source-only"], p["jumbot"]) for p in pairs.values() if len(p) == 2]
    alone, adapted = (np.array([each[i]["accuracy"] for each in both]) for i in (0, 1))
    gain, changed = (np.array([j[name] for _, j in both]) for name in ("gain", "changed"))
    name = [f"{s['family']} {s['task']}" for s, _ in both]
    said = [
        "| handed over | accuracy | jumbot chosen | worst task against source-only |",
        "| --- | ---: | ---: | --- |",
    ]
    rules: dict[str, Any] = {"always source-only": np.zeros(len(both), bool), "always jumbot": np.ones(len(both), bool)}
    rules |= {
        f"slack {100 * s:g} points": (gain > -s) & (changed >= FEW) for s in (-0.02, 0.0, 0.02, SLACK, 0.04, 0.06)
    }
    rules["the better one, by labels"] = adapted > alone
    for rule, chosen in rules.items():
        kept = np.where(chosen, adapted, alone)
        fall: dict[str, list[float]] = {}
        for task, value in zip(name, kept - alone, strict=True):
            fall.setdefault(task, []).append(float(value))
        worst = min(fall, key=lambda task: np.mean(fall[task]))
        said.append(
            f"| {rule} | {100 * kept.mean():.2f} | {100 * chosen.mean():.0f} % | "
            f"{100 * np.mean(fall[worst]):.1f} ({worst}) |"
        )
    harmful, warned = adapted < alone - 0.01, (gain <= -SLACK) & (changed >= FEW)
    said.append(
        f"\nOf {harmful.sum()} runs in which JUMBOT lost more than a point, the rule of harm named "
        f"{(harmful & warned).sum()}; of {warned.sum()} that it named, {(warned & (adapted > alone + 0.01)).sum()} had "
        "gained more than a point."
    )
    return "\n".join(said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true")
    wanted = parser.parse_args()
    file = wanted.out / "records.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    if not wanted.table:
        wanted.out.mkdir(parents=True, exist_ok=True)
        done = {(x["family"], x["task"], x["seed"]) for x in lines}
        for seed in wanted.seeds:
            for task in tasks(seed=seed):
                if task.family not in wanted.families or (task.family, task.name, seed) in done:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = record(task, seed)
                lines += found
                with file.open("a") as opened:
                    opened.writelines(json.dumps(line) + "\n" for line in found)
                print(task.family, task.name, [line["accuracy"] for line in found], found[1]["seconds"], flush=True)
    print(table(lines))


if __name__ == "__main__":
    main()
