"""Every (pair of domains, method, seed) as a run of its own, trained where it is not finished."""

from __future__ import annotations

import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import permutations
from pathlib import Path
from typing import Any

from jumbot._base.files import read_arrays
from jumbot._base.options import Count, Positive, Seed, Text, check
from jumbot._base.progress import in_notebook, progress
from jumbot._base.schema import FORMAT, convert, read, write
from jumbot._settings.places import COMPARISON, check_comparison_place, writing
from jumbot._settings.reading import Reading
from jumbot.adaptation._config import make_config
from jumbot.adaptation._evaluation.modularity import Evidence, nearest, some_rows, weigh
from jumbot.adaptation._evaluation.monitor import logits_of
from jumbot.adaptation._evaluation.regression import NumberEvidence, weigh_numbers
from jumbot.adaptation._evaluation.task import Classification
from jumbot.adaptation._model import Model, load
from jumbot.adaptation._runs.config_json import Config
from jumbot.adaptation._runs.folder import RunFolder, read_config
from jumbot.adaptation._runs.outcomes import by_rule, outcome
from jumbot.adaptation._runs.provenance import OtherStartError, data_of, difference, has_come_as_far, settings_of, stamp
from jumbot.adaptation._runs.searches_json import Comparison
from jumbot.adaptation._runs.variants import Variant, read_variant, share_changes
from jumbot.adaptation._training.bar import TimeUpError, pausing
from jumbot.data._domain import Domain
from jumbot.errors import ArgumentError, JumbotError, need, one_line
from jumbot.methods import SOURCE_ONLY

_TRAINED = 0.9  # of the minutes of a comparison; figures and pages come after it
_LEAST = 1e-3  # seconds of a run, which it refuses
_EXPECTED = {
    "pairs": "pass at least one, each a Pair.",
    "methods": "pass a list of names.",
    "options": "pass a dictionary of changes by method, or None.",
    "reading": "pass a Reading, or None.",
    "seeds": "pass a number of them, or a list.",
}


@dataclass(frozen=True)
class Pair:
    """A source and a target, by what `jumbot.adapt` takes for them."""

    name: str
    source: Any
    target: Any
    evaluate_on: Any = None
    labelled_target: Any = None

    def teaches_like(self, other: Pair) -> bool:
        """Whether both have the same labelled data."""
        ours, theirs = ((pair.source, pair.labelled_target) for pair in (self, other))
        return all(a is b or (isinstance(a, str | Path) and a == b) for a, b in zip(ours, theirs, strict=True))


@dataclass(frozen=True)
class Run:
    """One training run, and its folder."""

    pair: Pair
    variant: Variant
    seed: int
    folder: Path
    recipe: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    reading: Mapping[str, Any] = field(default_factory=dict)
    command: str | None = None
    start_from: Path | None = None
    seconds: float = math.inf
    """What is left for it; a run that is not done by then keeps its checkpoint and is not finished."""
    cut: bool = False
    """Whether it ends early instead, with what was learned by then."""
    judge: bool = False
    """Whether its accuracy is estimated, as that of `adapt` is."""

    @property
    def name(self) -> str:
        """For people who wait."""
        return f"{self.pair.name}  {self.variant.label}  seed {self.seed}"

    @property
    def finished(self) -> bool:
        """Whether the run is done; one that was made with other settings is refused, never passed off as this one."""
        if not (self.folder / "model.json").exists():
            return False
        found = read_config(self.folder)
        if (config := self._config(found)) is not None:
            RunFolder(self.folder).check_same(found, config)
        return True

    def _config(self, like: Config) -> Config | None:
        """Its configuration if its data are those of another run; None if that does not tell its recipe."""
        recipe = self.recipe or like.recipe
        if recipe is None:
            return None
        changes = {**self.changes, "seed": self.seed}
        made = make_config(None, self.variant.method, recipe, changes, like.task.name)
        return replace(like, **made.parts())

    def begun_by(self, others: Iterable[Run]) -> Run:
        """This run, to start from the one of the others that has done the same steps on the source, if there is one."""
        for other in others:
            alike = other.seed == self.seed and self.pair.teaches_like(other.pair)
            if not alike or not (other.folder / "config.json").exists():
                continue
            try:
                found = read_config(other.folder)
                config, whole = self._config(found), self.variant.method == SOURCE_ONLY
            except JumbotError:  # the one of the two that cannot be trained says so itself
                continue
            if config is None or difference(found, config) is not None:
                continue
            if has_come_as_far(RunFolder(other.folder), found, whole):
                return replace(self, start_from=other.folder)
        return self

    def train(self, show: bool = False) -> None:
        with pausing(math.inf if self.cut else self.seconds):
            try:
                self._train(show, self.start_from)
            except OtherStartError:  # what the target decides, such as the size of images, is known with the data alone
                self._train(show, None)

    def _train(self, show: bool, start_from: Path | None) -> None:
        from jumbot.adaptation._adapt import adapt

        adapt(
            self.pair.source,
            self.pair.target,
            method=self.variant.method,
            recipe=self.recipe,
            evaluate_on=self.pair.evaluate_on,
            labelled_target=self.pair.labelled_target,
            out=self.folder,
            resume=(self.folder / "config.json").exists(),
            start_from=start_from,
            show=show,
            report=False,
            judge=self.judge,
            minutes=max(self.seconds, _LEAST) / 60 if self.cut and self.seconds < math.inf else None,
            command=self.command,
            seed=self.seed,
            **self.reading,
            **self.changes,
        )

    def outcome(self) -> dict[str, Any]:
        """What its folder says, under the name that the method has in the table."""
        return outcome(self.folder, self.pair.name) | {"method": self.variant.label}


