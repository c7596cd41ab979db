"""A word of another library, or a near one, is answered with the word that is meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jumbot
from jumbot.cli import main

X = np.random.default_rng(0).normal(size=(12, 2))
Y = np.arange(12) % 2


@pytest.mark.parametrize(
    ("option", "meant"), [("labels", "label"), ("reg", "epsilon"), ("lr", "learning_rate"), ("taau", "tau")]
)
def test_options_of_a_run(option: str, meant: str) -> None:
    with pytest.raises(jumbot.JumbotError, match=f"^{option}: .*did you mean '{meant}'"):
        jumbot.adapt((X, Y), X, **{option: 0.1})


@pytest.mark.parametrize(("option", "meant"), [("reg", "epsilon"), ("reg_m", "tau"), ("epsilom", "epsilon")])
def test_keywords_of_functions(option: str, meant: str) -> None:
    given = {"epsilon": 0.1} | {option: 0.1}
    for call in (
        lambda: jumbot.solve(np.eye(2), **given),
        lambda: jumbot.sinkhorn_divergence(X, X, **given),
        lambda: jumbot.estimate(X, X, m=4, k=2, **given),
        lambda: jumbot.gradient_flow(X, X, m=4, steps=1, learning_rate=0.1, **given),
        lambda: jumbot.couple(X, X, **given),
        lambda: jumbot.solve_sample(X, X, **given),
        lambda: jumbot.certify(np.eye(2), **given),
        lambda: jumbot.JointTransportLoss(1.0, 1.0, 1.0, **given),
    ):
        with pytest.raises(TypeError, match=f"'{option}'.*'{meant}'"):
            call()


@pytest.mark.parametrize(
    ("call", "settings"),
    [
        (lambda x, y, **settings: jumbot.solve(x @ y.T, **settings), {"max_iterations": 1}),
        (jumbot.sinkhorn_divergence, {"max_iterations": 1}),
        (jumbot.solve_sample, {"max_iterations": 1}),
    ],
    ids=["solve", "sinkhorn_divergence", "solve_sample"],
)
def test_a_warning_points_at_the_call(call: Callable[..., Any], settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    with pytest.warns(jumbot.NotConvergedWarning) as warned:
        call(rng.random((9, 2)), rng.random((9, 2)), epsilon=1e-3, tau=1.0, **settings)
    assert {warning.filename for warning in warned} == {__file__}


def test_without_reg_and_with_errors_of_the_work() -> None:
    with pytest.raises(TypeError, match=r"'zzz'$"):
        jumbot.solve(np.eye(2), epsilon=0.1, zzz=1)

    def failing(x, y):
        raise TypeError("of the work")

    with pytest.raises(TypeError, match=r"^of the work$"):
        jumbot.estimate(X, X, m=4, k=2, epsilon=0.1, cost=failing)


def test_shift_and_the_commands_know_other_names(capsys) -> None:
    with pytest.raises(jumbot.ArgumentError, match=r"^labels: .*'label'"):
        jumbot.shift(X, X, labels="y")
    with pytest.raises(jumbot.ArgumentError, match=r"^reg: .*'epsilon'"):
        jumbot.CoupledLoader([], [], reg=0.1)
    for option, meant in (
        ("--reg", "--epsilon"),
        ("--labels", "--label"),
        ("--reg_m", "--tau"),
        ("--lr", "--learning-rate"),
    ):
        assert main(["adapt", "a.csv", "b.csv", option, "1"]) == 2
        assert f"{option} is not an option; did you mean {meant}?" in capsys.readouterr().err


def test_the_command_names_its_own_option(tmp_path, capsys) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.png").write_bytes(b"no picture")
    assert main(["adapt", str(tmp_path), str(tmp_path), "--out", str(tmp_path / "run")]) == 2
    assert "--corrupt skip" in capsys.readouterr().err
