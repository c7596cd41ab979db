"""What one case came to."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Report:
    """`problems` answers were judged, `converged` of them called themselves so; `faults` are what was wrong."""

    label: str = ""
    problems: int = 0
    converged: int = 0
    refused: int = 0
    faults: list[str] = field(default_factory=list)
