"""The figures and tables of Fatras et al., "Unbalanced minibatch optimal transport" (2021), each from one call.

Every item writes a JSON record, pictures as PNG and PDF, tables as Markdown.  The record holds the command, the date,
the settings, the numbers behind picture or table, and each claim that the paper makes about it, measured.
"""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from jumbot._base.options import check_word
from jumbot._paper.targets import check_tasks, data_of_item
from jumbot.errors import ArgumentError

#: What can be reproduced, and what it shows.
ITEMS = {
    "fig1": "plans of minibatch OT between ten points on each side: a smaller m gives denser plans",
    "fig2": "OT costs as an outlier moves away, minibatches of 5 of 10 points",
    "fig3": "plans between classes in different proportions: OT, minibatch OT, entropic, unbalanced",
    "fig4": "gradient flows between imbalanced clusters, m = 64 and 128",
    "theorem1": "deviation of the incomplete estimator from its expectation, and Theorem 1",
    "all-synthetic": "all of the above",
    "office-home": "table 1: Office-Home, 12 tasks; needs the data and a GPU",
    "office-home-partial": "table 1: the same with the first 25 classes as target",
    "digits": "table 2: U-M, M-MM, S-M; trains networks, hours on a CPU",
    "visda": "table 3: VisDA-2017; needs the data and a GPU",
    "fig5": "t-SNE of 10,000 test embeddings of M-MM, DeepJDOT and JUMBOT; from the runs of digits",
    "fig6": "accuracy over tau, epsilon and the batch size on U-M and S-M; 46 runs of digits",
    "fig7": "accuracy of each class along training on M-MM; from the runs of digits",
    "max": "best and last accuracy during training, Office-Home or digits; uses target labels",
}
#: Items that train networks, and the file of each; they take options of method and training.
TRAINED = {
    "office-home": "images_table",
    "office-home-partial": "images_table",
    "digits": "digits_table",
    "visda": "images_table",
    "fig5": "fig5",
    "fig6": "fig6",
    "fig7": "fig7",
    "max": "maxima",
}

ONE_SEED = ("fig5", "fig7")
"""Those that show one run of each method."""


def reproduce(item: str, out: str | Path, quick: bool = False, seed: int = 0, **options: Any) -> dict[str, Any]:
    """Compute one item, write its pictures, tables and `ITEM.json` into the folder `out`, and return the record.

    `quick` runs a small version of the same computation; the record says so.  The record's `claims` is a list of
    `statement`, `measured`, `holds`; "all-synthetic" returns the records by name under `items`.

    Items that train networks take `tasks`, `methods`, `seeds`, `root` (where the data are), and any option of methods,
    training, network and inputs, to deviate from the paper's settings: `tau=0.3`, `batch_size=100`, `epochs=20`.  Their
    runs are folders that continue where they were stopped, and finished ones are reused.

    >>> list(ITEMS)
    ['fig1', 'fig2', 'fig3', 'fig4', 'theorem1', 'all-synthetic', 'office-home', ...]
    """
    check_word("item", item, ITEMS)
    if options and item not in TRAINED:
        raise ArgumentError(f"{next(iter(options))}: only applies to {', '.join(TRAINED)}; {item} trains nothing.")
    if item in TRAINED:
        tasks = options.get("tasks") or ()
        check_tasks(data_of_item(item, tasks), tasks)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    if item == "all-synthetic":
        names = [name for name in ITEMS if name != item and name not in TRAINED]
        records = {name: reproduce(name, folder, quick, seed) for name in names}
        claims = [claim for record in records.values() for claim in record["claims"]]
        return {"item": item, "quick": quick, "seed": seed, "items": records, "claims": claims}
    if item in TRAINED:
        return _train(item, folder, quick, seed, options)
    record: dict[str, Any] = import_module(f"jumbot._paper.{item}").run(folder, quick=quick, seed=seed)
    return record


def _train(item: str, folder: Path, quick: bool, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """An item that trains: options are its own, those of its runs as a whole, or changes to each of them."""
    from jumbot._paper.trained import Suite

    run = import_module(f"jumbot._paper.{TRAINED[item]}").run
    of_runs = ("root", "show", *(["seeds"] * (item not in ONE_SEED)))
    own = {name: options.pop(name) for name in signature(run).parameters if name in options}
    shared = {name: options.pop(name) for name in of_runs if name in options}
    record: dict[str, Any] = run(Suite(folder, data_of_item(item), quick, seed, changes=options, **shared), **own)
    return record
