"""What must not change unnoticed: signatures, options, answers, the structure of a report.

`python -m tests.golden` records everything again; read the difference before you commit it.
"""
