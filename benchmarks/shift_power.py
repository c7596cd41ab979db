"""Whether `jumbot.shift` keeps its level and how often it sees shifts that are there, beside two rivals.

    python -m benchmarks.shift_power null [--trials 2000] [--seed 0]
    python -m benchmarks.shift_power power [--trials 100] [--n 250] [--data KIND] [--seed 0]
    python -m benchmarks.shift_power foreign [--trials 20] [--seed 0]
    python -m benchmarks.shift_power large [--seed 0]

`null`: rejections at .05 where nothing has shifted, over sizes, widths, ties and categories. `power`: rejections at
.05 for eight shifts, by jumbot, MMD with aggregated kernels (written after Schrab et al., JMLR 2023: Gaussian and
Laplace kernels of ten bandwidths each, levels corrected by a second set of permutations) and a classifier two-sample
test (boosted trees on one half, Mann-Whitney's test of its scores on the other). KIND is normal, skewed, measured,
pictures, patients or words. `foreign`: the AUROC with which samples put in by hand are ranked, over many draws.
`large`: seconds and memory of 10^6 rows of 50 columns against as many. Each part is kept in results/shift.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
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


def shifted_patients(name: str, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """As `shifted`, of scikit-learn's diabetes: 442 patients, ten columns, six of them blood tests that depend on each
    other, one of two values; standardised."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    rows = (data.data - data.data.mean(0)) / data.data.std(0)
    order = rng.permutation(len(rows))
    x, y, ill = rows[order[:221]], rows[order[221:]].copy(), data.target[order[221:]]
    if name == "location":
        y += 0.16 * np.sign(np.random.default_rng(2).normal(size=10))
    elif name == "scale":
        y *= 1.12
    elif name == "rotation":
        c, s = np.cos(0.25), np.sin(0.25)
        y = np.concatenate([c * y[:, :5] - s * y[:, 5:], s * y[:, :5] + c * y[:, 5:]], axis=1)
    elif name == "outliers":
        y[rng.random(len(y)) < rng.choice([0.01, 0.03, 0.05])] *= 2.5
    elif name == "labels":
        y = y[(ill < np.median(data.target)) | (rng.random(len(y)) < 0.6)]
    elif name == "column":
        y[:, 3] += 0.35
    elif name == "cluster":  # the heaviest of the women are not there
        y = y[(y[:, 1] < 0) | (y[:, 2] < np.quantile(rows[:, 2], 0.88))]
    elif name == "tails":
        y = np.sign(y) * np.abs(y) ** 1.2
    return x, y


