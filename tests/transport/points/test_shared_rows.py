"""Two gloo processes solve one problem between points together, and get what one gets."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import jumbot
from jumbot.transport._points import _team
from jumbot.transport._points._team import Team
from tests.processes import run_ranks

SCRIPT = """
import json, os
import numpy as np, torch, torch.distributed as dist
import jumbot
from jumbot.transport._points import _team
from tests.transport.points.test_shared_rows import CASES, clouds

_team.FROM, calls = 0, []
reduce = dist.all_reduce
dist.all_reduce = lambda tensor: (calls.append(tensor.numel()), reduce(tensor))[1]
out = {}
for name, settings in CASES.items():
    calls.clear()
    sol = jumbot.solve_sample(*clouds(), **settings)
    out[name] = [sol.value, sol.gap, sol.iterations, len(calls), float(np.abs(sol.potentials[0]).sum())]
rank = int(os.environ["RANK"])
torch.set_num_threads(rank + 1)
x, y = clouds()
out["own"] = jumbot.solve_sample(x[rank:], y, **CASES["kl"]).value  # problems of their own
if rank == 0:  # what is asked later, one process may ask alone
    out["map"] = float(sol.barycentric_map().sum())
print(json.dumps(out))
"""
CASES = {
    "kl": {"epsilon": 0.002, "tau": 0.02},
    "balanced": {"epsilon": 0.01},
    "euclidean": {"epsilon": 0.03, "tau": (0.3, 0.1), "cost": "euclidean", "divergence": "tv"},
    "callable": {"epsilon": 0.02, "tau": 0.1, "cost": lambda x, y: (x[:, None] - y).abs().sum(-1)},
}


def clouds() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    return draw.random((1300, 2)), draw.random((1150, 2)) ** 1.3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_two_processes_agree_with_one():
    done = run_ranks(SCRIPT, before=f"import sys, torch; sys.path.insert(0, {str(Path(__file__).parents[3])!r})")
    assert [each.returncode for each in done] == [0, 0], done
    both = [json.loads(each.stdout) for each in done]
    x, y = clouds()
    by_one = {name: jumbot.solve_sample(x, y, **settings) for name, settings in CASES.items()}
    for rank, found in enumerate(both):
        for name, alone in by_one.items():
            value, gap, iterations, calls, potentials = found[name]
            assert value == pytest.approx(alone.value, rel=1e-12)
            assert gap == pytest.approx(alone.gap, rel=1e-6, abs=1e-15)
            assert potentials == pytest.approx(float(np.abs(alone.potentials[0]).sum()), rel=1e-12)
            assert iterations == alone.iterations
            assert calls > 0  # they did work together
            if name in ("kl", "euclidean"):  # one for each sweep, and three for the proof
                assert calls <= iterations + 5
        assert found["own"] == pytest.approx(jumbot.solve_sample(x[rank:], y, **CASES["kl"]).value, rel=1e-12)


def test_parts_cover_all_items_once():
    work = np.array([5, 0, 0, 1, 7, 3, 0, 2])
    for world in (1, 2, 3, 9):
        items = np.arange(len(work))
        found = np.concatenate([items[Team(rank, world).part(work)] for rank in range(world)])
        assert found.tolist() == items.tolist()


def test_one_process_is_alone():
    assert _team.team_of((np.zeros((20000, 1)), np.zeros((20000, 1))), ()) is _team.ALONE
