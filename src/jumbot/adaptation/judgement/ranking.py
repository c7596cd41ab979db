"""Methods ranked without target labels: the evidence of `jumbot.tune`, for the runs of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jumbot.adaptation.judgement.evidence import Evidence, weigh
from jumbot.adaptation.judgement.modularity import nearest, some_rows
from jumbot.adaptation.judgement.monitor import logits_of
from jumbot.adaptation.judgement.number_evidence import NumberEvidence, weigh_numbers
from jumbot.adaptation.model import Model, load
from jumbot.adaptation.runs.grid import Pair
from jumbot.adaptation.runs.variants import read_variant
from jumbot.adaptation.task import Classification
from jumbot.data.domain import Domain
from jumbot.files import read_arrays

READING = ("label", "id", "domain_column", "corrupt", "root")


def evidence_of(
    record: Mapping[str, Any], pairs: Sequence[Pair], out: Path, reading: Mapping[str, Any]
) -> dict[str, dict[str, list[float]]]:
    """{method: {task: [evidence of each seed]}}; larger is better, and comparable within a task alone.

    The methods of a task and a seed are the candidates: each is weighed by its modularity among the neighbours of the
    target and by its agreement with the others.
    """
    how = {name: value for name, value in reading.items() if name in READING}
    found: dict[str, dict[str, list[float]]] = {}
    for pair in pairs:
        for seed in record["seeds"]:
            methods = [r["method"] for r in record["runs"] if r["task"] == pair.name and r["seed"] == seed]
            models = {name: load(folder_of(out, pair.name, name, seed)) for name in methods}
            if len(models) < 2:
                continue
            domain = next(iter(models.values())).domain(pair.target, **how)
            indices, rows = some_rows(domain, seed)
            sample = domain.subset(indices)
            for name, evidence in _weigh(models, sample, nearest(rows)).items():
                found.setdefault(name, {}).setdefault(pair.name, []).append(evidence.value)
    return found


def _weigh(models: Mapping[str, Model], sample: Domain, neighbours: Any) -> Mapping[str, Evidence | NumberEvidence]:
    said = {name: logits_of(model.network, sample) for name, model in models.items()}
    first = next(iter(models.values()))
    if isinstance(first.task, Classification):
        return weigh({name: logits.softmax(-1).numpy() for name, logits in said.items()}, neighbours)
    assert first.run is not None
    source = read_arrays(first.run / "embeddings.npz")["source_values"]
    numbers = {name: models[name].task.decode(f).reshape(len(sample), -1) for name, f in said.items()}
    return weigh_numbers(numbers, source, neighbours)


def folder_of(out: Path, task: str, method: str, seed: int) -> Path:
    """Where `compare` keeps a run."""
    return out / task / read_variant(method).folder / f"seed{seed}"
