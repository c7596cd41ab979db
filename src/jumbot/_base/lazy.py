"""Lazy imports: the public names of a package are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from jumbot.errors import missing


def lazy(package: str, places: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package: `places` says in which of its modules each name is defined.

    A name in brackets is the module itself.  Type checkers do not see this: besides, the package imports the same
    names `if TYPE_CHECKING`.

    >>> get, names, every = lazy("jumbot", {"solve": "transport._solve", "bounds": "[minibatch.bounds]"})
    >>> get("bounds").__name__, every
    ('jumbot.minibatch.bounds', ['bounds', 'solve'])
    """

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        place = places[name]
        try:
            module = import_module(place if place.startswith("jumbot.") else f"{package}.{place.strip('[]')}")
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("jumbot"):
                raise
            raise missing(error, f"{package}.{name}", "adapt") from error
        found = module if place.startswith("[") else getattr(module, name)
        setattr(sys.modules[package], name, found)
        return found

    return get, public(package), sorted(places)


def public(module: str) -> Callable[[], list[str]]:
    """`__dir__` of a module: the names in its `__all__`, without what it imports for itself.

    >>> public("jumbot.minibatch.bounds")()[-1], "torch" in dir(import_module("jumbot.minibatch.bounds"))
    ('value_bound', False)
    """

    def names() -> list[str]:
        here = vars(sys.modules[module])
        return sorted({*here["__all__"], *(name for name in here if name.startswith("__"))})

    return names
