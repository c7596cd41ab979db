"""What a person sees of a training run: a bar on a terminal, a line an evaluation elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def training_bar(total: int, done: int, name: str) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that takes the records of the run as they are made."""
    if not sys.stderr.isatty():
        yield _line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn(),
        TextColumn("{task.fields[facts]}"),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=total, completed=done, facts="")
        accuracy = ""

        def update(record: dict[str, Any]) -> None:
            nonlocal accuracy
            if record["event"] == "evaluation":
                accuracy = _outcome(record)
                return
            facts = [f"{term} {value:.3f}" for term, value in record["terms"].items()]
            facts += [f"mass {record['mass']:.2f}"] if "mass" in record else []
            speed = bar.tasks[0].speed
            facts += [f"{speed:.1f} steps/s"] if speed else []
            bar.update(task, advance=1, description=f"{name} ({record['phase']})", facts="  ".join([*facts, accuracy]))

        yield update


def _line(record: dict[str, Any]) -> None:
    if record["event"] == "evaluation":
        print(
            f"step {record['step']}  {record['phase']}  {_outcome(record)}  {record['seconds']:.0f} s",
            file=sys.stderr,
            flush=True,
        )


def _outcome(record: dict[str, Any]) -> str:
    if record.get("accuracy") is not None:
        return f"target accuracy {100 * record['accuracy']:.1f} % (evaluation)"
    return f"target entropy {record['scores']['entropy']:.3f}"
