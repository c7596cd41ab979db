"""`jumbot.tune`: candidates trained and judged without target labels, and the best of them."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
import time
import warnings
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import torch

from jumbot._base.files import drawn, time_for_a_page, write_text
from jumbot._base.options import Count, Positive, Seed, Text, check
from jumbot._base.progress import log, progress
from jumbot._base.schema import FORMAT, convert, read, to_builtins, write
from jumbot._settings.keywords import TuneKeywords
from jumbot._settings.places import BEST, TUNING, check_tuning_place, writing
from jumbot._settings.reading import Reading, TaskName, make_reading, take_reading
from jumbot._settings.training import Inputs
from jumbot.adaptation._adapt import NO_REPORT
from jumbot.adaptation._config import RunConfig, make_config
from jumbot.adaptation._domains import Domains
from jumbot.adaptation._evaluation.task import task_of
from jumbot.adaptation._model import Model, load
from jumbot.adaptation._queue import Pair
from jumbot.adaptation._runs.folder import DECISION
from jumbot.adaptation._runs.provenance import stamp
from jumbot.adaptation._runs.results_json import TuneDecision, Tuning
from jumbot.adaptation._search import Limits, Search
from jumbot.adaptation._variants import Candidates, candidates, check_shared
from jumbot.adaptation._verdict import verdict
from jumbot.data._content import domain_hash
from jumbot.data._domain import Domain
from jumbot.data._pair import Encoding, collecting_problems
from jumbot.data._sources import Given, ReadData, check_used, read_data
from jumbot.errors import ArgumentError, JumbotError

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Tuned:
    """What `jumbot.tune` returns; `print` shows why the model was picked.

    Attributes
    ----------
    model : jumbot.Model
        The chosen model, from a full run with predictions and report.
    table : pandas.DataFrame
        One row per candidate, the chosen one first, with its score (`evidence`) and the folder of its run.
    why : tuple of str
        The reasons for the choice, in sentences.
    out : pathlib.Path
        The folder of all runs; `jumbot.load` takes it too.
    """

    model: Model
    table: pandas.DataFrame
    why: tuple[str, ...]
    out: Path

    def __str__(self) -> str:
        return "\n".join(self.why)


def tune(
    source: Any,
    target: Any,
    *,
    out: str | Path | None = None,
    minutes: float | None = None,
    runs: int | None = None,
    jobs: int | None = None,
    stop_early: bool = True,
    recipe: str | None = None,
    task: TaskName | None = None,
    reading: Reading | Mapping[str, Any] | None = None,
    labelled_target: Any = None,
    evaluate_on: Any = None,
    show: bool = False,
    **options: Unpack[TuneKeywords],
) -> Tuned:
    """Try candidates on the same data and choose one by a score that needs no target labels.

    The candidates are source-only, DeepJDOT, MCC, m-POT, ELOT, and JUMBOT with the general and the partial settings at
    five values of tau.  The score is `modularity + agreement`: predictions respect the neighbourhoods of the target
    beyond what class proportions alone would give, and agree with the other candidates.  As in `jumbot.adapt`, the rule
    of harm chooses between source-only and the recipe's JUMBOT. Another candidate is chosen if that rule prefers it to
    source-only, it has a higher score, and its modularity is larger by two standard errors.  So source-only can be
    chosen: adaptation then gains nothing.

    Numbers (`task="regression"`) are predicted by source-only, DeepJDOT, DANN and JUMBOT at five values of tau, and the
    score is `agreement - gap`, which assumes that the numbers of both domains have the same distribution.  Where
    source-only predicts other numbers than the source's, labels are needed to know whether adaptation helps:
    source-only is picked then, and `why` says so.

    Parameters
    ----------
    source, target : path, array, frame, pair (X, y), Dataset or Domain
        The labelled data and the data to predict, as in `jumbot.adapt`.
    out : path, optional
        The folder of all runs.  Called again with the same data and settings, `tune` continues where it was stopped.
        By default, a temporary folder that is removed with the model.
    minutes : float, optional
        A time budget for this call.  Source-only and the recipe's JUMBOT come first, and are shortened if the budget is
        small; other candidates follow while there is time.  A budget that ends before training can begin raises an
        error.
    runs : int, optional
        The largest number of candidates; by default all.
    jobs : int, optional
        How many candidates are trained at the same time; by default one per core.
    stop_early : bool, default True
        Train every candidate for a third of the steps, and continue with the better half only.
    recipe, task, reading, labelled_target, evaluate_on
        As in `jumbot.adapt`.  Target labels only add a column to the table.
    show : bool, default False
        Draw a progress bar.
    **options
        Options of training, network, inputs and reading, as in `jumbot.adapt`, the same for every candidate: `seed`,
        `steps`, `backbone`, `label`, ...  Options of methods raise an error, because `tune` chooses them.

    Returns
    -------
    Tuned
        The chosen `model`, the `table` of all candidates, and `why`.

    Raises
    ------
    jumbot.ArgumentError
        If an argument is invalid, or `out` was started with other data or settings.
    jumbot.JumbotError
        If no candidate could be trained.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 60)
    >>> X = rng.normal(size=(60, 3)) + 4 * y[:, None]
    >>> best = tune((X, y), X + 0.5, runs=3, jobs=1, steps=20)
    >>> len(best.table), float((best.model.predict(X + 0.5) == y).mean()) > 0.9
    (3, True)
    """
    if target is None:
        raise ArgumentError("target is missing; pass the unlabelled data to predict.")
    changes: dict[str, Any] = dict(options)
    limits = _check_limits(minutes, runs, jobs, stop_early, show, changes)
    how = make_reading(**take_reading(reading, changes, task))
    if isinstance(changes.get("backbone"), torch.nn.Module):
        raise ArgumentError(
            "backbone must be a name, got a module, which every candidate would train in turn; tune on the features "
            "that your module computes instead."
        )
    check_shared(recipe, changes, how.task)
    own = {name: changes[name] for name in ("columns", "dates", "text") if name in changes}
    given = Given(source, target, evaluate_on, labelled_target)
    with _folder(check("out", out, Path | None)) as (folder, temporary):
        with collecting_problems(given, how, Encoding.of(Inputs(**own))):
            found = _search(_make_search(folder, given, how, recipe, changes, limits))
        if temporary is not None:
            weakref.finalize(found.model, shutil.rmtree, temporary, ignore_errors=True)
        return found


def _check_limits(minutes: Any, runs: Any, jobs: Any, stop_early: bool, show: bool, options: dict[str, Any]) -> Limits:
    """The checked `Limits`; `seed` and `command` leave the options."""
    for name, flag in {"stop_early": stop_early, "show": show}.items():
        check(name, flag, bool)
    return Limits(
        check("minutes", minutes, Positive | None),
        check("runs", runs, Candidates | None),
        check("jobs", _cores() if jobs is None else jobs, Count),
        stop_early,
        show,
        check("seed", options.pop("seed", 0), Seed),
        check("command", options.pop("command", None), Text | None),
        time.monotonic(),
    )


@contextmanager
def _folder(out: Path | None) -> Iterator[tuple[Path, Path | None]]:
    """The folder of the runs, locked for this process, and the temporary one around it, removed if the block fails."""
    temporary = Path(tempfile.mkdtemp(prefix="jumbot-")) if out is None else None
    folder = temporary / "tune" if temporary is not None else Path(str(out))
    try:
        _check_folder(folder)
        with writing(folder):
            yield folder, temporary
    except BaseException:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        raise


def _make_search(
    folder: Path, given: Given, reading: Reading, recipe: str | None, options: dict[str, Any], limits: Limits
) -> Search:
    """Read the data and make the list of candidates."""
    data = read_data(given, reading)
    check_used(reading, given, data)
    config = make_config(data.source, "jumbot", recipe, {**options, "seed": limits.seed})
    variants = candidates(config.recipe, task_of(data.source).name)[: limits.runs]
    seen = _as_the_network_takes_it(data, config)
    return Search(folder, Pair("tune", *data), *seen, variants, config, options, limits)


def _search(search: Search) -> Tuned:
    """Train and score the candidates, and pick one."""
    record, limits = _begin(search), search.limits
    weighed = search.weigh_all()
    if not weighed and not search.failed:
        raise ArgumentError(
            f"minutes: {limits.minutes:.2g} minutes are too few: no candidate could be trained. Give more.",
            argument="minutes",
        )
    if not weighed:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in search.failed.items())
        raise JumbotError(f"{search.out}: no candidate could be trained ({reasons}).")
    record |= verdict(search, weighed)
    record |= {name: getattr(limits, name) for name in ("minutes", "runs", "jobs", "stop_early")}
    with progress(None, "reports", bar=limits.show, slow=True):
        seconds = math.inf if limits.minutes is None else 60 * limits.minutes
        return _finish(search, record, time_for_a_page(limits.begun, seconds))


def _check_folder(folder: Path) -> None:
    check_tuning_place(folder)
    if (folder / TUNING).exists():
        read(folder / TUNING, Tuning)


def _as_the_network_takes_it(data: ReadData, config: RunConfig) -> tuple[Domain, Domain]:
    """Source and target; features of a frozen backbone are extracted here, once for all candidates."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        found = Domains(data._replace(labelled_target=None), config)
        return found.source, found.target.unlabelled()


