"""Plots and reports.  Matplotlib is imported when something is drawn.

>>> from jumbot.report import write_report  # write_report([run_folder], "report.html")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumbot.report.adaptation import write_report as write_report
    from jumbot.report.comparison import draw_comparison as draw_comparison
    from jumbot.report.comparison import format_table as format_table
    from jumbot.report.plans import draw_plan as draw_plan
    from jumbot.report.records import RunRecord as RunRecord
    from jumbot.report.records import read_run as read_run
else:
    from jumbot.lazy import lazy

    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "RunRecord": "records",
            "draw_comparison": "comparison",
            "draw_plan": "plans",
            "format_table": "comparison",
            "read_run": "records",
            "write_report": "adaptation",
        },
    )
