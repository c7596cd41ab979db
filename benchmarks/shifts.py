"""Every real shift that is present, by what people would try: plain classifiers, the default, JUMBOT, tune.

    python -m benchmarks.shifts [--tasks heart adult ...] [--seeds 0 1 2] [--tune] [--out results/shifts]

A line per run in `records.jsonl`: accuracy and mean over classes on the target, the estimate with its interval, the
decision, held-out source accuracy (`held_out`) and seconds.  Runs that are there are not repeated.  `--table` prints
the table.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import jumbot
from benchmarks.shift_tasks import DATA, encode
from jumbot.adaptation._evaluation.votes import HELD_OUT
from jumbot.adaptation._training.witnesses import folds

OUT = Path("results/shifts")
GENERAL = {"eta1": 0.01, "eta2": 0.5, "eta3": 1.0, "tau": 0.5}
PARTIAL = {"eta1": 0.003, "eta2": 0.75, "eta3": 10.0, "tau": 0.12}
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


def plain(source: Any, target: Any, how: dict[str, Any], make: Callable[[], Any]) -> dict[str, Any]:
    """A classifier of scikit-learn on the source alone; it is held out as ours is."""
    from sklearn.metrics import accuracy_score, balanced_accuracy_score

    if isinstance(source, str):
        import pandas

        frames = [pandas.read_csv(file) for file in (source, target)]
        rows = encode(frames[0], frames[1], how["label"])
        y, truth = (frame[how["label"]].to_numpy() for frame in frames)
    else:
        (X, y), (T, truth) = source, target
        rows = (X, T) if not how else (_statistics(X), _statistics(T))
    said = make().fit(rows[0], y).predict(rows[1])
    parts = folds(np.unique(y, return_inverse=True)[1], len(y), 0)
    right = [make().fit(rows[0][rest], y[rest]).predict(rows[0][held]) == y[held] for rest, held in parts]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "accuracy": float(accuracy_score(truth, said)),
            "mean": float(balanced_accuracy_score(truth, said)),
            "held_out": float(np.concatenate(right).mean()),
        }


def _statistics(X: np.ndarray) -> np.ndarray:
    spectrum = np.log(np.abs(np.fft.rfft(X, axis=-1))[..., 1:33] + 1e-3)
    return np.concatenate([X.mean(-1), X.std(-1), X.min(-1), X.max(-1), spectrum.reshape(len(X), -1)], 1)


def linear() -> Any:
    """Logistic regression on scaled rows."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(with_mean=False), LogisticRegression(max_iter=1000))


def boosted() -> Any:
    """Boosted trees, which want dense rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    dense = FunctionTransformer(lambda X: X.toarray() if hasattr(X, "toarray") else X, accept_sparse=True)
    return make_pipeline(dense, HistGradientBoostingClassifier(random_state=0))


def ours(source: Any, target: Any, how: dict[str, Any], seed: int, **asked: Any) -> dict[str, Any]:
    """A run of `jumbot.adapt`."""
    model = jumbot.adapt(source, target, seed=seed, **how, **asked)
    estimate = model.estimated_accuracy
    return {
        "accuracy": model.results["accuracy"],
        "mean": model.results["mean_class_accuracy"],
        "estimate": None if estimate is None else estimate.to_json(),
        "decision": None if model.decision is None else model.decision.method,
        "held_out": None if estimate is None else estimate.votes.get(HELD_OUT),
    }


def tuned(source: Any, target: Any, how: dict[str, Any], seed: int) -> dict[str, Any]:
    """What `jumbot.tune` picks."""
    best = jumbot.tune(source, target, seed=seed, jobs=1, **how)
    results = best.model.results
    return {
        "accuracy": results["accuracy"],
        "mean": results["mean_class_accuracy"],
        "decision": best.table["candidate"][0],
    }


def methods(tune: bool) -> dict[str, Callable[..., dict[str, Any]]]:
    """By name: (source, target, how, seed) -> figures."""
    found: dict[str, Callable[..., dict[str, Any]]] = {
        "logistic regression": lambda s, t, how, seed: plain(s, t, how, linear),
        "boosted trees": lambda s, t, how, seed: plain(s, t, how, boosted),
        "source-only": lambda s, t, how, seed: ours(s, t, how, seed, method="source-only"),
        "default": ours,
        "jumbot": lambda s, t, how, seed: ours(s, t, how, seed, method="jumbot"),
        "jumbot general": lambda s, t, how, seed: ours(s, t, how, seed, method="jumbot", **GENERAL),
        "jumbot partial": lambda s, t, how, seed: ours(s, t, how, seed, method="jumbot", **PARTIAL),
    }
    return found | ({"tune": tuned} if tune else {})


def table(lines: list[dict[str, Any]]) -> str:
    """Accuracy / mean over classes / held-out source in %, means over seeds; for the default also the estimate."""
    names = list(dict.fromkeys(x["method"] for x in lines))
    said = ["| task | " + " | ".join(names) + " | estimate of the default |", "| --- |" + " ---: |" * (len(names) + 1)]
    for task in dict.fromkeys(x["task"] for x in lines):
        cells = []
        for name in names:
            some = [x for x in lines if x["task"] == task and x["method"] == name]
            cells.append(" / ".join(_mean(some, key) for key in ("accuracy", "mean", "held_out")) if some else "")
        own = [x for x in lines if x["task"] == task and x["method"] == "default"]
        told = [
            f"{100 * e['value']:.0f} ({100 * e['low']:.0f} to {100 * e['high']:.0f})"
            if e and e["value"] is not None
            else "cannot be told"
            for e in (x.get("estimate") for x in own)
        ]
        said.append(f"| {task} | " + " | ".join(cells) + f" | {'; '.join(told)} |")
    return "\n".join(said)


def _mean(lines: list[dict[str, Any]], key: str) -> str:
    known = [x[key] for x in lines if x.get(key) is not None]
    return f"{100 * np.mean(known):.1f}" if known else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=[""], help="names, or how they begin")
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--out", type=Path, default=OUT)
    wanted = parser.parse_args()
    file = wanted.out / "records.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(x["task"], x["method"], x["seed"]) for x in lines}
    wanted.out.mkdir(parents=True, exist_ok=True)
    for name, source, target, how in () if wanted.table else tasks():
        for method, run in methods(wanted.tune).items():
            if not name.startswith(tuple(wanted.tasks)) or (wanted.methods and method not in wanted.methods):
                continue
            for seed in wanted.seeds[:1] if method in ("logistic regression", "boosted trees") else wanted.seeds:
                if (name, method, seed) in done:
                    continue
                start = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = run(source, target, how, seed)
                found |= {
                    "task": name,
                    "method": method,
                    "seed": seed,
                    "seconds": round(time.perf_counter() - start, 1),
                }
                lines.append(found)
                with file.open("a") as opened:
                    opened.write(json.dumps(found) + "\n")
                print(name, method, seed, found["accuracy"], found["mean"], found["seconds"], flush=True)
    print(table(lines))


if __name__ == "__main__":
    main()
