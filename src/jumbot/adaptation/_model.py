"""A trained classifier: predict, evaluate, save, load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import numpy as np
import torch
from torch import Tensor, nn

import jumbot
from jumbot._base.options import Bounds, check
from jumbot._base.progress import progress
from jumbot._base.schema import FORMAT, convert, read, to_builtins, write
from jumbot._settings.places import CONFIG, MODEL, model_folder
from jumbot._settings.reading import Corrupt
from jumbot.adaptation._evaluation.accuracy import Calibration, EstimatedAccuracy, Prior
from jumbot.adaptation._evaluation.decision import Decision
from jumbot.adaptation._evaluation.measures import Evaluation, RegressionEvaluation
from jumbot.adaptation._evaluation.monitor import logits_of, outputs
from jumbot.adaptation._evaluation.nearness import Nearness, Rows, frozen_rows, received_by
from jumbot.adaptation._evaluation.sets import Guarantee, PredictionSets, class_sets, promise_of
from jumbot.adaptation._evaluation.task import Regression, Task
from jumbot.adaptation._export import export as export_model
from jumbot.adaptation._export import make_predictor
from jumbot.adaptation._model_text import model_text
from jumbot.adaptation._networks.build import NetworkSpec, build_network, check_sizes
from jumbot.adaptation._networks.features import Extractor
from jumbot.adaptation._runs.config_json import TaskFile
from jumbot.adaptation._runs.folder import read_metrics
from jumbot.adaptation._runs.results_json import ModelFile, Results, known_figures
from jumbot.adaptation._training.checkpoint import load_module, load_weights, pack, save_weights, unpack
from jumbot.adaptation._written_tables import explanations, set_columns, write_table
from jumbot.data import as_domain
from jumbot.data._arrays import KINDS
from jumbot.data._augment import NO_CROPS, crop_transform
from jumbot.data._column_kinds import few
from jumbot.data._domain import Domain
from jumbot.data._inputs import InputFormat
from jumbot.data._labels import match_classes
from jumbot.data._roles import Roles
from jumbot.errors import ArgumentError, need
from jumbot.methods.network import Network

if TYPE_CHECKING:
    import pandas

    from jumbot.report._records import RunRecord


WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Model:
    """A trained model: what `jumbot.adapt` returns and `jumbot.load` reads.

    `predict`, `predict_proba`, `transform` and `evaluate` take what `adapt` takes: a folder, a table, an array, a
    Dataset.  `print(model)` shows what it predicts, from which inputs, and its estimated accuracy.

    Attributes
    ----------
    network : torch.nn.Module
        The trained network.
    task
        Classes, or numbers with their units.
    input : jumbot.data.InputFormat
        How raw samples become network input.
    spec, method : dict
        Descriptions of the network and of the method with its options.
    results : dict
        The results at the end of training, as in `results.json`.
    run : pathlib.Path or None
        The folder with the records of the run.
    extractor
        The frozen backbone, if there is one.
    crops : pair of str
        The crops of images, for training and for prediction.
    temperature : float
        Logits are divided by this before the softmax.
    nearness
        A description of the source, used to find new samples that do not resemble it.
    offset : tuple of float or None
        Added to the scores of the classes, so that predictions have the target's estimated class proportions, or the
        source's if these are far from them.
    guarantee
        Scores of held-out source samples, for prediction sets and intervals.
    """

    network: Network
    task: Task
    input: InputFormat
    spec: Mapping[str, Any]
    method: Mapping[str, Any]
    results: Mapping[str, Any] = field(default_factory=dict)
    run: Path | None = None
    extractor: Extractor | None = None
    crops: tuple[str, str] = NO_CROPS
    temperature: float = 1.0
    nearness: Nearness | None = None
    offset: tuple[float, ...] | None = None
    guarantee: Guarantee | None = None

    def __repr__(self) -> str:
        return model_text(str(self.method["name"]), self.task, self.input, self._found, self.run)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; empty if numbers are predicted."""
        return self.task.classes

    @property
    def estimated_accuracy(self) -> EstimatedAccuracy | None:
        """The estimated accuracy on the unlabelled target, with an interval; None if numbers are predicted."""
        return None if self._found is None else self._found.estimated_accuracy

    @property
    def decision(self) -> Decision | None:
        """Which of source-only and JUMBOT was returned, and why; a named method is always kept."""
        return None if self._found is None else self._found.decision

    @property
    def diagnosis(self) -> Mapping[str, Any]:
        """What the plan shows about the target: proportions, absent classes, unexplained samples, signs of harm."""
        found: Mapping[str, Any] = self.results.get("diagnosis", {})
        return found

    @property
    def history(self) -> pandas.DataFrame:
        """The records of training, one row per step and per evaluation, with nested names such as `terms.source`."""
        if self.run is None:
            raise ArgumentError("history: this model has no run folder; load it from one, or adapt again.")
        found: pandas.DataFrame = need("pandas", "history", "adapt").json_normalize(read_metrics(self.run))
        return found

    @cached_property
    def _found(self) -> Results | None:
        """The results as typed records."""
        return convert(self.results, Results, "results") if self.results else None

    @cached_property
    def _record(self) -> RunRecord:
        """Its run folder, read once for the report, the model card and the output of the command."""
        from jumbot.report._records import read_run

        assert self.run is not None
        return read_run(self.run)

    def domain(
        self,
        data: Any,
        labels: Any = None,
        *,
        label: str | Sequence[str] | None = None,
        id: str | None = None,
        domain: str | None = None,
        domain_column: str | None = None,
        corrupt: Corrupt = "refuse",
        root: str | Path | None = None,
    ) -> Domain:
        """Read data as input of this network, with columns and classes matched by name.

        Parameters
        ----------
        data : path, array, frame or Dataset
            The samples, in any form that `jumbot.adapt` accepts.
        labels : array, optional
            Their labels, if `data` does not contain them.
        label, id, domain, domain_column, corrupt, root
            As in `jumbot.data.Reading`.

        Returns
        -------
        jumbot.data.Domain
            The samples, prepared like the source.

        Raises
        ------
        jumbot.ArgumentError
            If the data do not fit the model.
        """
        read = as_domain(
            self.input.stack(data),
            labels,
            label=label,
            id=id,
            domain=domain,
            domain_column=domain_column,
            corrupt=corrupt,
            root=root,
            kind=self.input.kind if self.input.kind in KINDS else None,
            task=self.task.name,
            like=self.input.columns or Roles(()),
        )
        raw = match_classes(read, self.classes)
        found = self.input.apply(raw, crop_transform(self.crops))
        return found if self.extractor is None else self.extractor.on_device_of(self.network)(found)

    def outputs(self, data: Any, **reading: Any) -> tuple[Tensor, Tensor]:
        """Embeddings and logits."""
        return outputs(self.network, self.domain(data, **reading))

    def predict(self, data: Any, *, prior: Prior = "target", **reading: Any) -> np.ndarray:
        """Predict the class of each sample, or its number, in the source's units.

        Parameters
        ----------
        data : path, array, frame or Dataset
            The samples, as `jumbot.adapt` takes them.
        prior : {"target", "equal"}, default "target"
            Class proportions to predict with: "target" uses the target's estimated ones, or the source's if these are
            far from them; "equal" uses equal ones.
        **reading
            Options of `Model.domain`, such as `id`.

        Returns
        -------
        ndarray
            One prediction per sample, in the type of the labels that were given.

        Raises
        ------
        jumbot.ArgumentError
            If the data do not fit the model.
        """
        check("prior", prior, Prior)
        return self.task.decode(self.scores(logits_of(self.network, self.domain(data, **reading)), prior))

    def predict_proba(self, data: Any, *, prior: Prior = "target", **reading: Any) -> np.ndarray:
        """Predict the probability of each class.

        Parameters
        ----------
        data : path, array, frame or Dataset
            The samples, as `jumbot.adapt` takes them.
        prior : {"target", "equal"}, default "target"
            As in `predict`.
        **reading
            Options of `Model.domain`.

        Returns
        -------
        ndarray of shape (n, classes)
            A column per class, in the order of `classes`.

        Raises
        ------
        jumbot.ArgumentError
            If the data do not fit the model, or it predicts numbers.
        """
        if self.task.name == "regression":
            raise ArgumentError("predict_proba: this model predicts numbers, which have no probabilities; see predict.")
        check("prior", prior, Prior)
        return self.probabilities(logits_of(self.network, self.domain(data, **reading)), prior).numpy()

    def predict_set(self, data: Any, coverage: float = 0.9, **reading: Any) -> PredictionSets:
        """Predict the set of classes of each sample that cannot be excluded; for numbers, an interval.

        This assumes that labels move with the features: a target sample has the labels of the source samples that it is
        matched with.  The sets are calibrated on held-out source samples, weighted by the mass that the plan moves from
        them to the target in the adapted embedding and by the estimated class proportions, and on the model's
        probabilities on the target, rescaled to the estimated accuracy.

        Parameters
        ----------
        data : path, array, frame or Dataset
            The samples, in any form that `jumbot.adapt` accepts.
        coverage : float, default 0.9
            The desired share of sets that contain the true class, among samples that are not unknown; in (0, 1).
        **reading
            Options of `Model.domain`.

        Returns
        -------
        PredictionSets
            `sets`, `unknown`, and `promise`: what the sets guarantee, or "no promise" if the plan leaves too much mass
            behind.

        Raises
        ------
        jumbot.ArgumentError
            If `coverage` is not in (0, 1), or the model has no held-out source samples.
        """
        coverage = check("coverage", coverage, Annotated[float, Bounds(above=0, below=1)])
        self.check_guarantee()
        domain = self.domain(data, **reading)
        near = received_by(self.nearness, domain, self.compared_by(domain))
        return self.sets_of(logits_of(self.network, domain), near, coverage)

    def check_guarantee(self) -> None:
        """Refuse a model that cannot make prediction sets."""
        if self.guarantee is None:
            raise ArgumentError(
                "coverage cannot be promised by this model: it has no held-out source samples; adapt again.",
                argument="coverage",
            )

    def sets_of(self, logits: Tensor, near: np.ndarray | None, coverage: float) -> PredictionSets:
        """What `predict_set` returns, from outputs and received mass."""
        assert self.guarantee is not None
        thresholds = self.guarantee.thresholds(coverage)
        sets: Any
        if isinstance(self.task, Regression):
            wide, middle = thresholds * np.array(self.task.std), self.task.decode(logits).reshape(len(logits), -1)
            sets = np.stack([middle - wide, middle + wide], axis=-1)
            sets = sets[:, 0] if self.task.outputs == 1 else sets
        else:
            sets = class_sets(self.probabilities(logits).double().numpy(), float(thresholds[0]), self.task.names())
        unknown = np.zeros(len(logits), bool) if near is None else near < self.guarantee.strange
        promise = promise_of(self.guarantee, coverage)
        return PredictionSets(sets, unknown, coverage, promise, not self.guarantee.why_not(coverage))

    @property
    def _calibration(self) -> Calibration:
        return Calibration(self.temperature, self.offset)

    def probabilities(self, logits: Tensor, prior: Prior = "target") -> Tensor:
        """Probabilities of the classes, calibrated by the temperature."""
        return self.scores(logits, prior).softmax(-1)

    def scores(self, outputs: Tensor, prior: Prior = "target") -> Tensor:
        """logits / temperature + offset, whose largest entry is the prediction; numbers are unchanged."""
        if isinstance(self.task, Regression):
            return outputs
        return self._calibration.scores(outputs, prior)

    def transform(self, data: Any, **reading: Any) -> np.ndarray:
        """Compute the embedding of each sample.

        Parameters
        ----------
        data : path, array, frame or Dataset
            The samples, in any form that `jumbot.adapt` accepts.
        **reading
            Options of `Model.domain`.

        Returns
        -------
        ndarray of shape (n, features)
            The embeddings, before the last layer.
        """
        return self.outputs(data, **reading)[0].numpy()

    def evaluate(self, data: Any, labels: Any = None, **reading: Any) -> Evaluation | RegressionEvaluation:
        """Compare predictions with labels.

        Parameters
        ----------
        data : path, array, frame or Dataset
            The samples.
        labels : array, optional
            Their labels, if `data` does not contain them.
        **reading
            Options of `Model.domain`, such as `label`.

        Returns
        -------
        Evaluation or RegressionEvaluation
            Accuracies and confusion, or RMSE, MAE and R2.

        Raises
        ------
        jumbot.ArgumentError
            If there are no labels that the model knows.
        """
        domain = self.domain(data, labels, **reading)
        if not domain.known.any():
            label = reading.get("label")
            if label is not None and domain.roles is not None and domain.roles.label is None:
                raise ArgumentError(f"{domain.name}: label: column {label!r} does not exist.")
            which = f" of the classes {few(self.classes, 5)}" if self.classes else ""
            raise ArgumentError(f"{domain.name}: has no labels{which}.")
        return self.task.evaluate(self.scores(logits_of(self.network, domain)), domain)

    def save(self, folder: str | Path) -> Path:
        """Save the model without the records of its training; it contains weights and text, but no code.

        Parameters
        ----------
        folder : path
            The folder for `model.safetensors` and `model.json`.

        Returns
        -------
        pathlib.Path
            The folder, which `jumbot.load` reads.
        """
        folder = Path(check("folder", folder, Path))
        record = ModelFile(
            format=FORMAT,
            jumbot=jumbot.__version__,
            classes=self.classes,
            input=self.input,
            network=NetworkSpec(**self.spec),
            method=dict(self.method),
            results=self._found,
            extractor=None if self.extractor is None else self.extractor.describe(),
            crops=self.crops,  # type: ignore[arg-type]
            temperature=self.temperature,
            task=TaskFile.of(self.task),
            offset=self.offset,
        )
        tensors = pack("network", self.network.state_dict())
        if self.nearness is not None:
            tensors |= pack("nearness", self.nearness.to_tensors())
        if self.guarantee is not None:
            tensors |= pack("guarantee", self.guarantee.to_tensors())
        save_weights(folder / WEIGHTS, tensors, "model")
        write(folder / MODEL, record)
        return folder

    def module(self) -> nn.Module:
        """Make a `torch.nn.Module` that maps numbers to probabilities, including the preprocessing of `predict_proba`.

        Returns
        -------
        torch.nn.Module
            It takes a batch of raw samples as float32 tensors, and returns probabilities, or predicted numbers.
        """
        return make_predictor(self)

    def export(self, file: str | Path) -> Path:
        """Export `module()` to one file that runs without jumbot, for batches of any size.

        Parameters
        ----------
        file : path
            `.onnx` for ONNX, which needs the extra `export`, or `.pt2` for `torch.export`.

        Returns
        -------
        pathlib.Path
            The file; its outputs have been compared with the model's.

        Raises
        ------
        jumbot.ArgumentError
            If the name has another ending, or the network cannot be exported.
        """
        file = check("file", file, Path)
        with progress(None, f"export to {Path(file).name}", slow=True):
            return export_model(self, file)

    def report(self, out: str | Path | None = None) -> Path:
        """Write the HTML report of the training run.

        Parameters
        ----------
        out : path, optional
            The file; by default `report.html` in the run folder.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        jumbot.ArgumentError
            If the model has no run folder.
        """
        if self.run is None:
            raise ArgumentError("report: this model has no run folder; load it from one, or adapt again.")
        from jumbot.report._adaptation import write_report

        out = self.run / "report.html" if out is None else check("out", out, Path)
        with progress(None, "report", bar=False, slow=True):
            return write_report([self.run], out)

    def compared_by(self, domain: Domain) -> Rows:
        """The features by which samples are compared: untrained ones, or embeddings if there are none."""
        frozen = frozen_rows(self.network, self.input, domain)
        if frozen is not None and self.nearness is not None and len(domain.shape) > 1:
            widths = frozen(domain.subset(np.arange(min(len(domain), 1)))).shape[1], self.nearness.centres.shape[1]
            frozen = frozen if widths[0] == widths[1] else None  # a model of an earlier version, without one
        return frozen or (lambda part: outputs(self.network, part)[0].numpy())

    def write_predictions(
        self, data: Any, file: str | Path | TextIO, *, coverage: float | None = None, **reading: Any
    ) -> Path | None:
        """A csv with id, label and confidence, or id and prediction; `reading` are options of `domain`.

        With `coverage` also the classes of each sample that cannot be excluded, as `set`, separated by |, and
        `set_size`, or the interval of each number as `low` and `high`: see `predict_set`.

        `received_mass` says how well the source explains a sample (1 is typical), and `unexplained` is 1 if it does
        not. Samples are compared by the input of the network, such as features of a frozen backbone; images and signals
        that a network is trained on by their edges and brightness or their statistics; other tensors by their
        embedding.  `file` is a path, which is returned, or an open text file.
        """
        if not hasattr(file, "write"):
            file = check("file", file, Path)
        if coverage is not None:
            coverage = check("coverage", coverage, Annotated[float, Bounds(above=0, below=1)])
            self.check_guarantee()
        domain = self.domain(data, **reading)
        near = received_by(self.nearness, domain, self.compared_by(domain))
        logits = logits_of(self.network, domain)
        more: dict[str, Any] = {} if near is None else explanations(near)
        if coverage is not None:
            more |= set_columns(self.task, self.sets_of(logits, near, coverage))
        self.write_outputs(file, domain, logits, more)
        return Path(file) if isinstance(file, str | Path) else None

    def write_outputs(
        self, file: str | Path | TextIO, domain: Domain, logits: Tensor, more: Mapping[str, Any] | None = None
    ) -> None:
        """One line per sample, with `more` columns of numbers; no spreadsheet takes an id or a label for a formula."""
        write_table(file, domain, logits, self.task, self._calibration, more or {})


