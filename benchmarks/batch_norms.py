"""What batch norms re-estimated on the target are worth for trained digits networks: `--batch-norm target`.

    python -m benchmarks.batch_norms RUN ... [--root DATA] [--out results/paper]

Each RUN is a finished folder of `jumbot reproduce digits` that was trained with running statistics.  Its network is
evaluated on the test split of the target as it is, and again after the means and variances of its batch norms were
re-estimated on the target's training images, as `--batch-norm target` does at the end of training.  Runs that are
already in `OUT/batch_norms.json` are not repeated.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import jumbot
from benchmarks.origin import origin
from jumbot._base.files import write_text
from jumbot.adaptation._training.batch_norms import estimate_batch_norms


def compare(run: Path, config: dict[str, Any], root: str | None) -> dict[str, Any]:
    """Accuracy of the network of one run with both kinds of statistics."""
    model = jumbot.load(run)
    name, training = config["target"]["name"], config["training"]
    test, target = (jumbot.data.load(name, split, root=root) for split in ("test", "train"))

    def accuracy() -> float:
        return float(np.mean(model.predict(test).astype(int) == test.labels))

    row = {
        "task": run.parent.name,
        "method": config["method"]["name"],
        "seed": training["seed"],
        "updates": json.loads((run / "results.json").read_text(encoding="utf-8"))["selected_step"],
        "batch_size": training["batch_size"],
        "trained": config["command"],
        "running": accuracy(),
    }
    estimate_batch_norms(model.network, model.domain(target), "cpu", training["seed"])
    return row | {"target": accuracy()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--root", help="folder of the digits; by default JUMBOT_DATA")
    parser.add_argument("--out", type=Path, default=Path("results/paper"))
    args = parser.parse_args()
    file = args.out / "batch_norms.json"
    record: dict[str, Any] = {"runs": []}
    if file.exists():
        record = json.loads(file.read_text(encoding="utf-8"))
    rows = record["runs"]
    for run in args.runs:
        config = json.loads((run / "config.json").read_text(encoding="utf-8"))
        if config["command"] in {row["trained"] for row in rows}:
            continue
        rows.append(compare(run, config, args.root))
        about = {"seeds": sorted({row["seed"] for row in rows}), "settings": {"batch_norm": ["running", "target"]}}
        write_text(file, json.dumps(origin("batch_norms", ["RUN"]) | about | {"runs": rows}, indent=1) + "\n")
        print(run.name, f"{rows[-1]['running']:.4f} -> {rows[-1]['target']:.4f}", flush=True)


if __name__ == "__main__":
    main()
