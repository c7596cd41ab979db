"""First layers that learn from the source: against formulas in numpy, in any unit, and as part of a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import jumbot
from jumbot._settings.training import NetworkOptions
from jumbot.adaptation._networks.build import make_network
from jumbot.adaptation._networks.stems import Directions, Pieces, Statistics, number_columns, soft_clip
from jumbot.data import as_domain
from tests.refusals import refused


@pytest.fixture
def rows() -> torch.Tensor:
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=200), rng.lognormal(size=200) ** 3, rng.integers(0, 2, 200), np.full(200, 5.0)]
    return torch.from_numpy(np.stack(columns, 1))


def learned(rows: torch.Tensor, bins: int = 6, blanks: bool = False) -> Pieces:
    stem = Pieces(rows.shape[1], number_columns(rows), bins, blanks).double()
    stem.learn(rows)
    return stem.eval()


def test_clipping_is_smooth_odd_and_bounded() -> None:
    x = torch.linspace(-50, 50, 1001, dtype=torch.float64)
    torch.testing.assert_close(soft_clip(x), x / torch.sqrt(1 + (x / 3) ** 2))
    assert float(soft_clip(x).abs().max()) < 3
    assert bool((soft_clip(x).diff() > 0).all())


def test_pieces_against_numpy(rows: torch.Tensor) -> None:
    assert number_columns(rows) == (0, 1)  # neither the switch nor the constant
    found = learned(rows)(rows).numpy()
    x = rows.numpy()
    low, middle, high = np.quantile(x, (0.25, 0.5, 0.75), axis=0)
    spread = np.array([high[0] - low[0], high[1] - low[1], high[2] - low[2] or 0.5, np.inf])
    scaled = (x - middle) / spread
    np.testing.assert_allclose(found[:, :4], scaled / np.sqrt(1 + (scaled / 3) ** 2), rtol=1e-12, atol=1e-12)
    for place in (0, 1):
        edges = np.quantile(x[:, place], np.linspace(0, 1, 7))
        codes = np.stack([np.interp(x[:, place], edges[i : i + 2], (0.0, 1.0)) for i in range(6)], 1)
        np.testing.assert_allclose(found[:, 4 + 6 * place : 10 + 6 * place], codes - codes.mean(0), atol=1e-12)


@pytest.mark.parametrize("factor", [1e-6, -3.0, 1e6])
def test_units_play_no_part(rows: torch.Tensor, factor: float) -> None:
    other = factor * rows + 7 * abs(factor)
    plain, moved = learned(rows)(rows), learned(other)(other)
    scaled = slice(0, 4)
    torch.testing.assert_close(moved[:, scaled], (1.0 if factor > 0 else -1.0) * plain[:, scaled], rtol=1e-6, atol=1e-6)
    if factor > 0:
        torch.testing.assert_close(moved, plain, rtol=1e-6, atol=1e-6)


def test_what_is_far_off_moves_little(rows: torch.Tensor) -> None:
    stem = learned(rows)
    far, farther = rows[:1].clone(), rows[:1].clone()
    far[0, 0], farther[0, 0] = 1e3, 1e9
    assert float((stem(far) - stem(farther)).abs().max()) < 1e-3
    later = rows[:1].clone()
    later[0, 3] = 6.0  # constant on the source
    torch.testing.assert_close(stem(later), stem(rows[:1]))


def test_values_that_repeat_make_fewer_pieces() -> None:
    x = torch.tensor([0.0] * 90 + [1.0] * 5 + [2.0] * 5, dtype=torch.float64)[:, None]
    found = learned(x, bins=8)(x)
    assert bool(torch.isfinite(found).all())
    assert len(found[:, 1:].unique(dim=0)) == 3


def test_inputs_are_left_out_in_training_alone_and_less_with_more_rows(rows: torch.Tensor) -> None:
    few, many = learned(rows, blanks=True), learned(rows.repeat(20, 1), blanks=True)
    assert (few.share, many.share) == (0.3, 0.02)
    torch.testing.assert_close(few(rows), learned(rows)(rows))
    out = few.train()(rows)
    assert 0.25 < float((out == 0).double().mean() - (few.eval()(rows) == 0).double().mean()) < 0.35


def test_many_numbers_are_not_cut(rows: torch.Tensor) -> None:
    wide = torch.randn(30, 65)
    assert number_columns(wide) == ()
    assert len(number_columns(wide[:, :64])) == 64


def test_directions_are_those_of_numpy() -> None:
    rng = np.random.default_rng(1)
    counts = rng.poisson(0.4, (60, 4)) @ rng.integers(0, 3, (4, 80))
    stem = Directions(80, 10).double()
    stem.learn(torch.from_numpy(counts.astype(np.float64)))
    unit = np.log1p(counts) / np.maximum(np.linalg.norm(np.log1p(counts), axis=1, keepdims=True), 1e-12)
    u, s, _ = np.linalg.svd(unit - unit.mean(0), full_matrices=False)
    found = stem(torch.from_numpy(counts.astype(np.float64))).numpy()
    expected = (u * s)[:, :10]
    ratio = found @ found.T / np.maximum(np.abs(expected @ expected.T), 1e-9) * np.sign(expected @ expected.T)
    strong = np.abs(expected @ expected.T) > 0.05
    np.testing.assert_allclose(ratio[strong], ratio[strong].mean(), rtol=0.05)
    assert np.sqrt(found.var(0).sum()) == pytest.approx(10 * np.sqrt(266 / 2304), rel=1e-6)


def test_statistics_against_numpy() -> None:
    x = np.random.default_rng(2).normal(size=(5, 2, 16)) * 3 + 1
    stem = Statistics(2, 16).double()
    found = stem.measure(torch.from_numpy(x)).numpy().reshape(5, 2, 12)
    spectrum = np.abs(np.fft.rfft(x - x.mean(-1, keepdims=True))) / 4
    np.testing.assert_allclose(found[..., 0], x.mean(-1))
    np.testing.assert_allclose(found[..., 1], x.std(-1))
    np.testing.assert_allclose(found[..., 2:4], np.stack([x.min(-1), x.max(-1)], -1))
    np.testing.assert_allclose(found[..., 4:], np.log(spectrum[..., 1:] + 0.01))
    mirrored = stem.measure(torch.from_numpy(-x)).numpy().reshape(5, 2, 12)
    np.testing.assert_allclose(mirrored[..., 4:], found[..., 4:], atol=1e-12)
    later = np.roll(x, 5, axis=-1)
    np.testing.assert_allclose(stem.measure(torch.from_numpy(later)).numpy().reshape(5, 2, 12), found, atol=1e-9)


def test_long_signals_have_bands() -> None:
    x = torch.randn(2, 3, 300, dtype=torch.float64)
    amplitude = torch.fft.rfft(x - x.mean(-1, keepdim=True), norm="ortho").abs()[..., 1:]
    bands = torch.nn.functional.adaptive_avg_pool1d(amplitude, 64)
    found = Statistics(3, 300).double().measure(x).reshape(2, 3, 68)[..., 4:]
    torch.testing.assert_close(found, torch.log(bands + 0.01))
    assert Statistics(3, 4096).width == 3 * 68
    assert Statistics(3, 4096)(torch.randn(2, 3, 4096)).shape == (2, 204)


def test_a_source_is_needed() -> None:
    with refused("source"):
        make_network(NetworkOptions(bins=4), (3,), 2)
    with refused("rank"):
        NetworkOptions(bins=4, rank=4)
    network, spec = make_network(NetworkOptions(bins=4), (3,), 2, source=as_domain(np.linspace(0, 1, 27).reshape(9, 3)))
    assert spec.numbers == (0, 1, 2)
    assert not network.backbone[0].middle.requires_grad


def _data(kind: str) -> tuple[Any, np.ndarray, dict[str, Any]]:
    rng = np.random.default_rng(3)
    y = np.arange(60) % 2
    if kind == "signal":
        return rng.normal(size=(60, 2, 32)) * (1 + 2 * y[:, None, None]), y, {"kind": "signal", "source_steps": 5}
    if kind == "words":
        return rng.poisson(0.05 + 0.2 * y[:, None] * (np.arange(300) < 20), (60, 300)).astype(float), y, {}
    return rng.lognormal(size=(60, 4)) + y[:, None], y, {}


@pytest.mark.parametrize("kind", ["measurements", "words", "signal"])
def test_what_was_learned_is_in_the_file(kind: str, tmp_path: Path) -> None:
    X, y, how = _data(kind)
    model = jumbot.adapt((X, y), X, steps=5, **how)
    again = jumbot.load(model.save(tmp_path))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert model.spec == again.spec
    tensors = {name for name in model.network.state_dict() if name.startswith("backbone.0.")}
    assert tensors  # the first layer


def test_wide_rows_are_explained_after_training_as_during_it(tmp_path: Path) -> None:
    """New rows come with all their columns, those that were trained on along their directions."""
    X, y, _ = _data("words")
    model = jumbot.adapt((X, y), 2 * X, method="jumbot", steps=5, seed=7, judge=False)
    assert model.nearness is not None
    assert model.nearness.centres.shape[1] == 60  # as many directions as samples, of 300 columns
    again = jumbot.load(model.save(tmp_path / "model"))
    during, after = (
        rows.write_predictions(2 * X, tmp_path / f"{name}.csv") for name, rows in (("one", model), ("two", again))
    )
    assert during is not None
    assert after is not None
    assert during.read_bytes() == after.read_bytes()
    regressor = jumbot.DomainAdaptationRegressor(method="source-only", steps=5, random_state=7)
    found = regressor.fit(X, y + np.linspace(0, 1, 60), X_target=2 * X)
    assert found.diagnosis_.received_mass.shape == (60,)


@pytest.mark.parametrize("kind", ["measurements", "words"])
def test_adapt_and_the_estimator_are_one_model(kind: str) -> None:
    X, y, _ = _data(kind)
    model = jumbot.adapt((X, y), 1.2 * X, method="jumbot", steps=30, seed=7)
    clf = jumbot.DomainAdaptationClassifier(method="jumbot", steps=30, random_state=7, baseline=False)
    clf.fit(X, y, X_target=1.2 * X)
    assert (clf.predict(1.2 * X) == model.predict(1.2 * X)).all()
    np.testing.assert_allclose(clf.transform(X), model.transform(X), rtol=0.05, atol=0.05)


def test_predictors_of_numbers_do_not_cut_what_has_moved(rng: np.random.Generator) -> None:
    """A column that moved by .2 deviations is cut, one that moved by .5 is not; classifiers cut both."""
    X = rng.normal(size=(2000, 3)).astype(np.float32)
    there = as_domain(rng.normal(size=(2000, 3)).astype(np.float32) + np.array([0.0, 0.2, 0.5], np.float32))
    options = NetworkOptions(bins=4)
    numbers = as_domain(X, X[:, 0] + 0.5, task="regression")
    classes = as_domain(X, (X[:, 0] > 0).astype(int))
    for source, target, cut in ((numbers, there, (0, 1)), (numbers, None, (0, 1, 2)), (classes, there, (0, 1, 2))):
        assert make_network(options, (3,), 1, source=source, target=target)[1].numbers == cut


def test_labelled_target_samples_widen_the_first_layer(rng: np.random.Generator) -> None:
    """Samples far beyond the source's range are told apart where some of them were learned from, and not otherwise."""
    source = as_domain(rng.normal(size=(50, 1)), np.arange(50) % 2)
    labelled = as_domain(40 + 3 * rng.normal(size=(50, 1)), np.arange(50) % 2)
    far = torch.tensor([[38.0], [42.0]])
    alone, both = (
        make_network(NetworkOptions(bins=8), (1,), 2, source=source, labelled=more)[0].backbone[0](far)
        for more in (None, labelled)
    )
    assert float((alone[0] - alone[1]).abs().max()) < 0.02
    assert float((both[0] - both[1]).abs().max()) > 0.5
