"""Every real shift that is present, by what people would try: plain models, the default, JUMBOT, tune.

    python -m benchmarks.shifts [--tasks heart adult ...] [--seeds 0 1 2] [--tune MINUTES] [--out results/shifts]

The default returns source-only or JUMBOT; that one is not trained once more.

A line per run in `records.jsonl`: accuracy and mean over classes on the target (of numbers R2, as `accuracy`), the
estimate with its interval, the decision, held-out source accuracy (`held_out`), seconds and date.  Runs that are there
are not repeated; seeds come one after the other, so that a part of the study has whole seeds.  `--table` prints the
table.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import jumbot
from benchmarks.origin import origin
from benchmarks.shift_tasks import DATA, encode
from jumbot.adaptation._evaluation.votes import HELD_OUT
from jumbot.adaptation._networks.stems import Statistics
from jumbot.adaptation._training.witnesses import folds

OUT = Path("results/shifts")
GENERAL = {"eta1": 0.01, "eta2": 0.5, "eta3": 1.0, "tau": 0.5}
PARTIAL = {"eta1": 0.003, "eta2": 0.75, "eta3": 10.0, "tau": 0.06}
PLAIN = ("linear model", "boosted trees")
COLUMNS = (*PLAIN, "source-only", "jumbot", "jumbot general", "jumbot partial", "tune", "default")
Task = tuple[str, Any, Any, dict[str, Any]]
"""Name, labelled source, labelled target, and how they are read."""


def tasks(data: Path = DATA / "shifts") -> Iterator[Task]:
    """Those whose files are there."""
    if (data / "heart_cleveland.csv").exists():
        for place in ("hungarian", "switzerland", "va"):
            source, target = (str(data / f"heart_{name}.csv") for name in ("cleveland", place))
            yield f"heart {place}", source, target, {"label": "disease"}
        adult = (str(data / f"adult_{name}.csv") for name in ("private", "government"))
        yield "adult", *adult, {"label": "income"}  # type: ignore[misc]
    if (data / "gas.npz").exists():
        with np.load(data / "gas.npz") as kept:
            parts = {i: (kept[f"X{i}"], kept[f"y{i}"]) for i in (1, 2, 3, 4)}
        for i in (2, 3, 4):
            yield f"gas 1 -> {i}", parts[1], parts[i], {}
    if (data / "amazon_books_train.npz").exists():
        import scipy.sparse

        for a, b in (("books", "kitchen"), ("kitchen", "books")):
            names = f"amazon_{a}_train", f"amazon_{b}_test"
            both = [(scipy.sparse.load_npz(data / f"{n}.npz"), np.load(data / f"{n}_y.npy")) for n in names]
            yield f"amazon {a} -> {b}", *both, {}  # type: ignore[misc]
    if (data / "watch.npz").exists():
        with np.load(data / "watch.npz") as kept:
            X, y, right, subject = kept["X"].astype(np.float32), kept["y"], kept["side"] == 1, kept["subject"]
        for name, mask in (("right -> left", right), ("subjects", subject <= 5)):
            yield f"watch {name}", (X[mask], y[mask]), (X[~mask], y[~mask]), {"kind": "signal"}
    if (data / "bike_2011.csv").exists():
        bike = (str(data / f"bike_{year}.csv") for year in (2011, 2012))
        yield "bike", *bike, {"label": "count", "task": "regression"}  # type: ignore[misc]


def plain(source: Any, target: Any, how: dict[str, Any], make: Callable[[bool, bool], Any]) -> dict[str, Any]:
    """A model of scikit-learn on the source alone; it is held out as ours is."""
    from sklearn.metrics import balanced_accuracy_score, r2_score

    numbers, y, truth, rows = "task" in how, *_rows(source, target, how)

    def fitted(X: Any, y: np.ndarray) -> Any:
        return make(numbers, hasattr(X, "toarray")).fit(X, y)

    predicted = fitted(rows[0], y).predict(rows[1])
    parts = folds(None if numbers else np.unique(y, return_inverse=True)[1], len(y), 0)
    held = np.concatenate([fitted(rows[0][rest], y[rest]).predict(rows[0][unseen]) for rest, unseen in parts])
    known = np.concatenate([y[unseen] for _, unseen in parts])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if numbers:
            return {"accuracy": float(r2_score(truth, predicted)), "held_out": float(r2_score(known, held))}
        return {
            "accuracy": float(np.mean(truth == predicted)),
            "mean": float(balanced_accuracy_score(truth, predicted)),
            "held_out": float(np.mean(known == held)),
        }


def _rows(source: Any, target: Any, how: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, tuple[Any, Any]]:
    """Labels of both, and their samples as people would give them to such a model."""
    if isinstance(source, str):
        import pandas

        frames = [pandas.read_csv(file) for file in (source, target)]
        y, truth = (frame[how["label"]].to_numpy() for frame in frames)
        return y, truth, encode(frames[0], frames[1], how["label"])
    (X, y), (T, truth) = source, target
    if "kind" in how:
        X, T = (Statistics(*x.shape[1:]).measure(torch.from_numpy(x)).double().numpy() for x in (X, T))
    return y, truth, (X, T)


def linear(numbers: bool, words: bool) -> Any:
    """Logistic or ridge regression on scaled columns; counts of words each divided by its maximum."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler, StandardScaler

    scaler = MaxAbsScaler() if words else StandardScaler()
    return make_pipeline(scaler, Ridge() if numbers else LogisticRegression(max_iter=2000))


