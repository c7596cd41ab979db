"""`import jumbot` loads what it needs and no more; the rest comes when first used."""

import subprocess
import sys

LATER = (
    "numba",
    "ot",
    "scipy",
    "matplotlib",
    "sklearn",
    "accelerate",
    "pandas",
    "rich",
    "cvxpy",
    "geomloss",
    "jax",
)


def test_import_is_light():
    """Only what torch itself brings along may be there of these."""
    code = "import sys, torch; before = set(sys.modules); import jumbot; "
    code += f"print(sorted(set({LATER!r}) & set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_import_is_silent():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import jumbot"], capture_output=True, text=True, check=True
    )
    assert done.stdout == done.stderr == ""


def test_public_names():
    import jumbot

    for name in (
        "solve",
        "Solution",
        "sinkhorn_divergence",
        "Divergence",
        "JumbotError",
        "NotConvergedWarning",
    ):
        assert hasattr(jumbot, name), name
        assert name in jumbot.__all__
