"""Time over the number of points, one curve for each dimension, from `results/points.jsonl`."""

from __future__ import annotations

import json
import math
from pathlib import Path

from jumbot.report.style import new_figure, styled

OUT = Path(__file__).parent.parent / "docs" / "_static" / "points.png"
COLOURS = {2: "C0", 3: "C1", 10: "C2", 50: "C3"}


def curves(record: Path) -> dict[int, dict[int, float]]:
    """Seconds by the number of points, for each dimension; of several records of a case the last."""
    found: dict[int, dict[int, float]] = {}
    for line in record.read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        drawn = run["case"].startswith(("curve-", "million-", "mixture-50d"))
        if drawn and math.isfinite(run["tau"]):
            found.setdefault(run["dimensions"], {})[run["points"]] = run["seconds"]
    return found


def draw(record: Path) -> None:
    with styled():
        figure = new_figure(6.4, 4.0)
        axes = figure.add_subplot()
        for d, times in sorted(curves(record).items()):
            n = sorted(times)
            axes.loglog(n, [times[k] for k in n], marker="o", color=COLOURS.get(d), label=f"{d} dimensions")
        axes.set_xlabel("points on either side")
        axes.set_ylabel("seconds, two cores")
        axes.axhline(60, color="0.7", linewidth=0.8)
        axes.text(1100, 64, "a minute", color="0.5", fontsize=8)
        axes.legend(frameon=False)
        figure.savefig(OUT, dpi=160)
