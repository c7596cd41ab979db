"""The study behind the estimate of accuracy and the choice between source-only and JUMBOT: families left out in turn.

    python -m benchmarks.trust [--seeds 0] [--families heart gas] [--out results/trust]     # trains, a line per network
    python -m benchmarks.trust --table [--out results/trust]                                # reads those lines
    python -m benchmarks.trust --new [--table]    # the same of `benchmarks.new_tasks`, which no constant was chosen on
    python -m benchmarks.trust --outside FOLDER [--table]                           # and of `benchmarks.outside_tasks`

Every task of `benchmarks.shift_tasks` is trained by source-only and by JUMBOT with the defaults of `jumbot.adapt`, on
folds of the source and on all of it, as `jumbot.adapt` does; truth is that of these networks.
The table shows the error of every vote by family; the interval with its factor fitted on all other families; what the
shipped constants give; and what the rule of harm chooses.  Tasks that have their lines are not repeated; families take
turns, so that a part of the study has something of each.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import combinations, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls
from torch import Tensor

from benchmarks.new_tasks import new_tasks
from benchmarks.origin import origin
from benchmarks.outside_tasks import outside_tasks
from benchmarks.shift_tasks import FAMILIES, Rows, tasks
from jumbot.adaptation._config import make_config
from jumbot.adaptation._domains import Domains
from jumbot.adaptation._evaluation.accuracy import FACTOR, EstimatedAccuracy, estimate_accuracy
from jumbot.adaptation._evaluation.decision import FEW, LEAST_GAIN, SURE, Harm, weigh_witnesses
from jumbot.adaptation._evaluation.nearness import frozen_rows, of_domains, received_by
from jumbot.adaptation._evaluation.votes import Witness, counted_votes, estimated_shares
from jumbot.adaptation._evaluation.whole_target import diagnose_domains
from jumbot.adaptation._judging import Judged, calibrated
from jumbot.adaptation._training.witnesses import Witnesses, train_network, train_witnesses
from jumbot.data._arrays import TensorSamples
from jumbot.data._domain import ArraySamples, Domain, Samples
from jumbot.data._sources import ReadData

METHODS = ("source-only", "jumbot")
OUT = Path("results/trust")
WIDTH, ANSWERED, STEP = 0.32, 0.85, 0.05
"""Of the interval: median width and share of runs that are told, with room to the floors of 35 points and 75 %."""
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Study:
    """One task as `jumbot.adapt` goes about it: what the networks of the folds say, and those trained on everything."""

    witnesses: Witnesses
    finals: Mapping[str, Final]
    truth: Array
    """Classes of all target samples."""


@dataclass(frozen=True)
class Final:
    """A network of the whole source: what it says of the target, and what its estimate is made from."""

    logits: Tensor
    planned: Array
    near: Array | None
    predicted: Array
    estimate: EstimatedAccuracy


def study(task: Rows, seed: int) -> Study:
    """Train source-only and JUMBOT on folds and on the whole source, with the functions that `jumbot.adapt` calls."""
    classes = tuple(map(str, range(int(task.y.max()) + 1)))
    source = Domain("source", _samples(task.X), task.y.astype(np.int64), classes)
    target = Domain("target", _samples(task.X_target))
    configs = {method: make_config(source, method, None, {"seed": seed}) for method in METHODS}
    domains = Domains(ReadData(source, target, None, None), configs["jumbot"])
    witnesses = train_witnesses(domains.training_data, list(configs.values()))
    finals = {}
    for method, config in configs.items():
        network = train_network(domains.training_data, config)
        diagnosis, logits = diagnose_domains(network, domains.source, domains.target, domains.task, None, seed)
        rows = frozen_rows(network, domains.input, domains.target)
        assert rows is not None
        near = received_by(of_domains(domains.source, domains.target, rows, seed), domains.target, rows)
        found, estimate = calibrated(Judged(True, witnesses), method, logits, diagnosis.class_proportions, near)
        predicted = found.scores(logits).argmax(-1).numpy()
        finals[method] = Final(logits, diagnosis.class_proportions, near, predicted, estimate)
    return Study(witnesses, finals, task.y_target)


def _samples(X: Array) -> Samples:
    return ArraySamples(X) if X.ndim == 2 else TensorSamples(X, "signal")


def record(task: Rows, seed: int) -> list[dict[str, Any]]:
    """A line per method: the truth on the target, every vote, and the evidence between both."""
    start = time.perf_counter()
    return lines_of(task, seed, study(task, seed), time.perf_counter() - start)


def lines_of(task: Rows, seed: int, found: Study, seconds: float) -> list[dict[str, Any]]:
    """What is kept of a task."""
    alone, adapted = (found.witnesses.by_method[method] for method in METHODS)
    harm = weigh_witnesses(adapted, alone)
    logits = found.finals[METHODS[1]].logits[found.witnesses.index].double().numpy()
    harm_whole = weigh_witnesses(replace(adapted, target=(logits,)), alone)
    truth = found.truth[found.witnesses.index]
    return [
        {
            "family": task.family,
            "task": task.name,
            "seed": seed,
            "method": method,
            "n": len(task.y),
            "classes": len(alone.shares),
            "target": len(task.y_target),
            "held": len(witness.labels),
            "skill": round(witness.skill, 4),
            **truths(witness, truth),
            "votes": {k: round(v, 4) for k, v in witness.votes().items()},
            "harm": {name: _short(value) for name, value in asdict(harm).items()},
            "harm_whole": {name: _short(value) for name, value in asdict(harm_whole).items()},
            "whole": whole(found.finals[method], found.truth),
            "sizes": by_class_sizes(found, method),
            "seconds": round(seconds, 1),
        }
        for method, witness in ((METHODS[0], alone), (METHODS[1], adapted))
    ]


def _short(value: Any) -> Any:
    return round(value, 5) if isinstance(value, float) else value


def whole(final: Final, truth: Array) -> dict[str, Any]:
    """What becomes of the network that is trained on everything: the truth, and its estimate."""
    right, estimate = final.predicted == truth, final.estimate
    figures = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return {
        "accuracy": round(float(right.mean()), 4),
        "mean_class_accuracy": round(float(np.mean([right[truth == c].mean() for c in np.unique(truth)])), 4),
        **{name: None if value is None else round(value, 4) for name, value in figures.items()},
        **({"why": estimate.why} if estimate.value is None else {}),
    }


def by_class_sizes(found: Study, method: str) -> dict[str, float]:
    """The accuracy of the network that is trained on everything, by the class sizes with which it predicts."""
    witnesses, logits = found.witnesses.by_method, found.finals[method].logits.double().numpy()
    own, every = witnesses[method], [(witnesses[m], found.finals[m].logits.double().numpy()) for m in METHODS]
    by_both = [estimated_shares(own.probabilities(logits), own.shares), found.finals[method].planned]
    by_four = [estimated_shares(w.probabilities(z), w.shares) for w, z in every] + [unmixed(w, z) for w, z in every]
    sizes = {
        "source": own.shares,
        "two agree": _where_they_agree(by_both, own.shares),
        "four agree": _where_they_agree(by_four, own.shares),
        "true": np.bincount(found.truth, minlength=len(own.shares)) / len(found.truth),
    }
    scores = logits / own.temperature + own.offset - np.log(np.maximum(own.shares, 1e-3))
    right = {name: (scores + np.log(np.maximum(pi, 1e-3))).argmax(1) == found.truth for name, pi in sizes.items()}
    return {name: round(float(each.mean()), 4) for name, each in right.items()}


def unmixed(witness: Witness, logits: Array) -> Array:
    """Class sizes that explain how often each class is predicted, by the held-out confusions (BBSE, Lipton 2018)."""
    held, classes = witness.probabilities(witness.held).argmax(1), len(witness.shares)
    known = np.flatnonzero(np.bincount(witness.labels, minlength=classes))
    confused = np.stack([np.bincount(held[witness.labels == c], minlength=classes) for c in known], 1).astype(float)
    seen = np.bincount(witness.probabilities(logits).argmax(1), minlength=classes) / len(logits)
    found = np.zeros(classes)
    found[known] = nnls(np.vstack([confused / confused.sum(0), np.full(len(known), 10.0)]), np.append(seen, 10.0))[0]
    return found / found.sum()


def _where_they_agree(estimates: list[Array], source: Array) -> Array:
    apart = max(float(np.abs(a - b).sum() / 2) for a, b in combinations(estimates, 2))
    return np.mean(estimates, axis=0) if apart <= 0.1 else source


def in_turns(every: Iterable[Rows]) -> Iterator[Rows]:
    """The first task of every family, then the second."""
    by_family: dict[str, list[Rows]] = {}
    for task in every:
        by_family.setdefault(task.family, []).append(task)
    for some in zip_longest(*by_family.values()):
        yield from (task for task in some if task is not None)


def truths(witness: Witness, labels: np.ndarray) -> dict[str, float]:
    """Accuracy and mean over classes on the target, for class sizes of the source and for equal ones."""
    found: dict[str, list[float]] = {}
    for natural, logits in zip(witness.predicted, witness.target, strict=True):
        for name, classes in (("", natural), ("_equal", logits.argmax(1))):
            right = classes == labels
            by_class = [right[labels == c].mean() for c in np.unique(labels)]
            found.setdefault(f"accuracy{name}", []).append(float(right.mean()))
            found.setdefault(f"mean_class_accuracy{name}", []).append(float(np.mean(by_class)))
    return {name: round(float(np.mean(values)), 4) for name, values in found.items()}


def table(lines: list[dict[str, Any]]) -> str:
    """The study in Markdown."""
    return "\n\n".join([errors(lines), intervals(lines), choices(lines), sizes(lines), ends(lines)]) + "\n"


def errors(lines: list[dict[str, Any]]) -> str:
    """Mean absolute error of every vote and of the median, by family and method."""
    names = [*lines[0]["votes"], "combined"]
    text = [
        "| mean absolute error, points | " + " | ".join(names) + " | accuracy |",
        "| --- |" + " ---: |" * (len(names) + 1),
    ]
    for method in METHODS:
        for family in [*dict.fromkeys(x["family"] for x in lines), "all families"]:
            some = [x for x in lines if x["method"] == method and family in (x["family"], "all families")]
            if not some:
                continue
            cells = []
            for name in names:
                found = [np.median(counted_votes(x["votes"])) if name == "combined" else x["votes"][name] for x in some]
                cells.append(f"{100 * np.mean([abs(v - x['accuracy']) for v, x in zip(found, some, strict=True)]):.1f}")
            mean = 100 * np.mean([x["accuracy"] for x in some])
            text.append(f"| {method}, {family} ({len(some)}) | " + " | ".join(cells) + f" | {mean:.1f} |")
    return "\n".join(text)


def intervals(lines: list[dict[str, Any]]) -> str:
    """Coverage of the interval: each family with the factor that the others would have given, and as it is shipped.

    The floors allow a median width of 35 points and a quarter of the runs untold.  The factor spends that on truth: it
    is the largest with which the others, each family counting alike, stay below `WIDTH` and above `ANSWERED`.
    """
    family, truth = (np.array([x[name] for x in lines]) for name in ("family", "accuracy"))
    text = [
        "| interval | factor | runs | estimated | covered | median width | mean absolute error "
        "| low > 85, truth < 75 |",
        "| --- |" + " ---: |" * 7,
    ]
    every = []
    for left_out in dict.fromkeys(family.tolist()):
        own = family == left_out
        factor = spend([x for x, is_own in zip(lines, own, strict=True) if not is_own])
        found = judged([x for x, is_own in zip(lines, own, strict=True) if is_own], factor)
        every.append(found)
        text.append(_row(f"{left_out}, factor from the others", f"{factor:.2f}", found, truth[own]))
    order = np.concatenate([np.flatnonzero(family == name) for name in dict.fromkeys(family.tolist())])
    text.append(_row("all, each by the others", "", np.concatenate(every), truth[order]))
    text.append(_row("all, as shipped", f"{FACTOR:.2f}", judged(lines, FACTOR), truth))
    return "\n".join(text)


def judged(lines: list[dict[str, Any]], factor: float) -> Array:
    """(n, 3) value, low and high of the estimates with this factor; NaN where nothing is told."""
    rows = []
    for x in lines:
        found = estimate_accuracy(x["votes"], x["target"], x["held"], factor, x["skill"])
        rows.append([np.nan if v is None else v for v in (found.value, found.low, found.high)])
    return np.array(rows)


def spend(lines: list[dict[str, Any]]) -> float:
    """The largest factor with which these families keep to `WIDTH` and `ANSWERED`."""
    families = [x["family"] for x in lines]
    weight = np.array([1 / families.count(name) for name in families])
    best = STEP
    for factor in np.arange(STEP, 2, STEP):
        found = judged(lines, float(factor))
        answered = np.isfinite(found[:, 0])
        if weight[answered].sum() < ANSWERED * weight.sum():
            break
        width = (found[:, 2] - found[:, 1])[answered]
        order = np.argsort(width)
        shares = np.cumsum(weight[answered][order]) / weight[answered].sum()
        if width[order][np.searchsorted(shares, 0.5)] <= WIDTH:
            best = float(factor)
    return best


def _row(name: str, factor: str, found: Array, truth: Array) -> str:
    answered = np.isfinite(found[:, 0])
    if not answered.any():
        return f"| {name} | {factor} | {len(answered)} | 0 % | - | - | - | 0 |"
    (value, low, high), right = found[answered].T, truth[answered]
    covered = np.mean((low <= right) & (right <= high))
    bad = int(((low > 0.85) & (right < 0.75)).sum())
    figures = f"{100 * covered:.0f} % | {100 * np.median(high - low):.0f} | {100 * np.abs(value - right).mean():.1f}"
    return f"| {name} | {factor} | {len(answered)} | {100 * answered.mean():.0f} % | {figures} | {bad} |"


def choices(lines: list[dict[str, Any]]) -> str:
    """What handing over by the rule costs and brings, by its constants, and how often harm is named rightly."""
    both = _pairs(x for x in lines if "harm_whole" in x)
    alone, adapted = (np.array([each[i]["whole"]["accuracy"] for each in both]) for i in (0, 1))
    names = np.array([f"{s['family']} {s['task']}" for s, _ in both])
    families = np.array([s["family"] for s, _ in both])
    harms = [(Harm(**j["harm"]), Harm(**j["harm_whole"])) for _, j in both]
    text = [
        "| returned | accuracy | jumbot chosen | tasks more than 4 points below source-only | the worst |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    by_constants = {
        (sure, least): np.array([all(_helps(harm, sure, least) for harm in each) for each in harms])
        for sure in (0.0, 1.0, SURE, 3.0, None)
        for least in (0.0, 0.01, LEAST_GAIN, 0.04)
    }
    rules: dict[str, Any] = {"always source-only": np.zeros(len(both), bool), "always jumbot": np.ones(len(both), bool)}
    rules["by the networks of folds alone"] = np.array([folds.helps for folds, _ in harms])
    for (sure, least), chosen in by_constants.items():
        first = "votes alone" if sure is None else f"modularity by {sure:g} errors"
        mark = " (shipped)" if (sure, least) == (SURE, LEAST_GAIN) else ""
        rules[f"{first}, votes by {100 * least:g} points{mark}"] = chosen
    left_out = np.zeros(len(both), bool)
    for family in dict.fromkeys(families.tolist()):
        rest = families != family
        worth = [_worth(each[rest], alone[rest], adapted[rest], names[rest]) for each in by_constants.values()]
        left_out[~rest] = list(by_constants.values())[worth.index(max(worth))][~rest]
    rules["each family by the constants that are best on the others"] = left_out
    rules["the better one, by labels"] = adapted > alone
    for rule, chosen in rules.items():
        kept = np.where(chosen, adapted, alone)
        fall: dict[str, list[float]] = {}
        for task, value in zip(names.tolist(), kept - alone, strict=True):
            fall.setdefault(task, []).append(float(value))
        by_task = {task: 100 * float(np.mean(values)) for task, values in fall.items()}
        worst = min(by_task, key=by_task.__getitem__)
        text.append(
            f"| {rule} | {100 * kept.mean():.2f} | {100 * chosen.mean():.0f} % | "
            f"{sum(value < -4 for value in by_task.values())} of {len(by_task)} | {by_task[worst]:.1f} ({worst}) |"
        )
    warned = np.array([folds.likely for folds, _ in harms])
    harmful, gained = adapted < alone - 0.01, adapted > alone + 0.01
    text.append(
        f"\nJUMBOT lost more than a point in {harmful.sum()} runs; the rule of harm flagged {(harmful & warned).sum()} "
        f"of these and missed {(harmful & ~warned).sum()}. Of the {warned.sum()} runs that it flagged, "
        f"{(warned & gained).sum()} had gained more than a point and {(warned & ~gained & ~harmful).sum()} were within "
        "one."
    )
    return "\n".join(text)


def sizes(lines: list[dict[str, Any]]) -> str:
    """What predictions with other class sizes than the source's gain, by family."""
    known = [x for x in lines if "sizes" in x]
    if not known:
        return ""
    names = [name for name in known[0]["sizes"] if name != "source"]
    text = [f"| class sizes, points gained | {' | '.join(names)} |", "| --- |" + " ---: |" * len(names)]
    for method in METHODS:
        for family in [*dict.fromkeys(x["family"] for x in known), "all families"]:
            some = [x["sizes"] for x in known if x["method"] == method and family in (x["family"], "all families")]
            cells = [f"{100 * np.mean([x[name] - x['source'] for x in some]):+.1f}" for name in names]
            text.append(f"| {method}, {family} ({len(some)}) | {' | '.join(cells)} |")
    return "\n".join(text)


