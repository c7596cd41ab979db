"""POT's calls by our solvers: the same plans, types, logs; its formulas, evaluated correctly; the rest its own."""

from __future__ import annotations

import subprocess
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import jumbot
from jumbot.compat import ot
from jumbot.compat.ot import _pot as _differences
from jumbot.errors import JumbotError, NotConvergedWarning
from tests.refusals import refused

real = pytest.importorskip("ot")
LONG = {"numItermax": 100_000, "stopThr": 1e-12}
CALLS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "emd": ("emd", (), {}),
    "emd2": ("emd2", (), {}),
    "sinkhorn": ("sinkhorn", (0.05,), {}),
    "sinkhorn_log": ("sinkhorn", (0.05,), {"method": "sinkhorn_log"}),
    "sinkhorn2": ("sinkhorn2", (0.05,), {}),
    "unbalanced": ("unbalanced.sinkhorn_unbalanced", (0.05, 1.0), LONG),
    "entropy": ("unbalanced.sinkhorn_unbalanced", (0.05, 1.0), {**LONG, "reg_type": "entropy"}),
    "one-sided": ("unbalanced.sinkhorn_unbalanced", (0.05, (float("inf"), 0.5)), LONG),
    "knopp": ("unbalanced.sinkhorn_knopp_unbalanced", (0.05, 1.0), LONG),
    "unbalanced2": ("sinkhorn_unbalanced2", (0.05, 1.0), LONG),
    "mm": ("unbalanced.mm_unbalanced", (1.0,), {"numItermax": 100_000}),
    "mm2": ("unbalanced.mm_unbalanced2", (1.0,), {"numItermax": 100_000, "returnCost": "total"}),
    "partial": ("partial.partial_wasserstein", (0.5,), {}),
    "partial2": ("partial.partial_wasserstein2", (0.5,), {}),
    "entropic partial": ("partial.entropic_partial_wasserstein", (0.1, 0.5), {}),
}


def function(package, name):
    for part in name.split("."):
        package = getattr(package, part)
    return package


@pytest.fixture
def problem(rng):
    x, y = rng.normal(size=(25, 2)), rng.normal(size=(20, 2)) + 0.5
    cost = real.dist(x, y)
    return rng.dirichlet(np.ones(25)), rng.dirichlet(np.ones(20)), cost / cost.max()


