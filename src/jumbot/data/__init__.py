"""Data of two domains: digits, image folders, arrays, feature tables; `jumbot.data.embedded` needs no download."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumbot.data.benchmarks import load_benchmark as load_benchmark
    from jumbot.data.digits import load as load
    from jumbot.data.domain import ArraySamples as ArraySamples
    from jumbot.data.domain import Domain as Domain
    from jumbot.data.domain import Samples as Samples
    from jumbot.data.folders import from_list as from_list
    from jumbot.data.folders import load_folder as load_folder
    from jumbot.data.inputs import InputFormat as InputFormat
    from jumbot.data.labels import match_classes as match_classes
    from jumbot.data.mnistm import make_mnistm as make_mnistm
    from jumbot.data.pair import prepare as prepare
    from jumbot.data.reading import Reading as Reading
    from jumbot.data.sources import as_domain as as_domain
    from jumbot.data.tables import load_table as load_table
else:
    from jumbot.lazy import lazy

    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "ArraySamples": "domain",
            "Domain": "domain",
            "InputFormat": "inputs",
            "Reading": "reading",
            "Samples": "domain",
            "as_domain": "sources",
            "from_list": "folders",
            "load": "digits",
            "load_benchmark": "benchmarks",
            "load_folder": "folders",
            "load_table": "tables",
            "make_mnistm": "mnistm",
            "match_classes": "labels",
            "prepare": "pair",
        },
    )
