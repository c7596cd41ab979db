"""The series of `_kl_series.py`, compiled."""

from jumbot.transport import _kl_series
from jumbot.transport._kernels.decorator import compiled

NEAR = _kl_series.NEAR
near_by_ratio, near_by_log = compiled()(_kl_series.of_ratio), compiled()(_kl_series.of_log)
