"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch

from benchmarks.peers import versions


def describe() -> dict[str, object]:
    """Processor, threads and versions; nothing that identifies the machine beyond its model."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "torch threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": versions(),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
