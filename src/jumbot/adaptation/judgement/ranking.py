"""Methods ranked without target labels: the evidence of `jumbot.tune`, for the runs of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jumbot.adaptation.judgement.evidence import weigh
from jumbot.adaptation.judgement.modularity import nearest, some_rows
from jumbot.adaptation.judgement.monitor import outputs
from jumbot.adaptation.model import load
from jumbot.adaptation.runs.grid import Pair
from jumbot.adaptation.runs.variants import read_variant

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
            shares = {name: outputs(model.network, sample)[1].softmax(-1).numpy() for name, model in models.items()}
            for name, evidence in weigh(shares, nearest(rows)).items():
                found.setdefault(name, {}).setdefault(pair.name, []).append(evidence.value)
    return found


def folder_of(out: Path, task: str, method: str, seed: int) -> Path:
    """Where `compare` keeps a run."""
    return out / task / read_variant(method).folder / f"seed{seed}"
