"""Two gloo processes return what one does."""

import json
import subprocess
import sys

import numpy as np

import jumbot

SCRIPT = """
import json, os, sys
import numpy as np, jumbot
rng = np.random.default_rng(0)
x, y = rng.normal(size=(80, 3)), rng.normal(size=(90, 3)) + 0.5
result = jumbot.estimate(x, y, m=9, k=31, seed=4, epsilon=0.1, tau=1.0, plan=True)
out = {"value": result.value, "error": result.standard_error(), "mass": result.plan.mass, "k": result.k}
with open(sys.argv[1] + "/" + os.environ["RANK"], "w") as file:
    json.dump(out, file)
"""


def test_two_processes_agree_with_one(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 3)), rng.normal(size=(90, 3)) + 0.5
    alone = jumbot.estimate(x, y, m=9, k=31, seed=4, epsilon=0.1, tau=1.0, plan=True)
    for rank in ("0", "1"):
        found = json.loads((tmp_path / rank).read_text())
        assert found["k"] == 31
        np.testing.assert_allclose(found["value"], alone.value, rtol=1e-12)
        np.testing.assert_allclose(found["error"], alone.standard_error(), rtol=1e-9)
        np.testing.assert_allclose(found["mass"], alone.plan.mass, rtol=1e-12)
