"""The runs of `jumbot.tune`: short ones, which stop poor candidates early, then full ones, and their scores."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jumbot._base.progress import progress
from jumbot.adaptation._config import RunConfig
from jumbot.adaptation._evaluation.decision import Harm, weigh_distances, weigh_harm
from jumbot.adaptation._evaluation.measures import NumberEvidence, total_variation
from jumbot.adaptation._evaluation.modularity import Evidence, modularity_parts, nearest, some_rows
from jumbot.adaptation._evaluation.task import task_of
from jumbot.adaptation._grid import Opinion, Weights, weigh_opinions
from jumbot.adaptation._model import load
from jumbot.adaptation._queue import Pair, Run, train_all
from jumbot.adaptation._runs.folder import final_mass, read_metrics, read_results
from jumbot.adaptation._training.witnesses import SHARE, learning_rows, neighbourhoods, reference_predictions
from jumbot.adaptation._variants import FIRST, Variant
from jumbot.data._domain import Domain
from jumbot.methods import SOURCE_ONLY

RUNG = 3  # a short run has this fraction of the steps
_FIRST, _TRAINED, _AFTER = 0.5, 0.8, 120.0
"""Of a budget of time: when the candidates that are always trained end, and when all do, seconds before it at most."""
LEAST_STEPS = 300  # of a whole run, below which short ones would save nothing


@dataclass(frozen=True)
class Weighed:
    """A candidate that was trained, fully or in a short run, and its score."""

    run: Run
    whole: bool
    evidence: Evidence | NumberEvidence
    harm: Harm | None = None
    """The comparison with source-only by the rule of `decision`; None for source-only itself, and if it was stopped
    early.
    """
    secured: float | None = None
    """The mean of the votes on its accuracy, as in `Harm`."""

    def row(self, folder: Path) -> dict[str, Any]:
        """Its row of the table."""
        results = read_results(self.run.folder)
        assert results is not None
        diagnosis, estimate = results.diagnosis, results.estimated_accuracy
        of_classes = {
            "estimated_accuracy": None if estimate is None else estimate.value,
            "proportions_distance": total_variation(diagnosis.class_proportions, diagnosis.predicted_proportions),
            "accuracy_not_used": results.accuracy,
        }
        of_numbers = {"rmse_not_used": results.rmse, "r2_not_used": results.r2}
        return {
            "candidate": self.run.variant.label,
            "method": self.run.variant.method,
            "settings": dict(self.run.variant.changes),
            "whole": self.whole,
            **self.evidence.to_row(),
            "secured": self.secured,
            "mass": final_mass(read_metrics(self.run.folder)),
            **(of_classes if isinstance(self.evidence, Evidence) else of_numbers),
            "seconds": results.seconds,
            "folder": self.run.folder.relative_to(folder).as_posix(),
        }


class Limits(NamedTuple):
    """The limits of the search, and what is recorded."""

    minutes: float | None
    runs: int | None
    jobs: int
    stop_early: bool
    show: bool
    seed: int
    command: str | None
    begun: float
    """The time of `time.monotonic` at which the minutes begin."""


@dataclass(frozen=True)
class Search:
    """Candidates on one pair of domains, in one folder."""

    out: Path
    pair: Pair
    source: Domain
    """As input of the networks, like `target`."""
    target: Domain
    variants: Sequence[Variant]
    config: RunConfig
    changes: Mapping[str, Any]
    limits: Limits
    failed: dict[str, str] = field(default_factory=dict)
    """Candidates whose training failed, with the reason."""

    def weigh_all(self) -> list[Weighed]:
        """Train and score all; a candidate that was stopped early keeps the score and the votes of its short run.

        Source-only and the recipe's JUMBOT come first, and are cut short if there are few minutes.  Short runs may take
        a third of the remaining time, and the better half of them continues.
        """
        begun, stop_early = self.limits.begun, self.limits.stop_early
        limit = math.inf if self.limits.minutes is None else 60 * self.limits.minutes
        end = begun + max(_TRAINED * limit, limit - _AFTER)
        indices, rows = some_rows(self.target, self.limits.seed)
        sample, neighbours = self.target.subset(indices), nearest(rows)
        first, others = self.variants[:FIRST], self.variants[FIRST:]
        short: dict[str, Run] = {}
        whole = self._train([self.run(v) for v in first], begun + _FIRST * limit, FIRST)
        now = time.monotonic()
        if stop_early and self.steps[1] >= LEAST_STEPS and len(others) > FIRST and now < end:
            short = self._train([self.run(v, whole=False) for v in self.variants], now + (end - now) / RUNG, 0)
            found = self._weigh(self._opinions(short, sample), neighbours) if short else {}
            ranked = sorted(found, key=lambda label: -found[label].value)[: len(self.variants) // 2]
            others = sorted((v for v in others if v.label in ranked), key=lambda v: ranked.index(v.label))
        whole |= self._train([self.run(v) for v in others], end, 0)
        if not whole:
            return []
        runs = whole | {label: run for label, run in short.items() if label not in whole}
        opinions = self._opinions(runs, sample)
        found = self._weigh(opinions, neighbours)
        harms = self._harms({label: opinions[label] for label in whole}, sample)
        secured = {label: harm.adapted for label, harm in harms.items()}
        if harms:
            secured[SOURCE_ONLY] = next(iter(harms.values())).source_only
        return [
            Weighed(runs[label], label in whole, found[label], harms.get(label), secured.get(label))
            for label in (v.label for v in self.variants)
            if label in runs
        ]

    @property
    def steps(self) -> tuple[int, int]:
        """Steps of a whole run: on the source alone, and of adaptation."""
        _, source, adaptation = self.config.training.lengths(len(self.pair.source))
        return source, adaptation

    def run(self, variant: Variant, whole: bool = True) -> Run:
        """One candidate as a run of the grid."""
        changes = {**self.changes, **variant.changes}
        if not whole:
            source, adaptation = self.steps
            lengths = {"source_steps": source // RUNG, "steps": adaptation // RUNG}
            changes = {n: v for n, v in changes.items() if n not in ("epochs", "source_epochs")} | lengths
        judged = whole and self.holds_out
        if judged and not self.config.training.validation:
            changes["validation"] = SHARE
        folder = self.out / variant.folder if whole else self.out / "rungs" / variant.folder
        seed, command = self.limits.seed, self.limits.command
        return Run(self.pair, variant, seed, folder, self.config.recipe, changes, command=command, judge=judged)

    @property
    def holds_out(self) -> bool:
        """Whether a part of the source is held out from the candidates, to judge them; numbers are judged without."""
        labels = self.pair.source.labels
        return labels is not None and round(SHARE * int(np.bincount(labels[labels >= 0]).max())) > 0

    def _opinions(self, runs: Mapping[str, Run], sample: Domain) -> dict[str, Opinion]:
        """The predictions of each for the sample; models are loaded one after the other."""
        with progress(None, f"weighing {len(runs)} candidates", bar=self.limits.show, slow=True):
            return {label: Opinion.of(load(run.folder), sample) for label, run in runs.items()}

    def _weigh(self, opinions: Mapping[str, Opinion], neighbours: np.ndarray[Any, Any]) -> Weights:
        return weigh_opinions(opinions, neighbours, self.pair.source.values)

    def _harms(self, opinions: Mapping[str, Opinion], sample: Domain) -> dict[str, Harm]:
        """The comparison of each candidate that adapts with source-only."""
        adapted, seed = [label for label in opinions if label != SOURCE_ONLY], self.limits.seed
        if SOURCE_ONLY not in opinions or not (self.holds_out or self.source.labels is None):
            return {}
        if self.source.labels is None:
            index, rows = learning_rows(self.source, seed)
            values = task_of(self.source).labels(self.source)[index]
            known = reference_predictions(rows, values, [learning_rows(sample)[1]], numbers=True, seed=seed)
            outputs = {label: (one.scores.double().numpy(),) for label, one in opinions.items()}
            return {label: weigh_distances(outputs[label], outputs[SOURCE_ONLY], known) for label in adapted}
        votes = {label: one.accuracy.votes for label, one in opinions.items() if one.accuracy is not None}
        classes = {label: one.scores.argmax(-1).numpy() for label, one in opinions.items()}
        graph = neighbourhoods(self.source, learning_rows(sample)[1], seed)
        parts = {} if graph is None else {label: modularity_parts(y, graph) for label, y in classes.items()}
        return {
            label: weigh_harm(
                votes[label],
                votes[SOURCE_ONLY],
                float((classes[label] != classes[SOURCE_ONLY]).mean()),
                parts[label] - parts[SOURCE_ONLY] if parts else None,
            )
            for label in adapted
        }

    def _train(self, runs: Sequence[Run], until: float, least: int) -> dict[str, Run]:
        """Train; return the finished runs by the labels of their candidates."""
        failed = train_all(runs, self.limits.jobs, self.limits.show, until=until, least=least)
        self.failed.update({r.variant.label: failed[str(r.folder)] for r in runs if str(r.folder) in failed})
        return {run.variant.label: run for run in runs if run.finished}
