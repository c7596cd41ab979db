"""Plots and reports.  Matplotlib is imported when something is drawn.

>>> from jumbot.report import write_report  # write_report([run_folder], "report.html")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jumbot.report.adaptation import write_report
    from jumbot.report.records import RunRecord, read_run

__all__ = ["RunRecord", "read_run", "write_report"]


def __getattr__(name: str) -> Any:
    # The two-cluster picture of the core needs none of the adaptation.
    if name == "write_report":
        from jumbot.report.adaptation import write_report

        return write_report
    if name in ("RunRecord", "read_run"):
        from jumbot.report import records

        return getattr(records, name)
    raise AttributeError(f"module 'jumbot.report' has no attribute {name!r}")
