"""Whether `jumbot.shift` keeps its level and how often it sees shifts that are there, beside two rivals.

    python -m benchmarks.shift_power null [--trials 2000] [--seed 0]
    python -m benchmarks.shift_power power [--trials 100] [--n 250] [--data normal|skewed|measured|pictures] [--seed 0]
    python -m benchmarks.shift_power foreign [--seed 0]
    python -m benchmarks.shift_power large [--seed 0]

`null`: rejections at .05 where nothing has shifted, over sizes, widths, ties and categories. `power`: rejections at
.05 for eight shifts, by jumbot, MMD with aggregated kernels (written after Schrab et al., JMLR 2023: Gaussian and
Laplace kernels of ten bandwidths each, levels corrected by a second set of permutations) and a classifier two-sample
test (boosted trees on one half, Mann-Whitney's test of its scores on the other). `foreign`: the AUROC with which
samples put in by hand are ranked. `large`: seconds and memory of 10^6 rows of 50 columns against as many. Each part
is kept in results/shift.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import mannwhitneyu

import jumbot
from benchmarks.machine import describe
from benchmarks.origin import origin
from jumbot._shift.permutations import run_test
from jumbot._shift.pooled import make_pool
from jumbot._shift.whereabouts import explain, find_samples
from jumbot.data._sources import as_domain

OUT = Path("results/shift")
SHIFTS = ("location", "scale", "rotation", "outliers", "labels", "column", "cluster", "tails")
Array = np.ndarray[Any, Any]


def ours(x: Any, y: Any, seed: int, exchanges: int) -> float:
    """The p-value of the test alone, without effect and places."""
    rng = np.random.default_rng(seed)
    pool = make_pool(as_domain(x, name="x"), as_domain(y, name="y"), None, None, "same", rng)
    return run_test(pool, rng, count=exchanges).p_value


def aggregated_mmd(x: Array, y: Array, seed: int, permutations: int = 299, bandwidths: int = 10) -> bool:
    """Whether MMD with aggregated kernels rejects at .05."""
    rng = np.random.default_rng(seed)
    z, n, m = np.concatenate([x, y]), len(x), len(y)
    here = np.zeros((n + m, 2 * permutations + 1), np.float32)
    for column in range(here.shape[1]):
        here[np.arange(n) if column == 0 else rng.permutation(n + m)[:n], column] = 1
    found = []
    for metric in ("euclidean", "cityblock"):
        distances = cdist(z, z, metric)
        above = distances[np.triu_indices(n + m, 1)]
        ends = np.quantile(above[above > 0], 0.05) / 2, np.quantile(above, 0.95) * 2
        for width in np.geomspace(*ends, bandwidths):
            kernel = np.exp(-((distances / width) ** (2 if metric == "euclidean" else 1))).astype(np.float32)
            np.fill_diagonal(kernel, 0.0)
            product = kernel @ here
            xx, xy = (here * product).sum(0, dtype=np.float64), ((1 - here) * product).sum(0, dtype=np.float64)
            yy = kernel.sum(dtype=np.float64) - xx - 2 * xy
            found.append(xx / (n * (n - 1)) + yy / (m * (m - 1)) - 2 * xy / (n * m))
    values = np.array(found)
    known, other = np.sort(values[:, : permutations + 1], axis=1), values[:, permutations + 1 :]

    def quantiles(level: float) -> Array:
        place = int(np.ceil((permutations + 1) * (1 - level / len(values)))) - 1
        return known[:, np.clip(place, 0, permutations)]

    low, high = 0.0, float(len(values))
    for _ in range(40):
        middle = (low + high) / 2
        level = (other > quantiles(middle)[:, None]).any(0).mean()
        low, high = (middle, high) if level <= 0.05 else (low, middle)
    return bool((values[:, 0] > quantiles(low)).any())


def classifier_test(x: Array, y: Array, seed: int) -> float:
    """p-value of the scores of boosted trees on rows that they have not seen."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    z, label = np.concatenate([x, y]), np.repeat([0, 1], [len(x), len(y)])
    first, second = np.array_split(np.random.default_rng(seed).permutation(len(z)), 2)
    trees = HistGradientBoostingClassifier(max_iter=50, min_samples_leaf=10, random_state=seed)
    score = trees.fit(z[first], label[first]).decision_function(z[second])
    is_y = label[second] == 1
    return float(mannwhitneyu(score[is_y], score[~is_y], alternative="greater").pvalue)


def _clouds(n: int, shares: Array, rng: np.random.Generator, d: int = 10) -> Array:
    centres = np.random.default_rng(7).normal(size=(len(shares), d)) * 2.5
    return centres[rng.choice(len(shares), n, p=shares / shares.sum())] + rng.normal(size=(n, d))


