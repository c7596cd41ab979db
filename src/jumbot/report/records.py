"""A run folder read back: what was asked for, what was measured on the way, and what came out.

RUN/config.json      the request: data, method, settings, seed
RUN/metrics.jsonl    one JSON object per line: each step and each evaluation
RUN/results.json     the selected model's figures; absent while the run is unfinished
RUN/embeddings.npz   some source and target embeddings before and after, optional
RUN/predictions.csv  id, label, confidence, received_mass of each target sample, optional
RUN/baseline.json    a source-only classifier on the same target, optional
RUN/samples.json     the least explained and the most changed samples, with pictures where there are any, optional
RUN/decision.json    why `jumbot tune` picked the run, where it did

Each was held to its schema when it was read, so what a schema asks for is there and is what it says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from jumbot.adaptation.runs.beside import BASELINE, SAMPLES
from jumbot.adaptation.runs.files.beside_json import Baseline, Samples
from jumbot.adaptation.runs.files.tune_json import Decision
from jumbot.adaptation.runs.folder import DECISION, final_mass, read_config, read_metrics, read_results
from jumbot.errors import ArgumentError
from jumbot.report.optional import Prediction, optional, read_embeddings, read_predictions
from jumbot.schema import plain, read


@dataclass(frozen=True)
class RunRecord:
    """One run: `steps` and `evaluations` in the order of their step."""

    folder: Path
    config: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]] = ()
    evaluations: Sequence[Mapping[str, Any]] = ()
    results: Mapping[str, Any] | None = None
    embeddings: Mapping[str, np.ndarray] = field(default_factory=dict)
    predictions: Sequence[Prediction] = ()
    baseline: Mapping[str, Any] = field(default_factory=dict)
    """Figures of a classifier that saw the source alone, where the run has one."""
    samples: Sequence[Mapping[str, Any]] = ()
    """Target samples to look at: the least explained and the most changed."""
    why: Sequence[str] = ()
    """Sentences of `jumbot tune`, if it picked this run."""

    @property
    def finished(self) -> bool:
        return self.results is not None

    @property
    def method(self) -> str:
        """Of the model that was handed over."""
        decided = (self.results or {}).get("decision")
        return str(decided["method"] if decided else self.config["method"]["name"])

    @property
    def options(self) -> dict[str, Any]:
        """The method's hyper-parameters."""
        return {key: value for key, value in self.config["method"].items() if key != "name"}

    @property
    def source(self) -> str:
        return str(self.config["source"]["name"])

    @property
    def target(self) -> str:
        return str(self.config["target"]["name"])

    @property
    def task(self) -> str:
        return f"{self.source} → {self.target}"

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.config["classes"])

    @property
    def made_with(self) -> str:
        """The version that made it, and when."""
        return f"jumbot {self.config['jumbot']}, {self.config['created'] or 'undated'}"

    @property
    def rule(self) -> str:
        """The rule that chose the model."""
        return str(self.config["select"] if self.results is None else self.results["rule"])

    @property
    def oracle(self) -> bool:
        """True if target labels chose the model."""
        return self.rule == "oracle" or (self.results is not None and bool(self.results["oracle"]))

    @property
    def diagnosis(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = {} if self.results is None else self.results["diagnosis"]
        return found

    @property
    def final(self) -> Mapping[str, Any]:
        """The selected model's figures; of an unfinished run, those of its last evaluation."""
        if self.results is not None:
            return self.results
        return self.evaluations[-1] if self.evaluations else {}

    @property
    def accuracy(self) -> float | None:
        """The share of right answers on the target, None where no target labels were given."""
        return self.final.get("accuracy")

    @property
    def mean_class_accuracy(self) -> float | None:
        return self.final.get("mean_class_accuracy")

    @property
    def per_class(self) -> list[float | None]:
        """The accuracy in each class of `classes`, None where the target has no sample of it."""
        values = list(self.final.get("per_class") or ())
        return values if len(values) == len(self.classes) else []

    @property
    def accuracy_before(self) -> float | None:
        """The target accuracy when adaptation began: the last evaluation of the source-only phase."""
        found = [each.get("accuracy") for each in self.evaluations if each["phase"] == "source"]
        return found[-1] if found else None

    @property
    def confusion(self) -> np.ndarray | None:
        """`(true class, predicted class)` counts."""
        matrix = np.array((self.results or {}).get("confusion") or 0, dtype=float)
        return matrix if matrix.sum() > 0 else None

    @property
    def scores(self) -> dict[str, float]:
        """The label-free scores at the selected step, else at the last evaluation that has any."""
        chosen = (self.results or {}).get("selected_step")
        with_scores = [each for each in self.evaluations if each["scores"]]
        matching = [each for each in with_scores if each["step"] == chosen] or with_scores[-1:]
        found = {name: number(value) for name, value in (matching[-1]["scores"] if matching else {}).items()}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def mass(self) -> float | None:
        """The share of the mass that moved at the end of training; None for methods without a plan."""
        return final_mass(self.steps)

    @property
    def adaptation_start(self) -> float | None:
        """The first step of the adaptation phase, None if the source-only phase did not come first."""
        phases = [(each["phase"], each["step"]) for each in self.steps]
        adapt = [step for phase, step in phases if phase == "adapt"]
        return adapt[0] if adapt and phases[0][0] == "source" else None

    def curve(self, *path: str, event: str = "step") -> tuple[np.ndarray, np.ndarray]:
        """Steps and values of one quantity, `curve("terms", "source")`, where it was recorded."""
        places: list[float] = []
        values: list[float] = []
        for each in self.steps if event == "step" else self.evaluations:
            value: Any = each
            for name in path:
                value = value.get(name) if isinstance(value, Mapping) else None
            found = number(value)
            if found is not None:
                places.append(each["step"])
                values.append(found)
        return np.array(places, dtype=float), np.array(values, dtype=float)

    def names_in(self, key: str, event: str = "step") -> list[str]:
        """Names that occur in a mapping of the records, `names_in("terms")`, in the order of their first appearance."""
        found: dict[str, None] = {}
        for each in self.steps if event == "step" else self.evaluations:
            found.update(dict.fromkeys(each[key]))
        return list(found)


def number(value: Any) -> float | None:
    """A finite float, else None.

    >>> number(1), number(float("nan")), number("a"), number(None)
    (1.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def read_run(folder: str | Path) -> RunRecord:
    """The record of a run, finished or not.

    A folder that is not a run, or one of whose files is damaged, raises `ArgumentError`. A last line of `metrics.jsonl`
    that a kill cut short is left out; optional files may be absent.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ArgumentError(f"{folder}: is not a folder; give the folder of a run, as `jumbot adapt --out` wrote it.")
    config = read_config(folder)
    steps, evaluations = _metrics(folder)
    return RunRecord(
        folder=folder,
        config=config,
        steps=steps,
        evaluations=evaluations,
        results=read_results(folder),
        embeddings=optional(folder / "embeddings.npz", read_embeddings, {}),
        predictions=optional(
            folder / "predictions.csv", lambda file: read_predictions(file, config["target"]["n"]), []
        ),
        baseline=optional(folder / BASELINE, lambda file: plain(read(file, Baseline)), {}),
        samples=optional(folder / SAMPLES, lambda file: plain(read(file, Samples)), []),
        why=optional(folder / DECISION, lambda file: read(file, Decision).why, ()),
    )


def _metrics(folder: Path) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    # Should a step be there twice, the later line counts.
    found: dict[str, dict[float, Mapping[str, Any]]] = {"step": {}, "evaluation": {}}
    for each in read_metrics(folder):
        found[each["event"]][each["step"]] = each
    steps, evaluations = ([each for _, each in sorted(found[event].items())] for event in ("step", "evaluation"))
    return steps, evaluations
