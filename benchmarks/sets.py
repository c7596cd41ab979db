"""Prediction sets, and classes that the source lacks, with the networks that `adapt` trains.

    python -m benchmarks.sets sets [--families heart gas ...] [--each 3] [--seed 0]
    python -m benchmarks.sets left-out
    python -m benchmarks.sets unknown FEATURES.npz [--seed 0]

`sets`: of every family of `benchmarks.shift_tasks` some tasks; the default of `adapt`, sets at a coverage of .9, and
what plain split conformal prediction (equal weights, the same held-out scores) gives with the same model. `left-out`:
the constants of the rule chosen on all families but one and judged on that one, for each in turn, from what `sets`
kept. `unknown`: AUROC of target samples whose class the source lacks, the source having the first five classes of ten,
beside maximum softmax and entropy of the same model. Kept in results/sets; tasks that are there are not run again.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass
from itertools import islice, permutations
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import jumbot
from benchmarks.origin import origin
from benchmarks.shift_tasks import FAMILIES, Rows, tasks
from jumbot.adaptation._evaluation import sets
from jumbot.adaptation._evaluation.sets import Guarantee, weighted_quantile

OUT = Path("results/sets")
Array = np.ndarray[Any, Any]
COVERAGE = 0.9
HIDDEN = 5


def sets_of(task: Rows, seed: int) -> tuple[dict[str, Any], dict[str, Array]]:
    """Coverage and size of the sets of one task, ours and plain ones; and what any other rule needs to make its own."""
    start = time.perf_counter()
    model = jumbot.adapt((task.X, task.y), task.X_target, seed=seed)
    found = model.predict_set(task.X_target, COVERAGE)
    inside = np.array([truth in one for one, truth in zip(found.sets, task.y_target.tolist(), strict=True)])
    known = ~found.unknown
    assert model.guarantee is not None
    scores = model.guarantee.scores[:, 0]
    least = 1 - weighted_quantile(scores, np.ones(len(scores)), COVERAGE)
    q = model.predict_proba(task.X_target)
    plain = q >= least
    row = {
        "family": task.family,
        "task": task.name,
        "method": model.results["method"] if "method" in model.results else str(model.decision).split()[0].lower(),
        "accuracy": float((model.predict(task.X_target) == task.y_target).mean()),
        "promised": found.promised,
        "unknown": float(found.unknown.mean()),
        "coverage": float(inside[known].mean()),
        "size": float(found.sizes[known].mean()),
        "plain_coverage": float(plain[np.arange(len(plain)), task.y_target].mean()),
        "plain_size": float(plain.sum(1).mean()),
        "classes": len(np.unique(task.y)),
        "seconds": round(time.perf_counter() - start, 1),
    }
    return row, outcomes(model.guarantee, q[known], task.y_target[known])


def outcomes(guarantee: Guarantee, q: Array, truth: Array, points: int = 500) -> dict[str, Array]:
    """What a model keeps, and at thresholds of 1 - p the coverage and the mean size on the target's known samples."""
    scores, best = 1 - q, q.argmax(1)
    at = np.unique(np.quantile(scores, np.linspace(0, 1, points), method="higher"))
    own = np.where(best == truth, -np.inf, scores[np.arange(len(q)), truth])  # the likeliest is in any case
    covered = np.searchsorted(np.sort(own), at + 1e-12, side="right") / len(q)
    others = np.sort(np.delete(scores.ravel(), np.arange(len(q)) * q.shape[1] + best))
    size = 1 + np.searchsorted(others, at + 1e-12, side="right") / len(q)
    facts = np.array([guarantee.moved, guarantee.strange, guarantee.kind])
    return {
        "scores": guarantee.scores.astype(np.float32),
        "weights": guarantee.weights.astype(np.float32),
        "curve": guarantee.curve.astype(np.float32),
        "facts": facts,
        "seen": np.stack([at, covered, size]).astype(np.float32),
    }


