"""Plots and reports.  Matplotlib is imported when something is drawn."""