def shifted(name: str, n: int, rng: np.random.Generator, d: int = 10) -> tuple[Array, Array]:
    """Rows of two sets that differ as `name` says."""
    x, y = rng.normal(size=(n, d)), rng.normal(size=(n, d))
    if name == "location":
        y += 0.09
    elif name == "scale":
        y *= 1.08
    elif name == "rotation":  # by 14 degrees in planes whose two directions differ in length
        lengths, (c, s) = np.array([0.3, 2.0, 0.5, 1.8, 0.7, 1.6, 0.9, 1.4, 1.1, 1.2]), (np.cos(0.25), np.sin(0.25))
        x, y = x * lengths, y * lengths
        turned = y.copy()
        turned[:, ::2], turned[:, 1::2] = c * y[:, ::2] - s * y[:, 1::2], s * y[:, ::2] + c * y[:, 1::2]
        y = turned
    elif name == "outliers":
        share = rng.choice([0.01, 0.03, 0.05])
        y[rng.random(n) < share] *= 3.0
    elif name == "labels":
        x, y = _clouds(n, np.full(4, 0.25), rng), _clouds(n, np.array([0.33, 0.25, 0.25, 0.17]), rng)
    elif name == "column":
        x, y = rng.normal(size=(n, 20)), rng.normal(size=(n, 20))
        y[:, 3] += 0.33
    elif name == "cluster":
        shares = np.array([*np.full(9, 0.105), 0.045])
        x, y = _clouds(n, shares, rng), _clouds(n, np.where(shares < 0.1, 0.0, shares), rng)
    elif name == "tails":
        y = rng.standard_t(5, size=(n, d)) * np.sqrt(3 / 5)
    return x, y