def load(path: str | Path, backbone: nn.Module | None = None) -> Model:
    """Read a model from disk.

    No code in the folder is executed.

    Parameters
    ----------
    path : path
        A run folder, a folder that `Model.save` wrote, or the folder of `jumbot.tune`, whose chosen model is read.
    backbone : torch.nn.Module, optional
        Your own module, for a model that was trained on one.

    Returns
    -------
    Model
        The model, on the CPU.

    Raises
    ------
    jumbot.ArgumentError
        If there is no model, it is damaged or of a later version, or `backbone` does not fit it.

    Examples
    --------
    >>> import tempfile, numpy as np, jumbot
    >>> X, y = np.eye(4).repeat(5, 0), np.arange(4).repeat(5)
    >>> model = jumbot.adapt((X, y), X, method="source-only", steps=2, judge=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = load(model.save(folder))
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    folder = check("path", path, Path)
    if backbone is not None and not isinstance(backbone, nn.Module):
        raise ArgumentError(f"backbone: got {type(backbone).__name__}; pass the module that it was trained with.")
    folder = model_folder(folder)
    file = read(folder / MODEL, ModelFile)
    if backbone is not None and "user" not in (file.network.kind, file.extractor and file.extractor.name):
        raise ArgumentError(f"backbone: the model in {folder} was trained without your own module; leave it out.")
    tensors, _ = load_weights(folder / WEIGHTS, "model")
    check_sizes(file.network, {name: tuple(t.shape) for name, t in unpack("network", tensors).items()}, folder / MODEL)
    return Model(
        _network(file.network, backbone, tensors, folder / WEIGHTS),
        file.task.to_task(file.classes),
        file.input,
        to_builtins(file.network),
        file.method,
        {} if file.results is None else known_figures(file.results),
        folder if (folder / CONFIG).exists() else None,
        None if file.extractor is None else Extractor.of(file.extractor, backbone),
        file.crops,
        file.temperature,
        Nearness.from_tensors(unpack("nearness", tensors), folder / WEIGHTS),
        file.offset,
        Guarantee.from_tensors(unpack("guarantee", tensors), folder / WEIGHTS),
    )


def _network(spec: NetworkSpec, backbone: nn.Module | None, tensors: dict[str, Tensor], file: Path) -> Network:
    """The network that `spec` describes, with the weights of `file`."""
    with torch.random.fork_rng(devices=[]):
        network = build_network(spec, backbone)
    load_module(network, "network", tensors, file)
    return network.eval()
