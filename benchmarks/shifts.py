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
        "estimate": None if estimate is None else estimate.to_json(),
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
    """Accuracy / mean over classes / held-out source in %, means over seeds; for the default also the estimate."""
    names = list(dict.fromkeys(x["method"] for x in lines))
    text = ["| task | " + " | ".join(names) + " | estimate of the default |", "| --- |" + " ---: |" * (len(names) + 1)]
    for task in dict.fromkeys(x["task"] for x in lines):
        cells = []
        for name in names:
            some = [x for x in lines if x["task"] == task and x["method"] == name]
            cells.append(" / ".join(_mean(some, key) for key in ("accuracy", "mean", "held_out")) if some else "")
        own = [x for x in lines if x["task"] == task and x["method"] == "default"]
        estimated = [
            f"{100 * e['value']:.0f} ({100 * e['low']:.0f} to {100 * e['high']:.0f})"
            if e and e["value"] is not None
            else "cannot be determined"
            for e in (x.get("estimate") for x in own)
        ]
        text.append(f"| {task} | " + " | ".join(cells) + f" | {'; '.join(estimated)} |")
    return "\n".join(text)


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
