"""The command reference, written at every build from the help of each command."""

import contextlib
import io
import os
import re
from pathlib import Path

PAGE = "commands.md"
HEAD = """# Commands

What `jumbot COMMAND --help` prints, for every command of this version. The help of
`jumbot adapt` and `compare` lists the options of the method and of the recipe that are
given with it: `jumbot adapt --method dann --help`.
"""


def help_of(command: str) -> str:
    """As a terminal of 100 columns shows it, without colours."""
    from jumbot.cli import main

    before = {name: os.environ.get(name) for name in ("COLUMNS", "NO_COLOR")}
    os.environ.update(COLUMNS="100", NO_COLOR="1")
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()) as output,
            contextlib.suppress(SystemExit),
        ):
            main([command, "--help"])
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    text = re.sub(r"\x1b\[[0-9;]*m", "", output.getvalue())
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def reference() -> str:
    """The page."""
    from jumbot.cli._app import COMMANDS

    parts = [
        f"## jumbot {name}\n\n{what[0].upper()}{what[1:]}.\n"
        for name, what in COMMANDS.items()
    ]
    bodies = [f"```text\n{help_of(name)}\n```\n" for name in COMMANDS]
    return "\n".join(
        [HEAD, *(f"{part}\n{body}" for part, body in zip(parts, bodies, strict=True))]
    )


def write(app):
    page = Path(app.srcdir) / PAGE
    text = reference()
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")


def setup(app):
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
