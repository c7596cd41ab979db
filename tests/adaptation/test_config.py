"""One place makes a run: the same data and options give the same configuration from Python and from the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.sparse import csr_array
from torch.utils.data import TensorDataset

import jumbot
from jumbot._settings.training import Rule
from jumbot.adaptation import _adapt as adapt_module
from jumbot.adaptation import _judging as judging
from jumbot.adaptation._config import DEFAULTS, RunConfig, check_changes, make_config, recipe_for
from jumbot.adaptation._evaluation.selection import RULES
from jumbot.adaptation._variants import share_changes
from jumbot.cli import main
from jumbot.data import as_domain
from jumbot.data._inputs import PIXELS
from jumbot.methods import METHODS, method_class, options_class
from tests.refusals import refused

RNG = np.random.default_rng(0)
LABELS = np.arange(12) % 3


class Stop(Exception):
    """Raised when the configuration is made: nothing is trained."""


def pictures(folder: Path, sizes: list[tuple[int, int]], kind: str = "png") -> str:
    for number, (height, width) in enumerate(sizes):
        place = folder / ("ant", "bee")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(RNG.integers(0, 255, (height, width, 3), dtype=np.uint8)).save(place / f"{number}.{kind}")
    return str(folder)


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, tuple[str, str]]:
    """Every kind of input that has a name, and the recipe that fits it."""
    points = RNG.normal(size=(12, 3))
    rows = "\n".join(",".join([*map(str, row), "xyz"[c]]) for row, c in zip(points, LABELS, strict=True))
    (tmp_path / "table.csv").write_text(f"a,b,c,label\n{rows}\n")
    np.savez(tmp_path / "table.npz", features=points, label=LABELS)
    np.savez(tmp_path / "domains.npz", features=points, label=LABELS, domain=np.array(["here", "there"]).repeat(6))
    (tmp_path / "usps").mkdir()
    np.savez(tmp_path / "usps" / "train.npz", images=np.zeros((12, 16, 16), np.uint8), labels=LABELS)
    np.savez(tmp_path / "usps" / "test.npz", images=np.zeros((12, 16, 16), np.uint8), labels=LABELS)
    pictures(tmp_path / "list", [(80, 90)] * 4, "jpg")
    names = sorted((tmp_path / "list").rglob("*.jpg"))
    lines = [f"{name.relative_to(tmp_path)} {name.parent.name}" for name in names]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    return {
        "csv": (str(tmp_path / "table.csv"), "measurements"),
        "npz": (str(tmp_path / "table.npz"), "measurements"),
        "domain": (f"{tmp_path / 'domains.npz'}:here", "measurements"),
        "digits": ("usps", "digits"),
        "split": ("usps:test", "digits"),
        "icons": (pictures(tmp_path / "icons", [(20, 24)] * 4), "digits"),
        "stamps": (pictures(tmp_path / "stamps", [(20, 24), (64, 30), (40, 40), (9, 8)]), "digits"),
        "photographs": (pictures(tmp_path / "photographs", [(70, 60)] * 4), "photographs"),
        "differing": (pictures(tmp_path / "differing", [(70, 60), (90, 40), (30, 30), (65, 64)], "jpg"), "photographs"),
        "list": (str(tmp_path / "list.txt"), "photographs"),
    }


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], RunConfig]:
    """The configuration that a call comes to."""
    found: list[RunConfig] = []

    def stop(*arguments: Any) -> RunConfig:
        found.append(make_config(*arguments))
        raise Stop

    monkeypatch.setattr(judging, "make_config", stop)

    def run(call: Callable[[], Any]) -> RunConfig:
        with pytest.raises(Stop):
            call()
        return found[-1]

    return run


KINDS = ("csv", "npz", "domain", "digits", "split", "icons", "stamps", "photographs", "differing", "list")


@pytest.mark.filterwarnings("ignore:.*source itself:jumbot.DataWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_python_and_command_agree(
    kind: str,
    inputs: dict[str, tuple[str, str]],
    made: Callable[..., RunConfig],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JUMBOT_DATA", str(tmp_path))
    data, recipe = inputs[kind]
    for words, options in (
        ([], {}),
        (["--steps", "7", "--tau", "0.5"], {"steps": 7, "tau": 0.5}),
        (["--batch-size", "500"], {"batch_size": 500}),  # the default of one recipe, and not of another
        (["--method", "cdan-e", "--map", "random", "--seed", "3"], {"method": "cdan-e", "map": "random", "seed": 3}),
        (["--recipe", "table-partial", "--no-freeze"], {"recipe": "table-partial", "freeze": False}),
    ):
        python = made(lambda options=options: jumbot.adapt(data, data, **options))
        command = made(lambda words=words: main(["adapt", "--out", str(tmp_path / "run"), data, data, *words]))
        after = made(lambda words=words: main(["adapt", data, *words, data, "--out", str(tmp_path / "run")]))
        assert python == command == after
        assert python.recipe == options.get("recipe", recipe)
        for name, value in options.items():
            parts = (python, python.options, python.training, python.network, python.inputs)
            assert next(getattr(part, name) for part in parts if hasattr(part, name)) == value
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("data", "recipe"),
    [
        (RNG.normal(size=(12, 5)), "measurements"),
        (RNG.normal(size=(12, 257)), "table"),
        (np.eye(300)[:12], "words"),
        (csr_array(np.eye(300)[:12]), "words"),
        (np.zeros((12, 28, 28), np.uint8), "digits"),
        (np.zeros((12, 64, 64, 3), np.uint8), "digits"),
        (np.zeros((12, 3, 65, 30)), "photographs"),
        (TensorDataset(torch.zeros(12, 1, 32, 32), torch.from_numpy(LABELS)), "digits"),
    ],
)
def test_the_recipe_follows_the_data(data: Any, recipe: str) -> None:
    assert recipe_for(as_domain(data)) == recipe
    assert recipe in DEFAULTS


def test_photographs_of_different_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("efficientnet_lite_pytorch", reason="EfficientNet-Lite0 is not installed")
    monkeypatch.setenv("JUMBOT_CACHE", str(tmp_path / "cache"))
    source = pictures(tmp_path / "photos", [(70, 60), (90, 120), (80, 66), (65, 64)], "jpg")
    target = pictures(tmp_path / "more-photos", [(66, 70), (100, 100)], "jpg")
    model = jumbot.adapt(source, target, steps=2, batch_size=4, features=8, method="jumbot", judge=False)
    assert set(model.predict(target)) <= {"ant", "bee"}


def test_small_pictures_of_different_sizes_keep_their_size(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "icons", [(20, 24), (30, 16), (12, 12), (9, 8)])
    with pytest.warns(jumbot.DataWarning, match="source itself"):
        model = jumbot.adapt(folder, folder, source_steps=1, steps=1, batch_size=4, method="jumbot", judge=False)
    assert model.input.size == (30, 24)


def test_a_recipe_may_set_values_for_one_method(monkeypatch: pytest.MonkeyPatch) -> None:
    from jumbot._settings.recipes import RECIPES, Recipe

    own = Recipe("", training={"steps": 9}, methods={"mcc": {"temperature": 2.0, "learning_rate": 0.5}})
    monkeypatch.setitem(RECIPES, "own", own)
    mcc, dann = (make_config(None, name, "own", {}) for name in ("mcc", "dann"))
    assert (mcc.options.temperature, mcc.training.learning_rate, mcc.training.steps) == (2.0, 0.5, 9)
    assert dann.training.learning_rate == 0.01
    assert make_config(None, "mcc", "own", {"learning_rate": 0.1}).training.learning_rate == 0.1


EARLY = {
    "device": ["gpu", "cuda:x", ""],
    "mixed_precision": ["fp32", 16],
    "select": ["entrpy"],
    "pixels": ["bytes"],
    "steps": [0, -3, 1.5, 10**30, "many", True],
    "epochs": [0],
    "seed": [-1, 2**64, 0.5, float("nan")],
    "evaluate_samples": [0, -3],
    "learning_rate": [0, -1, float("inf"), float("nan"), "fast"],
    "validation": [1, -0.1],
    "batch_size": [0, 2**40],
    "backbone": ["resnet51"],
    "weights": ["imagnet", "absent.pth"],
    "tau": [0, -1],
    "channels": [0, 99],
    "size": [0],
    "hidden": [[0], 7],
    "tua": [1],
    "standardise": ["yes"],
    "tensorboard": ["no"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in EARLY.items() for value in values])
def test_refused_before_any_data_are_read(name: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapt_module, "read_data", lambda *_: pytest.fail("data were read"))
    with refused(name):
        jumbot.adapt("nowhere", "nowhere", **{name: value})


def test_refused_together_or_for_want_of_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapt_module, "read_data", lambda *_: pytest.fail("data were read"))
    for options, words in (
        ({"evaluate_every": 0, "select": "entropy"}, "evaluate_every: 0"),
        ({"steps": 3, "epochs": 3}, "steps: got 3 together with epochs=3"),
        ({"device": "cuda:64"}, r"no CUDA device was found|there are \d+ of them"),
        ({"recipe": "digts"}, "did you mean 'digits'"),
        ({"method": "DANN"}, "did you mean 'dann'"),
        ({"method": "dann", "tau": 1.0}, "tau: not an option of dann .* it is one of jumbot"),
        ({"corrupt": "skp"}, "did you mean 'skip'"),
    ):
        with refused(words):
            jumbot.adapt("nowhere", "nowhere", **options)
    if not torch.cuda.is_available():
        for options in ({"device": "cuda"}, {"mixed_precision": "fp16"}):
            with refused("CUDA device"):
                jumbot.adapt("nowhere", "nowhere", **options)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.tex").write_text("precious")
    (tmp_path / "file").write_text("precious")
    for out in ("taken", "file"):
        with refused(out):
            jumbot.adapt("nowhere", "nowhere", out=tmp_path / out, method="jumbot", judge=False)


def test_words_of_the_settings_are_those_of_the_code() -> None:
    from typing import get_args

    from jumbot._settings.training import Inputs

    assert list(get_args(Rule)) == list(RULES)
    for word in PIXELS:
        assert Inputs(pixels=word).pixels == word


def test_options_are_found_without_the_method() -> None:
    for name in METHODS:
        assert options_class(name) is method_class(name).Options


def test_changes_are_shared_by_name_not_by_the_text_of_an_error() -> None:
    shared = share_changes(["jumbot", "source-only"], "table", {"tau": 2.0}, {"jumbot": {"epsilon": 0.5}})
    assert [changes for _, changes in shared] == [{"tau": 2.0, "epsilon": 0.5}, {}]
    with refused("tua"):
        share_changes(["jumbot", "source-only"], "table", {"tua": 2.0})
    with refused("tau"):
        share_changes(["jumbot", "source-only"], "table", {"tau": -1})


def test_a_configuration_survives_json() -> None:
    config = check_changes("jumbot", "digits", {"seed": np.int64(3), "learning_rate": np.float32(0.5), "steps": 7.0})
    assert json.loads(json.dumps(config.to_json()))["training"]["seed"] == 3
    assert config.training.steps == 7


def test_the_loss_of_the_first_steps_on_digits(tmp_path: Path) -> None:
    """Figures of version 0.1, in the paper's cost."""
    rng = np.random.default_rng(0)
    images, target = (rng.integers(0, 256, (40, 12, 12)).astype(np.uint8) for _ in range(2))
    short = {"recipe": "digits", "batch_size": 20, "source_steps": 1, "steps": 2, "seed": 0, "scale": None}
    expected = {
        "jumbot": [2.5278468132019043, 2.902049720287323, 2.558326691389084],
        "deepjdot": [2.5278468132019043, 2.9856384992599487, 2.6516981720924377],
    }
    for method, losses in expected.items():
        out = tmp_path / method
        jumbot.adapt((images, np.arange(40) % 10), target, method=method, out=out, **short)
        records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        assert [r["loss"] for r in records if r["event"] == "step"] == pytest.approx(losses, rel=1e-4)


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (RNG.normal(size=(12, 5)), {"size": 32, "pixels": "unit", "views": "ten-crop", "freeze": True}),
        (np.zeros((12, 28, 28), np.uint8), {"hidden": [5], "standardise": "source", "columns": "shared"}),
    ],
)
def test_what_the_data_would_pass_over_is_refused(data: np.ndarray, options: dict[str, Any]) -> None:
    for name, value in options.items():
        with refused(name):
            jumbot.adapt((data, LABELS), data, steps=1, **{name: value})
    source = as_domain(np.zeros((12, 70, 70, 3), np.uint8))
    assert make_config(source, "jumbot", None, {"hidden": [5], "standardise": "source"}).network.freeze