@pytest.mark.parametrize("kind", [np.float64, torch.float64, torch.float32])
@pytest.mark.parametrize("call", CALLS)
def test_the_same_answer_in_the_same_type(call, kind, problem):
    name, more, settings = CALLS[call]
    given = [torch.from_numpy(x).to(kind) for x in problem] if isinstance(kind, torch.dtype) else list(problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        truth = function(real, name)(*problem, *more, **settings)
        theirs = function(real, name)(*given, *more, **settings)
        ours = function(ot, name)(*given, *more, **settings)
    assert isinstance(ours, type(theirs)) or (isinstance(ours, float) and isinstance(theirs, float))
    if isinstance(kind, torch.dtype):
        assert ours.dtype == kind
        assert ours.shape == theirs.shape
    np.testing.assert_allclose(np.asarray(ours), truth, atol=1e-5)


@pytest.mark.parametrize("call", CALLS)
def test_logs_hold_what_pots_hold_and_a_certificate(call, problem):
    name, more, settings = CALLS[call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, theirs = function(real, name)(*problem, *more, log=True, **settings)
        _, ours = function(ot, name)(*problem, *more, log=True, **settings)
    assert set(theirs) <= set(ours)
    assert ours["certificate"].verdict.startswith("within 1e-1")
    for key in set(theirs) - {"err", "G", "niter", "warning", "total_cost", "result_code"}:
        assert np.shape(ours[key]) == np.shape(theirs[key]), key


def test_scalings_of_the_log_make_the_plan(problem):
    a, b, M = problem
    plan, log = ot.sinkhorn(a, b, M, 0.05, log=True)
    np.testing.assert_allclose(log["u"][:, None] * np.exp(-M / 0.05) * log["v"], plan, atol=1e-9)
    plan, log = ot.unbalanced.sinkhorn_unbalanced(a, b, M, 0.05, 1.0, log=True)
    kernel = np.exp(-M / 0.05) * np.outer(a, b)
    np.testing.assert_allclose(np.exp(log["logu"])[:, None] * kernel * np.exp(log["logv"]), plan, atol=1e-9)
    _, log = ot.emd(a, b, M, log=True)
    assert (M - log["u"][:, None] - log["v"]).min() > -1e-9
    assert a @ log["u"] == pytest.approx(b @ log["v"])


@pytest.mark.parametrize("reg_type", ["kl", "entropy"])
def test_the_total_cost_is_the_formula_and_one_warning_says_so(reg_type, problem, monkeypatch):
    a, b, M = problem
    a = 1.3 * a
    monkeypatch.setattr(_differences, "_warned", set())
    with pytest.warns(ot.PeerDifferenceWarning):
        total = ot.sinkhorn_unbalanced2(a, b, M, 0.05, 1.0, returnCost="total", reg_type=reg_type)
    assert _differences._warned == {"total_cost"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ot.sinkhorn_unbalanced2(a, b, M, 0.05, 1.0, returnCost="total", reg_type=reg_type)
    P = ot.sinkhorn_unbalanced(a, b, M, 0.05, 1.0, reg_type=reg_type)

    def kl(p, q):
        return (p * np.log(p / q) - p + q).sum()

    entropy = kl(P, np.outer(a, b)) if reg_type == "kl" else (P * np.log(P) - P).sum()
    expected = (P * M).sum() + 0.05 * entropy + kl(P.sum(1), a) + kl(P.sum(0), b)
    assert total == pytest.approx(expected, rel=1e-6)


def test_the_stabilised_method_solves_the_problem(problem, monkeypatch):
    a, b, M = problem
    monkeypatch.setattr(_differences, "_warned", set())
    with pytest.warns(ot.PeerDifferenceWarning):
        plan = ot.sinkhorn_unbalanced(a, b, M, 0.01, 10.0, method="sinkhorn_stabilized")
    assert _differences._warned == {"stabilised"}
    assert jumbot.certify(M, a, b, plan=plan, epsilon=0.01, tau=10.0).relative_gap < 1e-9


@pytest.mark.parametrize(
    "call",
    [
        lambda *problem: ot.sinkhorn(*problem, 1e-3, numItermax=1),
        lambda *problem: ot.sinkhorn_unbalanced2(*problem, 1e-3, 1.0, numItermax=1),
        lambda a, b, M: ot.solve_sample(M, M, reg=0.1, unbalanced=1.0),
        lambda *problem: ot.sinkhorn_unbalanced(*problem, 0.1, 10.0, method="sinkhorn_stabilized"),
    ],
)
def test_a_warning_points_at_the_line_that_called(call, problem, monkeypatch):
    monkeypatch.setattr(_differences, "_warned", set())
    with pytest.warns((ot.PeerDifferenceWarning, NotConvergedWarning)) as caught:
        call(*problem)
    assert {warning.filename for warning in caught} == {__file__}


def test_what_pot_answers_is_passed_on_as_it_was_called(problem, monkeypatch):
    seen = {}
    answer = SimpleNamespace(mm_unbalanced=lambda *args, **options: seen.update(args=args, options=options))
    real = _differences.pot
    monkeypatch.setattr(_differences, "pot", lambda name="": answer if name == "unbalanced" else real(name))
    ot.unbalanced.mm_unbalanced(*problem, 1.0, div="l2", log=True)
    assert len(seen["args"]) == 4
    assert seen["options"] == {"div": "l2", "log": True}


def test_a_reference_of_ones_own(problem, rng):
    a, b, M = problem
    c = rng.random(M.shape)
    theirs = real.unbalanced.sinkhorn_unbalanced(a, b, M, 0.1, 1.0, c=c, **LONG)
    plan, log = ot.unbalanced.sinkhorn_unbalanced(a, b, M, 0.1, 1.0, c=c, log=True)
    np.testing.assert_allclose(plan, theirs, atol=1e-7)
    kl = [(p * np.log(p / q) - p + q).sum() for p, q in ((plan, c), (plan.sum(1), a), (plan.sum(0), b))]
    assert log["total_cost"] == pytest.approx((plan * M).sum() + 0.1 * kl[0] + kl[1] + kl[2], rel=1e-7)


def test_several_histograms(problem, rng):
    a, _, M = problem
    b = rng.dirichlet(np.ones(20), 3).T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(ot.sinkhorn2(a, b, M, 0.1), real.sinkhorn2(a, b, M, 0.1), atol=1e-7)
        np.testing.assert_allclose(ot.emd2(a, b, M), real.emd2(a, b, M), atol=1e-12)
        ours, theirs = (lib.sinkhorn_unbalanced2(a, b, M, 0.1, 1.0, stopThr=1e-10) for lib in (ot, real))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "more", "settings"),
    [
        ("sinkhorn", (0.1,), {}),
        ("sinkhorn_unbalanced", (0.1, 1.0), {}),
        ("sinkhorn_unbalanced", (0.1, 1.0), {"reg_type": "entropy"}),
        ("sinkhorn_unbalanced", (0.1, (1.0, float("inf"))), {}),
        ("sinkhorn_unbalanced", (0.1, (float("inf"), 0.3)), {}),
    ],
)
def test_gradients_of_the_plan_are_those_of_pots_recorded_sweeps(name, more, settings, problem, rng):
    direction, found = torch.from_numpy(rng.normal(size=problem[2].shape)), []
    for package in (real, ot):
        leaves = [torch.from_numpy(x).clone().requires_grad_() for x in problem]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plan = getattr(package, name)(*leaves, *more, numItermax=5000, stopThr=1e-13, **settings)
        (plan * direction).sum().backward()
        found.append([leaf.grad - (leaf.grad.mean() if name == "sinkhorn" else 0) for leaf in leaves])
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("settings", [{"reg": 0.1}, {"reg": 0.1, "unbalanced": 1.0}, {}])
def test_gradients_of_the_value_are_its_slope(settings, problem, rng):
    a, b, M = (torch.from_numpy(x).clone().requires_grad_() for x in problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ot.solve(M, a, b, **settings).value.backward()
        direction = rng.normal(size=problem[2].shape)
        values = [ot.solve(problem[2] + s * direction, *problem[:2], **settings).value for s in (1e-6, -1e-6)]
    assert float((M.grad.numpy() * direction).sum()) == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4)
    assert a.grad is not None
    assert b.grad is not None


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"reg": 0.1},
        {"reg": 0.1, "reg_type": "entropy"},
        {"unbalanced": 1.0, "max_iter": 100_000},
        {"reg": 0.1, "unbalanced": (1.0, float("inf"))},
        {"reg": 0.1, "unbalanced": 1.0, "reg_type": "entropy"},
    ],
)
def test_solve_returns_pots_result(settings, problem):
    a, b, M = problem
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = (package.solve(M, a, b, **settings) for package in (real, ot))
    assert isinstance(ours, real.utils.OTResult)
    np.testing.assert_allclose(ours.plan, theirs.plan, atol=1e-4)
    assert ours.value_linear == pytest.approx(theirs.value_linear, abs=1e-4)
    if "unbalanced" not in settings or settings.get("reg_type") == "entropy" or "reg" not in settings:
        assert ours.value == pytest.approx(theirs.value, abs=1e-5)
    assert ours.log["certificate"].verdict.startswith("within")
    if theirs.potentials is not None:
        assert ours.potential_a.shape == theirs.potential_a.shape


