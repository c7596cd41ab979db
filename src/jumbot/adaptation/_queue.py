"""Runs that are trained one after the other or in parallel: those of a comparison, or candidates of a search."""

from __future__ import annotations

import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from jumbot._base.options import Count, check
from jumbot._base.progress import in_notebook, progress
from jumbot._settings.places import CONFIG, MODEL
from jumbot.adaptation._adapt import adapt
from jumbot.adaptation._config import RunConfig, make_config
from jumbot.adaptation._runs.config_json import Config
from jumbot.adaptation._runs.folder import RunFolder, outcome, read_config
from jumbot.adaptation._runs.provenance import OtherStartError, difference, has_come_as_far
from jumbot.adaptation._training.accelerator import keep_freed_memory
from jumbot.adaptation._training.bar import TimeUpError, pausing
from jumbot.adaptation._variants import Variant
from jumbot.errors import ArgumentError, JumbotError, NegativeTransferWarning, need, one_line
from jumbot.methods import SOURCE_ONLY

_LEAST = 1e-3  # seconds of a run, which it refuses


@dataclass(frozen=True)
class Pair:
    """A source and a target, in any form that `jumbot.adapt` accepts."""

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
    """The time left for it, in seconds; a run that is not done by then keeps its checkpoint and is unfinished."""
    cut: bool = False
    """Whether it ends early instead, with what it has learned by then."""
    judge: bool = False
    """Whether its accuracy is estimated, as in `adapt`."""
    _made: dict[tuple[str, str], RunConfig] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Its settings by recipe and task, made once."""

    @property
    def name(self) -> str:
        """The name in progress messages."""
        return f"{self.pair.name}  {self.variant.label}  seed {self.seed}"

    @property
    def finished(self) -> bool:
        """Whether the run is done; a run with other settings is refused."""
        if not (self.folder / MODEL).exists():
            return False
        found = self._begun_with
        if (config := self._config(found)) is not None:
            RunFolder(self.folder).check_same(found, config)
        return True

    @property
    def started(self) -> bool:
        return (self.folder / CONFIG).exists()

    @cached_property
    def _begun_with(self) -> Config:
        """What its folder contains, which nothing changes."""
        return read_config(self.folder)

    def _config(self, like: Config) -> Config | None:
        """Its configuration if its data are those of another run; None if that does not tell its recipe."""
        recipe = self.recipe or like.recipe
        if recipe is None:
            return None
        asked = recipe, like.task.name
        if asked not in self._made:
            changes = {**self.changes, "seed": self.seed}
            self._made[asked] = make_config(None, self.variant.method, recipe, changes, like.task.name)
        return replace(like, **self._made[asked].parts())

    def begun_by(self, others: Iterable[Run]) -> Run:
        """This run, starting from another one that has done the same steps on the source, if there is one."""
        for other in others:
            alike = other.seed == self.seed and self.pair.teaches_like(other.pair)
            if not alike or not other.started:
                continue
            try:
                found = other._begun_with
                config, whole = self._config(found), self.variant.method == SOURCE_ONLY
            except JumbotError:  # errors are raised by the training of that run
                continue
            if config is None or difference(found, config) is not None:
                continue
            if has_come_as_far(RunFolder(other.folder), found, whole):
                return replace(self, start_from=other.folder)
        return self

    def train(self, show: bool = False) -> None:
        with pausing(math.inf if self.cut else self.seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore", NegativeTransferWarning)  # candidates are compared anyway
            try:
                self._train(show, self.start_from)
            except OtherStartError:  # settings may depend on the target
                self._train(show, None)

    def _train(self, show: bool, start_from: Path | None) -> None:
        adapt(
            self.pair.source,
            self.pair.target,
            method=self.variant.method,
            recipe=self.recipe,
            evaluate_on=self.pair.evaluate_on,
            labelled_target=self.pair.labelled_target,
            out=self.folder,
            resume=self.started,
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
        """The outcome in its folder, with the name of the method in the table."""
        return outcome(self.folder, self.pair.name) | {"method": self.variant.label}


def train_all(
    runs: Sequence[Run], jobs: int = 1, show: bool = False, *, until: float = math.inf, least: int = 0
) -> dict[str, str]:
    """Train those that are not finished, `jobs` at a time; a failure is reported with its reason, and the others
    continue.

    Steps on the source alone that another run has already done are not repeated.  After `until`, a time of
    `time.monotonic`, only the first `least` of them are started, which share that time and end early; the others keep a
    checkpoint.
    """
    failed: dict[str, str] = {}
    check("jobs", jobs, Count)
    waiting = [(number, run) for number, run in enumerate(runs) if not run.finished]
    sharing = 1 if jobs > 1 else least
    starting = (
        replace(
            run if run.started else run.begun_by(runs),
            seconds=(until - time.monotonic()) / max(sharing - number, 1),
            cut=number < least,
        )
        for number, run in waiting
        if number < least or time.monotonic() < until
    )
    done: Iterator[tuple[Run, str | None]]
    if jobs == 1 or len(waiting) <= 1:
        done = ((run, _train(run, show and (in_notebook() or sys.stderr.isatty()))) for run in starting)
    else:
        done = _train_in_parallel(starting, min(jobs, len(waiting)))
    telling: AbstractContextManager[Callable[[int], None]] = nullcontext(lambda count: None)
    if jobs > 1 and len(waiting) > 1:  # otherwise each reports its own progress
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
    """Train in processes with one thread each, yielding runs as they finish; a run is requested when a process is free.

    joblib's processes need no `if __name__ == "__main__"` in the user's script.
    """
    joblib = need("joblib", "jobs above 1", "adapt")
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        pool = joblib.Parallel(jobs, pre_dispatch=jobs, batch_size=1, return_as="generator_unordered")
        for run, reason, noted in pool(joblib.delayed(_train_alone)(run, os.getcwd(), time.time()) for run in runs):
            for message in noted:  # warn here, where the caller's warning filters apply
                warnings.warn(message, stacklevel=2)
            yield run, reason


def _train_alone(run: Run, place: str, sent: float) -> tuple[Run, str | None, list[Warning]]:
    """Train in a process, whose time budget starts when the run was `sent`, because the process may take seconds to
    start.
    """
    os.chdir(place)  # the process may be older than the user's last change of folder
    keep_freed_memory()
    torch.set_num_threads(1)
    with warnings.catch_warnings(record=True) as noted:
        reason = _train(replace(run, seconds=run.seconds - (time.time() - sent)))
    return run, reason, [found.message for found in noted if isinstance(found.message, Warning)]


def _train(run: Run, show: bool = False) -> str | None:
    """Train; return why it failed, if it did; a run that had no time has not."""
    try:
        run.train(show)
    except TimeUpError:
        return None
    except JumbotError as error:
        too_late = run.cut and isinstance(error, ArgumentError) and error.argument == "minutes"
        return None if too_late else str(error)
    return None
