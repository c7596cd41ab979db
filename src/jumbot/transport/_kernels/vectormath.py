"""exp, log, the series of KL, the lesser and the greater of two numbers, such that LLVM can vectorise them.

numba compiles `math.exp` to a scalar library call, ten times slower in a loop than what the processor can do.
These are branch-free polynomials, accurate to two units in the last place on the ranges that the kernels use.

`min` and `max` become a choice without flags of fast arithmetic, and a loop that ends in the least of many numbers is
then not vectorised, nor is anything else in it: four times slower.  `lesser` and `greater` are for such loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from jumbot.transport import _kl_series
from jumbot.transport._kernels.decorator import compiled


@intrinsic
def _bits(typing: Any, x: Any) -> Any:
    return types.int64(types.float64), lambda context, builder, sig, args: builder.bitcast(args[0], ir.IntType(64))


@intrinsic
def _from_bits(typing: Any, x: Any) -> Any:
    return types.float64(types.int64), lambda context, builder, sig, args: builder.bitcast(args[0], ir.DoubleType())


@intrinsic
def _times_power_of_two(typing: Any, p: Any, z: Any) -> Any:
    """The float32 `p` times two to the integer that the low bits of the float64 `z` hold."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        p, z = arguments
        bits = ir.IntType(32)
        exponent = builder.shl(builder.trunc(builder.bitcast(z, ir.IntType(64)), bits), bits(23))
        return builder.bitcast(builder.add(builder.bitcast(p, bits), exponent), ir.FloatType())

    return types.float32(types.float32, types.float64), build


def _extremum(name: str) -> Any:
    """The intrinsic of that name in LLVM, of two floats; which of them is returned beside a NaN is not known."""

    @intrinsic
    def extremum(typing: Any, x: Any, y: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = arguments[0].type
            called = builder.module.declare_intrinsic(name, [kind], ir.FunctionType(kind, [kind, kind]))
            return builder.call(called, arguments)

        return x(x, x), build

    return extremum


lesser, greater = _extremum("llvm.minnum"), _extremum("llvm.maxnum")

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer, held in the low bits
_SQRT_HALF = 0x3FE6A09E667F3BCD
#: 1 + r + _E2 r^2 + ... is e^r to 2.9e-16 where |r| <= log(2)/2, the best with ten powers; the series takes twelve.
_E2, _E3, _E4 = 0.49999999999998324, 0.16666666666611551, 0.04166666666813645
_E5, _E6, _E7 = 0.00833333337087146, 0.0013888888516237433, 0.00019841185234050285
_E8, _E9, _E10 = 2.480193170223465e-05, 2.7634991835491154e-06, 2.7476805003365377e-07


@compiled()
def exp(x: float) -> float:
    """e^x for x in [-708, 708]; smaller x give e^-708."""
    x = max(x, -708.0)
    z = x * _LOG2_E + _ROUND
    k = z - _ROUND
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = _E10
    p = p * r + _E9
    p = p * r + _E8
    p = p * r + _E7
    p = p * r + _E6
    p = p * r + _E5
    p = p * r + _E4
    p = p * r + _E3
    p = p * r + _E2
    p = p * r + 1.0
    p = p * r + 1.0
    return _from_bits(_bits(p) + (_bits(z) << 52))  # type: ignore[call-arg]


_LN2 = 0.6931471805599453
_ONE, _HALF, _C3, _C4, _C5, _C6, _C7 = (np.float32(1 / k) for k in (1, 2, 6, 24, 120, 720, 5040))


@compiled()
def exp_single(x: float) -> np.float32:
    """e^x in float32 for x in [-87, 88], to its last bit or two; smaller x give e^-87.

    What is left of x after the power of two is found in float64: in float32 an x of -50 is known to 4e-6 only.
    """
    x = max(x, -87.0)
    z = x * _LOG2_E + _ROUND
    r = np.float32(x - (z - _ROUND) * _LN2)
    p = _C7 * r + _C6
    p = p * r + _C5
    p = p * r + _C4
    p = p * r + _C3
    p = p * r + _HALF
    p = p * r + _ONE
    p = p * r + _ONE
    return _times_power_of_two(p, z)  # type: ignore[call-arg]


@compiled()
def log(x: float) -> float:
    """log x for normal x > 0; zero gives about -709."""
    bits: Any = _bits(x)  # type: ignore[call-arg]
    exponent = (bits - _SQRT_HALF) >> 52
    mantissa: Any = _from_bits(bits - (exponent << 52))
    k = float(exponent)
    z = (mantissa - 1.0) / (mantissa + 1.0)
    w = z * z
    p = 2.0 / 21
    p = p * w + 2.0 / 19
    p = p * w + 2.0 / 17
    p = p * w + 2.0 / 15
    p = p * w + 2.0 / 13
    p = p * w + 2.0 / 11
    p = p * w + 2.0 / 9
    p = p * w + 2.0 / 7
    p = p * w + 2.0 / 5
    p = p * w + 2.0 / 3
    return k * _LN2_HIGH + (k * _LN2_LOW + (z * w * p + 2.0 * z))


NEAR = _kl_series.NEAR
near_by_ratio, near_by_log = compiled()(_kl_series.of_ratio), compiled()(_kl_series.of_log)
