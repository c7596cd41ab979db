"""A whole `jumbot adapt` of many rows, or of many image files: how much memory it takes, and how long.

    python -m benchmarks.large --rows 1000000 [--out results/scale/large.json]
    python -m benchmarks.large --images 100000

Tables: csv files of six columns of normal numbers in three classes, the target moved by .4.  Images: PNG files of
28 x 28 in five folders of classes, half of them the source.  The command runs by itself, with few steps, evaluation,
diagnosis, model card and report included; its peak is what the system says of the process when it has ended.  A run of
a few samples shows what the libraries alone take.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from benchmarks.machine import describe
from benchmarks.origin import origin

COLUMNS, STEPS, SIDE = 6, "5", 28
SHADES = (40, 80, 120, 160, 200)


def tables(folder: Path, rows: int) -> list[str]:
    """Write both tables; returns what the command is given."""
    for name, moved in (("source", 0.0), ("target", 0.4)):
        rng = np.random.default_rng(0)
        y = rng.integers(0, 3, rows)
        numbers = rng.normal(size=(rows, COLUMNS)) + moved
        numbers[np.arange(rows), y] += 2
        frame = pd.DataFrame(numbers.round(6), columns=[f"c{j}" for j in range(COLUMNS)])
        frame.assign(kind=np.array(["red", "green", "blue"])[y]).to_csv(folder / f"{name}.csv", index=False)
    return ["source.csv", "target.csv", "--label", "kind", "--steps", STEPS]


def images(folder: Path, files: int) -> list[str]:
    """Squares of five shades on noise, the target brighter; returns what the command is given."""
    for name, brighter in (("source", 0), ("target", 30)):
        rng = np.random.default_rng(0)
        for number in range(files // 2):
            y = number % len(SHADES)
            pixels = rng.integers(0, 40, (SIDE, SIDE), dtype=np.uint8)
            top, left = rng.integers(0, SIDE // 2, 2)
            pixels[top : top + SIDE // 2, left : left + SIDE // 2] = SHADES[y]
            place = folder / name / f"class{y}"
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels + np.uint8(brighter)).save(place / f"{number:06}.png")
    return ["source", "target", "--backbone", "digits", "--size", str(SIDE), "--steps", STEPS, "--source-steps", STEPS]


def measured(folder: Path, arguments: list[str]) -> dict[str, Any]:
    """Run the command in `folder` alone, on one thread."""
    command = [sys.executable, "-m", "jumbot", "adapt", *arguments, "--out", "run"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "POT_BACKEND_DISABLE_JAX": "1"}
    start = time.perf_counter()
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "command": shlex.join(["jumbot", *command[3:]]),
        "peak_MB": round(used.ru_maxrss * unit / 1e6),
        "seconds": round(time.perf_counter() - start, 1),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "exit": process.returncode,
        "report": (folder / "run" / "report.html").exists(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[], help="of each table")
    parser.add_argument("--images", type=int, nargs="*", default=[], help="files in all")
    parser.add_argument("--out", type=Path, help="the record, to which the runs are added")
    options = parser.parse_args()
    wanted = [(tables, rows) for rows in options.rows] + [(images, files) for files in options.images]
    for make, count in wanted:
        with tempfile.TemporaryDirectory() as folder:
            arguments = make(Path(folder), count)
            run = origin("large", [f"--{'rows' if make is tables else 'images'}", str(count)])
            run |= {"what": make.__name__, "n": count, **measured(Path(folder), arguments)}
        if make is tables:
            run["data_MB"] = round(2 * count * COLUMNS * 8 / 1e6, 1)
            run["above_data_MB"] = round(run["peak_MB"] - run["data_MB"])
        print(json.dumps(run), flush=True)
        if options.out is not None:
            record = json.loads(options.out.read_text()) if options.out.exists() else {"runs": []}
            record["runs"].append({**run, "machine": describe()})
            options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
