"""The model card: README.md of a run folder, for those who use the model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jumbot._base.files import write_text
from jumbot.errors import escaped
from jumbot.report._answer import evidence, verdict
from jumbot.report._presence import data_remarks, warnings_of
from jumbot.report._records import RunRecord, read_run


def write_card(run: RunRecord | Path) -> Path:
    """Write `README.md` into the folder of a finished run; returns its path."""
    record = run if isinstance(run, RunRecord) else read_run(run)
    return write_text(record.folder / "README.md", escaped("\n".join(_lines(record))) + "\n")


def _lines(run: RunRecord) -> Iterator[str]:
    yield from (
        f"# {_text(run.method)}: {_text(run.source)} to {_text(run.target)}",
        "",
    )
    if odd := data_remarks(run):
        yield from ("**Check the data first:**", "", *(f"- {_text(sentence)}" for sentence in odd), "")
    yield from (_text(verdict(run)), "")
    yield from ("## Data", "")
    data = run.config["data"] or {}
    for role, name in (("source", run.source), ("target", run.target)):
        recorded = data.get(role, {}).get("hash")
        digest = f"; hash `{recorded}`" if recorded else ""
        labelled = "labelled" if role == "source" else "whose labels training never saw"
        yield f"- {role}: {_text(name)}, {run.config[role]['n']:,} samples, {labelled}{digest}"
    yield from (f"- classes: {_text(', '.join(run.classes))}", "", "## Method and settings", "")
    chosen = "used target labels" if run.oracle else "without target labels"
    yield f"- method: {_text(run.method)}; the model was chosen by the rule `{run.rule}` ({chosen})"
    yield f"- created with {run.made_with}"
    if run.config["command"]:
        yield f"- command: `{run.config['command'].replace('`', '')}`"
    yield from (f"- {name}: `{_value(value)}`" for name, value in run.options.items())
    yield from (f"- seed: `{run.seed}`; all other settings are in `config.json`", "", "## Evidence", "")
    for sentence in evidence(run):
        yield f"- {_text(sentence)}"
    yield from ("", "## Limits", "")
    for sentence in [*warnings_of(run), *LIMITS]:
        yield f"- {_text(sentence)}"
    yield from ("", "## Use", "", "```python", "import jumbot", "", f"model = jumbot.load({str(run.folder.name)!r})")
    yield from ("model.predict(...)  # new data, in the same form as the source", "```", "")
    yield "`predictions.csv` contains the predictions of the target, `report.html` the figures of the run."


LIMITS = (
    "The model predicts only classes of the source, also for samples of other classes.",
    "The model was adapted to this target; other data may need their own adaptation.",
    "An accuracy estimated without labels cannot account for a cluster of samples that is wrong as a whole; a few "
    "labelled target samples, passed to `jumbot evaluate`, are more reliable.",
)


def _text(text: str) -> str:
    """One line of Markdown; special characters in names are escaped."""
    plain = " ".join(str(text).replace("\N{NO-BREAK SPACE}", " ").split())
    for sign in "\\*_[]<>#|":
        plain = plain.replace(sign, f"\\{sign}")
    return plain


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
