"""`import jumbot` loads what it needs and no more; the rest comes when first used."""

import subprocess
import sys

LATER = (
    "torch",
    "numpy",
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
    code = f"import sys, jumbot; print(sorted(set({LATER!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_import_is_silent():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import jumbot"], capture_output=True, text=True, check=True
    )
    assert done.stdout == done.stderr == ""
