"""A run folder read back: its settings, what was measured during training, and the results.

RUN/config.json      the request: data, method, settings, seed
RUN/metrics.jsonl    one JSON object per line: each step and each evaluation
RUN/results.json     the selected model's figures; absent while the run is unfinished
RUN/embeddings.npz   some source and target embeddings before and after, optional
RUN/predictions.csv  id, label, confidence, received_mass of each target sample, optional
RUN/baseline.json    a source-only classifier on the same target, optional
RUN/samples.json     the least explained and the most changed samples, with pictures where there are any, optional
RUN/decision.json    why `jumbot tune` picked the run, where it did

Each file is checked against its schema when it is read, so all required values exist and have the right type.
"""

from __future__ import annotations

import csv
import io
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from jumbot._base.files import check_regular, read_bytes
from jumbot._base.options import Portion, Weight, check
from jumbot._base.schema import read, to_builtins
from jumbot.adaptation._baseline import BASELINE, SAMPLES
from jumbot.adaptation._runs.folder import DECISION, final_mass, read_config, read_metrics, read_results
from jumbot.adaptation._runs.results_json import Baseline, Samples, TuneDecision
from jumbot.data._frames import unsafe
from jumbot.errors import ArgumentError

T = TypeVar("T")
_LARGEST = 2**30  # bytes of embeddings: a run keeps those of a thousand samples of each domain
_KEPT, _PART = 10_000, 20_000  # predictions, and lines read at once: a million of them would take a gigabyte
_ARRAYS = {  # number of axes, kinds of numbers
    **{f"{when}_{domain}": (2, "f") for when in ("before", "after") for domain in ("source", "target")},
    **dict.fromkeys(("source_labels", "target_labels", "target_predictions"), (1, "iu")),
    **dict.fromkeys(("source_values", "true_values", "predicted_values"), (2, "f")),
}


@dataclass(frozen=True)
class Prediction:
    """One line of `predictions.csv`; `received_mass` is None where the method has no plan."""

    id: str
    label: str
    confidence: float | None
    received_mass: float | None


def optional(file: Path, use: Callable[[Path], T], absent: T) -> T:
    """The result of `use` for the file, or `absent` if there is none."""
    if not file.exists():
        return absent
    try:
        return use(file)
    except ArgumentError as error:
        raise ArgumentError(f"{error} Copy it again, or delete it to make the report without it.") from error


