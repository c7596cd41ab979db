"""Inputs are never written to, whatever their layout; an answer does not depend on what becomes of them later."""

import numpy as np
import pytest
import torch

import jumbot

from .calls import CALLS, SCALARS, as_array, changes, copied

NAMES = [name for name, call in CALLS.items() if not call.large] + ["large kl, numpy", "large divergence, torch"]


def _transposed(x, folder):
    return np.ascontiguousarray(x.swapaxes(0, -1)).swapaxes(0, -1)


def _strided(x, folder):
    wide = np.full((*x.shape[:-1], 2 * x.shape[-1]), np.nan, x.dtype)
    wide[..., ::2] = x
    return wide[..., ::2]


def _backwards(x, folder):
    return x[..., ::-1].copy()[..., ::-1]


def _read_only(x, folder):
    x = x.copy()
    x.flags.writeable = False
    return x


def _mapped(x, folder):
    path = folder / f"{len(list(folder.iterdir()))}.npy"
    np.save(path, x)
    return np.load(path, mmap_mode="r")


def _expanded(x, folder):
    """Without memory of its own, should all of its rows be equal."""
    return np.broadcast_to(x, x.shape)


def _tensor(x):
    return torch.from_numpy(x)


def _requiring(x):
    return torch.from_numpy(x.copy()).requires_grad_()


LAYOUTS = {f.__name__[1:]: f for f in (_transposed, _strided, _backwards, _read_only, _mapped, _expanded)}


def _laid_out():
    """Every call with every layout; they take turns in coming first, which is what the quick run tries of each call."""
    for place, name in enumerate(NAMES):
        kinds = ["transposed", "strided", "requires grad"] if CALLS[name].torch else [*LAYOUTS]
        for at in range(len(kinds)):
            yield name, kinds[(place + at) % len(kinds)]


@pytest.mark.parametrize(("name", "kind"), list(_laid_out()))
def test_inputs_of_any_layout_stay_as_they_are(name, kind, tmp_path):
    call, lay = CALLS[name], LAYOUTS.get(kind)
    plain = call.make(np.random.default_rng(0))
    expected = copied(call(0))
    held = [x.copy() if lay is None else lay(x, tmp_path) for x in plain]
    given = held if not call.torch else [_requiring(x) if lay is None else _tensor(x) for x in held]
    found = call.run(*given)
    assert not [k for k, x in copied(found).items() if not np.allclose(x, expected[k], rtol=1e-9, atol=1e-12)]
    for x, y in zip(plain, given, strict=True):
        np.testing.assert_array_equal(x, as_array(y))


@pytest.mark.parametrize("name", NAMES)
def test_inputs_written_to_later_do_not_reach_into_results(name):
    call = CALLS[name]
    arrays = call.arrays(0)
    found = call.run(*arrays)
    before = copied(found)
    for x in arrays:
        x[...] = 0.5 * x + 0.1
    assert not changes(before, found)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_points_handed_to_a_callback_stay(library):
    """The flow moves on in memory of its own."""
    found = CALLS[f"flow, {library}"](0)
    for step, snapshot in ((1, 1), (3, 2)):
        np.testing.assert_array_equal(as_array(found["seen"][step - 1]), as_array(found["snapshots"][snapshot]))


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_a_solution_read_late_is_that_of_the_inputs_as_they_were(library, epsilon):
    """Properties are made when they are read; weights in float64 are not converted, so they must be copied."""
    call = CALLS[f"kl, {library}"]
    arrays, same = call.arrays(0), call.arrays(0)
    late, early = (jumbot.solve(*x, epsilon=epsilon, tau=1.0) for x in (arrays, same))
    expected = {name: as_array(getattr(early, name)) for name in ("plan", *SCALARS)}
    for x in arrays:
        x[...] = 0.5 * x + 0.1
    for name, value in expected.items():
        np.testing.assert_array_equal(as_array(getattr(late, name)), value, err_msg=name)


def test_gradients_after_weights_were_written_to():
    call = CALLS["kl, torch"]
    expected = torch.autograd.grad(*_value_and_inputs(call.arrays(0)))
    value, inputs = _value_and_inputs(call.arrays(0))
    with torch.no_grad():
        inputs[1].mul_(0.5)
    for x, y in zip(torch.autograd.grad(value, inputs), expected, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=0)


def test_gradients_after_the_cost_was_written_to():
    """That in the weights reads the cost again: torch refuses it, as it does for its own functions."""
    value, inputs = _value_and_inputs(CALLS["kl, torch"].arrays(0))
    with torch.no_grad():
        inputs[0].mul_(0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(value, inputs[1])


def _value_and_inputs(arrays):
    inputs = [x.requires_grad_() for x in arrays]
    return jumbot.solve(*inputs, epsilon=0.1, tau=1.0).value, inputs