def _helps(harm: Harm, sure: float | None, least: float) -> bool:
    """The rule of `Harm.helps` with other constants; without `sure` the votes decide everywhere."""
    if harm.changed < FEW:
        return False
    if harm.modularity is None or sure is None:
        return harm.gain > max(least, harm.error)
    return harm.modularity > sure * harm.modularity_error and not harm.overruled


def ends(lines: list[dict[str, Any]]) -> str:
    """What somebody gets who calls `jumbot.adapt`: the network that is returned, and its estimate."""
    pairs = _pairs(x for x in lines if "harm_whole" in x)
    if not pairs:
        return ""
    text = [
        "| as returned | runs | estimated | covered | median width | mean absolute error | low > 85, truth < 75 "
        "| source-only | jumbot | the default | worst task | which |",
        "| --- |" + " ---: |" * 10 + " --- |",
    ]
    families = list(dict.fromkeys(s["family"] for s, _ in pairs))
    for family in [*families, "all"]:
        some = [(s, j) for s, j in pairs if family in (s["family"], "all")]
        every = [(s["whole"], j["whole"], (j if _taken(j) else s)["whole"]) for s, j in some]
        found = np.array([[x[2][name] for name in ("value", "low", "high")] for x in every], float)
        means = [100 * np.mean([x[i]["accuracy"] for x in every]) for i in range(3)]
        change: dict[str, list[float]] = {}
        for (s, _), (alone, _, kept) in zip(some, every, strict=True):
            change.setdefault(f"{s['family']} {s['task']}", []).append(100 * (kept["accuracy"] - alone["accuracy"]))
        worst = min(change, key=lambda task: float(np.mean(change[task])))
        row = _row(family, str(len(some)), found, np.array([x[2]["accuracy"] for x in every])).split(" | ")
        row.pop(2)  # the number of runs, which is there
        figures = " | ".join(f"{mean:.1f}" for mean in means)
        text.append(f"{' | '.join(row)[:-2]} | {figures} | {np.mean(change[worst]):.1f} | {worst} |")
    return "\n".join(text)


