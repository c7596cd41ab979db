"""Two gloo processes return what one does."""

import json
import os

import numpy as np
import pytest

import jumbot
from tests.processes import run_ranks

SCRIPT = """
import json, os
import numpy as np, jumbot
rng = np.random.default_rng(0)
x, y = rng.normal(size=(80, 3)), rng.normal(size=(90, 3)) + 0.5
result = jumbot.estimate(x, y, m=9, k=31, seed=4, epsilon=0.1, tau=1.0, plan=True)
out = {"value": result.value, "error": result.standard_error(), "mass": result.plan.mass, "k": result.k}
print(json.dumps(out))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_two_processes_agree_with_one():
    both = run_ranks(SCRIPT)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 3)), rng.normal(size=(90, 3)) + 0.5
    alone = jumbot.estimate(x, y, m=9, k=31, seed=4, epsilon=0.1, tau=1.0, plan=True)
    for done in both:
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["k"] == 31
        np.testing.assert_allclose(found["value"], alone.value, rtol=1e-12)
        np.testing.assert_allclose(found["error"], alone.standard_error(), rtol=1e-9)
        np.testing.assert_allclose(found["mass"], alone.plan.mass, rtol=1e-12)
