"""The end of a run: evaluation, diagnosis, embeddings, predictions, model, report."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from jumbot._base.files import replacing
from jumbot._base.pages import drawn
from jumbot._base.progress import Stretch, log, progress
from jumbot._base.schema import convert, to_builtins, write
from jumbot.adaptation._baseline import BASELINE, SAMPLES, compared, notable, probabilities_alone, source_only
from jumbot.adaptation._config import RunConfig
from jumbot.adaptation._evaluation.accuracy import EstimatedAccuracy
from jumbot.adaptation._evaluation.decision import Harm
from jumbot.adaptation._evaluation.diagnosis import Diagnosis, as_predicted, diagnose, less_explained
from jumbot.adaptation._evaluation.monitor import logits_of, outputs
from jumbot.adaptation._evaluation.nearness import frozen_rows, of_domains, received_by
from jumbot.adaptation._evaluation.rivals import compare_references
from jumbot.adaptation._evaluation.whole_target import diagnose_domains
from jumbot.adaptation._judging import Judged, calibrated, guaranteed, judge_after, withheld
from jumbot.adaptation._model import Model
from jumbot.adaptation._prediction_table import explanations
from jumbot.adaptation._runs.folder import CUT, LITTLE, RunFolder, final_mass
from jumbot.adaptation._runs.results_json import Baseline, Results
from jumbot.adaptation._training.accelerator import give_back_memory
from jumbot.adaptation._training.checkpoint import load_module, load_weights, pack, save_weights
from jumbot.adaptation._training.loop import Trained
from jumbot.adaptation._training.witnesses import OutOfTimeError, rival_witnesses
from jumbot.data._domain import Domain
from jumbot.methods import SOURCE_ONLY
from jumbot.methods.network import Network

if TYPE_CHECKING:
    from jumbot.adaptation._domains import Domains


Array = np.ndarray[Any, Any]


def describe_shares(shares: Array, names: Sequence[str], predictions: Array | None, classes: int) -> dict[str, Any]:
    """What `results.json` holds of `(n, sources)` shares: their means, over all samples and by predicted class.

    >>> shares = np.array([[0.9, 0.1], [0.7, 0.3], [0.5, 0.5]])
    >>> describe_shares(shares, ["a", "b"], np.array([0, 0, 2]), 3)["by_class"]
    [[0.8, 0.2], None, [0.5, 0.5]]
    """
    members = [] if predictions is None else [shares[predictions == c] for c in range(classes)]
    return {
        "names": list(names),
        "shares": _mean(shares),
        "by_class": [_mean(some) if len(some) else None for some in members],
    }


def columns_of(shares: Array | None, names: Sequence[str]) -> dict[str, Array]:
    """A column of `predictions.csv` per source; none where there is one source."""
    return {} if shares is None else {f"from_{name}": shares[:, s] for s, name in enumerate(names)}


def _mean(shares: Array) -> list[float]:
    return [round(float(share), 6) for share in shares.mean(0)]


_HALF = float(np.finfo(np.float16).max)
_KEPT = 1000  # samples of each domain whose embeddings are kept
_PARTS = 6  # of the work after the last step
_COMPARED = 4000  # samples of each domain that the diagnosis before adaptation looks at


@dataclass(frozen=True)
class Before:
    """Called just before the first step of adaptation: keeps the weights, to be compared with those at the end."""

    file: Path
    network: Network

    def __call__(self) -> None:
        save_weights(self.file, pack("network", self.network.state_dict()), "before")


def embeddings(network: Network, source: Domain, target: Domain, when: str) -> dict[str, np.ndarray]:
    """Embeddings of the same few samples of each domain at every call."""
    rows = {name: _rows(len(domain), _KEPT) for name, domain in (("source", source), ("target", target))}
    found: dict[str, np.ndarray] = {}
    for name, domain in (("source", source), ("target", target)):
        z, _ = outputs(network, domain.subset(rows[name]))
        # for pictures: float16 goes no further, and infinity could not be drawn
        found[f"{when}_{name}"] = z.clamp(-_HALF, _HALF).numpy().astype(np.float16)
    return found


def finish(
    model: Model,
    trained: Trained,
    domains: Domains,
    config: RunConfig,
    run: RunFolder,
    baseline: bool = False,
    show: bool = False,
    judged: Judged | None = None,
    until: float = math.inf,
) -> Model:
    """Everything in a run folder besides the records of training, and the model with its results.

    `baseline` puts a source-only classifier beside it, and the samples to look at: what a report shows.  One that has
    to be trained for it ends at `until`, a time of `time.monotonic`, after which plain models are left out too.
    """
    log.info("trained in %.0f s; computing figures, diagnosis and predictions", trained.seconds)
    give_back_memory()
    with progress(_PARTS, "after training", least=1, bar=show, slow=True) as reach:
        judged = Judged(False, why_not="accuracy was not estimated in this run") if judged is None else judged
        return _finish(model, trained, domains, config, run, baseline, reach, judged, until)


def _finish(
    model: Model,
    trained: Trained,
    domains: Domains,
    config: RunConfig,
    run: RunFolder,
    baseline: bool,
    reach: Stretch,
    judged: Judged,
    until: float,
) -> Model:
    reach(0, "evaluation")
    source, target, seed = domains.source, domains.target, config.training.seed
    earlier = _before_adaptation(model.network, run)
    started = config.method != SOURCE_ONLY and config.training.lengths(len(source))[1] > 0
    if judged.witnesses is None and domains.watch.validation is not None and source.labels is not None:
        judged = judge_after(model.network, earlier if started else None, domains, config, judged.automatic)
    if judged.decision is not None and judged.decision.method != config.method:
        model = replace(model, network=earlier, method={"name": judged.decision.method})
    reach(1, "diagnosis")
    # before its first step a network knows nothing that could be compared
    before = _diagnose_some(earlier, source, target, seed) if source.labels is not None and started else None
    model, diagnosis, logits, accuracy, near = _diagnose(model, domains, judged, before, seed)
    give_back_memory()
    scores = model.scores(logits)
    predictions = None if source.labels is None else scores.argmax(-1).numpy()
    alone, compared_baseline, left_out = None, None, list[str]()
    if predictions is not None and source.labels is not None:
        if baseline:
            reach(1, "a classifier of the source alone")
            known = None if before is None else earlier
            alone, compared_baseline, left_out = _beside(known, domains, config, until, predictions, judged)
        diagnosis = as_predicted(diagnosis, predictions, source.labels, _harm(judged, model, compared_baseline))
    else:
        diagnosis = replace(diagnosis, harm=_harm(judged, model, None))
    reach(1, "figures")
    in_time = baseline and time.monotonic() < until
    references = _references(domains, judged, model, seed, near) if in_time else {}
    if baseline and not in_time:
        left_out.append("the time budget left no time for plain models of the source beside this one")
    results = _results(trained, domains, config, run, judged, model, diagnosis, accuracy, predictions) | references
    results["remarks"] += left_out
    model = replace(model, results=results | _evaluated(domains, model, scores))
    reach(1, "embeddings")
    _write_embeddings(run, model, earlier, source, target, logits)
    reach(1, "predictions")
    columns = explanations(diagnosis.received_mass) | columns_of(diagnosis.source_shares, source.sources)
    model.write_outputs(run.path / "predictions.csv", target, logits, columns)
    _write_results(run, model.results)
    if compared_baseline is not None:
        write(run.path / BASELINE, compared_baseline)
    if baseline and predictions is not None:
        write(run.path / SAMPLES, _samples(model, domains, judged, alone, logits, diagnosis.received_mass))
    model.save(run.path)
    if trained.history[0]["phase"] == "adapt":  # weights of no step; others may start from those that learned
        run.before.unlink(missing_ok=True)
    from jumbot.report._card import write_card

    drawn(f"{run.path}: the model card", lambda: write_card(model._record))
    return model


def _before_adaptation(network: Network, run: RunFolder) -> Network:
    """The network as it was before the first step of adaptation."""
    earlier = copy.deepcopy(network)
    load_module(earlier, "network", load_weights(run.before, "before")[0], run.before)
    return earlier


def _beside(
    known: Network | None, domains: Domains, config: RunConfig, until: float, predictions: Array, judged: Judged
) -> tuple[tuple[Network, str] | None, Baseline | None, list[str]]:
    """A classifier of the source alone, how the predictions compare with its own, and what time left out."""
    try:
        alone = source_only(known, domains, config, until)
    except OutOfTimeError:
        return None, None, ["the time budget left no time for a classifier of the source alone beside this one"]
    return alone, None if alone is None else compared(*alone, domains, predictions, judged), []


def _samples(
    model: Model, domains: Domains, judged: Judged, alone: tuple[Network, str] | None, logits: Tensor, mass: Array
) -> Any:
    """The samples of the target to look at, by the outputs of the model and of the classifier of the source `alone`."""
    old = None if alone is None else probabilities_alone(logits_of(alone[0], domains.target), judged)
    shown = model.probabilities(logits), old, mass, model.classes
    return notable(domains.target, domains.pictures, model.input, *shown)


def _diagnose(
    model: Model, domains: Domains, judged: Judged, before: Diagnosis | None, seed: int
) -> tuple[Model, Diagnosis, Tensor, EstimatedAccuracy | None, Array | None]:
    """The model, calibrated for the target and with what it keeps for new samples; what was found on the way.

    The last is the mass that target samples receive by features that are not trained, None where there are none.
    """
    source, target = domains.source, domains.target
    diagnosis, logits = diagnose_domains(model.network, source, target, model.task, before, seed)
    model = replace(model, nearness=of_domains(source, target, model.compared_by(target), seed))
    near: Array | None = None
    accuracy: EstimatedAccuracy | None = None
    if frozen_rows(model.network, model.input, target):  # embeddings are what the plan has seen
        near = received_by(model.nearness, target, model.compared_by(target))
        diagnosis = less_explained(diagnosis, near)
    if source.labels is not None:
        found, accuracy = calibrated(judged, str(model.method["name"]), logits, diagnosis.class_proportions, near)
        model = replace(model, temperature=found.temperature, offset=found.offset)
    guarantee = guaranteed(judged, model, logits, diagnosis.class_proportions, near, accuracy)
    return replace(model, guarantee=guarantee), diagnosis, logits, accuracy, near


def _results(
    trained: Trained,
    domains: Domains,
    config: RunConfig,
    run: RunFolder,
    judged: Judged,
    model: Model,
    diagnosis: Diagnosis,
    accuracy: EstimatedAccuracy | None,
    predictions: Array | None,
) -> dict[str, Any]:
    """What `results.json` contains, without what target labels and plain models of the source add."""
    shares = diagnosis.source_shares
    sources = (
        {}
        if shares is None
        else {"sources": describe_shares(shares, domains.source.sources, predictions, len(model.classes))}
    )
    return {
        "rule": config.training.select,
        "oracle": config.training.select == "oracle",
        "selected_step": trained.selected_step,
        "seconds": round(trained.seconds, 1),
        "task": model.task.name,
        **({} if accuracy is None else {"estimated_accuracy": accuracy.to_json()}),
        **({} if judged.decision is None else {"decision": to_builtins(judged.decision)}),
        "diagnosis": diagnosis.to_json() | sources,
        "decisions": trained.method.decisions(),
        "remarks": remarks(trained.history, config, bool(domains.remarks)) + _short(trained),
        "data_remarks": list(domains.remarks),
    }


def _references(domains: Domains, judged: Judged, model: Model, seed: int, near: Array | None) -> dict[str, Any]:
    """What plain models of the source would do; nothing where no part of the source was held out."""
    if judged.witnesses is None or (own := judged.witnesses.by_method.get(str(model.method["name"]))) is None:
        return {}
    source, target = domains.source, domains.target
    rivals = rival_witnesses(source, target, model.task, judged.witnesses, seed, domains.watch.validation)
    if not rivals:
        return {}
    return {"references": to_builtins(compare_references(own, rivals, len(target), partial(withheld, near=near)))}


def _evaluated(domains: Domains, model: Model, scores: Tensor) -> dict[str, Any]:
    """What labels say, of the target or of another part of it; nothing where there are none."""
    evaluated = domains.evaluated
    if evaluated is None:
        return {}
    found = scores if evaluated is domains.target else model.scores(logits_of(model.network, evaluated))
    return model.task.evaluate(found, evaluated).to_json() | {"evaluated_on": evaluated.name}


def _write_embeddings(
    run: RunFolder, model: Model, earlier: Network, source: Domain, target: Domain, logits: Tensor
) -> None:
    """Some of each domain before and after adaptation, with labels or numbers."""
    kept: dict[str, Any] = embeddings(model.network, source, target, "after")
    kept |= embeddings(earlier, source, target, "before")
    rows = _rows(len(target), _KEPT)
    if source.labels is not None:
        kept["source_labels"] = source.labels[_rows(len(source), _KEPT)]
        kept["target_predictions"] = model.scores(logits[rows]).argmax(-1).numpy()
        kept["target_labels"] = np.full(len(rows), -1) if target.labels is None else target.labels[rows]
    else:
        assert source.values is not None
        kept["source_values"] = source.values[_rows(len(source), _KEPT)]
        kept["predicted_values"] = model.task.decode(logits[rows]).reshape(len(rows), -1)
        if target.values is not None:
            kept["true_values"] = target.values[rows]
    with replacing(run.path / "embeddings.npz") as part, part.open("wb") as file:
        np.savez_compressed(file, **kept)


def _write_results(run: RunFolder, results: Mapping[str, Any]) -> None:
    """`results.json`, which starts with problems in the data."""
    converted = to_builtins(convert(results, Results, run.path / "results.json"))
    first = {"data_remarks": converted.pop("data_remarks")}
    write(run.path / "results.json", first | {name: value for name, value in converted.items() if value is not None})


def _harm(judged: Judged, model: Model, compared_baseline: Baseline | None) -> Harm | None:
    """What the evidence says of the model that is returned: nothing of one trained on the source alone.

    Folds say what adaptation does; how many predictions this model changed is known once a baseline is beside it.
    """
    if judged.decision is None or judged.decision.harm is None or model.method["name"] == SOURCE_ONLY:
        return None
    harm = judged.decision.harm
    return harm if compared_baseline is None else replace(harm, changed=compared_baseline.changed)


def _short(trained: Trained) -> list[str]:
    """What a budget of time has cut."""
    if trained.planned is None:
        return []
    done = sum(record["event"] == "step" for record in trained.history)
    return [f"{CUT} {done} of {trained.planned} steps"]


def remarks(records: Sequence[Mapping[str, Any]], config: RunConfig, odd_data: bool = False) -> list[str]:
    """What the records of training say about its settings; if the data have problems, fix these first."""
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


def _diagnose_some(network: Network, source: Domain, target: Domain, seed: int) -> Diagnosis:
    """The diagnosis before adaptation, of a few thousand samples: only its proportions and its entropy are compared."""
    source, target = source.subset(_rows(len(source), _COMPARED)), target.subset(_rows(len(target), _COMPARED))
    z_source, _ = outputs(network, source)
    return diagnose(z_source, source.labels, *outputs(network, target), seed=seed)


def _rows(count: int, most: int) -> np.ndarray:
    return np.arange(count) if count <= most else np.sort(np.random.default_rng(0).choice(count, most, replace=False))
