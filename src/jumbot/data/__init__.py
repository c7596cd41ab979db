"""Data of two domains: digits, image folders, arrays, feature tables; `jumbot.data.embedded` needs no download."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_LAZY = {
    "ArraySamples": "domain",
    "Domain": "domain",
    "InputFormat": "inputs",
    "Samples": "domain",
    "as_domain": "sources",
    "from_list": "folders",
    "load": "digits",
    "load_folder": "folders",
    "load_table": "tables",
    "make_mnistm": "mnistm",
    "match_classes": "labels",
    "prepare": "inputs",
}

__all__ = list(_LAZY)


def __getattr__(name: str) -> Any:
    """Each name is imported when first used: not everyone needs images, tables and digits."""
    if name in _LAZY:
        return getattr(import_module(f"jumbot.data.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'jumbot.data' has no attribute {name!r}")