@pytest.mark.parametrize(
    ("shape", "changes", "match"),
    [
        (
            (12, 70, 70, 3),
            {"channels": 1},
            "channels has no effect on efficientnet-lite0, which has its",
        ),
        (
            (12, 70, 70, 3),
            {"pixels": "imagenet"},
            "pixels has no effect on efficientnet-lite0",
        ),
        ((12, 28, 28), {"schedule_steps": 9}, "schedule_steps has no effect on schedule='constant'"),
        (
            (12, 28, 28),
            {"scale": None, "scale_at": 50.0},
            "scale_at has no effect on scale=None",
        ),
        (
            (12, 28, 28),
            {"evaluate_every": 0, "evaluate_samples": 9},
            "evaluate_samples has no effect on evaluate_every=0",
        ),
    ],
)
def test_what_other_settings_would_pass_over_is_refused(shape, changes: dict[str, Any], match: str) -> None:
    source = as_domain(np.zeros(shape, np.uint8))
    with refused(match):
        make_config(source, "jumbot", None, changes)
    others = {
        "backbone": "digits",
        "weights": None,
        "freeze": False,
        "optimizer": "sgd",
        "schedule": "inverse",
        "scale": "auto",
        "evaluate_every": 9,
    }
    make_config(source, "jumbot", None, {**changes, **others})


