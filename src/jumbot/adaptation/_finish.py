"""The end of a run: evaluation, diagnosis, embeddings, predictions, model, report."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from jumbot._base.files import drawn, replacing
from jumbot._base.progress import Stretch, log, progress
from jumbot._base.schema import write
from jumbot.adaptation._baseline import BASELINE, SAMPLES, compared, notable, probabilities_alone, source_only
from jumbot.adaptation._config import RunConfig
from jumbot.adaptation._domains import Domains
from jumbot.adaptation._evaluation.accuracy import EstimatedAccuracy
from jumbot.adaptation._evaluation.decision import Harm, as_diagnosed
from jumbot.adaptation._evaluation.diagnosis import Diagnosis, as_predicted, diagnose, less_explained
from jumbot.adaptation._evaluation.monitor import logits_of, outputs
from jumbot.adaptation._evaluation.nearness import frozen_rows, of_domains, received_by
from jumbot.adaptation._evaluation.rivals import References, compare_references
from jumbot.adaptation._evaluation.whole_target import diagnose_domains
from jumbot.adaptation._judging import Judged, calibrated, guaranteed, judge_after, withheld
from jumbot.adaptation._model import Model
from jumbot.adaptation._runs.folder import CUT, LITTLE, RunFolder, final_mass
from jumbot.adaptation._runs.results_json import (
    Baseline,
    DiagnosisFile,
    Results,
    SourceSharesFile,
    known_figures,
    label_figures,
)
from jumbot.adaptation._training.accelerator import give_back_memory
from jumbot.adaptation._training.checkpoint import load_module, load_weights
from jumbot.adaptation._training.loop import Trained
from jumbot.adaptation._training.witnesses import OutOfTimeError, Witnesses, rival_witnesses
from jumbot.adaptation._written_tables import explanations
from jumbot.data._domain import Domain, drawn_rows
from jumbot.methods import SOURCE_ONLY
from jumbot.methods.network import Network

Array = np.ndarray[Any, Any]

_HALF = float(np.finfo(np.float16).max)
_KEPT = 1000  # samples of each domain whose embeddings are kept
_PARTS = 6  # of the work after the last step
_COMPARED = 4000  # samples of each domain that the diagnosis before adaptation looks at


@dataclass(frozen=True)
class Ended:
    """A run whose training is over."""

    model: Model
    trained: Trained
    domains: Domains
    config: RunConfig
    folder: RunFolder
    judged: Judged
    for_report: bool
    """Whether other models are compared with this one and notable samples are kept, for a report."""
    until: float
    """When to leave out other models and to end the training of one for comparison: a time of `time.monotonic`."""

    @property
    def starts_on_source(self) -> bool:
        """Whether the network had been trained on the source alone before adaptation; otherwise it was untrained."""
        return self.config.method != SOURCE_ONLY and self.config.training.lengths(len(self.domains.source))[1] > 0

    @property
    def seed(self) -> int:
        return self.config.training.seed


@dataclass(frozen=True)
class Found:
    """The model, calibrated for the target, and the results of the model and the plan on the target."""

    model: Model
    diagnosis: Diagnosis
    logits: Tensor
    accuracy: EstimatedAccuracy | None
    before: Diagnosis | None
    """The diagnosis before adaptation."""
    near: Array | None
    """The mass that target samples receive by untrained features; None if there are none."""

    @cached_property
    def scores(self) -> Tensor:
        return self.model.scores(self.logits)

    @cached_property
    def predictions(self) -> Array | None:
        """Indices of the predicted classes; None if numbers are predicted."""
        return self.scores.argmax(-1).numpy() if self.model.classes else None


class _Others(NamedTuple):
    """Models of the source alone, for comparison."""

    logits: Tensor | None = None
    """Of the target, by a classifier of the source alone."""
    baseline: Baseline | None = None
    """The comparison of the predictions with those of that classifier."""
    references: References | None = None
    left_out: tuple[str, ...] = ()
    """What was left out for lack of time."""


def finish(run: Ended, show: bool) -> Model:
    """Write everything in a run folder except the records of training; return the model with its results."""
    log.info("trained in %.0f s; computing figures, diagnosis and predictions", run.trained.seconds)
    give_back_memory()
    with progress(_PARTS, "after training", least=1, bar=show, slow=True) as reach:
        reach(0, "evaluation")
        earlier = _before_adaptation(run)
        run = _decided(run, earlier)
        reach(1, "diagnosis")
        found = _diagnosed(run, earlier)
        give_back_memory()
        others = _compared(run, found, earlier, reach) if run.for_report else _Others()
        reach(1, "figures")
        found = _with_harm(run, found, others.baseline)
        results = known_figures(_results(run, found, others))
        found = replace(found, model=replace(found.model, results=results))
        reach(1, "embeddings")
        _write_embeddings(run, found, earlier)
        reach(1, "predictions")
        _write(run, found, others)
        return found.model


def _before_adaptation(run: Ended) -> Network:
    """The network before the first step of adaptation."""
    earlier = copy.deepcopy(run.model.network)
    load_module(earlier, "network", load_weights(run.folder.before, "before")[0], run.folder.before)
    return earlier


def _decided(run: Ended, earlier: Network) -> Ended:
    """The run with the network that is returned: the one before adaptation, if that is the decision."""
    judged, domains = run.judged, run.domains
    if judged.witnesses is None and domains.watch.validation is not None and domains.source.labels is not None:
        start = earlier if run.starts_on_source else None
        judged = judge_after(run.model.network, start, domains, run.config, judged.automatic)
    model = run.model
    if judged.decision is not None and judged.decision.method != run.config.method:
        model = replace(model, network=earlier, method={"name": judged.decision.method})
    return replace(run, judged=judged, model=model)


def _diagnosed(run: Ended, earlier: Network) -> Found:
    """The model, calibrated for the target and with what it keeps for new samples, and the results on the target."""
    domains, model, seed = run.domains, run.model, run.seed
    source, target = domains.source, domains.target
    classes = source.labels is not None
    before = _diagnose_some(earlier, source, target, seed) if classes and run.starts_on_source else None
    diagnosis, logits = diagnose_domains(model.network, source, target, model.task, before, seed)
    model = replace(model, nearness=of_domains(source, target, model.compared_by(target), seed))
    near: Array | None = None
    accuracy: EstimatedAccuracy | None = None
    if frozen_rows(model.network, model.input, target):  # the plan was computed on embeddings
        near = received_by(model.nearness, target, model.compared_by(target))
        diagnosis = less_explained(diagnosis, near)
    if classes:
        found, accuracy = calibrated(run.judged, str(model.method["name"]), logits, diagnosis.class_proportions, near)
        model = replace(model, temperature=found.temperature, offset=found.offset)
    guarantee = guaranteed(run.judged, model, logits, diagnosis.class_proportions, near, accuracy)
    return Found(replace(model, guarantee=guarantee), diagnosis, logits, accuracy, before, near)


def _diagnose_some(network: Network, source: Domain, target: Domain, seed: int) -> Diagnosis:
    """The diagnosis before adaptation, of a few thousand samples: only its proportions and its entropy are compared."""
    source, target = (one.subset(drawn_rows(len(one), _COMPARED)) for one in (source, target))
    z_source, _ = outputs(network, source)
    return diagnose(z_source, source.labels, *outputs(network, target), seed=seed)[0]


def _compared(run: Ended, found: Found, earlier: Network, reach: Stretch) -> _Others:
    """A classifier of the source alone and reference models, if there is time."""
    logits, baseline, left_out = None, None, list[str]()
    if found.predictions is not None:
        reach(1, "a classifier of the source alone")
        alone = None
        try:
            alone = source_only(None if found.before is None else earlier, run.domains, run.config, run.until)
        except OutOfTimeError:
            left_out.append("the time budget left no time to train a source-only baseline")
        if alone is not None:
            logits = logits_of(alone[0], run.domains.target)
            baseline = compared(*alone, logits, run.domains, found.predictions, run.judged)
    references = None
    if time.monotonic() < run.until:
        references = _references(run, found)
    else:
        left_out.append("the time budget left no time to train reference models")
    return _Others(logits, baseline, references, tuple(left_out))


def _references(run: Ended, found: Found) -> References | None:
    """The results of the reference models; None if no part of the source was held out."""
    witnesses: Witnesses | None = run.judged.witnesses
    if witnesses is None or (own := witnesses.by_method.get(str(found.model.method["name"]))) is None:
        return None
    domains = run.domains
    rivals = rival_witnesses(domains.training_data, witnesses, run.seed, domains.watch.validation)
    judged = partial(withheld, near=found.near)
    return compare_references(own, rivals, len(domains.target), judged) if rivals else None


def _with_harm(run: Ended, found: Found, baseline: Baseline | None) -> Found:
    """The diagnosis of the predictions, with the evidence for harm."""
    harm, labels = _harm(run.judged, found.model, baseline), run.domains.source.labels
    if found.predictions is None or labels is None:
        return replace(found, diagnosis=replace(found.diagnosis, harm=harm))
    return replace(found, diagnosis=as_predicted(found.diagnosis, found.predictions, labels, harm))


def _harm(judged: Judged, model: Model, baseline: Baseline | None) -> Harm | None:
    """The evidence for the returned model; none for one trained on the source alone.

    Folds show the effect of adaptation; how many predictions this model changed is known once there is a baseline.
    """
    if judged.decision is None or judged.decision.harm is None or model.method["name"] == SOURCE_ONLY:
        return None
    harm = judged.decision.harm
    return harm if baseline is None else replace(harm, changed=baseline.changed)


def _results(run: Ended, found: Found, others: _Others) -> Results:
    """What `results.json` contains."""
    trained, domains, select = run.trained, run.domains, run.config.training.select
    shares, sources = found.diagnosis.source_shares, None
    if shares is not None:
        sources = describe_shares(shares, domains.source.sources, found.predictions, len(found.model.classes))
    results = Results(
        rule=select,
        oracle=select == "oracle",
        selected_step=trained.selected_step,
        seconds=round(trained.seconds, 1),
        task=found.model.task.name,
        estimated_accuracy=found.accuracy,
        decision=as_diagnosed(run.judged.decision, found.diagnosis.harm),
        references=others.references,
        diagnosis=DiagnosisFile.of(found.diagnosis, sources),
        decisions=tuple(trained.method.decisions()),
        remarks=(
            *remarks(trained.history, run.config, bool(domains.remarks)),
            *_cut(trained),
            *others.left_out,
        ),
        data_remarks=domains.remarks,
    )
    if (evaluated := domains.evaluated) is None:
        return results
    model, whole = found.model, evaluated is domains.target
    scores = found.scores if whole else model.scores(logits_of(model.network, evaluated))
    figures = label_figures(model.task.evaluate(scores, evaluated))
    return replace(results, **figures, evaluated_on=evaluated.name)


def describe_shares(shares: Array, names: Sequence[str], predictions: Array | None, classes: int) -> SourceSharesFile:
    """The entry of `(n, sources)` shares in `results.json`: their means, over all samples and by predicted class.

    >>> shares = np.array([[0.9, 0.1], [0.7, 0.3], [0.5, 0.5]])
    >>> describe_shares(shares, ["a", "b"], np.array([0, 0, 2]), 3).by_class
    ((0.8, 0.2), None, (0.5, 0.5))
    """
    members = [] if predictions is None else [shares[predictions == c] for c in range(classes)]
    return SourceSharesFile(tuple(names), _mean(shares), tuple(_mean(some) if len(some) else None for some in members))


def _mean(shares: Array) -> tuple[float, ...]:
    return tuple(round(float(share), 6) for share in shares.mean(0))


def _cut(trained: Trained) -> list[str]:
    """What was left out because of a time budget."""
    if trained.planned is None:
        return []
    done = sum(record["event"] == "step" for record in trained.history)
    return [f"{CUT} {done} of {trained.planned} steps"]


def remarks(records: Sequence[Mapping[str, Any]], config: RunConfig, odd_data: bool = False) -> list[str]:
    """Remarks on the settings, from the records of training; problems in the data should be fixed first."""
    mass = final_mass(records)
    price = next((name for name in ("tau", "reward") if hasattr(config.options, name)), None)
    value = math.inf if price is None else getattr(config.options, price)
    if mass is None or math.isinf(value) or mass >= LITTLE:
        return []
    remedy = f"raise {price} (it was {value:g})"
    if odd_data:
        remedy = f"first fix the problems in the data, and leave {price} at {value:g} until then"
    return [
        f"only {100 * mass:.1f} % of the mass was transported at the end of training, so little was learned from the "
        f"target; {remedy}"
    ]


def _write_embeddings(run: Ended, found: Found, earlier: Network) -> None:
    """Some of each domain before and after adaptation, with labels or numbers."""
    source, target = run.domains.source, run.domains.target
    of_source, of_target = drawn_rows(len(source), _KEPT), drawn_rows(len(target), _KEPT)
    kept: dict[str, Any] = {}
    for when, network in (("after", found.model.network), ("before", earlier)):
        for name, some in (("source", source.subset(of_source)), ("target", target.subset(of_target))):
            z, _ = outputs(network, some)
            # for pictures: float16 has no larger numbers, and infinity cannot be drawn
            kept[f"{when}_{name}"] = z.clamp(-_HALF, _HALF).numpy().astype(np.float16)
    if found.predictions is not None and source.labels is not None:
        kept["source_labels"] = source.labels[of_source]
        kept["target_predictions"] = found.predictions[of_target]
        kept["target_labels"] = np.full(len(of_target), -1) if target.labels is None else target.labels[of_target]
    else:
        assert source.values is not None
        kept["source_values"] = source.values[of_source]
        kept["predicted_values"] = found.model.task.decode(found.logits[of_target]).reshape(len(of_target), -1)
        if target.values is not None:
            kept["true_values"] = target.values[of_target]
    with replacing(run.folder.path / "embeddings.npz") as part, part.open("wb") as file:
        np.savez_compressed(file, **kept)


def _write(run: Ended, found: Found, others: _Others) -> None:
    """Write predictions, figures, the data of the report, the model, and its card."""
    folder, model, target = run.folder.path, found.model, run.domains.target
    received, shares = found.diagnosis.received_mass, found.diagnosis.source_shares
    columns = explanations(received) | columns_of(shares, run.domains.source.sources)
    model.write_outputs(folder / "predictions.csv", target, found.logits, columns)
    write(folder / "results.json", model.results)
    if others.baseline is not None:
        write(folder / BASELINE, others.baseline)
    if run.for_report and found.predictions is not None:
        old = None if others.logits is None else probabilities_alone(others.logits, run.judged)
        shown = model.probabilities(found.logits), old, received, model.classes
        write(folder / SAMPLES, notable(target, run.domains.pictures, model.input, *shown))
    model.save(folder)
    if run.trained.history[0]["phase"] == "adapt":  # not the weights of a step; other runs may start from trained ones
        run.folder.before.unlink(missing_ok=True)
    from jumbot.report._card import write_card

    drawn(f"{folder}: the model card", lambda: write_card(model._record))


def columns_of(shares: Array | None, names: Sequence[str]) -> dict[str, Array]:
    """A column of `predictions.csv` per source; none if there is only one source."""
    return {} if shares is None else {f"from_{name}": shares[:, s] for s, name in enumerate(names)}
