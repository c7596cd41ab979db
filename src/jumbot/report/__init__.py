"""Plots and reports.  Matplotlib is imported when something is drawn.

>>> from jumbot.report import write_report  # write_report([run_folder], "report.html")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jumbot.report.adaptation import write_report
    from jumbot.report.comparison import draw_comparison, format_table
    from jumbot.report.plans import draw_plan
    from jumbot.report.records import RunRecord, read_run

__all__ = ["RunRecord", "draw_comparison", "draw_plan", "format_table", "read_run", "write_report"]

_FILES = {
    "RunRecord": "records",
    "draw_comparison": "comparison",
    "draw_plan": "plans",
    "format_table": "comparison",
    "read_run": "records",
    "write_report": "adaptation",
}


def __getattr__(name: str) -> Any:
    """Each name is imported when first used: a plan is drawn without any of the adaptation."""
    if name in _FILES:
        return getattr(import_module(f"jumbot.report.{_FILES[name]}"), name)
    raise AttributeError(f"module 'jumbot.report' has no attribute {name!r}")
