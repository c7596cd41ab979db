"""A gradient beside finite differences, at kinks as well."""

from __future__ import annotations

from collections.abc import Callable

ROOM = 1e-4  # of the size of the slope: what differences of certified values can tell


def compare(slope: float, size: float, value: Callable[[float], tuple[float, float]], h: float) -> list[str]:
    """The slope of `value(t) = (value, error)` at t = 0 must lie between the differences to the left and to the right.

    Where the function is smooth both are the slope but for the curvature; at a kink they bracket what may be returned.
    `size` is that of the terms which add up to the slope.
    """
    (left, e_left), (here, e_here), (right, e_right) = (value(t) for t in (-h, 0.0, h))
    below, above = sorted(((here - left) / h, (right - here) / h))
    room = 0.5 * (above - below) + ROOM * size + (e_left + e_here + e_right) / h
    if below - room <= slope <= above + room:
        return []
    return [f"slope {slope:.6g}, differences {below:.6g} and {above:.6g} (size {size:.3g}, room {room:.1g})"]


def compare_forward(slope: float, size: float, value: Callable[[float], tuple[float, float]], h: float) -> list[str]:
    """The same to the right alone, for a weight at zero."""
    (here, e_here), (half, e_half), (full, e_full) = (value(t) for t in (0.0, 0.5 * h, h))
    near, far = 2 * (half - here) / h, (full - here) / h
    # where the error goes like the root of the step, that of `near` is 1 / (sqrt(2) - 1) times their difference
    room = 3 * abs(near - far) + ROOM * size + 4 * (e_here + e_half + e_full) / h
    if abs(slope - near) <= room or abs(near - far) > 0.05 * abs(near):  # too curved to tell
        return []
    return [f"slope {slope:.6g}, differences {near:.6g} and {far:.6g} to the right (size {size:.3g}, room {room:.1g})"]