def _pairs(lines: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Source-only and JUMBOT of each task and seed."""
    pairs: dict[tuple[str, str, int], dict[str, dict[str, Any]]] = {}
    for x in lines:
        pairs.setdefault((x["family"], x["task"], x["seed"]), {})[x["method"]] = x
    return [(p["source-only"], p["jumbot"]) for p in pairs.values() if len(p) == 2]


def _taken(adapted: dict[str, Any]) -> bool:
    """Whether the rule returns JUMBOT."""
    return all(Harm(**adapted[name]).helps for name in ("harm", "harm_whole"))


def _worth(chosen: Array, alone: Array, adapted: Array, names: Array) -> tuple[int, float]:
    """Fewest tasks that fall by more than 4 points, and then the mean."""
    change = np.where(chosen, adapted - alone, 0.0)
    falls = sum(change[names == name].mean() < -0.04 for name in set(names.tolist()))
    return -int(falls), float(change.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--new", action="store_true", help="the tasks of benchmarks.new_tasks, in new.jsonl")
    parser.add_argument("--outside", type=Path, metavar="FOLDER", help="the tasks of benchmarks.outside_tasks")
    wanted = parser.parse_args()
    judges = wanted.new or wanted.outside
    file = wanted.out / ("outside.jsonl" if wanted.outside else "new.jsonl" if wanted.new else "records.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    if not wanted.table:
        wanted.out.mkdir(parents=True, exist_ok=True)
        done = {(x["family"], x["task"], x["seed"]) for x in lines}
        for seed in wanted.seeds:
            for task in in_turns(_wanted(wanted, seed)):
                if not (judges or task.family in wanted.families) or (task.family, task.name, seed) in done:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = [line | origin("trust", sys.argv[1:]) for line in record(task, seed)]
                lines += found
                with file.open("a") as opened:
                    opened.writelines(json.dumps(line) + "\n" for line in found)
                print(task.family, task.name, [line["accuracy"] for line in found], found[1]["seconds"], flush=True)
    print(ends(lines) if judges else table(lines))


def _wanted(wanted: argparse.Namespace, seed: int) -> Iterator[Rows]:
    if wanted.outside:
        return outside_tasks(wanted.outside, seed)
    return new_tasks(seed) if wanted.new else tasks(seed=seed)


if __name__ == "__main__":
    main()
