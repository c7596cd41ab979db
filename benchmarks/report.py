"""The record of a run: bench.json (everything), bench.md (the table), bench.png (the ratios)."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks import everyday
from benchmarks.certification import Failure
from benchmarks.ours import TOLERANCE
from benchmarks.regimes import REGIMES
from benchmarks.run import Entry, Row


def write(
    rows: list[Row], common: list[dict[str, Any]], machine: dict[str, object], command: str, date: str, folder: Path
) -> None:
    """Write the three files into `folder`; `common` are the rows of `everyday.py`.

    Everyday calls that were measured alone replace those of the record that is there, with a command of their own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, provenance = folder / "bench.json", {"command": command, "date": date}
    head, lines = everyday.table(common)
    calls = {**provenance, "table": [head, *lines], "rows": common}
    if not rows and common and file.exists():
        record = json.loads(file.read_text())
        rows, provenance = [from_dict(row) for row in record["regimes"]], {key: record[key] for key in provenance}
        machine = record["machine"] if record["machine"]["versions"] == machine["versions"] else machine
    record = {**provenance, "machine": machine, "regimes": [as_dict(row) for row in rows], "gap": TOLERANCE}
    record["everyday"] = calls
    file.write_text(json.dumps(record, indent=1, default=float) + "\n")
    (folder / "bench.md").write_text(markdown(rows, calls, machine, **provenance))
    chart(rows, folder / "bench.png")


def from_dict(row: dict[str, Any]) -> Row:
    """A row of a record, its regime by name."""
    regime = next(regime for regime in REGIMES if regime.name == row["regime"])
    ours, peers = ([Entry(**entry) for entry in row[key]] for key in ("ours", "peers"))
    failures = [Failure(**failure) for failure in row["failures"]]
    return Row(replace(regime, size=row["problems in a call"]), ours, peers, row["of"], failures, row["remarks"])


def as_dict(row: Row) -> dict[str, object]:
    """A row without its functions."""
    r = row.regime
    return {
        "regime": r.name,
        "m": r.m,
        "epsilon": r.epsilon,
        "tau": r.tau,
        "problems in a call": r.size,
        "floor": r.floor,
        "ratio": row.ratio(),
        "ratio is at least": row.at_least(),
        "ratio to tuned peers": row.ratio(tuned=True),
        "met": row.met,
        "ours": [asdict(entry) for entry in row.ours],
        "peers": [asdict(entry) for entry in row.peers],
        "certified": row.certified - len(row.failures),
        "of": row.certified,
        "failures": [failure.as_dict() for failure in row.failures],
        "remarks": row.remarks,
    }


def milliseconds(entry: Entry | None) -> str:
    """Three digits, or why there is no time."""
    if entry is None:
        return "-"
    if entry.median is not None:
        return f"{1e3 * entry.median:.3g}"
    return f"above {1e3 * entry.given_up:.3g}" if entry.given_up else "not reached"


def verdict(row: Row) -> str:
    """The floor and whether it is met."""
    return f"{row.regime.floor:g}x " + {None: "not decided", True: "met", False: "NOT MET"}[row.met]


def ratio_text(row: Row) -> str:
    """The ratio, or the bound that is known."""
    if row.ratio():
        return f"{row.ratio():.1f}x"
    return f"> {row.at_least():.0f}x" if row.at_least() else "-"


