"""The end of a run: evaluation, diagnosis, embeddings, predictions, model, report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jumbot.adaptation.evaluation import evaluate
from jumbot.adaptation.model import Model, write_predictions
from jumbot.adaptation.monitor import outputs
from jumbot.adaptation.networks import Network
from jumbot.adaptation.recipes import Plan
from jumbot.adaptation.runs import RunFolder
from jumbot.adaptation.training import Trained
from jumbot.data.domain import Domain

if TYPE_CHECKING:
    from jumbot.adaptation.adapt import Domains

_KEPT = 1000  # samples of each domain whose embeddings are kept


@dataclass(frozen=True)
class Before:
    """Called just before the first step of adaptation: keeps embeddings, to be compared with those at the end."""

    folder: Path
    source: Domain
    target: Domain
    network: Network

    def __call__(self) -> None:
        found: dict[str, Any] = embeddings(self.network, self.source, self.target, "before")
        np.savez(self.folder / "before.npz", **found)


def embeddings(network: Network, source: Domain, target: Domain, when: str) -> dict[str, np.ndarray]:
    """Embeddings of the same few samples of each domain at every call."""
    rows = {name: _rows(len(domain)) for name, domain in (("source", source), ("target", target))}
    found: dict[str, np.ndarray] = {}
    for name, domain in (("source", source), ("target", target)):
        z, logits = outputs(network, domain.subset(rows[name]))
        found[f"{when}_{name}"] = z.numpy().astype(np.float16)
        if name == "target":
            found["target_predictions"] = logits.argmax(-1).numpy()
    return found


def finish(model: Model, trained: Trained, domains: Domains, plan: Plan, run: RunFolder) -> Model:
    """Everything that a run folder holds beside the records of training, and the model with its results."""
    from jumbot.adaptation.diagnosis import diagnose

    z_source, _ = outputs(model.network, domains.source)
    z_target, logits = outputs(model.network, domains.target)
    probabilities = logits.softmax(-1)
    diagnosis = diagnose(z_source, domains.source.labels, z_target, logits, seed=plan.training.seed)
    results: dict[str, Any] = {
        "rule": plan.training.select,
        "oracle": plan.training.select == "oracle",
        "selected_step": trained.selected_step,
        "seconds": round(trained.seconds, 1),
        "diagnosis": diagnosis.to_json(),
    }
    labelled = domains.labelled
    if labelled is not None:
        found = probabilities if labelled is domains.target else outputs(model.network, labelled)[1].softmax(-1)
        results |= evaluate(found, labelled.labels, model.classes).to_json() | {"evaluated_on": labelled.name}
    model = replace(model, results=results)
    _save_embeddings(model, domains, run.path)
    write_predictions(
        run.path / "predictions.csv", domains.target, probabilities.numpy(), model.classes, diagnosis.received_mass
    )
    run.write_json("results.json", results)
    model.save(run.path)
    (run.path / "before.npz").unlink(missing_ok=True)
    return model


def _save_embeddings(model: Model, domains: Domains, folder: Path) -> None:
    found: dict[str, Any] = embeddings(model.network, domains.source, domains.target, "after")
    # a run that was stopped between its last two files has them in the other place
    kept = folder / "before.npz" if (folder / "before.npz").exists() else folder / "embeddings.npz"
    with np.load(kept) as before:
        found |= {name: before[name] for name in before.files if name.startswith("before")}
    labels = domains.target.labels
    found["source_labels"] = np.asarray(domains.source.labels)[_rows(len(domains.source))]
    rows = _rows(len(domains.target))
    found["target_labels"] = np.full(len(rows), -1) if labels is None else labels[rows]
    np.savez_compressed(folder / "embeddings.npz", **found)


def _rows(count: int) -> np.ndarray:
    return np.arange(count) if count <= _KEPT else np.sort(np.random.default_rng(0).choice(count, _KEPT, replace=False))
