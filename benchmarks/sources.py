"""One good source, and a second one whose labels are shuffled, on Office-Caltech10: does the poor one do harm?

    python -m benchmarks.sources office_caltech10/features.npz     writes results/office-caltech10-sources/sources.json

Every task is GOOD+POOR-TARGET.  JUMBOT is trained on the good source alone, on both with the labels of the second in
their place, and on both with these shuffled; source-only on both with shuffled labels shows what the harm would be.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import jumbot
from benchmarks.origin import origin
from jumbot.adaptation._config import make_config
from jumbot.data import as_domain
from jumbot.data._domain import Domain

TASKS = (
    ("amazon", "caltech10", "webcam"),
    ("caltech10", "amazon", "dslr"),
    ("webcam", "amazon", "caltech10"),
    ("dslr", "caltech10", "amazon"),
    ("amazon", "webcam", "caltech10"),
    ("caltech10", "dslr", "webcam"),
)
SEED = 0
OUT = Path("results/office-caltech10-sources/sources.json")


def shuffled(domain: Domain, seed: int = SEED) -> Domain:
    """The same samples, each with the label of another."""
    assert domain.labels is not None
    name = f"{domain.name}, labels shuffled"
    return replace(domain, name=name, labels=np.random.default_rng(seed).permutation(domain.labels))


def run(sources: list[Domain], target: Domain, method: str = "jumbot") -> tuple[float, list[float] | None]:
    """The accuracy on the target, and the shares of the sources."""
    model = jumbot.adapt(sources, target, method=method, seed=SEED, evaluate_every=0)
    found = model.diagnosis.get("sources")
    return model.results["accuracy"], None if found is None else found["shares"]


def row_of(task: tuple[str, str, str], file: str) -> dict[str, Any]:
    """One task, all its runs."""
    good, poor, target = (as_domain(f"{file}:{name}") for name in task)
    alone, _ = run([good], target)
    both, fair = run([good, poor], target)
    with_poor, shares = run([good, shuffled(poor)], target)
    unweighted, _ = run([good, shuffled(poor)], target, "source-only")
    assert fair is not None
    assert shares is not None
    return {
        "task": f"{task[0]}+{task[1]}-{task[2]}",
        "seed": SEED,
        "alone": alone,
        "both": both,
        "share_of_second": fair[1],
        "shuffled": with_poor,
        "share_of_shuffled": shares[1],
        "source_only_shuffled": unweighted,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", help="features.npz of Office-Caltech10, see docs/adaptation/results.md")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {
        **origin("sources", [Path(options.features).name]),
        "seeds": [SEED],
        "settings": {m: make_config(None, m, "table", {}).to_json() for m in ("source-only", "jumbot")},
        "rows": [],
    }
    for task in TASKS:
        record["rows"].append(row_of(task, options.features))
        print(record["rows"][-1], flush=True)
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
