"""Published image benchmarks: found on disk in their published layouts, counted, and cut to partial label sets.

None of them may be redistributed, so none is downloaded: a message says what is missing and where its authors offer it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jumbot.data._column_kinds import few, squeezed
from jumbot.data._domain import ArraySamples, Domain
from jumbot.data._folders import from_list, load_folder
from jumbot.data._labels import class_order
from jumbot.errors import ArgumentError, suggest


@dataclass(frozen=True)
class Part:
    """One domain of a benchmark."""

    name: str
    images: int
    """How many were published."""
    folders: tuple[str, ...]
    """Names under which archives of it unpack."""


@dataclass(frozen=True)
class Benchmark:
    """A data set of several domains with the same classes."""

    title: str
    homepage: str
    classes: int
    parts: tuple[Part, ...]
    partial: tuple[int, ...] = ()
    """Images of each domain in the first 25 classes, where the literature uses them."""

    def part(self, name: str) -> Part:
        """The domain of that name; an unambiguous prefix is enough ("A", "real")."""
        plain = squeezed(name)
        names = {part: {squeezed(known) for known in (part.name, *part.folders)} for part in self.parts}
        exact = [part for part, known in names.items() if plain in known]
        begun = [part for part, known in names.items() if plain and any(each.startswith(plain) for each in known)]
        for found in (exact, begun):
            if len(found) == 1:
                return found[0]
        raise ArgumentError(
            f"{self.title} has no domain {name!r}; it has {', '.join(part.name for part in self.parts)}."
        )


BENCHMARKS = {
    "office-home": Benchmark(
        "Office-Home",
        "https://www.hemanthdv.org/officeHomeDataset.html",
        65,
        (
            Part("Art", 2427, ("Art",)),
            Part("Clipart", 4365, ("Clipart",)),
            Part("Product", 4439, ("Product",)),
            Part("Real World", 4357, ("Real World", "Real_World", "RealWorld")),
        ),
        partial=(1089, 1675, 1785, 1811),
    ),
    "visda-2017": Benchmark(
        "VisDA-2017",
        "https://ai.bu.edu/visda-2017/",
        12,
        (Part("train", 152397, ("train",)), Part("validation", 55388, ("validation", "val"))),
    ),
    "office-caltech10": Benchmark(
        "Office-Caltech10",
        "https://faculty.cc.gatech.edu/~judy/domainadapt/",
        10,
        (
            Part("amazon", 958, ("amazon",)),
            Part("caltech10", 1123, ("caltech10", "caltech")),
            Part("dslr", 157, ("dslr",)),
            Part("webcam", 295, ("webcam",)),
        ),
    ),
}


def load_benchmark(
    benchmark: str,
    root: str | Path,
    domains: Sequence[str] | None = None,
    *,
    partial: str | Sequence[str] | None = None,
) -> dict[str, Domain]:
    """Domains of a published benchmark.

    Image folders `domain/class/name.jpg`, list files of `path label` lines (VisDA's `domain/image_list.txt`; list files
    `domain.txt` or `domain_list.txt` next to the folders), and Office-Caltech10's `features.npz` are found.
    Counts that differ from the published ones give a warning.

    Parameters
    ----------
    benchmark : str
        Its name, such as "office-home".
    root : path
        The folder that it was unpacked to.
    domains : sequence of str, optional
        Names of the domains to read; by default all.
    partial : str or sequence of str, optional
        Classes to keep: "first:25", or names.

    Returns
    -------
    dict of str to Domain
        The domains by name.

    Raises
    ------
    jumbot.ArgumentError
        If the benchmark is unknown, or a domain is missing; the message says where it is offered.

    Examples
    --------
    >>> load_benchmark("office-hme", ".")
    Traceback (most recent call last):
    jumbot.errors.ArgumentError: benchmark: 'office-hme' is not known; did you mean 'office-home'? Known: ...
    """
    facts = next((facts for name, facts in BENCHMARKS.items() if squeezed(name) == squeezed(benchmark)), None)
    if facts is None:
        raise ArgumentError(f"benchmark: {benchmark!r} is not known; {suggest(benchmark, BENCHMARKS)}")
    root = Path(root).expanduser()
    if not root.exists():
        raise ArgumentError(f"{facts.title}: {root} does not exist. {_get(facts)}")
    parts = facts.parts if domains is None else tuple(facts.part(name) for name in domains)
    archive = root / "features.npz" if root.is_dir() else root
    if archive.is_file() and (archive == root or not any(_folder(root, part) for part in parts)):
        found = _from_features(archive, parts)
    else:
        found = _from_folders(facts, root, parts)
    for part in parts:
        _check(facts, part, found[part.name], root)
        if partial is not None:
            found[part.name] = _kept(facts, part, found[part.name], partial)
    return found


def _kept(facts: Benchmark, part: Part, whole: Domain, partial: str | Sequence[str]) -> Domain:
    """Some classes of a domain; a warning if the counts differ from the published ones."""
    kept = keep_classes(whole, partial_classes(partial, whole.classes))
    published = dict(zip(facts.parts, facts.partial, strict=False)).get(part)
    if partial == "first:25" and published is not None and len(whole) == part.images:
        _compare(f"{facts.title}, first 25 classes", part.name, len(kept), published)
    return kept


def partial_classes(spec: str | Sequence[str], classes: Sequence[str]) -> tuple[str, ...]:
    """The classes that a partial target keeps: "first:25" in alphabetical order, or names with commas between them.

    >>> partial_classes("first:2", ["cat", "ant", "bee"]), partial_classes("cat, bee", ["cat", "ant", "bee"])
    (('ant', 'bee'), ('bee', 'cat'))
    """
    known = sorted(classes, key=class_order)
    if isinstance(spec, str) and spec.startswith("first:"):
        text = spec.removeprefix("first:").strip()
        if not text.isdecimal() or not 1 <= int(text) <= len(known):
            raise ArgumentError(
                f"partial: got {spec!r}; pass first: and a number from 1 to {len(known)}, the classes there are."
            )
        return tuple(known[: int(text)])
    asked = [name.strip() for name in spec.split(",")] if isinstance(spec, str) else list(spec)
    for name in asked:
        if name not in known:
            raise ArgumentError(f"partial: class {name!r} does not exist; use first:N or names; {suggest(name, known)}")
    if len(set(asked)) < len(asked):
        twice = next(name for name in asked if asked.count(name) > 1)
        raise ArgumentError(f"partial: the class {twice!r} is named twice.")
    return tuple(sorted(asked, key=known.index))


def keep_classes(domain: Domain, kept: Sequence[str]) -> Domain:
    """The samples of `domain` in the classes `kept`; `classes` stay as they are, because the network has outputs for
    all of them.
    """
    if domain.labels is None:
        raise ArgumentError(f"{domain.name}: has no labels, so its classes cannot be chosen.")
    missing = [name for name in kept if name not in domain.classes]
    if missing:
        raise ArgumentError(f"{domain.name}: has no class {missing[0]!r}; it has {few(domain.classes, 8)}.")
    wanted = np.array([domain.classes.index(name) for name in kept])
    empty = [name for name, count in zip(kept, domain.counts()[wanted], strict=True) if count == 0]
    if empty:
        raise ArgumentError(f"{domain.name}: no sample is of class {empty[0]!r}.")
    return domain.subset(np.isin(domain.labels, wanted))


def thin_classes(domain: Domain, keep_one_in: int) -> Domain:
    """`domain` with one in so many samples of every second class, at least one; always the same ones.

    >>> from jumbot.data._domain import ArraySamples
    >>> labels = np.repeat([0, 1, 2], 16)
    >>> thin_classes(Domain("x", ArraySamples(np.zeros((48, 1))), labels, ("a", "b", "c")), 8).counts()
    array([16,  2, 16])
    """
    if domain.labels is None:
        raise ArgumentError(f"thin: {domain.name} has no labels, so its classes cannot be thinned.")
    rng = np.random.default_rng(0)
    kept = [
        rng.permutation(rows)[: max(1, len(rows) // keep_one_in)] if number % 2 else rows
        for number in range(len(domain.classes))
        for rows in [np.flatnonzero(domain.labels == number)]
    ]
    return domain.subset(np.sort(np.concatenate(kept)))


def _from_folders(facts: Benchmark, root: Path, parts: Sequence[Part]) -> dict[str, Domain]:
    found, missing = {}, []
    for part in parts:
        folder, listed = _folder(root, part), _list(root, part)
        if listed is not None:
            found[part.name] = from_list(listed, root if listed.parent == root else listed.parent, name=part.name)
        elif folder is not None:
            found[part.name] = load_folder(folder, name=part.name)
        else:
            missing.append(part)
    if missing:
        wanted = ", ".join(f"{part.folders[0]}/ ({part.images:,} images)" for part in missing)
        here = sorted(p.name for p in root.iterdir())
        raise ArgumentError(
            f"{facts.title}: {root} lacks {wanted}; it contains {few(here, 8) if here else 'nothing'}. {_get(facts)}"
        )
    return found


def _from_features(archive: Path, parts: Sequence[Part]) -> dict[str, Domain]:
    with np.load(archive) as stored:
        lacking = [key for key in ("features", "label", "domain") if key not in stored.files]
        if lacking:
            raise ArgumentError(f"{archive}: lacks the array {lacking[0]!r}; it contains {', '.join(stored.files)}.")
        features, labels, domains = stored["features"], stored["label"], stored["domain"]
    classes, codes = np.unique(labels, return_inverse=True)
    found = {}
    for part in parts:
        rows = np.isin([squeezed(str(name)) for name in domains], [squeezed(name) for name in part.folders])
        if not rows.any():
            present = few(np.unique(domains).astype(str).tolist(), 8)
            raise ArgumentError(f"{archive}: contains no rows of {part.name}; its domains are {present}.")
        samples = ArraySamples(features[rows])
        found[part.name] = Domain(part.name, samples, codes[rows].astype(np.int64), tuple(map(str, classes.tolist())))
    return found


def _check(facts: Benchmark, part: Part, domain: Domain, root: Path) -> None:
    classes = len(domain.classes)
    if domain.labels is None or classes != facts.classes:
        raise ArgumentError(
            f"{facts.title}: {part.name} in {root} has {classes} classes, but {facts.classes} were published; "
            f"its images belong in one folder per class, or in a list with labels. {_get(facts)}"
        )
    _compare(facts.title, part.name, len(domain), part.images)


def _compare(title: str, name: str, found: int, published: int) -> None:
    if found != published:
        warnings.warn(
            f"{title}: {name} has {found:,} images, but {published:,} were published; results cannot be "
            "compared with published ones.",
            stacklevel=4,
        )


def _folder(root: Path, part: Part) -> Path | None:
    """Its folder, spelt as in any of the archives, directly in `root` or one level below."""
    wanted = {squeezed(name) for name in part.folders}
    for place in (root, *sorted(p for p in root.iterdir() if p.is_dir() and squeezed(p.name) in _WRAPPERS)):
        for folder in sorted(place.iterdir()):
            if folder.is_dir() and squeezed(folder.name) in wanted:
                inner = folder / "images"  # Office's own archives hold amazon/images/class
                return inner if inner.is_dir() else folder
    return None


def _list(root: Path, part: Part) -> Path | None:
    wanted = {squeezed(name) + ending for name in part.folders for ending in ("", "list", "imagelist")}
    for file in sorted(root.glob("*.txt")):
        if squeezed(file.stem) in wanted:
            return file
    folder = _folder(root, part)
    inside = folder / "image_list.txt" if folder is not None else None
    return inside if inside is not None and inside.is_file() else None


def _get(facts: Benchmark) -> str:
    return f"Get {facts.title} from {facts.homepage} and unpack it so that there is one folder per domain."


_WRAPPERS = {"images", *(squeezed(name) for name in BENCHMARKS), "officehomedataset10072016", "officehomedataset"}