def boosted(numbers: bool, words: bool) -> Any:
    """Boosted trees, which want dense rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    model = (HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier)(random_state=0)
    dense = FunctionTransformer(lambda X: X.toarray(), accept_sparse=True)
    return make_pipeline(dense, model) if words else model


def ours(source: Any, target: Any, how: dict[str, Any], seed: int, **asked: Any) -> dict[str, Any]:
    """A run of `jumbot.adapt`."""
    model = jumbot.adapt(source, target, seed=seed, **how, **asked)
    estimate = model.estimated_accuracy
    return {
        **_figures(model),
        "estimate": None if estimate is None else asdict(estimate),
        "decision": None if model.decision is None else model.decision.method,
        "held_out": None if estimate is None else estimate.votes.get(HELD_OUT),
    }


def tuned(source: Any, target: Any, how: dict[str, Any], seed: int, minutes: float) -> dict[str, Any]:
    """What `jumbot.tune` picks in so many minutes."""
    best = jumbot.tune(source, target, seed=seed, jobs=1, minutes=minutes, **how)
    tried = {"candidates": len(best.table), "minutes": minutes}
    return {**_figures(best.model), "decision": best.table["candidate"][0], **tried}


def _figures(model: jumbot.Model) -> dict[str, Any]:
    found = model.results
    return {"accuracy": found.get("accuracy", found.get("r2")), "mean": found.get("mean_class_accuracy")}


def methods(tune: float | None) -> dict[str, Callable[..., dict[str, Any]]]:
    """By name: (source, target, how, seed) -> figures."""
    found: dict[str, Callable[..., dict[str, Any]]] = {
        PLAIN[0]: lambda s, t, how, seed: plain(s, t, how, linear),
        PLAIN[1]: lambda s, t, how, seed: plain(s, t, how, boosted),
        "default": ours,
        "source-only": lambda s, t, how, seed: ours(s, t, how, seed, method="source-only"),
        "jumbot": lambda s, t, how, seed: ours(s, t, how, seed, method="jumbot"),
        "jumbot general": lambda s, t, how, seed: ours(s, t, how, seed, method="jumbot", **GENERAL),
        "jumbot partial": lambda s, t, how, seed: ours(s, t, how, seed, method="jumbot", **PARTIAL),
    }
    if tune is not None:
        found["tune"] = lambda s, t, how, seed: tuned(s, t, how, seed, tune)
    return found


def table(lines: list[dict[str, Any]]) -> str:
    """Accuracy / mean over classes in %, means over seeds; of the default also what it returned and estimated."""
    names = [name for name in COLUMNS if any(x["method"] == name for x in lines)]
    head = ["task", *names, "returned", "estimate of the default", "seconds of the default"]
    text = [_row(head), "| --- |" + " ---: |" * len(names) + " --- | ---: | ---: |"]
    every = list(dict.fromkeys(x["task"] for x in lines))
    for task in every:
        some = [[x for x in lines if (x["task"], x["method"]) == (task, name)] for name in names]
        own = [x for x in lines if (x["task"], x["method"]) == (task, "default")]
        cells = [" / ".join(_mean(each, key) for key in ("accuracy", "mean")) if each else "" for each in some]
        seconds = f"{np.mean([x['processor_seconds'] for x in own]):.0f}" if own else ""
        returned, estimated = ", ".join(str(x["decision"]) for x in own), "; ".join(map(_estimate, own))
        text.append(_row([task, *cells, returned, estimated, seconds]))
    classes = [task for task in every if any(x["task"] == task and x.get("mean") is not None for x in lines)]
    for words, seeds in (("all seeds", (0, 1, 2)), ("seed 0", (0,))):
        cells = [
            _over_tasks([x for x in lines if x["method"] == name and x["seed"] in seeds], classes) for name in names
        ]
        text.append(_row([f"mean of {len(classes)}, {words}", *cells, "", "", ""]))
    seeds = [str(len({x["seed"] for x in lines if x["method"] == name})) for name in names]
    text.append(_row(["seeds", *seeds, "", "", ""]))
    return "\n".join([*text, "", *_summary(lines)])


def _over_tasks(lines: list[dict[str, Any]], tasks: list[str]) -> str:
    """The mean over tasks of the mean over seeds; empty where a task is missing."""
    by_task = [[x for x in lines if x["task"] == task] for task in tasks]
    if not all(by_task):
        return ""
    return " / ".join(
        f"{100 * np.mean([np.mean([x[k] for x in some]) for some in by_task]):.1f}" for k in ("accuracy", "mean")
    )


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _estimate(line: dict[str, Any]) -> str:
    found = line.get("estimate")
    if not found or found["value"] is None:
        return "cannot be determined"
    return f"{100 * found['value']:.0f} ({100 * found['low']:.0f} to {100 * found['high']:.0f})"


def _summary(lines: list[dict[str, Any]]) -> list[str]:
    """How often estimates are told and right, and how far the default falls below source-only."""
    given = [x for x in lines if x.get("mean") is not None and x.get("estimate")]
    told = [(x["accuracy"], x["estimate"]) for x in given if x["estimate"]["value"] is not None]
    right = sum(e["low"] <= a <= e["high"] for a, e in told)
    width, error = (
        100 * np.median([e["high"] - e["low"] for _, e in told]),
        100 * np.mean([abs(e["value"] - a) for a, e in told]),
    )
    bad = sum(e["low"] > 0.85 and a < 0.75 for a, e in told)
    found = [
        f"{len(given)} estimates, {len(told)} told, {right} right, median width {width:.0f}, mean error {error:.1f}, "
        f"{bad} with a lower end above 85 % where less than 75 % are right."
    ]
    by_run = {(x["task"], x["method"], x["seed"]): 100 * x["accuracy"] for x in lines}
    for name in ("default", "tune"):
        change: dict[str, list[float]] = {}
        for (task, method, seed), value in by_run.items():
            if method == name and (task, "source-only", seed) in by_run:
                change.setdefault(task, []).append(value - by_run[task, "source-only", seed])
        if change:
            by_task = {task: float(np.mean(each)) for task, each in change.items()}
            worst = min(by_task, key=by_task.__getitem__)
            runs = min(min(each) for each in change.values())
            found.append(
                f"{name} less source-only: the worst task {by_task[worst]:+.1f} ({worst}), the worst run {runs:+.1f}."
            )
    return found


def _mean(lines: list[dict[str, Any]], key: str) -> str:
    known = [x[key] for x in lines if x.get(key) is not None]
    return f"{100 * np.mean(known):.1f}" if known else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=[""], help="names, or how they begin")
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tune", type=float, metavar="MINUTES", help="tune, too, for so long a task")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--out", type=Path, default=OUT)
    wanted = parser.parse_args()
    file = wanted.out / "records.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(x["task"], x["method"], x["seed"]) for x in lines}
    wanted.out.mkdir(parents=True, exist_ok=True)
    runs = [
        (seed, *task, method, run)
        for seed in wanted.seeds
        for task in (() if wanted.table else tasks())
        for method, run in methods(wanted.tune).items()
        if task[0].startswith(tuple(wanted.tasks)) and (not wanted.methods or method in wanted.methods)
    ]
    for seed, name, source, target, how, method, run in runs:
        seed = 0 if method in PLAIN else seed
        if (name, method, seed) in done:
            continue
        done.add((name, method, seed))
        chosen = next((x for x in lines if (x["task"], x["method"], x["seed"]) == (name, "default", seed)), None)
        if chosen is not None and chosen["decision"] == method:
            lines.append(chosen | {"method": method, "trained": "by the default, which handed it over"})
            with file.open("a") as opened:
                opened.write(json.dumps(lines[-1]) + "\n")
            continue
        start = time.perf_counter(), time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = {"task": name, "method": method, "seed": seed} | run(source, target, how, seed)
        seconds = time.perf_counter() - start[0], time.process_time() - start[1]
        found |= {"seconds": round(seconds[0], 1), "processor_seconds": round(seconds[1], 1)}
        found |= origin("shifts", sys.argv[1:])
        lines.append(found)
        with file.open("a") as opened:
            opened.write(json.dumps(found) + "\n")
        print(name, method, seed, found["accuracy"], found.get("mean"), *seconds, flush=True)
    print(table(lines))


if __name__ == "__main__":
    main()