def test_rates_of_a_backbone_that_has_none_are_refused() -> None:
    frozen, small, rows = (as_domain(np.zeros(shape, np.uint8)) for shape in ((12, 70, 70, 3), (12, 28, 28), (12, 5)))
    rate = {"backbone_rate": 0.5}
    with refused("backbone_rate"):
        make_config(frozen, "jumbot", None, rate)
    for source in (small, rows):
        with refused("backbone_rate"):
            make_config(source, "jumbot", None, rate)
    make_config(rows, "rot", None, {"backbone_rate": 0.1})  # the default, beside the recipe's 1
    make_config(frozen, "jumbot", None, {**rate, "freeze": False})
    module, X = torch.nn.Linear(5, 4), RNG.normal(size=(12, 5))
    jumbot.adapt((X, LABELS), X, backbone=module, features=3, steps=1, **rate, method="jumbot", judge=False)
    with refused("backbone_rate"):
        jumbot.adapt((X, LABELS), X, backbone=module, steps=1, **rate, method="jumbot", judge=False)
    with refused("hidden"):
        jumbot.adapt((X, LABELS), X, backbone=module, steps=1, hidden=[9], method="jumbot", judge=False)
    with refused("backbone"):
        jumbot.adapt((X, LABELS), X, backbone="resnet18", steps=1, method="jumbot", judge=False)