def test_tv_is_solved(problem, monkeypatch):
    a, b, M = problem
    monkeypatch.setattr(_differences, "_warned", set())
    with pytest.warns(ot.PeerDifferenceWarning):
        ours = ot.solve(M, a, b, unbalanced=0.1, unbalanced_type="TV")
    assert _differences._warned == {"tv"}
    assert ours.value == pytest.approx(float(jumbot.solve(M, a, b, epsilon=0, tau=0.1, divergence="tv").value))


def test_solve_sample_and_batch(problem, rng, monkeypatch):
    x, y = rng.normal(size=(9, 2)), rng.normal(size=(7, 2))
    for settings in ({"reg": 0.5}, {"metric": "euclidean"}):
        theirs, ours = (package.solve_sample(x, y, **settings) for package in (real, ot))
        assert ours.value == pytest.approx(theirs.value, rel=1e-6)
    lazy = ot.solve_sample(x, y, reg=1.0, lazy=True)
    assert lazy.lazy_plan is not None
    M = rng.random((4, 9, 7))
    for reg_type in ("entropy", "kl"):
        theirs, ours = (package.solve_batch(M, reg=0.1, reg_type=reg_type, tol=1e-9) for package in (real, ot))
        np.testing.assert_allclose(ours.plan, theirs.plan, atol=1e-6)
        np.testing.assert_allclose(ours.value, theirs.value, atol=1e-6)
    monkeypatch.setattr(_differences, "_warned", set())
    with pytest.warns(ot.PeerDifferenceWarning):
        exact = ot.solve_batch(M)
    assert _differences._warned == {"exact_batch"}
    uniform = np.full(9, 1 / 9), np.full(7, 1 / 7)
    np.testing.assert_allclose(exact.value, [real.emd2(*uniform, cost) for cost in M], rtol=1e-12)
    leaf = torch.from_numpy(M).requires_grad_()
    ot.solve_batch(leaf, reg=0.1).value.sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), ot.solve_batch(M, reg=0.1).plan, atol=1e-8)


