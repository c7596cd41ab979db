"""Copy what results/ keeps of finished runs of `jumbot reproduce digits`.

    python tools/record.py work/digits/U-M/*-seed0 [--out results/digits]

The configuration, the results, the embeddings and maps of the first seed, and the metrics.  Of a run with more than
THOUSANDS of steps every tenth step is kept, the first and last of each phase, and all evaluations, so that no file is
larger than 1 MiB.  A folder may also lie in results/ already: then its metrics are shortened.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
THOUSANDS = 3000
EVERY = 10


def shorten(lines: Sequence[str]) -> list[str]:
    """The lines of `metrics.jsonl` that are kept.

    >>> steps = [json.dumps({"event": "step", "step": i, "phase": "adapt"}) for i in range(3500)]
    >>> kept = [json.loads(line)["step"] for line in shorten(steps)]
    >>> kept[:3], kept[-2:], len(shorten(steps[:3000]))
    ([0, 10, 20], [3490, 3499], 3000)
    """
    records = [json.loads(line) for line in lines]
    steps = [record for record in records if record["event"] == "step"]
    if len(steps) <= THOUSANDS:
        return list(lines)
    ends = set()
    for phase in ("source", "adapt"):
        own = [record["step"] for record in steps if record["phase"] == phase]
        ends |= {own[0], own[-1]} if own else set()
    kept = (r["event"] != "step" or r["step"] % EVERY == 0 or r["step"] in ends for r in records)
    return [line for line, keep in zip(lines, kept, strict=True) if keep]


def record(run: Path, out: Path) -> Path:
    """Copy one run; return its folder in `out`."""
    place = out / run.parent.name / run.name
    place.mkdir(parents=True, exist_ok=True)
    pictures = [*run.glob("embeddings.npz"), *run.glob("map-*.npz")] if run.name.endswith("-seed0") else []
    for file in (run / "config.json", run / "results.json", *pictures):
        if file.resolve() != (place / file.name).resolve():
            shutil.copyfile(file, place / file.name)
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    (place / "metrics.jsonl").write_text("".join(f"{line}\n" for line in shorten(lines)), encoding="utf-8")
    return place


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "digits")
    args = parser.parse_args()
    for run in args.runs:
        print(record(run, args.out))


if __name__ == "__main__":
    main()