@dataclass(frozen=True)
class Rule:
    """The constants of the rule that makes sets and promises something of them."""

    spent: float
    largest: float
    moved: float = sets.LEAST_MOVED

    def judged(self, row: dict[str, Any], kept: dict[str, Array]) -> dict[str, Any]:
        """Coverage and size on a task, and whether something is promised, with these constants."""
        scores, weights, curve = (kept[name].astype(float) for name in ("scores", "weights", "curve"))
        moved, strange, kind = kept["facts"].tolist()
        made = Guarantee(scores, weights, moved, curve, strange, int(kind))
        with patch.multiple(sets, _SPENT=self.spent, _LARGEST=self.largest, LEAST_MOVED=self.moved):
            (threshold,), promised = made.thresholds(COVERAGE), not made.why_not(COVERAGE)
        at, covered, size = kept["seen"].astype(float)
        place = max(int(np.searchsorted(at, threshold + 1e-6, side="right")) - 1, 0)
        return row | {"coverage": float(covered[place]), "size": float(size[place]), "promised": promised}


RULES = tuple(
    Rule(spent, largest, moved)
    for spent in (0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0)
    for largest in (1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.6, 100.0)
    for moved in (0.3, 0.5, 0.7)
)


def cost(rows: list[dict[str, Any]]) -> tuple[float, float]:
    """What a rule costs, families alike: a promise that is broken 1, sets of more than 1.3 times plain ones where these
    cover 1, a task below 85 % .5, no promise .25; then the size beside plain sets."""

    def of(row: dict[str, Any]) -> tuple[float, float]:
        missed, larger = row["coverage"] < 0.85, row["size"] / row["plain_size"]
        dear = row["plain_coverage"] >= 0.85 and larger > 1.3
        broken = missed and row["promised"]
        return 1.0 * broken + 1.0 * (dear and row["promised"]) + 0.5 * missed + 0.25 * (not row["promised"]), larger

    families = sorted({row["family"] for row in rows})
    every = [np.mean([of(row) for row in rows if row["family"] == one], axis=0) for one in families]
    return tuple(np.mean(every, axis=0).round(9).tolist())


def left_out(rows: list[dict[str, Any]], kept: list[dict[str, Array]]) -> dict[str, Any]:
    """Each family judged by the rule that all others choose, beside the rule that ships."""
    by_rule = {rule: [rule.judged(row, one) for row, one in zip(rows, kept, strict=True)] for rule in RULES}
    families, judged, chosen = sorted({row["family"] for row in rows}), [], {}
    for family in families:
        best = min(RULES, key=lambda rule: cost([row for row in by_rule[rule] if row["family"] != family]))
        chosen[family] = asdict(best)
        judged += [row for row in by_rule[best] if row["family"] == family]
    ships = Rule(sets._SPENT, sets._LARGEST)
    shipped = [ships.judged(row, one) for row, one in zip(rows, kept, strict=True)]
    return {"chosen": chosen, "left out": summary(judged), "as shipped": summary(shipped), "rows": judged}


def unknown_of(data: Any, a: str, b: str, seed: int) -> dict[str, Any]:
    """AUROC of unknown against known samples of one task."""
    from sklearn.metrics import roc_auc_score

    (X, y), (T, truth) = ((data[f"{name}_X"], data[f"{name}_y"]) for name in (a, b))
    shown = y < HIDDEN
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        model = jumbot.adapt((X[shown], y[shown]), T, seed=seed, out=out, unknown=True, report=False)
        with (out / "predictions.csv").open(newline="") as stream:
            rows = list(csv.DictReader(stream))
    q = np.maximum(model.predict_proba(T), 1e-12)
    strange = truth >= HIDDEN
    marked = np.array([row["unknown"] in ("1", "True", "true") for row in rows])
    return {
        "task": f"{a} -> {b}",
        "jumbot": float(roc_auc_score(strange, [float(row["unknown_score"]) for row in rows])),
        "maximum softmax": float(roc_auc_score(strange, -q.max(1))),
        "entropy": float(roc_auc_score(strange, -(q * np.log(q)).sum(1))),
        "marked of unknown": float(marked[strange].mean()),
        "marked of known": float(marked[~strange].mean()),
        "accuracy on known": float((model.predict(T) == truth)[~strange].mean()),
    }


