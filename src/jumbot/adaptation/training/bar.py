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
    from rich.table import Column

    # where the terminal is narrow the facts are cut at their end, never the bar
    facts_column = TextColumn("{task.fields[facts]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
    columns = (TextColumn("{task.description}"), BarColumn(12), MofNCompleteColumn(), TimeRemainingColumn(compact=True))
    with Progress(*columns, facts_column, console=Console(stderr=True), expand=True) as bar:
        task = bar.add_task(name, total=total, completed=done, facts="")
        accuracy = ""

        def update(record: dict[str, Any]) -> None:
            nonlocal accuracy
            if record["event"] == "evaluation":
                accuracy = _outcome(record)
                return
            speed = bar.tasks[0].speed
            facts = [f"{speed:.1f}/s"] if speed else []
            facts += [f"mass {record['mass']:.2f}"] if "mass" in record else []
            facts += [f"{term} {value:.3f}" for term, value in record["terms"].items()]
            facts += [accuracy] if accuracy else []
            bar.update(task, advance=1, description=f"{name} ({record['phase']})", facts="  ".join(facts))

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
    if record.get("rmse") is not None:
        return f"target RMSE {record['rmse']:.4g} (evaluation)"
    name, value = next(iter(record["scores"].items()), ("entropy", float("nan")))
    return f"target {name} {value:.3f}"