def shifted_words(name: str, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """As `shifted`, of made-up texts: counts of 400 words in five topics, most of them zero."""
    fixed = np.random.default_rng(11)
    words = 1 / (1 + np.arange(400.0))
    topics = words * fixed.gamma(0.3, size=(5, 400))
    usual = np.full(5, 0.2)
    other, mixed, length, bursts, noise = usual, 0.3, 60.0, 4.0, 0.0
    changed = topics.copy()
    if name == "location":
        changed = topics * np.exp(0.35 * fixed.normal(size=400))
    elif name == "scale":  # longer texts
        length = 66.0
    elif name == "rotation":  # texts mix topics more than they did
        mixed = 0.5
    elif name == "outliers":
        noise = float(rng.choice([0.01, 0.03, 0.05]))
    elif name == "labels":
        other = np.array([0.28, 0.2, 0.2, 0.2, 0.12])
    elif name == "column":
        changed = topics.copy()
        changed[:, 6] *= 2.5
    elif name == "cluster":
        usual = np.array([0.24, 0.24, 0.24, 0.24, 0.04])
        other = np.array([0.25, 0.25, 0.25, 0.25, 0.0])
    elif name == "tails":  # words come in bursts
        bursts = 1.5

    def texts(shares: Array, of: Array, mixed: float, length: float, bursts: float, strange: float) -> Array:
        of = of / of.sum(1, keepdims=True)
        own = rng.dirichlet(np.full(5, mixed / 5) + 1e-3, size=n) * mixed
        own += (1 - mixed) * np.eye(5)[rng.choice(5, n, p=shares)]
        rates = own @ of / own.sum(1, keepdims=True)
        here = rng.random(n) < strange
        rates[here] = 1 / 400
        rates = rates * length * rng.gamma(bursts, size=rates.shape) / bursts
        return rng.poisson(rates * rng.gamma(5.0, size=(n, 1)) / 5).astype(float)

    return texts(usual, topics, 0.3, 60.0, 4.0, 0.0), texts(other, changed, mixed, length, bursts, noise)


DATA = {
    "normal": shifted,
    "skewed": shifted_skewed,
    "measured": shifted_measured,
    "pictures": shifted_pictures,
    "patients": shifted_patients,
    "words": shifted_words,
}


def power(trials: int, n: int, seed: int, data: str, keep: Callable[[dict[str, Any]], None], found: Any) -> None:
    """The share of trials in which each test rejects at .05, by shift; cells that `found` has are not run again."""
    tests: dict[str, Callable[[Array, Array, int], bool]] = {
        "jumbot": lambda x, y, trial: ours(x, y, trial, 299) <= 0.05,
        "aggregated MMD": aggregated_mmd,
        "classifier": lambda x, y, trial: classifier_test(x, y, trial) <= 0.05,
    }
    found |= {"data": data, "n": n, "trials": trials, "level": 0.05, "seed": seed}
    for name in SHIFTS:
        row = found.setdefault("power", {}).setdefault(name, {})
        for test in tests.keys() - row.keys():
            drawn = (DATA[data](name, n, np.random.default_rng((seed, trial, 5))) for trial in range(trials))
            row[test] = float(np.mean([tests[test](x, y, trial) for trial, (x, y) in enumerate(drawn)]))
        print(data, name, row, flush=True)
        found["mean"] = {t: float(np.mean([r[t] for r in found["power"].values() if t in r])) for t in tests}
        keep(found)


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


def null(trials: int, seed: int, keep: Callable[[dict[str, Any]], None], found: Any, exchanges: int = 39) -> None:
    """Rejections where there is nothing to find, in all and by setting; settings that `found` has are not run again."""
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
    found |= {"trials": trials, "exchanges": exchanges, "seed": seed}
    for (kind, n, m, d), share in zip(settings, shares, strict=True):
        name = f"{kind}, {n} and {m} rows of {d}"
        if name in found.setdefault("settings", {}):
            continue
        rejected = []
        for trial in range(round(trials * share)):
            rng = np.random.default_rng((seed, trial, n, m, d))
            x, y = null_sets(kind, n, m, d, rng)
            rejected.append(ours(x, y, trial, exchanges) <= 0.05)
        found["settings"][name] = {"trials": len(rejected), "rejected": float(np.mean(rejected))}
        every = found["settings"].values()
        found["trials"] = sum(one["trials"] for one in every)
        found["rejected"] = sum(one["trials"] * one["rejected"] for one in every) / found["trials"]
        print(name, found["settings"][name], flush=True)
        keep(found)


FOREIGN = ("shuffled columns", "other class", "one column", "far out")


def with_foreign(kind: str, X: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Reference, current rows, and foreign rows: five, or one in forty."""
    order = rng.permutation(len(X))
    half, count = len(X) // 2, max(len(X) // 40, 5)
    reference, current = X[order[:half]], X[order[half:]]
    if kind == "other class":
        hidden = rng.choice(np.unique(y))
        there = y[order[half:]] == hidden
        return reference[y[order[:half]] != hidden], current[~there], current[there][:count]
    strange, current = current[:count].copy(), current[count:]
    if kind == "shuffled columns":
        strange = np.stack([rng.choice(column, count) for column in X.T], axis=1)
    elif kind == "one column":  # four deviations off
        place = rng.choice(np.flatnonzero(X.std(0) > 0), count)
        strange[np.arange(count), place] += 4 * X.std(0)[place] * rng.choice([-1, 1], count)
    else:
        strange = X.mean(0) + 2 * (strange - X.mean(0))
    return reference, current, strange


def foreign(draws: int, seed: int) -> dict[str, Any]:
    """AUROC of foreign samples among the current ones, by the rank that `jumbot.shift` gives them."""
    from sklearn import datasets
    from sklearn.metrics import roc_auc_score

    found = {}
    for name in ("wine", "breast_cancer", "iris", "diabetes", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        for kind in FOREIGN:
            if name == "diabetes" and kind == "other class":
                continue
            values = []
            for draw in range(draws):
                rng = np.random.default_rng((seed, draw))
                reference, current, strange = with_foreign(kind, X, y, rng)
                both = np.concatenate([current, strange])
                pool = make_pool(as_domain(reference), as_domain(both), None, None, "same", rng)
                samples = find_samples(pool, explain(pool, rng))  # the least explained first
                score = np.empty(len(both))
                score[[sample.row for sample in samples]] = -np.arange(len(samples))
                truth = np.repeat([0, 1], [len(current), len(strange)])
                values.append(float(roc_auc_score(truth, score)))
            found[f"{name}, {kind}"] = {"mean": float(np.mean(values)), "least": min(values), "foreign": len(strange)}
            print(name, kind, found[f"{name}, {kind}"], flush=True)
    return {"draws": draws, "auroc": found}


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
    if asked.part != "large":
        trials = asked.trials or {"null": 2000, "power": 100, "foreign": 20}[asked.part]
        words += ["--trials", str(trials)]
    if asked.part == "power":
        words += ["--n", str(asked.n), "--data", asked.data]
    file = asked.out / (f"power-{asked.data}.json" if asked.part == "power" else f"{asked.part}.json")
    asked.out.mkdir(parents=True, exist_ok=True)

    def keep(found: dict[str, Any]) -> None:
        names = ("data", "n", "trials", "draws", "level", "rows", "columns")
        head = {"seed": asked.seed, "settings": {name: found[name] for name in names if name in found}}
        made = found | origin("shift_power", [*words, "--seed", str(asked.seed)]) | head
        if asked.part == "null":
            made["settings"] = found["settings"]
        file.write_text(json.dumps(made, indent=2) + "\n")

    if asked.part in ("foreign", "large"):
        keep(foreign(trials, asked.seed) if asked.part == "foreign" else large(asked.seed))
        return
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    if asked.part == "null":
        null(trials, asked.seed, keep, found)
    elif (found.get("trials"), found.get("n"), found.get("seed")) in (
        (None, None, None),
        (trials, asked.n, asked.seed),
    ):
        power(trials, asked.n, asked.seed, asked.data, keep, found)
    else:
        parser.error(f"{file} has another number of trials, n or seed; give another --out.")


if __name__ == "__main__":
    main()