def _begin(search: Search) -> dict[str, Any]:
    """Write the record before the first run; a folder with other data or settings is refused."""
    pair, file = search.pair, search.out / TUNING
    same = {
        "source": _data(pair.source),
        "target": _data(pair.target),
        "labelled_target": None if pair.labelled_target is None else _data(pair.labelled_target),
        "recipe": search.config.recipe,
        "seed": search.limits.seed,
        "options": json.loads(json.dumps(dict(search.changes), default=str)),
    }
    if file.exists():
        old = to_builtins(read(file, Tuning))
        for name, value in same.items():
            if old[name] != value:
                raise ArgumentError(
                    f"out: {search.out} was started with another {name} ({old[name]}, now {value}); tune with the "
                    "same, or choose another name."
                )
    record = {"format": FORMAT, **stamp(search.limits.command), **same}
    if not file.exists():
        write(file, convert(record, Tuning, file))
    return record


def _data(domain: Domain) -> dict[str, Any]:
    return {"name": domain.name, "n": len(domain), "hash": domain_hash(domain)}


def _finish(search: Search, record: dict[str, Any], report: bool) -> Tuned:
    """Write the record and the pages, and load the chosen model; its report is left out if there is no time."""
    import pandas

    from jumbot.report._tuning import write_tuning

    out = search.out
    folder = record["candidates"][0]["folder"]
    for run in out.glob(f"*/{DECISION}"):
        run.unlink()
    write(out / folder / DECISION, TuneDecision(tuple(record["why"])))
    write(out / TUNING, convert(record, Tuning, out / TUNING))
    write_text(out / BEST, folder + "\n")
    for text in record["why"]:
        if text.startswith("Warning: "):
            warnings.warn(f"{record['picked']}: {text.removeprefix('Warning: ')}", stacklevel=4)
    drawn(f"{out}: the page of all candidates", lambda: write_tuning(record, out))
    model = load(out)
    if report:
        drawn(f"{model.run}: the report", model.report)
    else:
        log.warning("%s: %s", model.run, NO_REPORT)
    return Tuned(model, pandas.DataFrame(record["candidates"]), tuple(record["why"]), out)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
