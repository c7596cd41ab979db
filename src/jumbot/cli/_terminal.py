"""Terminal output of commands: names from data are escaped, and a warning is one line, printed once."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from jumbot.errors import escaped

if TYPE_CHECKING:
    from jumbot.adaptation._model import Model
    from jumbot.report._records import RunRecord


def say(text: object, file: TextIO | None = None, end: str = "\n") -> None:
    """Print text that may hold names from data."""
    print(escaped(text), file=sys.stdout if file is None else file, end=end, flush=file is not None)


class Screen(io.TextIOBase):
    """Standard output for a table: unchanged for another program, shown as `say` does on a terminal."""

    def write(self, text: str) -> int:
        shown = escaped(text) if sys.stdout.isatty() else text.encode("utf-8", "backslashreplace").decode()
        return sys.stdout.write(shown)


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return escaped(super().format(record))


@contextmanager
def telling() -> Iterator[None]:
    """Show the log of the package on standard error, and warnings without their place in the code."""
    log, handler = logging.getLogger("jumbot"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter())
    before, written = log.level, warnings.formatwarning
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    warnings.formatwarning = _once()  # not showwarning: filters and collectors of warnings still work
    try:
        yield
    finally:
        warnings.formatwarning = written
        log.removeHandler(handler)
        log.setLevel(before)


class _once:
    """`warnings.formatwarning` for a terminal: each warning is shown once."""

    def __init__(self) -> None:
        self.shown: set[str] = set()

    def __call__(
        self, message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        text = f"warning: {escaped(message)}\n"
        if text in self.shown:
            return ""
        self.shown.add(text)
        return text


def summary(model: Model, run: RunRecord) -> str:
    """Problems in the data, the summary, what was chosen and measured, and the warnings of the report."""
    from jumbot.report._answer import verdict
    from jumbot.report._presence import data_remarks, warnings_of

    results = model.results
    found = verdict(run)
    lines = [*(f"data: {remark}" for remark in data_remarks(run)), found]
    if (decision := model.decision) is not None and not decision.asked and decision.why[1:] not in found:
        lines.append(decision.why)
    lines.append(rule_line(results))
    if results.get("accuracy") is not None:
        lines.append(
            f"target accuracy {100 * results['accuracy']:.1f} %, mean over classes "
            f"{100 * results['mean_class_accuracy']:.1f} % (evaluation: labels that training never saw)"
        )
    if results.get("rmse") is not None:
        r2 = "" if results["r2"] is None else f", R2 {results['r2']:.3f}"
        lines.append(
            f"target RMSE {results['rmse']:.4g}, MAE {results['mae']:.4g}{r2} (evaluation: labels that training never "
            "saw)"
        )
    diagnosis = results["diagnosis"]
    absent = [model.classes[c] for c in diagnosis.get("absent_classes", ())]
    if absent:
        lines.append(f"source classes that seem absent from the target: {', '.join(absent)}")
    lines.append(f"target samples that no source sample explains: {len(diagnosis['unexplained'])}")
    lines += results.get("decisions", ())
    return "\n".join([*lines, *(f"warning: {one}" for one in warnings_of(run))])


def rule_line(results: Mapping[str, Any]) -> str:
    """Which rule chose the model; for oracle, also what that means."""
    if results.get("oracle"):
        return "model chosen by: oracle (USES TARGET LABELS; cannot be reached without them)"
    return f"model chosen by: {results.get('rule', 'unknown')}" + (" iterate" if results.get("rule") == "last" else "")
