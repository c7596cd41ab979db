"""The kernel matrix K = e^{F0 + G0 - C/epsilon} of one problem and the passes over it, compiled.

K has its row and column maxima at one, and entries below e^-CUT are dropped.  A pass over it is exact to
e^(SPREAD - CUT) while the log-scalings of the other side spread by at most SPREAD; where they spread further K is built
anew around the current potentials.  All is in units of epsilon: F = f/epsilon.
"""

from __future__ import annotations

from typing import Any

from jumbot.transport.compiled.vectormath import compiled, exp

CUT = 400.0
SPREAD = 250.0


@compiled(fastmath=True, internal=True)
def row_sums(K: Any, w: Any, s: Any) -> None:
    n, m = K.shape
    blocked = n // 4 * 4
    for i in range(0, blocked, 4):
        s0 = s1 = s2 = s3 = 0.0
        for j in range(m):
            s0 += K[i, j] * w[j]
            s1 += K[i + 1, j] * w[j]
            s2 += K[i + 2, j] * w[j]
            s3 += K[i + 3, j] * w[j]
        s[i], s[i + 1], s[i + 2], s[i + 3] = s0, s1, s2, s3
    for i in range(blocked, n):
        total = 0.0
        for j in range(m):
            total += K[i, j] * w[j]
        s[i] = total


@compiled(fastmath=True)
def add_columns(K: Any, w: Any, t: Any) -> None:
    """t += K' w."""
    n, m = K.shape
    blocked = n // 8 * 8
    for i in range(0, blocked, 8):
        w0, w1, w2, w3 = w[i], w[i + 1], w[i + 2], w[i + 3]
        w4, w5, w6, w7 = w[i + 4], w[i + 5], w[i + 6], w[i + 7]
        for j in range(m):
            t[j] += (w0 * K[i, j] + w1 * K[i + 1, j] + w2 * K[i + 2, j] + w3 * K[i + 3, j]) + (
                w4 * K[i + 4, j] + w5 * K[i + 5, j] + w6 * K[i + 6, j] + w7 * K[i + 7, j]
            )
    for i in range(blocked, n):
        wi = w[i]
        for j in range(m):
            t[j] += wi * K[i, j]


@compiled(internal=True)
def column_sums(K: Any, w: Any, t: Any) -> None:
    t[:] = 0.0
    add_columns(K, w, t)


@compiled(fastmath=True)
def row_minima(C: Any, scale: float, G: Any, skip: Any, out: Any) -> None:
    n, m = C.shape
    blocked = m // 8 * 8
    for i in range(n):  # a minimum is not vectorised across a row, but eight running ones are
        m0 = m1 = m2 = m3 = m4 = m5 = m6 = m7 = 1e300
        for j in range(0, blocked, 8):
            m0 = min(m0, C[i, j] * scale - G[j] + skip[j])
            m1 = min(m1, C[i, j + 1] * scale - G[j + 1] + skip[j + 1])
            m2 = min(m2, C[i, j + 2] * scale - G[j + 2] + skip[j + 2])
            m3 = min(m3, C[i, j + 3] * scale - G[j + 3] + skip[j + 3])
            m4 = min(m4, C[i, j + 4] * scale - G[j + 4] + skip[j + 4])
            m5 = min(m5, C[i, j + 5] * scale - G[j + 5] + skip[j + 5])
            m6 = min(m6, C[i, j + 6] * scale - G[j + 6] + skip[j + 6])
            m7 = min(m7, C[i, j + 7] * scale - G[j + 7] + skip[j + 7])
        least = min(min(min(m0, m1), min(m2, m3)), min(min(m4, m5), min(m6, m7)))
        for j in range(blocked, m):
            least = min(least, C[i, j] * scale - G[j] + skip[j])
        out[i] = least


@compiled(fastmath=True)
def lower_column_minima(C: Any, scale: float, F: Any, skip: Any, out: Any) -> None:
    n, m = C.shape
    for i in range(n):
        shift = skip[i] - F[i]
        for j in range(m):
            out[j] = min(out[j], C[i, j] * scale + shift)


@compiled(fastmath=True)
def column_minima(C: Any, scale: float, F: Any, skip: Any, out: Any) -> None:
    out[:] = 1e300
    lower_column_minima(C, scale, F, skip, out)