@pytest.mark.parametrize(
    ("data", "options", "match"),
    [
        (RNG.normal(size=(12, 5)), {"workers": 2}, "workers has no effect on rows of numbers"),
        (np.zeros((12, 28, 28), np.uint8), {"workers": 2}, "workers has no effect without image files"),
        (
            RNG.normal(size=(12, 5)),
            {"corrupt": "skip"},
            "corrupt has no effect without image",
        ),
        (
            RNG.normal(size=(12, 5)),
            {"root": "digits"},
            "root has no effect without digits",
        ),
        (
            RNG.normal(size=(12, 5)),
            {"global_plan": True, "method": "dann"},
            "global_plan has no effect on dann, which has no plan",
        ),
    ],
)
def test_what_is_for_files_and_plans_is_refused_without_them(
    data: np.ndarray, options: dict[str, Any], match: str
) -> None:
    with refused(match):
        jumbot.adapt((data, LABELS), data, steps=1, **options)
    if "method" not in options and "workers" not in options:
        model = jumbot.adapt(
            (data, LABELS), data, steps=1, workers=0, corrupt="refuse", root=None, method="jumbot", judge=False
        )
        with refused(match):
            model.predict(data, **options)


def test_resume_needs_a_folder() -> None:
    with refused("resume"):
        jumbot.adapt("nowhere", "nowhere", resume=True)
