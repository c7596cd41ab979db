"""`import jumbot` loads what it needs and no more; the rest comes when first used."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
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


def test_numba_that_does_not_compile_is_refused_in_our_words():
    code = "import jumbot\ntry: jumbot.solve([[0.0]], epsilon=0.1)\nexcept jumbot.JumbotError as error: print(error)"
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.startswith("NUMBA_DISABLE_JIT is set")


def test_a_model_is_loaded_without_the_compiler_of_torch():
    """Drawing numbers on the device meta, where the sizes of a model are checked, would import it for three seconds."""
    code = "import sys, jumbot; jumbot.load('tests/models/0.1/table'); print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "False", done.stderr
