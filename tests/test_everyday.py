"""What judges the everyday calls of the benchmark, and how a long run is continued."""

import json
from pathlib import Path

import numpy as np
import pytest

import benchmarks.__main__ as bench
import jumbot
from benchmarks import certify, everyday, report


def test_partial_plans_are_judged_by_a_bound_and_by_their_constraints(rng):
    cost, epsilon, mass = rng.random((12, 9)), 0.05, 0.6
    solution = jumbot.solve(cost, epsilon=epsilon, mass=mass)
    bound = certify.partial_dual(cost, solution.potentials, epsilon=epsilon, mass=mass)
    value = jumbot.solve(cost, epsilon=epsilon, mass=mass).value - epsilon
    assert bound == pytest.approx(value, abs=1e-9)

    def error(plan):
        return certify.partial_error(cost, plan, bound, epsilon=epsilon, mass=mass)

    assert error(solution.plan) < 1e-9
    assert error(np.full((12, 9), mass / 108)) > 1e-2  # feasible, and far from the best
    assert error(1.1 * solution.plan) > 0.05
    tall = np.zeros((12, 9))
    tall[0, 0] = mass
    assert error(tall) > 0.5


def test_the_table_names_who_breaks_down_and_who_wins():
    def solver(name, seconds, error):
        return {"name": name, "seconds": seconds, "error": error, "calls": 3}

    row = {"group": "g", "problem": "p", "threads": 2}
    rows = [
        row
        | {"solvers": [solver("jumbot", 1e-3, 1e-11), solver("POT", 5e-4, 1e-9), solver("jumbot, other", 1e-9, None)]},
        row | {"solvers": [solver("jumbot", 1e-3, 1e-11), solver("POT", 1e-6, float("nan"))]},
    ]
    head, lines = everyday.table(rows)
    assert len(head) == len(lines[0])
    assert lines[0][1:3] == ("p, 2 threads", "1 (1e-11)")
    assert lines[0][-1] == "0.5x"
    assert "breaks down" in lines[1][3]
    assert lines[1][-1] == "-"


def test_a_run_that_was_ended_is_continued(tmp_path, capsys, monkeypatch):
    """Rows that are there are not measured again, those of another command are, and the file goes with the record."""
    measured = []

    def fake(make, quick, say):
        measured.append(make)
        return {
            "group": "g",
            "problem": str(len(measured)),
            "threads": 1,
            "solvers": [_solver("jumbot"), _solver("POT")],
        }

    monkeypatch.setattr(everyday, "run", fake)
    monkeypatch.setattr(everyday, "tasks", lambda quick: ["first", "second", "third"])
    now = iter([0.0, 1.0, 200.0])
    monkeypatch.setattr(bench.time, "perf_counter", lambda: next(now, 0.0))
    arguments = ["--only", "everyday", "--minutes", "3", "--out", str(tmp_path)]
    bench.main(arguments)
    assert measured == ["first"]
    assert not (tmp_path / "bench.json").exists()
    bench.main(arguments)
    assert measured == ["first", "second", "third"]
    record = json.loads((tmp_path / "bench.json").read_text())
    assert [row["problem"] for row in record["everyday"]["rows"]] == ["1", "2", "3"]
    assert [file.name for file in tmp_path.iterdir() if "unfinished" in file.name] == []
    now = iter([0.0, 1.0, 200.0])
    bench.main(arguments)
    bench.main([*arguments[:3], "4", *arguments[4:]])
    assert measured[3:] == ["first", "first", "second", "third"]


def _solver(name):
    return {"name": name, "seconds": 1e-3, "error": None, "calls": 3}


def test_everyday_calls_alone_replace_those_of_the_record(tmp_path):
    """The regimes of the record stay as they are."""
    before = Path("results", "bench.json").read_text()
    (tmp_path / "bench.json").write_text(before)
    row = {"group": "g", "problem": "p", "threads": 1, "solvers": [_solver("jumbot"), _solver("POT")]}
    old = json.loads(before)
    report.write([], [row], old["machine"], "another command", "2030-01-01", tmp_path)
    new = json.loads((tmp_path / "bench.json").read_text())
    assert {key: new[key] for key in ("command", "date", "machine", "gap")} == {
        key: old[key] for key in ("command", "date", "machine", "gap")
    }
    assert new["regimes"] == old["regimes"]
    assert new["everyday"]["rows"] == [row]
    assert new["everyday"]["command"] == "another command"
    assert "another command" in (tmp_path / "bench.md").read_text()
