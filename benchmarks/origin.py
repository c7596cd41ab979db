"""What every record begins with: the command that made it, when, and with which version."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

import jumbot


def origin(script: str, arguments: Sequence[str] = ()) -> dict[str, str]:
    """Command, date and version of a record that `python -m benchmarks.SCRIPT ARGUMENTS` makes."""
    return {
        "command": shlex.join(["python", "-m", f"benchmarks.{script}", *arguments]),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "jumbot": jumbot.__version__,
    }