def compare(
    pairs: Sequence[Pair],
    methods: Sequence[str],
    out: str | Path,
    *,
    seeds: int | Sequence[int] = 1,
    jobs: int = 1,
    show: bool = False,
    recipe: str | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    reading: Reading | None = None,
    command: str | None = None,
    minutes: float | None = None,
    **common: Any,
) -> dict[str, Any]:
    """Train every (pair, method, seed), `jobs` at a time, and return what `compare.json` holds.

    A method may carry changes in its name, as in "dann:reversal_steps=none", and is a row of its own then.
    Runs are folders `out/PAIR/METHOD/seedN`: finished ones are reused, and interrupted ones continue.
    `common` are options of every run, `options` those of single methods, by the names in `methods`.  The table has
    the accuracy by the selection rule; next to it is what every other rule would have chosen among the
    evaluations along the way.

    `minutes` is a budget of time.  Runs that are not done by then are left out of the table and named in `not_run`;
    the current one keeps its checkpoint, and the same call continues them.
    """
    begun, limit = time.monotonic(), check("minutes", minutes, Positive | None)
    place: Path = check("out", out, Path)
    check("jobs", jobs, Count)
    check("show", show, bool)
    check("command", command, Text | None)
    numbers = range(check("seeds", seeds, Count)) if isinstance(seeds, int) else check("seeds", seeds, tuple[Seed, ...])
    wrong = {
        "pairs": not isinstance(pairs, Sequence) or not pairs or any(not isinstance(pair, Pair) for pair in pairs),
        "methods": isinstance(methods, str) or not isinstance(methods, Sequence),
        "options": not isinstance(options, Mapping | None),
        "reading": not isinstance(reading, Reading | None),
        "seeds": not numbers,
    }
    for name in (name for name, is_wrong in wrong.items() if is_wrong):
        raise ArgumentError(f"{name}: {_EXPECTED[name]}")
    chosen = share_changes(methods, recipe, common, options)
    how = {} if reading is None else asdict(reading)
    check_comparison_place(place)
    if (place / COMPARISON).exists():
        read(place / COMPARISON, Comparison)  # another file of that name is not overwritten
    runs = [
        Run(pair, variant, seed, place / pair.name / variant.folder / f"seed{seed}", recipe, changes, how, command)
        for pair in pairs
        for variant, changes in chosen
        for seed in numbers
    ]
    with writing(place):
        until = math.inf if limit is None else begun + _TRAINED * 60 * limit
        failed = train_all(runs, jobs, show, until=until)
        return _recorded(place, runs, numbers, failed, command, limit)


def _recorded(
    out: Path,
    runs: Sequence[Run],
    numbers: Sequence[int],
    failed: Mapping[str, str],
    command: str | None,
    minutes: float | None,
) -> dict[str, Any]:
    """What `compare.json` holds, written there."""
    done = [run for run in runs if run.finished]
    known = {str(run.folder) for run in done} | set(failed)
    left = [str(run.folder) for run in runs if str(run.folder) not in known]
    record = stamp(command, [run.folder for run in done]) | {
        "format": FORMAT,
        "seeds": list(numbers),
        "settings": settings_of((run.variant.label, run.folder) for run in done),
        "data": data_of(run.folder for run in done),
        "runs": [run.outcome() | {"by_rule": by_rule(run.folder)} for run in done],
        "failed": dict(failed),
        "minutes": minutes,
        "not_run": left,
    }
    write(out / COMPARISON, convert(record, Comparison, out / COMPARISON))
    return record