def shifted_skewed(name: str, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """As `shifted`, with columns that are lognormal and depend on each other, and sets of unequal size."""
    m, d = 5 * n // 8, 6

    def base(rows: int, columns: int = d) -> Array:
        return np.exp(rng.normal(size=(rows, columns)) / 2) + 0.3 * rng.normal(size=(rows, 1))

    x, y = base(n), base(m)
    if name == "location":
        y += 0.1
    elif name == "scale":
        y = (y - y.mean(0)) * 1.12 + y.mean(0)
    elif name == "rotation":
        lengths, (c, s) = np.array([0.4, 1.6, 0.6, 1.4, 0.8, 1.2]), (np.cos(0.3), np.sin(0.3))
        x, y = rng.laplace(size=(n, d)) * lengths, rng.laplace(size=(m, d)) * lengths
        y = np.stack([c * y[:, ::2] - s * y[:, 1::2], s * y[:, ::2] + c * y[:, 1::2]], axis=2).reshape(m, d)
    elif name == "outliers":
        here = rng.random(m) < rng.choice([0.01, 0.03, 0.05])
        y[here] += rng.normal(size=(here.sum(), d)) * 3
    elif name == "labels":
        centres = np.random.default_rng(3).normal(size=(3, d)) * 2
        x = centres[rng.choice(3, n, p=(0.3, 0.4, 0.3))] + rng.laplace(size=(n, d))
        y = centres[rng.choice(3, m, p=(0.4, 0.4, 0.2))] + rng.laplace(size=(m, d))
    elif name == "column":
        x, y = base(n, 20), base(m, 20)
        y[:, 7] *= 1.18
    elif name == "cluster":
        shares = np.array([*np.full(7, 0.137), 0.041])
        x, y = _clouds(n, shares, rng, d), _clouds(m, np.where(shares < 0.1, 0.0, shares), rng, d)
    elif name == "tails":
        x, y = rng.laplace(size=(n, d)), rng.standard_t(4, size=(m, d))
    return x, y


def shifted_measured(name: str, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """As `shifted`, of scikit-learn's breast cancer: 30 measured columns, standardised, most of them skewed."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    rows = (data.data - data.data.mean(0)) / data.data.std(0)
    order = rng.permutation(len(rows))
    x, y, label = rows[order[:n]], rows[order[n : 2 * n]], data.target[order[n : 2 * n]]
    if name == "location":
        y = y + 0.15 * np.sign(np.random.default_rng(1).normal(size=30))
    elif name == "scale":
        y = y * 1.15
    elif name == "rotation":
        c, s = np.cos(0.15), np.sin(0.15)
        y = np.concatenate([c * y[:, :15] - s * y[:, 15:], s * y[:, :15] + c * y[:, 15:]], axis=1)
    elif name == "outliers":
        y = np.where((rng.random(len(y)) < rng.choice([0.01, 0.03, 0.05]))[:, None], y * 3, y)
    elif name == "labels":
        y = y[(label == 1) | (rng.random(len(y)) < 0.7)]
    elif name == "column":
        y = y.copy()
        y[:, 11] += 0.33
    elif name == "cluster":  # the largest tumours are not there
        y = y[y[:, 0] < np.quantile(rows[:, 0], 0.95)]
    elif name == "tails":
        y = np.sign(y) * np.abs(y) ** 1.15
    return x, y


def shifted_pictures(name: str, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """As `shifted`, of scikit-learn's digits: 64 pixels from 0 to 16, many of them always 0."""
    from sklearn.datasets import load_digits

    data = load_digits()
    order = rng.permutation(len(data.data))
    x, y, label = data.data[order[:n]], data.data[order[n : 2 * n]].copy(), data.target[order[n : 2 * n]]
    if name == "location":
        y = y + 0.4 * (data.data.std(0) > 0)
    elif name == "scale":
        y = y * 0.95
    elif name == "rotation":  # by three degrees
        from scipy.ndimage import rotate

        y = rotate(y.reshape(-1, 8, 8), 3.0, axes=(1, 2), reshape=False, order=1).reshape(-1, 64)
    elif name == "outliers":
        strange = np.stack([rng.permutation(column) for column in y.T], axis=1)
        y = np.where((rng.random(len(y)) < rng.choice([0.01, 0.03, 0.05]))[:, None], strange, y)
    elif name == "labels":
        y = y[(label > 2) | (rng.random(len(y)) < 0.6)]
    elif name == "column":
        y[:, 20] = np.clip(y[:, 20] + 2.0, 0, 16)
    elif name == "cluster":
        y = y[(label != 4) | (rng.random(len(y)) < 0.4)]
    elif name == "tails":
        y = np.clip(y + rng.standard_t(2, size=y.shape) * 0.3, 0, 16)
    return x, y


DATA = {"pictures": shifted_pictures, "normal": shifted, "skewed": shifted_skewed, "measured": shifted_measured}


def power(trials: int, n: int, seed: int, data: str = "normal") -> dict[str, Any]:
    """The share of trials in which each test rejects at .05, by shift."""
    found: dict[str, Any] = {"data": data, "n": n, "trials": trials, "level": 0.05, "seed": seed}
    found |= {"power": {}, "seconds": {}}
    for name in SHIFTS:
        rejected: dict[str, list[bool]] = {"jumbot": [], "aggregated MMD": [], "classifier": []}
        for trial in range(trials):
            x, y = DATA[data](name, n, np.random.default_rng((seed, trial, 5)))
            for test, run in (
                ("jumbot", lambda: ours(x, y, trial, 299) <= 0.05),  # noqa: B023
                ("aggregated MMD", lambda: aggregated_mmd(x, y, trial)),  # noqa: B023
                ("classifier", lambda: classifier_test(x, y, trial) <= 0.05),  # noqa: B023
            ):
                start = time.perf_counter()
                rejected[test].append(run())
                found["seconds"][test] = found["seconds"].get(test, 0.0) + time.perf_counter() - start
        found["power"][name] = {test: float(np.mean(some)) for test, some in rejected.items()}
        print(name, found["power"][name], flush=True)
    found["mean"] = {t: float(np.mean([row[t] for row in found["power"].values()])) for t in ("jumbot", *_RIVALS)}
    found["seconds"] = {test: total / (trials * len(SHIFTS)) for test, total in found["seconds"].items()}
    return found


_RIVALS = ("aggregated MMD", "classifier")


def null_sets(kind: str, n: int, m: int, d: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Two sets of one distribution."""
    if kind == "categories":
        import pandas

        def table(rows: int) -> Any:
            made = {f"c{i}": rng.choice(list("abcde"), rows, p=(0.5, 0.3, 0.15, 0.04, 0.01)) for i in range(3)}
            gaps = np.where(rng.random(rows) < 0.1, np.nan, rng.gamma(2.0, size=rows))
            return pandas.DataFrame({**made, "x": rng.normal(size=rows), "gaps": gaps})

        return table(n), table(m)
    both = rng.normal(size=(n + m, d))
    if kind == "ties":
        both = np.round(both)
    elif kind == "tails":
        both = rng.standard_t(2, size=(n + m, d))
    return both[:n], both[n:]


def null(trials: int, seed: int, exchanges: int = 39) -> dict[str, Any]:
    """Rejections where there is nothing to find, in all and by setting."""
    settings = [
        ("plain", 200, 200, 1),
        ("plain", 200, 300, 5),
        ("plain", 400, 200, 50),
        ("ties", 200, 200, 2),
        ("ties", 300, 200, 10),
        ("tails", 200, 200, 5),
        ("categories", 250, 250, 5),
        ("categories", 200, 400, 5),
        ("plain", 1000, 200, 10),
        ("plain", 5000, 5000, 20),
    ]
    shares = [0.115] * 8 + [0.06, 0.02]  # few of the large ones: each takes as long as ten small ones
    rejected: dict[str, list[bool]] = {}
    start = time.perf_counter()
    for (kind, n, m, d), share in zip(settings, shares, strict=True):
        name = f"{kind}, {n} and {m} rows of {d}"
        for trial in range(round(trials * share)):
            rng = np.random.default_rng((seed, trial, n, m, d))
            x, y = null_sets(kind, n, m, d, rng)
            rejected.setdefault(name, []).append(ours(x, y, trial, exchanges) <= 0.05)
        print(name, np.mean(rejected[name]), f"{time.perf_counter() - start:.0f} s", flush=True)
    every = np.concatenate(list(rejected.values()))
    return {
        "trials": len(every),
        "exchanges": exchanges,
        "seed": seed,
        "rejected": float(every.mean()),
        "settings": {name: {"trials": len(some), "rejected": float(np.mean(some))} for name, some in rejected.items()},
    }


def foreign(seed: int) -> dict[str, Any]:
    """AUROC of foreign samples among the current ones, by the rank that `jumbot.shift` gives them."""
    from sklearn.datasets import load_breast_cancer, load_digits, load_wine
    from sklearn.metrics import roc_auc_score

    found = {}
    for name, load in (("digits", load_digits), ("wine", load_wine), ("cancer", load_breast_cancer)):
        data = load()
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(data.data))
        X = data.data[order]
        half, count = len(X) // 2, max(len(X) // 40, 5)
        for kind in ("shuffled columns", "other class"):
            reference, current = X[:half], X[half:]
            if kind == "shuffled columns":
                strange = np.stack([rng.permutation(column) for column in X.T], axis=1)[:count]
            else:
                label = data.target[order]
                reference, current = X[:half][label[:half] != 0], X[half:][label[half:] != 0]
                strange = X[half:][label[half:] == 0][:count]
            both = np.concatenate([current, strange])
            pool = make_pool(as_domain(reference), as_domain(both), None, None, "same", rng)
            samples = find_samples(pool, explain(pool, rng))  # the least explained first
            score = np.empty(len(both))
            score[[sample.row for sample in samples]] = -np.arange(len(samples))
            truth = np.repeat([0, 1], [len(current), len(strange)])
            found[f"{name}, {kind}"] = float(roc_auc_score(truth, score))
            print(name, kind, found[f"{name}, {kind}"], flush=True)
    return {"seed": seed, "auroc": found}


def large(seed: int, rows: int = 1_000_000, columns: int = 50) -> dict[str, Any]:
    """Seconds and memory of two large tables, one of them a little moved."""
    rng = np.random.default_rng(seed)
    x, y = (rng.normal(size=(rows, columns)).astype(np.float32) for _ in range(2))
    y[:, 0] += 0.2
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, used = time.perf_counter(), time.process_time()
    report = jumbot.shift(x, y, seed=seed)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "rows": rows,
        "columns": columns,
        "seconds": round(seconds, 1),
        "processor_seconds": round(used, 1),
        "load": os.getloadavg()[0],
        "megabytes_before": before // 1024,
        "megabytes_more": (after - before) // 1024,
        "p_value": report.p_value,
        "first_column": report.columns[0].name,
        "machine": describe(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("null", "power", "foreign", "large"))
    parser.add_argument("--trials", type=int)
    parser.add_argument("--n", type=int, default=250)
    parser.add_argument("--data", choices=tuple(DATA), default="normal")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    words = [asked.part]
    if asked.part == "null":
        found = null(asked.trials or 2000, asked.seed)
        words += ["--trials", str(asked.trials or 2000)]
    elif asked.part == "power":
        found = power(asked.trials or 100, asked.n, asked.seed, asked.data)
        words += ["--trials", str(asked.trials or 100), "--n", str(asked.n), "--data", asked.data]
    else:
        found = (foreign if asked.part == "foreign" else large)(asked.seed)
    asked.out.mkdir(parents=True, exist_ok=True)
    settings = {name: found[name] for name in ("data", "n", "trials", "level", "rows", "columns") if name in found}
    head = {"seed": asked.seed, "settings": settings or {"part": asked.part}}
    made = origin("shift_power", [*words, "--seed", str(asked.seed)]) | head | found
    name = f"power-{asked.data}" if asked.part == "power" else asked.part
    (asked.out / f"{name}.json").write_text(json.dumps(made, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