def test_underflow_in_float32_is_none_of_ours(problem):
    a, b, M = (torch.from_numpy(x).float() for x in problem)
    plan = ot.unbalanced.sinkhorn_knopp_unbalanced(a, b, 100 * M, 0.01, 1.0)
    assert plan.dtype == torch.float32
    assert plan.sum() > 0.2
    found = jumbot.certify(100 * M, a, b, plan=plan, epsilon=0.01, tau=1.0)
    assert found.verdict.startswith("within")


def test_everything_else_is_pots(problem):
    a, b, M = problem
    assert ot.gromov is real.gromov
    assert ot.unbalanced.lbfgsb_unbalanced is real.unbalanced.lbfgsb_unbalanced
    assert ot.dist is real.dist
    assert ot.unif is real.unif
    assert "gromov" in dir(ot)
    assert "lbfgsb_unbalanced" in dir(ot.unbalanced)
    from jumbot.compat.ot.unbalanced import mm_unbalanced, sinkhorn_unbalanced

    assert sinkhorn_unbalanced is ot.sinkhorn_unbalanced
    np.testing.assert_allclose(
        mm_unbalanced(a, b, M, 1.0, div="l2"), real.unbalanced.mm_unbalanced(a, b, M, 1.0, div="l2")
    )
    with pytest.raises(AttributeError):
        ot.nothing_of_that_name  # noqa: B018
    integers = np.array([1, 1]), np.array([1, 1]), np.array([[0, 1], [1, 0]])
    with pytest.warns(UserWarning, match="integer"):
        assert ot.emd(*integers).dtype == integers[0].dtype


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("a, b", lambda a, b, M: ot.emd(2 * a, b, M)),
        ("a, b", lambda a, b, M: ot.sinkhorn(2 * a, b, M, 0.1)),
        ("a", lambda a, b, M: ot.emd(a[1:], b, M)),
        ("M", lambda a, b, M: ot.emd(a, b, M[0])),
        ("method", lambda a, b, M: ot.sinkhorn(a, b, M, 0.1, method="sinkhron")),
        ("method", lambda a, b, M: ot.sinkhorn_unbalanced(a, b, M, 0.1, 1.0, method="x")),
        ("reg_type", lambda a, b, M: ot.sinkhorn_unbalanced(a, b, M, 0.1, 1.0, reg_type="x")),
        ("returnCost", lambda a, b, M: ot.sinkhorn_unbalanced2(a, b, M, 0.1, 1.0, returnCost="x")),
        ("reg", lambda a, b, M: ot.sinkhorn(a, b, M, -1)),
        ("reg", lambda a, b, M: ot.sinkhorn(a, b, M, 0)),
        ("reg", lambda a, b, M: ot.sinkhorn_unbalanced(a, b, M, 0, 1.0)),
        ("reg", lambda a, b, M: ot.partial.entropic_partial_wasserstein(a, b, M, 0, m=0.5)),
        ("method", lambda a, b, M: ot.sinkhorn2(a, b, M, 0.1, method="greenkhorn")),
        ("stopThr", lambda a, b, M: ot.sinkhorn(a, b, M, 1.0, stopThr=-1)),
        ("numItermax", lambda a, b, M: ot.sinkhorn(a, b, M, 1.0, numItermax=0)),
        ("m", lambda a, b, M: ot.partial.partial_wasserstein(a, b, M, m=2.0)),
        ("m", lambda a, b, M: ot.partial.entropic_partial_wasserstein(a, b, M, 0.1, m=-1.0)),
        ("cost", lambda a, b, M: ot.emd(a, b, M * np.nan)),
    ],
)
def test_bad_input_is_refused_by_name(argument, call, problem):
    with refused(rf"^{argument}\b"):
        call(*problem)


def test_masses_that_differ_are_what_pot_raises(problem):
    a, b, M = problem
    with pytest.raises(AssertionError):
        ot.emd(2 * a, b, M)
    with pytest.raises(JumbotError):
        ot.emd(2 * a, b, M)
    np.testing.assert_allclose(ot.emd(2 * a, b, M, check_marginals=False).sum(0), 2 * b)


def test_stopping_early_warns(problem):
    with pytest.warns(jumbot.NotConvergedWarning):
        ot.sinkhorn(*problem, 1e-3, numItermax=1)


def test_import_loads_neither_pot_nor_others():
    code = (
        "import sys, jumbot.compat.ot, jumbot.compat.geomloss, jumbot.compat.torchcfm\n"
        "print(sorted({'ot', 'geomloss', 'torchcfm', 'sklearn', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