def all_pairs(table: str | Path, column: str | None = None) -> list[Pair]:
    """Every ordered pair of the domains in a table, named in `column` or `domain`, or of the folders in a folder."""
    path = Path(table)
    if path.is_dir():
        names = sorted(entry.name for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
        places = {name: str(path / name) for name in names}
    else:
        from jumbot.data._tables import domains_of

        places = {name: f"{path}:{name}" for name in domains_of(path, column)}
    if len(places) < 2:
        raise ArgumentError(f"{path}: contains {len(places)} domains; all pairs need at least two. Pass SRC and TGT.")
    return [Pair(f"{s}-{t}", places[s], places[t]) for s, t in permutations(places, 2)]


def train_all(
    runs: Sequence[Run], jobs: int = 1, show: bool = False, *, until: float = math.inf, least: int = 0
) -> dict[str, str]:
    """Train those that are not finished, `jobs` at a time; one that fails is reported with its reason, the others
    continue.

    Steps on the source alone that another of them has done by then are not repeated.  After `until`, a time of
    `time.monotonic`, none is started but the first `least` of them, which share that time and end early; others keep a
    checkpoint then.
    """
    failed: dict[str, str] = {}
    check("jobs", jobs, Count)
    waiting = [(number, run) for number, run in enumerate(runs) if not run.finished]
    sharing = 1 if jobs > 1 else least
    starting = (
        replace(
            run if (run.folder / "config.json").exists() else run.begun_by(runs),
            seconds=(until - time.monotonic()) / max(sharing - number, 1),
            cut=number < least,
        )
        for number, run in waiting
        if number < least or time.monotonic() < until
    )
    done: Iterator[tuple[Run, str | None]]
    if jobs == 1 or len(waiting) == 1:
        done = ((run, _train(run, show and (in_notebook() or sys.stderr.isatty()))) for run in starting)
    else:
        done = _train_in_parallel(starting, min(jobs, len(waiting)))
    telling: AbstractContextManager[Callable[[int], None]] = nullcontext(lambda count: None)
    if jobs > 1 and len(waiting) > 1:  # otherwise each tells for itself
        telling = progress(len(waiting), "runs", least=1, bar=show, slow=True)
    with telling as advance:
        for number, (run, reason) in enumerate(done, 1):
            if show:
                print(f"{number}/{len(waiting)}  {one_line(run.name)}", file=sys.stderr, flush=True)
            if reason is not None:
                failed[str(run.folder)] = reason
            advance(1)
    return failed


def _train_in_parallel(runs: Iterable[Run], jobs: int) -> Iterator[tuple[Run, str | None]]:
    """In processes of one thread each, as they finish; a run is asked for when there is a process for it.

    joblib's processes need no `if __name__ == "__main__"` in the user's script.
    """
    joblib = need("joblib", "jobs above 1", "adapt")
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        pool = joblib.Parallel(jobs, pre_dispatch=jobs, batch_size=1, return_as="generator_unordered")
        for run, reason, noted in pool(joblib.delayed(_train_alone)(run, os.getcwd(), time.time()) for run in runs):
            for message in noted:  # here, where whoever asked for the runs has said what becomes of warnings
                warnings.warn(message, stacklevel=2)
            yield run, reason


def _train_alone(run: Run, place: str, sent: float) -> tuple[Run, str | None, list[Warning]]:
    """In a process that may take seconds to start, which a budget counts from when the run was `sent`."""
    import torch

    from jumbot.adaptation._training.accelerator import keep_freed_memory

    os.chdir(place)  # the process may be older than the user's last change of folder
    keep_freed_memory()
    torch.set_num_threads(1)
    with warnings.catch_warnings(record=True) as noted:
        reason = _train(replace(run, seconds=run.seconds - (time.time() - sent)))
    return run, reason, [found.message for found in noted if isinstance(found.message, Warning)]


def _train(run: Run, show: bool = False) -> str | None:
    """Why it failed, if it did."""
    try:
        run.train(show)
    except TimeUpError:
        return None
    except JumbotError as error:
        return str(error)
    return None


READING = ("label", "id", "domain_column", "corrupt", "root")


def evidence_of(
    record: Mapping[str, Any], pairs: Sequence[Pair], out: Path, reading: Mapping[str, Any]
) -> dict[str, dict[str, list[float]]]:
    """{method: {task: [evidence of each seed]}}; larger is better, and comparable within a task alone.

    The methods of a task and a seed are the candidates: each is weighed by its modularity among the neighbours of the
    target and by its agreement with the others.
    """
    how = {name: value for name, value in reading.items() if name in READING}
    found: dict[str, dict[str, list[float]]] = {}
    for pair in pairs:
        for seed in record["seeds"]:
            methods = [r["method"] for r in record["runs"] if r["task"] == pair.name and r["seed"] == seed]
            models = {name: load(folder_of(out, pair.name, name, seed)) for name in methods}
            if len(models) < 2:
                continue
            domain = next(iter(models.values())).domain(pair.target, **how)
            indices, rows = some_rows(domain, seed)
            sample = domain.subset(indices)
            for name, evidence in _weigh(models, sample, nearest(rows)).items():
                found.setdefault(name, {}).setdefault(pair.name, []).append(evidence.value)
    return found


def _weigh(models: Mapping[str, Model], sample: Domain, neighbours: Any) -> Mapping[str, Evidence | NumberEvidence]:
    outputs = {name: logits_of(model.network, sample) for name, model in models.items()}
    first = next(iter(models.values()))
    if isinstance(first.task, Classification):
        return weigh({name: logits.softmax(-1).numpy() for name, logits in outputs.items()}, neighbours)
    assert first.run is not None
    source = read_arrays(first.run / "embeddings.npz")["source_values"]
    numbers = {name: models[name].task.decode(f).reshape(len(sample), -1) for name, f in outputs.items()}
    return weigh_numbers(numbers, source, neighbours)


def folder_of(out: Path, task: str, method: str, seed: int) -> Path:
    """Where `compare` keeps a run."""
    return out / task / read_variant(method).folder / f"seed{seed}"
