"""torchvision and timm, imported even if torchvision's compiled part does not fit the installed torch.

A torchvision built for another torch (most often a CUDA build with a CPU torch) fails with `operator
torchvision::nms does not exist` when it is imported, and takes timm with it, although nothing of its compiled part is
needed for models, transforms and data sets. Declaring the two operators that it asks for is enough for these;
`torchvision.ops.nms` and `torchvision.io` still need a torchvision that fits.

    from jumbot.data._torchvision import import_torchvision
    torchvision = import_torchvision()          # or this line alone, and then `import torchvision` anywhere else
"""

from __future__ import annotations

import sys
from importlib import import_module, metadata
from types import ModuleType

import torch

from jumbot._base.files import first_line
from jumbot.errors import MissingPackageError, missing

_FAILURE = "torchvision::nms does not exist"
_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_declared: list[torch.library.Library] = []  # torch forgets the operators when their Library is garbage


def import_torchvision() -> ModuleType:
    """The module `torchvision`; its `models`, `transforms` and `datasets` work."""
    return _import("torchvision")


def import_timm() -> ModuleType:
    """The module `timm`, which imports torchvision."""
    return _import("timm")


def _import(name: str) -> ModuleType:
    try:
        return _attempt(name)
    except ModuleNotFoundError as error:
        raise missing(error, "this", "vision") from error
    except (ImportError, OSError, RuntimeError) as error:
        raise MissingPackageError(
            f"{name} is installed but does not import ({first_line(error)}). torch is {torch.__version__}, torchvision "
            f"is {_version_of_torchvision()}: install the two versions that belong together, see https://pytorch.org/get-started."
        ) from error


def _attempt(name: str) -> ModuleType:
    try:
        return import_module(name)
    except RuntimeError as error:
        if _FAILURE not in str(error) or _declared:
            raise
    for module in [m for m in sys.modules if m.partition(".")[0] in ("torchvision", "timm")]:
        del sys.modules[module]  # partly imported; a second import would continue in the middle
    library = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        library.define(operator + _SCHEMA)
    _declared.append(library)
    return import_module(name)


def _version_of_torchvision() -> str:
    try:
        return metadata.version("torchvision")
    except metadata.PackageNotFoundError:
        return "not installed"