def photographs(file: Path) -> tuple[dict[str, Any], list[str]]:
    """Rows and labels of the domains in a file of features, and the domains' names."""
    found = np.load(file, allow_pickle=False)
    rows, labels, domains = found["features"], np.unique(found["label"], return_inverse=True)[1], found["domain"]
    names = [str(name) for name in np.unique(domains)]
    data = {f"{name}_X": rows[domains == name].astype(np.float32) for name in names}
    return data | {f"{name}_y": labels[domains == name] for name in names}, names


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the floors ask for."""
    good = [row["coverage"] >= 0.85 for row in rows]
    ratios = [row["size"] / max(row["plain_size"], 1e-9) for row in rows if row["plain_coverage"] >= 0.85]
    return {
        "tasks": len(rows),
        "covered": float(np.mean(good)),
        "covered where promised": float(np.mean([g for g, r in zip(good, rows, strict=True) if r["promised"]] or [1])),
        "promised": float(np.mean([row["promised"] for row in rows])),
        "plain covered": float(np.mean([row["plain_coverage"] >= 0.85 for row in rows])),
        "mean size": float(np.mean([row["size"] for row in rows])),
        "plain mean size": float(np.mean([row["plain_size"] for row in rows])),
        "largest size beside plain": max(ratios, default=float("nan")),
        "largest size beside plain where promised": max(
            (r["size"] / r["plain_size"] for r in rows if r["plain_coverage"] >= 0.85 and r["promised"]),
            default=float("nan"),
        ),
        "most unknown": max(row["unknown"] for row in rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("sets", "left-out", "unknown"))
    parser.add_argument("features", type=Path, nargs="?")
    parser.add_argument("--families", nargs="+", choices=tuple(FAMILIES), default=tuple(FAMILIES))
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    file = asked.out / f"{asked.part}.json"
    rows: list[dict[str, Any]] = json.loads(file.read_text())["rows"] if file.exists() else []
    warnings.simplefilter("ignore")

    def keep(row: dict[str, Any]) -> None:
        rows.append(row)
        print(json.dumps(row), flush=True)
        words = [asked.part, *(["features.npz"] if asked.part == "unknown" else ["--each", str(asked.each)])]
        record: dict[str, Any] = origin("sets", [*words, "--seed", str(asked.seed)])
        record |= {"seed": asked.seed, "settings": {"coverage": COVERAGE, "hidden classes": HIDDEN}}
        record["summary"] = summary(rows) if asked.part == "sets" else _means(rows)
        file.write_text(json.dumps(record | {"rows": rows}, indent=2) + "\n")

    if asked.part == "left-out":
        rows = json.loads((asked.out / "sets.json").read_text())["rows"]
        kept = [dict(np.load(asked.out / _file_of(row))) for row in rows]
        found = left_out(rows, kept)
        record = origin("sets", ["left-out"]) | {"seed": asked.seed, "settings": {"rules": len(RULES)}} | found
        file.write_text(json.dumps(record, indent=2) + "\n")
        print(json.dumps({name: found[name] for name in found if name != "rows"}, indent=2))
        return
    if asked.part == "unknown":
        data, names = photographs(asked.features)
        for a, b in permutations(names, 2):
            if f"{a} -> {b}" not in {row["task"] for row in rows}:
                keep(unknown_of(data, a, b, asked.seed))
        return
    for family in asked.families:
        for task in islice(tasks(seed=asked.seed, families=[family]), asked.each):
            if (family, task.name) not in {(row["family"], row["task"]) for row in rows}:
                row, kept = sets_of(task, asked.seed)
                np.savez_compressed(asked.out / _file_of(row), **kept)
                keep(row)


def _file_of(row: dict[str, Any]) -> str:
    return f"{row['family']} {row['task']}.npz".replace(" -> ", " to ").replace(" ", "-")


def _means(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0] if name != "task"}


if __name__ == "__main__":
    main()