def markdown(rows: list[Row], calls: dict[str, Any], machine: dict[str, object], command: str, date: str) -> str:
    """The table, then every solver that was tried, then the machine."""
    lines = [
        "# Benchmark",
        "",
        f"`{command}`, {date}. Medians of interleaved calls, milliseconds; a batch is one call. Each peer "
        "does the least work with which an independent certificate of its answer reaches a gap of 1e-10, in float64 "
        "(divergence: scaling .99, errors of the gradient below). *Ratio* compares with the peers' default "
        "algorithms, *tuned* also with their accelerated options. *Sweeps alone* is what of the first "
        "column is spent in compiled sweeps, without the checks and the result of the public call.",
        "",
        "| regime (m, epsilon, tau) | jumbot | float32 in | gap 1e-6 | sweeps alone | best peer | its time "
        "| ratio | floor | tuned | certified |",
        "| --- | ---: | ---: | ---: | ---: | --- | ---: | ---: | --- | ---: | ---: |",
    ]
    for row in rows:
        r, best = row.regime, row.best(tuned=False)
        tuned = f"{row.ratio(tuned=True):.1f}x" if row.ratio(tuned=True) else "-"
        ratio = ratio_text(row)
        kernel = f"{1e3 * row.main.kernel:.3g}" if row.main.kernel else "-"
        certified = f"{row.certified - len(row.failures)} of {row.certified}" if row.certified else "-"
        lines.append(
            f"| {r.label} | {' | '.join(milliseconds(e) for e in row.ours)} | {kernel} "
            f"| {best.name if best else '-'} | {milliseconds(best)} | {ratio} | {verdict(row)} | {tuned} "
            f"| {certified} |"
        )
    head, *found = calls["table"]
    lines += ["", "## What people call every day", "", (everyday.__doc__ or "").split("\n\n")[2].replace("\n", " "), ""]
    lines += [f"`{calls['command']}`, {calls['date']}:", ""]
    lines += [f"| {' | '.join(line)} |" for line in (head, ("---",) * len(head), *found)]
    lines += ["", "## Every solver", ""]
    lines += [
        "| regime | solver | ms | relative gap, or gradient error | setting (median) |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for row in rows:
        for entry in (*row.ours, *row.peers):
            setting = "-" if entry.setting is None else f"{entry.setting:.3g}"
            name = f"{entry.name} (tuned)" if entry.tuned else entry.name
            lines.append(f"| {row.regime.name} | {name} | {milliseconds(entry)} | {entry.quality:.1e} | {setting} |")
    failures = [(row.regime.name, failure) for row in rows for failure in row.failures]
    if failures:
        lines += ["", "## Not certified", ""]
        lines += [
            f"- {name}, seed {f.seed}: measured {f.measured:.2e}, claimed {f.claimed:.2e}" for name, f in failures
        ]
    lines += ["", *(f"- {remark}" for row in rows for remark in row.remarks)]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    lines += [
        f"{machine['processor']}, {machine['cores']} cores, {machine['torch threads']} torch threads, "
        f"Python {machine['python']}; {versions}.",
        "",
    ]
    return "\n".join(lines)


def chart(rows: list[Row], path: Path) -> None:
    """Horizontal bars of the ratios from 1 on a log axis, the floors as ticks, the tuned peers as dots."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for row in rows if row.ratio() or row.at_least()]
    if not rows:
        return
    figure, axes = plt.subplots(figsize=(8, 0.36 * len(rows) + 1.3), layout="constrained")
    heights = range(len(rows))
    ratios = [row.ratio() or row.at_least() for row in rows]
    floors = [row.regime.floor for row in rows]
    widths = [ratio - 1 for ratio in ratios]
    axes.barh(heights, widths, left=1, height=0.62, color="#3b6ea5", label="best peer / jumbot")
    tuned = [(row.ratio(tuned=True), k) for k, row in enumerate(rows) if row.accelerated]
    if tuned:
        axes.plot(*zip(*tuned, strict=True), "o", color="#edae49", markersize=5, label="best tuned peer / jumbot")
    axes.plot(floors, heights, "|", color="#d1495b", markersize=13, markeredgewidth=2.2, label="floor")
    for k, (ratio, floor) in enumerate(zip(ratios, floors, strict=True)):
        place = {"xytext": (6, 0), "textcoords": "offset points", "va": "center", "fontsize": 8}
        axes.annotate(ratio_text(rows[k]), (max(ratio, floor, 1), k), **place)
    axes.set_xscale("log")
    axes.set_xlim(min(0.8, 0.8 * min(ratios)), 2.5 * max(*ratios, *floors))
    axes.xaxis.set_major_formatter("{x:g}x")
    axes.axvline(1, color="0.4", linewidth=0.8)
    axes.set_yticks(heights, [row.regime.label for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, labelsize=8.5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel("speed relative to the best peer, at relative gap 1e-10")
    figure.legend(loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