@compiled()
def minima(C: Any, scale: float, G: Any, skip_a: Any, skip_b: Any, F0: Any, G0: Any) -> None:
    """Row minima F0, then column minima G0 at F0, reading C once: eight rows stay in the cache in between."""
    n = C.shape[0]
    G0[:] = 1e300
    for i in range(0, n, 8):
        j = min(i + 8, n)
        row_minima(C[i:j], scale, G, skip_b, F0[i:j])
        lower_column_minima(C[i:j], scale, F0[i:j], skip_a[i:j], G0)


@compiled(internal=True)
def _kernel_row(C: Any, scale: float, shift: float, G: Any, cut: float, K: Any) -> None:
    for j in range(C.shape[0]):
        x = min(shift + G[j] - C[j] * scale, 0.0)
        K[j] = exp(x) if x > -cut else 0.0


@compiled()
def fill(C: Any, scale: float, F: Any, G: Any, cut: float, K: Any) -> None:
    for i in range(C.shape[0]):
        _kernel_row(C[i], scale, F[i], G, cut, K[i])


@compiled(internal=True)
def build(
    C: Any, scale: float, F: Any, G: Any, skip_a: Any, skip_b: Any, rows_first: bool, F0: Any, G0: Any, K: Any
) -> None:
    """K around F0, G0 whose row and column maxima are one: made for a pass over rows at G, or over columns at F."""
    if rows_first:
        row_minima(C, scale, G, skip_b, F0)
        column_minima(C, scale, F0, skip_a, G0)
    else:
        column_minima(C, scale, F, skip_a, G0)
        row_minima(C, scale, G0, skip_b, F0)
    fill(C, scale, F0, G0, CUT, K)


@compiled()
def spread(x: Any, r: Any) -> float:
    low, high = 1e300, -1e300
    for i in range(x.shape[0]):
        v = x[i]
        low = min(low, v if r[i] > 0.0 else 1e300)
        high = max(high, v if r[i] > 0.0 else -1e300)
    return high - low


@compiled()
def scalings(r: Any, log_scaling: Any, out: Any) -> float:
    """out = r e^{log_scaling - top}; returns top."""
    top = -1e300
    for i in range(r.shape[0]):
        top = max(top, log_scaling[i] if r[i] > 0.0 else -1e300)
    for i in range(r.shape[0]):
        x = min(log_scaling[i] - top, 0.0)
        out[i] = r[i] * exp(x) if x > -SPREAD * 2 else 0.0
    return top


@compiled(internal=True)
def _plan_row(C: Any, scale: float, shift: float, weight: float, r_b: Any, G: Any, P: Any) -> None:
    for j in range(C.shape[0]):
        x = min(shift + G[j] - C[j] * scale, 700.0)
        P[j] = weight * r_b[j] * exp(x) if x > -650.0 else 0.0


@compiled(fastmath=True, internal=True)
def _plan_sums(P: Any, C: Any, columns: Any) -> tuple[float, float, float]:
    """Mass, <C, P> and <|C|, P> of a row, which is added to `columns`, in one loop: long rows leave the cache."""
    mass = linear = size = 0.0
    for j in range(P.shape[0]):
        p = P[j]
        columns[j] += p
        mass += p
        linear += p * C[j]
        size += p * abs(C[j])
    return mass, linear, size


@compiled()
def write_plan(
    C: Any, scale: float, r_a: Any, r_b: Any, F: Any, G: Any, P: Any, rows: Any, columns: Any
) -> tuple[float, float]:  # fmt: skip
    """P = R e^{F + G - C/epsilon} with its marginals; returns <C, P> and <|C|, P>."""
    columns[:] = 0.0
    linear = size = 0.0
    for i in range(C.shape[0]):
        _plan_row(C[i], scale, F[i], r_a[i], r_b, G, P[i])
        rows[i], row_linear, row_size = _plan_sums(P[i], C[i], columns)
        linear += row_linear
        size += row_size
    return linear, size


@compiled(fastmath=True)
def scale_to_plan(K: Any, u: Any, v: Any, C: Any, rows: Any, columns: Any) -> tuple[float, float]:
    """K becomes P = u K v, as `write_plan` without its exponentials, a sixth of the time."""
    n, m = K.shape
    columns[:] = 0.0
    linear = size = 0.0
    for i in range(n):
        for j in range(m):
            K[i, j] = u[i] * K[i, j] * v[j]
            columns[j] += K[i, j]
        mass = 0.0
        for j in range(m):
            p = K[i, j]
            mass += p
            linear += p * C[i, j]
            size += p * abs(C[i, j])
        rows[i] = mass
    return linear, size