def read_embeddings(file: Path) -> dict[str, np.ndarray]:
    """Embeddings and labels of some samples, by the names that `_ARRAYS` has."""
    raw = io.BytesIO(read_bytes(file))
    try:
        with zipfile.ZipFile(raw) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > _LARGEST:
            raise ValueError(f"it would take {size:,} bytes")
        with np.load(raw, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
    except Exception as error:  # a damaged archive raises any of ten types
        raise ArgumentError(f"{file}: is not an archive of arrays, or is incomplete ({error}).") from error
    for name, array in found.items():
        if name not in _ARRAYS:
            raise ArgumentError(f"{file}: {name}: is not known; there may be {', '.join(_ARRAYS)}.")
        axes, kinds = _ARRAYS[name]
        if array.ndim != axes or array.dtype.kind not in kinds:
            what = "numbers" if kinds == "f" else "whole numbers"
            raise ArgumentError(
                f"{file}: {name}: got an array of shape {array.shape} ({array.dtype}); it must hold {what} along "
                f"{axes} {'axes' if axes > 1 else 'axis'}."
            )
    for domain in ("source", "target"):
        lengths = {name: len(array) for name, array in found.items() if _domain(name) == domain}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ArgumentError(f"{file}: arrays of the {domain} must be of the same length; they are {shown}.")
    for when in ("before", "after"):
        widths = {array.shape[1] for name, array in found.items() if name.startswith(when)}
        if len(widths) > 1:
            raise ArgumentError(f"{file}: {when}_source and {when}_target must have the same width; they do not.")
    return found


def _domain(name: str) -> str:
    return "source" if "source" in name else "target"


def read_predictions(file: Path, count: int) -> list[Prediction]:
    """The predictions of the target, which has `count` samples: all are checked, and the least sure and the least
    explained are kept, `_KEPT` of each."""
    lines = _rows_of(file)
    header = next(lines, [])
    answer = next((name for name in header if name == "label" or name.startswith("prediction")), None)
    if header[:1] != ["id"] or answer is None or len(set(header)) < len(header):
        raise ArgumentError(f"{file}: line 1: must name the columns id and label, or id and prediction, each once.")
    if (found := sum(1 for _ in lines)) != count:
        raise ArgumentError(f"{file}: contains {found} rows where config.json records {count} target samples.")
    kept = dict[int, Prediction]()
    rows = enumerate(islice(_rows_of(file), 1, None), 1)
    while part := list(islice(rows, _PART)):
        kept |= _notable_lines(part, header, kept, file)
        if len(kept) > 4 * _KEPT:
            kept = _notable(kept)
    return list(_notable(kept).values())


def _notable_lines(
    part: list[tuple[int, list[str]]], header: list[str], kept: dict[int, Prediction], file: Path
) -> dict[int, Prediction]:
    """Of some lines, all of which are checked, those that may be among the notable ones."""
    width = len(header)
    if odd := next((number for number, row in part if len(row) != width), None):
        raise ArgumentError(f"{file}: row {odd}: must have as many cells as the first line.")
    full = len(kept) >= _KEPT
    chosen = np.zeros(len(part), bool)
    for column, kind in (("confidence", Portion), ("received_mass", Weight)):
        if column not in header:
            continue
        values = _column_of(part, header.index(column), column, kind, file)
        known = sorted(math.inf if (v := getattr(one, column)) is None else v for one in kept.values())
        chosen |= values < known[_KEPT - 1] if full else True
    return {
        number: _prediction(dict(zip(header, row, strict=True)), f"{file}: row {number}")
        for (number, row), wanted in zip(part, chosen | (not full), strict=True)
        if wanted
    }


def _column_of(
    part: list[tuple[int, list[str]]], place: int, column: str, kind: Any, file: Path
) -> np.ndarray[Any, Any]:
    """The numbers in a column, checked; infinite where there is none."""
    try:
        values = np.array([float(row[place]) if row[place] else math.inf for _, row in part])
        given = np.array([row[place] != "" for _, row in part])
        if np.isfinite(values[given]).all() and (values >= 0).all() and (kind is Weight or (values[given] <= 1).all()):
            return values
    except ValueError:
        pass
    for number, row in part:  # find the invalid number
        _number({column: row[place]}, column, kind, f"{file}: row {number}")
    return values


def _rows_of(file: Path) -> Iterator[list[str]]:
    """The cells of each line, read one after the other."""
    check_regular(file)
    try:
        with file.open(encoding="utf-8-sig", newline="") as opened:
            yield from csv.reader(opened, strict=True)
    except OSError as error:
        raise ArgumentError(f"{file}: cannot be read ({error.strerror or error}).") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ArgumentError(f"{file}: is not a text table, or is incomplete ({error}).") from error


def _notable(predictions: dict[int, Prediction]) -> dict[int, Prediction]:
    """Those that pages show, by their numbers: least sure, and least explained; the earlier of those that are alike."""
    if len(predictions) <= _KEPT:
        return predictions

    def first(value: Callable[[Prediction], float | None]) -> list[int]:
        found = {number: value(one) for number, one in predictions.items()}
        return sorted(found, key=lambda number: math.inf if (v := found[number]) is None else v)[:_KEPT]

    chosen = {*first(lambda one: one.confidence), *first(lambda one: one.received_mass)}
    return {number: one for number, one in predictions.items() if number in chosen}


def _prediction(row: dict[str, str], where: str) -> Prediction:
    return Prediction(
        id=unsafe(row["id"]),
        label=unsafe(row.get("label", "")),
        confidence=_number(row, "confidence", Portion, where),
        received_mass=_number(row, "received_mass", Weight, where),
    )


def _number(row: dict[str, str], column: str, kind: Any, where: str) -> float | None:
    text = row.get(column, "")
    if not text:
        return None
    try:
        value: float = check(column, float(text), kind)
    except ValueError as error:  # an ArgumentError is one
        raise ArgumentError(f"{where}: {column} must be a number >= 0, got {text[:40]!r}.") from error
    return value


@dataclass(frozen=True)
class RunRecord:
    """The records of one run, as `read_run` reads them.

    Attributes
    ----------
    folder : pathlib.Path
        The run folder.
    config : dict
        What is in `config.json`.
    steps, evaluations : sequences of dict
        The records of training, in the order of their step.
    results : dict or None
        The results at the end; None if the run is not finished.
    embeddings : dict of str to array
        Embeddings of some samples.
    predictions : sequence
        The lines of `predictions.csv`; of a large file only the least certain and the least explained.
    baseline : dict
        Figures of the source-only baseline, if the run has one.
    samples : sequence of dict
        Target samples to look at: the least explained and the most changed.
    why : sequence of str
        Why `jumbot tune` picked this run, if it did.
    """

    folder: Path
    config: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]] = ()
    evaluations: Sequence[Mapping[str, Any]] = ()
    results: Mapping[str, Any] | None = None
    embeddings: Mapping[str, np.ndarray] = field(default_factory=dict)
    predictions: Sequence[Prediction] = ()
    baseline: Mapping[str, Any] = field(default_factory=dict)
    samples: Sequence[Mapping[str, Any]] = ()
    why: Sequence[str] = ()

    @property
    def finished(self) -> bool:
        return self.results is not None

    @property
    def method(self) -> str:
        """Of the model that was returned."""
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
    """Read the records of a run, finished or not.

    An incomplete last line of `metrics.jsonl` is ignored; optional files may be absent.

    Parameters
    ----------
    folder : path
        The run folder, as `jumbot adapt --out` wrote it.

    Returns
    -------
    RunRecord
        Its records.

    Raises
    ------
    jumbot.ArgumentError
        If the folder is not a run, or one of its files is damaged.

    Examples
    --------
    >>> read_run("nowhere")
    Traceback (most recent call last):
    jumbot.errors.ArgumentError: nowhere: is not a folder; ...
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ArgumentError(f"{folder}: is not a folder; pass the folder of a run, as `jumbot adapt --out` wrote it.")
    config, results = read_config(folder), read_results(folder)
    steps, evaluations = _metrics(folder)
    return RunRecord(
        folder=folder,
        config=to_builtins(config),
        steps=steps,
        evaluations=evaluations,
        results=None if results is None else to_builtins(results),
        embeddings=optional(folder / "embeddings.npz", read_embeddings, {}),
        predictions=optional(folder / "predictions.csv", lambda file: read_predictions(file, config.target.n), []),
        baseline=optional(folder / BASELINE, lambda file: to_builtins(read(file, Baseline)), {}),
        samples=optional(folder / SAMPLES, lambda file: to_builtins(read(file, Samples)), []),
        why=optional(folder / DECISION, lambda file: read(file, TuneDecision).why, ()),
    )


def _metrics(folder: Path) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    # If a step occurs twice, the later line is used.
    found: dict[str, dict[float, Mapping[str, Any]]] = {"step": {}, "evaluation": {}}
    for each in read_metrics(folder):
        found[each["event"]][each["step"]] = each
    steps, evaluations = ([each for _, each in sorted(found[event].items())] for event in ("step", "evaluation"))
    return steps, evaluations
