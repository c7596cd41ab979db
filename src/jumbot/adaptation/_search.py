"""The candidates of `jumbot.tune` as runs: short ones that stop the poor early, then whole ones, and their evidence."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from jumbot._base.progress import progress
from jumbot.adaptation._candidates import FIRST
from jumbot.adaptation._config import RunConfig
from jumbot.adaptation._evaluation.decision import Harm, weigh_distances, weigh_harm
from jumbot.adaptation._evaluation.modularity import Evidence, modularity_parts, nearest, some_rows, weigh
from jumbot.adaptation._evaluation.monitor import logits_of
from jumbot.adaptation._evaluation.regression import NumberEvidence, weigh_numbers
from jumbot.adaptation._evaluation.task import task_of
from jumbot.adaptation._grid import Pair, Run, train_all
from jumbot.adaptation._model import load
from jumbot.adaptation._runs.folder import final_mass, read_metrics, read_results
from jumbot.adaptation._runs.variants import Variant
from jumbot.adaptation._training.witnesses import SHARE, learning_rows, neighbourhoods, reference_predictions
from jumbot.data._domain import Domain
from jumbot.methods import SOURCE_ONLY

RUNG = 3  # a short run has one in so many steps
_FIRST, _TRAINED, _AFTER = 0.5, 0.8, 120.0
"""Of a budget of time: when the candidates that are always trained end, and when all do, seconds before it at most."""
LEAST_STEPS = 300  # of a whole run, below which short ones would save nothing
Weights = Mapping[str, Evidence] | Mapping[str, NumberEvidence]


@dataclass(frozen=True)
class Weighed:
    """A candidate that was trained, whole or in short, and the evidence for it."""

    run: Run
    whole: bool
    evidence: Evidence | NumberEvidence
    harm: Harm | None = None
    """Beside source-only, by the rule of `decision`; None of source-only itself and where it was stopped early."""
    secured: float | None = None
    """The mean of the votes on its accuracy, as in `Harm`."""

    def row(self, folder: Path) -> dict[str, Any]:
        """Its row of the table."""
        results = read_results(self.run.folder)
        assert results is not None
        diagnosis, estimate = results.diagnosis, results.estimated_accuracy
        of_classes = {
            "estimated_accuracy": None if estimate is None else estimate.value,
            "proportions_distance": _distance(diagnosis.class_proportions, diagnosis.predicted_proportions),
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


@dataclass(frozen=True)
class Search:
    """Candidates on one pair of domains, in one folder."""

    out: Path
    pair: Pair
    source: Domain
    """As the networks take it, and so is `target`."""
    target: Domain
    variants: Sequence[Variant]
    config: RunConfig
    changes: Mapping[str, Any]
    seed: int
    jobs: int
    show: bool
    command: str | None
    failed: dict[str, str] = field(default_factory=dict)
    """Labels of candidates whose training failed, with the reason."""

    def weigh_all(self, minutes: float | None, stop_early: bool, begun: float | None = None) -> list[Weighed]:
        """Train and weigh; a candidate that was stopped early keeps the evidence and the voice of its short run.

        Source-only and the recipe's JUMBOT come first, and are cut short where the minutes are few.  Short runs may
        take a third of what is left, and of them the better half goes on.  The time counts from `begun`.
        """
        start = time.monotonic() if begun is None else begun
        limit = math.inf if minutes is None else 60 * minutes
        end = start + max(_TRAINED * limit, limit - _AFTER)
        indices, rows = some_rows(self.target, self.seed)
        sample, neighbours = self.target.subset(indices), nearest(rows)
        short: list[Run] = []
        chosen = list(self.variants)
        first = self._train([self.run(v) for v in chosen[:FIRST]], start + _FIRST * limit, FIRST)
        now = time.monotonic()
        if stop_early and self.steps[1] >= LEAST_STEPS and len(chosen) > 2 * FIRST and now < end:
            short = self._train([self.run(v, whole=False) for v in chosen], now + (end - now) / RUNG, 0)
            found: Weights = self._weigh(short, sample, neighbours) if short else {}
            ranked = sorted(found, key=lambda label: -found[label].value)
            going_on = ranked[: len(chosen) // 2]
            chosen = [*chosen[:FIRST], *(v for v in chosen[FIRST:] if v.label in going_on)]
            chosen[FIRST:] = sorted(chosen[FIRST:], key=lambda v: going_on.index(v.label))
        whole = first + self._train([self.run(v) for v in chosen[FIRST:]], end, 0)
        labels = {run.variant.label for run in whole}
        stopped = [run for run in short if run.variant.label not in labels]
        if not whole:
            return []
        runs = whole + stopped
        found = self._weigh(runs, sample, neighbours)
        order = [v.label for v in self.variants]
        harms = self._harms(whole, sample)
        own = {name: harm.adapted for name, harm in harms.items()}
        if harms:
            own[SOURCE_ONLY] = next(iter(harms.values())).source_only
        weighed = [
            Weighed(run, label in labels, found[label], harms.get(label), own.get(label))
            for run, label in ((run, run.variant.label) for run in runs)
        ]
        return sorted(weighed, key=lambda w: order.index(w.run.variant.label))

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
        return Run(
            self.pair, variant, self.seed, folder, self.config.recipe, changes, command=self.command, judge=judged
        )

    @property
    def holds_out(self) -> bool:
        """Whether a part of the source is kept from the candidates, to judge them by; numbers are judged without."""
        labels = self.pair.source.labels
        return labels is not None and round(SHARE * int(np.bincount(labels[labels >= 0]).max())) > 0

    def _harms(self, runs: Sequence[Run], sample: Domain) -> dict[str, Harm]:
        """Each candidate that adapts, compared with source-only."""
        by_label = {run.variant.label: run for run in runs}
        alone = by_label.pop(SOURCE_ONLY, None)
        if alone is None or not by_label or not (self.holds_out or self.source.labels is None):
            return {}
        models = {name: load(run.folder) for name, run in {SOURCE_ONLY: alone, **by_label}.items()}
        scored = {name: model.scores(logits_of(model.network, sample)) for name, model in models.items()}
        if self.source.labels is None:
            index, rows = learning_rows(self.source, self.seed)
            values = task_of(self.source).labels(self.source)[index]
            others = [learning_rows(sample)[1]]
            known = reference_predictions(rows, values, others, numbers=True, seed=self.seed)
            outputs = {name: (f.double().numpy(),) for name, f in scored.items()}
            return {name: weigh_distances(outputs[name], outputs[SOURCE_ONLY], known) for name in by_label}
        estimates = {name: model.estimated_accuracy for name, model in models.items()}
        votes = {name: found.votes for name, found in estimates.items() if found is not None}
        classes = {name: scores.argmax(-1).numpy() for name, scores in scored.items()}
        graph = neighbourhoods(self.source, learning_rows(sample)[1], self.seed)
        parts = {} if graph is None else {name: modularity_parts(y, graph) for name, y in classes.items()}
        return {
            name: weigh_harm(
                votes[name],
                votes[SOURCE_ONLY],
                float((classes[name] != classes[SOURCE_ONLY]).mean()),
                parts[name] - parts[SOURCE_ONLY] if parts else None,
            )
            for name in by_label
        }

    def _weigh(self, runs: Sequence[Run], sample: Domain, neighbours: np.ndarray[Any, Any]) -> Weights:
        with progress(None, f"weighing {len(runs)} candidates", bar=self.show, slow=True):
            values = self.pair.source.values
            if values is None:
                return weigh(_probabilities(runs, sample), neighbours)
            return weigh_numbers(_numbers(runs, sample), values, neighbours)

    def _train(self, runs: Sequence[Run], until: float, least: int) -> list[Run]:
        """Those that are finished now."""
        failed = train_all(runs, self.jobs, self.show, until=until, least=least)
        self.failed.update({r.variant.label: failed[str(r.folder)] for r in runs if str(r.folder) in failed})
        return [run for run in runs if run.finished]


def _distance(p: Sequence[float], q: Sequence[float]) -> float:
    """The total variation between proportions."""
    return float(np.abs(np.subtract(p, q)).sum() / 2)


def _numbers(runs: Sequence[Run], sample: Domain) -> dict[str, np.ndarray[Any, Any]]:
    """In the units of the source."""
    models = {run.variant.label: load(run.folder) for run in runs}
    return {n: m.task.decode(logits_of(m.network, sample)).reshape(len(sample), -1) for n, m in models.items()}


def _probabilities(runs: Sequence[Run], sample: Domain) -> dict[str, np.ndarray[Any, Any]]:
    """As the networks give them: calibration would bring the candidates' own estimates of accuracy into the vote."""
    return {run.variant.label: logits_of(load(run.folder).network, sample).softmax(-1).numpy() for run in runs}
