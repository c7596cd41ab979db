"""Plots and reports.  Matplotlib is imported when something is drawn.

>>> from jumbot.report import write_report  # write_report([run_folder], "report.html")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumbot.report._adaptation import write_report as write_report
    from jumbot.report._comparison import draw_comparison as draw_comparison
    from jumbot.report._comparison import format_table as format_table
    from jumbot.report._drawings import draw_plan as draw_plan
    from jumbot.report._records import RunRecord as RunRecord
    from jumbot.report._records import read_run as read_run
else:
    from jumbot._base.lazy import lazy

    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "RunRecord": "_records",
            "draw_comparison": "_comparison",
            "draw_plan": "_drawings",
            "format_table": "_comparison",
            "read_run": "_records",
            "write_report": "_adaptation",
        },
    )
