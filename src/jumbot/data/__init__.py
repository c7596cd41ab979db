"""Data of two domains: digits, image folders, arrays, feature tables; `jumbot.data.embedded` needs no download."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumbot._settings.reading import Reading as Reading
    from jumbot.data._benchmarks import load_benchmark as load_benchmark
    from jumbot.data._digits import load as load
    from jumbot.data._digits import make_mnistm as make_mnistm
    from jumbot.data._domain import ArraySamples as ArraySamples
    from jumbot.data._domain import Domain as Domain
    from jumbot.data._domain import Samples as Samples
    from jumbot.data._folders import from_list as from_list
    from jumbot.data._folders import load_folder as load_folder
    from jumbot.data._inputs import InputFormat as InputFormat
    from jumbot.data._labels import match_classes as match_classes
    from jumbot.data._pair import prepare as prepare
    from jumbot.data._sources import as_domain as as_domain
    from jumbot.data._tables import load_table as load_table
else:
    from jumbot._base.lazy import lazy

    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "ArraySamples": "_domain",
            "Domain": "_domain",
            "InputFormat": "_inputs",
            "Reading": "jumbot._settings.reading",
            "Samples": "_domain",
            "as_domain": "_sources",
            "from_list": "_folders",
            "load": "_digits",
            "load_benchmark": "_benchmarks",
            "load_folder": "_folders",
            "load_table": "_tables",
            "make_mnistm": "_digits",
            "match_classes": "_labels",
            "prepare": "_pair",
        },
    )
