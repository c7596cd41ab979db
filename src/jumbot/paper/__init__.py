"""The figures of Fatras et al., "Unbalanced minibatch optimal transport" (2021), each from one call.

Every item writes PNG and PDF pictures and a JSON record: settings, seed, the numbers behind the picture, and each
claim that the paper makes about it, measured.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from jumbot.errors import ArgumentError, suggest

#: What can be reproduced, and what it shows.
ITEMS = {
    "fig1": "plans of minibatch OT between ten and ten points: the smaller m, the denser",
    "fig2": "OT costs while an outlier moves away, minibatches of 5 of 10 points",
    "fig3": "plans between classes in different proportions: OT, minibatch OT, entropic, unbalanced",
    "fig4": "gradient flows between imbalanced clusters, m = 64 and 128",
    "theorem1": "deviation of the incomplete estimator from its expectation, beside Theorem 1",
    "all-synthetic": "all of the above",
    "digits": "table 1: U-M, M-MM, S-M; trains networks, hours on a CPU",
    "office-home": "table 2: Office-Home, 12 tasks; needs the data and a GPU",
    "office-home-partial": "table 2: the same with the first 25 classes as target",
    "visda": "table 3: VisDA-2017; needs the data and a GPU",
}
#: Items that train networks, and take options of training.
TRAINED = ("digits", "office-home", "office-home-partial", "visda")


def reproduce(item: str, out: str | Path, quick: bool = False, seed: int = 0, **options: Any) -> dict[str, Any]:
    """Compute one item, write its pictures and `ITEM.json` into the folder `out`, and return the record.

    `quick` runs a small version of the same computation, in seconds; the record says so.  The record's `claims` is
    a list of `statement`, `measured`, `holds`; "all-synthetic" returns the records by name under `items`.

    Items that train networks take `tasks`, `methods`, `seeds`, `root` (where the data are) and options of training;
    their runs are folders that go on where they were stopped.

    >>> list(ITEMS)
    ['fig1', 'fig2', 'fig3', 'fig4', 'theorem1', 'all-synthetic', 'digits', 'office-home', ...]
    """
    if item not in ITEMS:
        raise ArgumentError(f"item: {item!r} is not known; {suggest(item, ITEMS)}")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    if item in TRAINED:
        if item == "digits":
            from jumbot.paper.digits_table import run as run_digits

            return run_digits(folder, quick=quick, seed=seed, **options)
        from jumbot.paper.images_table import run as run_images

        return run_images(folder, item, quick=quick, seed=seed, **options)
    if options:
        raise ArgumentError(f"{next(iter(options))}: an option of {', '.join(TRAINED)} alone; {item} trains nothing.")
    if item == "all-synthetic":
        names = [name for name in ITEMS if name != item and name not in TRAINED]
        records = {name: reproduce(name, folder, quick, seed) for name in names}
        claims = [claim for record in records.values() for claim in record["claims"]]
        return {"item": item, "quick": quick, "seed": seed, "items": records, "claims": claims}
    record: dict[str, Any] = import_module(f"jumbot.paper.{item}").run(folder, quick=quick, seed=seed)
    return record
