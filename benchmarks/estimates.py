"""How far the accuracy that is estimated without labels lies from the true one, over the runs of `jumbot compare`.

    python -m benchmarks.estimates full partial imbalanced [--out results/estimates.json]

The arguments are folders of comparisons whose targets have labels.  For each folder and method: the mean absolute error
of `model.estimated_accuracy`, and the share of runs whose true accuracy lies in its interval.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.origin import origin


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """A row per method of the comparison in `folder`."""
    found: dict[str, list[tuple[float, bool]]] = {}
    unknown: dict[str, int] = {}
    for file in sorted(folder.glob("*/*/seed*/results.json")):
        results, method = json.loads(file.read_text(encoding="utf-8")), file.parts[-3]
        estimate, truth = results["estimated_accuracy"], results["accuracy"]
        errors = found.setdefault(method, [])
        if estimate is None or estimate["value"] is None:
            unknown[method] = unknown.get(method, 0) + 1
            continue
        errors.append((abs(estimate["value"] - truth), estimate["low"] <= truth <= estimate["high"]))
    return [
        {
            "table": folder.name,
            "method": method,
            "runs": len(errors),
            "said_unknown": unknown.get(method, 0),
            "error": statistics.fmean(error for error, _ in errors),
            "coverage": statistics.fmean(inside for _, inside in errors),
        }
        for method, errors in found.items()
        if errors
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=Path("estimates.json"))
    options = parser.parse_args()
    record = {
        **origin("estimates", sys.argv[1:]),
        "seeds": "those of the comparisons",
        "settings": "those of the comparisons",
        "estimates": [row for folder in options.folders for row in rows_of(folder)],
    }
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for row in record["estimates"]:
        error, inside = 100 * row["error"], row["coverage"]
        print(f"{row['table']:28} {row['method']:24} error {error:.1f} points, coverage {inside:.2f}")


if __name__ == "__main__":
    main()
