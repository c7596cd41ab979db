"""The report stands alone, escapes what it shows, names its rule, and takes runs of any state."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import numpy as np
import pytest

import jumbot
from jumbot.report import read_run, write_report
from jumbot.report._answer import verdict
from jumbot.report._curves import make_map
from jumbot.report._records import RunRecord
from jumbot.report._words import describe_run
from tests.refusals import refused
from tests.report.runs import make_run

VOID = {"meta", "br", "hr", "link", "img", "input"}
LOADING = {"src", "href", "srcset", "poster", "data", "action", "formaction"}


class Page(HTMLParser):
    """Elements, attributes and text of a page; refuses tags that do not close in order."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)

    def headings(self) -> list[str]:
        return re.findall(r"<h[123][^>]*>(.*?)</h", self.source)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Page:
    folder = tmp_path_factory.mktemp("single")
    run = make_run(folder / "run", rows=30)
    return Page(write_report([run], folder))


def test_stands_alone(single: Page) -> None:
    assert "http:" not in single.source
    assert "https:" not in single.source
    assert "@import" not in single.source
    assert not {"link", "iframe", "object", "embed"} & {tag for tag, _ in single.tags}
    assert [attributes for tag, attributes in single.tags if tag == "script"] == [{}]  # its own, inside
    for tag, attributes in single.tags:
        for name in LOADING & set(attributes):
            local = r"\./run/\w+\.(csv|json|md)$" if tag == "a" else "#"
            assert re.match(rf"{local}|#|data:image/(png|jpeg);base64,", attributes[name] or ""), (tag, name)
        assert not any(name.startswith("on") for name in attributes), tag
    inside = re.findall(r"url\(([^)]*)\)", single.source)
    assert all(each.startswith("#") for each in inside)


def test_references_lead_somewhere_and_ids_are_unique(single: Page) -> None:
    ids = [attributes["id"] for _, attributes in single.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:href="|url\()#([^")]+)', single.source)
    assert set(used) <= set(ids)


def test_contents(single: Page) -> None:
    for words in (
        "jumbot adapted a classifier from 1,797 labelled samples of digits to 5,000 samples of mnist , 10 classes",
        "chosen by the rule last (the last iterate, step 800), without target labels",
        "evaluation: labels that training never saw",
        "Transported mass",
        "Mass between different classes",
        "Label-free scores",
        "Loss terms",
        "Class proportions",
        "Accuracy of each class",
        "Which classes are confused",
        "Before adaptation",
        "Least explained samples",
        "jumbot adapt digits mnist --method jumbot",
        "training.learning_rate",
    ):
        assert words in single.text, words
    assert "ORACLE" not in single.source
    assert single.count("figure") >= 8
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in single.tags
    assert single.headings()[-1] == "Glossary"


def test_pictures_have_a_description(single: Page) -> None:
    pictures = [attributes for tag, attributes in single.tags if tag == "svg"]
    assert all(each["role"] == "img" and each["aria-label"] for each in pictures)


ODD = ('<b>&"', "a$b$c", "_hidden", "写真", "</svg><script>alert(1)</script>", "x" * 80, "url(#p) id='f'", "%s {0}")


@pytest.mark.drawn
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("labelled", [True, False])
def test_names_are_text(tmp_path: Path, labelled: bool) -> None:
    run = make_run(
        tmp_path / "run",
        classes=ODD,
        source="<script>x</script>",
        target='"><img src=x>',
        accuracy=0.9 if labelled else None,
        rows=30,
        steps=30,
        source_steps=5,
        reasons=("<u>y</u>",),
    )
    page = Page(write_report([run], tmp_path, title="<title> & co"))
    assert not {"b ", "i", "u", "img"} & {tag for tag, _ in page.tags}
    assert page.count("script") == 1
    assert "alert(1)</script>" not in page.source
    for name in ODD[:5]:
        assert name in page.text
    assert "<title> & co" in page.text
    assert ("<u>y</u>" in page.text) != labelled  # by labels it helped, so nothing is feared


@pytest.mark.drawn
def test_without_labels(tmp_path: Path) -> None:
    page = Page(write_report([make_run(tmp_path / "run", accuracy=None, rows=20)], tmp_path))
    assert "without labels" in page.text
    assert "entropy of the predictions (lower is better)" in page.text
    assert "the predicted class of target samples" in page.text
    for words in ("Target accuracy", "mixed up", "Accuracy of each class", "Mass between different classes"):
        assert words not in page.text


@pytest.mark.drawn
def test_class_missing_in_the_target(tmp_path: Path) -> None:
    page = Page(write_report([make_run(tmp_path / "run", missing=(3, 7), rows=30)], tmp_path))
    assert "Without a sample in the target: 3 and 7." in page.text
    assert "Seem absent from the target: 3 and 7. Truly absent: 3 and 7." in page.text


def test_unfinished(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", finished=False)
    page = Page(write_report([run], tmp_path))
    assert "jumbot on digits → mnist is unfinished: its records reach step 799." in page.text
    bare = make_run(tmp_path / "bare", finished=False)
    (bare / "metrics.jsonl").unlink()
    page = Page(write_report([bare], tmp_path / "bare.html"))
    assert "nothing is recorded yet" in page.text


def test_oracle_is_marked_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jumbot.report._adaptation.DETAILED", 1)
    runs = [
        make_run(
            tmp_path / f"{rule}{k}",
            rule=rule,
            target=f"t{k}",
            accuracy=0.8 + 0.1 * (rule == "oracle"),
            rows=10,
            steps=30,
        )
        for rule in ("last", "oracle")
        for k in range(2)
    ]
    page = Page(write_report(runs, tmp_path))
    assert "The model was chosen with target labels (2 of 4 runs)" in page.text
    assert "jumbot (ORACLE)" in page.text
    for row in re.findall(r"<tr>.*?</tr>", page.source):
        if "ORACLE" in row:
            assert 'class="best"' not in row
    alone = Page(write_report(runs[-1:], tmp_path / "alone.html"))
    assert alone.text.count("ORACLE") >= 3
    assert "), without target labels" not in alone.text


def test_methods_targets_and_seeds(tmp_path: Path) -> None:
    runs = [
        make_run(
            tmp_path / f"{method}-{target}-{seed}",
            method=method,
            target=target,
            seed=seed,
            accuracy=accuracy,
            classes=("a", "b", "c"),
            rows=10,
            steps=30,
            source_steps=10,
        )
        for method, accuracy in (("deepjdot", 0.8), ("jumbot", 0.9))
        for target in ("even", "uneven")
        for seed in range(2)
    ]
    page = Page(write_report(runs, tmp_path))
    values = [read_run(run).accuracy or 0.0 for run in runs if run.name.startswith("jumbot-even")]
    assert f"{100 * np.mean(values):.1f} ± {100 * np.std(values, ddof=1):.1f}" in page.text
    assert "On digits → even, jumbot is best" in page.text
    assert "digits → uneven" in page.headings()
    assert "over all seeds; other figures show the first seed" in page.text
    assert len(page.source) < 2_000_000


def test_runs_that_differ_in_an_option_are_distinguished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jumbot.report._adaptation.DETAILED", 1)
    runs = [make_run(tmp_path / str(tau), options={"eta1": 0.1, "tau": tau}, rows=10, steps=20) for tau in (0.5, 1.0)]
    page = Page(write_report(runs, tmp_path))
    assert "jumbot (tau=0.5)" in page.text
    assert "jumbot (tau=1)" in page.text
    assert "(eta1" not in page.text


@pytest.mark.drawn
def test_large_table_is_small(tmp_path: Path) -> None:
    runs = [
        make_run(
            tmp_path / f"{method}{task}",
            method=method,
            target=f"task {task}",
            accuracy=accuracy,
            rows=5,
            steps=5,
            source_steps=2,
        )
        for method, accuracy in (("source-only", 0.6), ("deepjdot", 0.7), ("jumbot", 0.9))
        for task in range(6)
    ]
    page = Page(write_report(runs, tmp_path))
    assert "Mean rank" in page.text
    assert "Wins and losses" in page.text
    assert "Friedman" in page.text
    assert len(page.source) < 200_000


@pytest.mark.slow
def test_full_size(tmp_path: Path) -> None:
    classes = tuple(f"class {c}" for c in range(65))
    run = make_run(tmp_path / "run", classes=classes, rows=1000, steps=5000)
    path = write_report([run], tmp_path)
    assert path == tmp_path / "report.html"
    assert path.stat().st_size < 1_000_000
    assert "with 65 classes the colours repeat" in Page(path).text


def test_embeddings_that_cannot_be_drawn() -> None:
    labels = np.zeros(10, int)
    for points in (np.zeros((10, 3)), np.full((10, 3), np.nan), np.ones((1, 3))):
        run = RunRecord(
            Path("run"),
            {},
            embeddings={
                "after_source": points,
                "after_target": points,
                "source_labels": labels[: len(points)],
                "target_labels": labels[: len(points)],
                "target_predictions": labels[: len(points)],
            },
        )
        assert make_map(run, "after") is None


@pytest.mark.parametrize("shape", [(3, 2), (9, 1)])
def test_a_map_of_few_points(shape: tuple[int, int]) -> None:
    points = np.random.default_rng(0).normal(size=shape)
    embeddings = {f"after_{domain}": points for domain in ("source", "target")}
    found = make_map(RunRecord(Path("run"), {}, embeddings=embeddings), "after")
    assert found is not None
    assert found.target.shape == (len(points), 2)
    assert np.isfinite(found.target).all()


def test_map_keeps_apart_what_is_apart() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 30)
    points = (rng.normal(size=(60, 8)) + 50 * labels[:, None]).astype(np.float16)
    run = RunRecord(
        Path("run"),
        {},
        embeddings={
            "after_source": points,
            "after_target": points,
            "source_labels": labels,
            "target_labels": labels,
        },
    )
    found = make_map(run, "after")
    assert found is not None
    centres = [found.source[labels == c].mean(0) for c in (0, 1)]
    nearest = [np.argmin([np.linalg.norm(place - centre) for centre in centres]) for place in found.target]
    assert nearest == labels.tolist()


@pytest.mark.drawn
def test_same_runs_same_file_and_callers_settings_are_left_alone(tmp_path: Path) -> None:
    with matplotlib.rc_context({"axes.facecolor": "black", "text.color": "white"}):
        before = dict(matplotlib.rcParams)
        run = make_run(tmp_path / "run", rows=20, steps=20, source_steps=5)
        dark = write_report([run], tmp_path / "dark.html").read_bytes()
        assert dict(matplotlib.rcParams) == before
    assert write_report([run], tmp_path / "plain.html").read_bytes() == dark


def test_refusals(tmp_path: Path) -> None:
    with refused("runs"):
        write_report([], tmp_path)
    with refused(r"config\.json"):
        write_report([tmp_path], tmp_path)
    run = make_run(tmp_path / "run", rows=10, steps=10, source_steps=5)
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"classes": []}))
    with refused(r"config\.json: classes:.*0.*10"):
        write_report([run], tmp_path / "classless.html")


def test_the_report_says_what_tau_came_to_and_why_the_run_was_picked(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", options={"tau": 0.5}))
    moved = np.mean([step["mass"] for step in run.steps[-50:]])
    assert f"tau is 0.5: {100 * moved:.0f}\N{NO-BREAK SPACE}% of the mass moves" in describe_run(run)
    assert "tau is" not in describe_run(read_run(make_run(tmp_path / "other", method="source-only")))
    picked = make_run(tmp_path / "picked", method="source-only")
    (picked / "decision.json").write_text('{"why": ["Adaptation was not used: so <it> is."]}', encoding="utf-8")
    assert "Adaptation was not used: so &lt;it&gt; is." in describe_run(read_run(picked))
    (picked / "decision.json").write_text("{", encoding="utf-8")
    with refused(r"decision\.json:.*JSON"):
        read_run(picked)


def test_the_verdict_comes_first(tmp_path: Path) -> None:
    estimate = {"value": 0.91, "low": 0.85, "high": 0.97, "why": "clusters"}
    cases = {
        "labelled": (0.95, estimate, "Adaptation helped: 95.1 % instead of 82.8 % of the"),
        "unlabelled": (None, estimate, "Probably about 91 % (90 % interval 85 to 97 %) of the target"),
        "unknown": (None, dict.fromkeys(("value", "low", "high")) | {"why": "too few"}, "without labels: too few."),
        "old": (None, None, "cannot be determined without labels."),
    }
    for name, (accuracy, found, words) in cases.items():
        folder = make_run(tmp_path / name, accuracy=accuracy)
        results = json.loads((folder / "results.json").read_text())
        (folder / "results.json").write_text(json.dumps(results | ({"estimated_accuracy": found} if found else {})))
        text = verdict(read_run(folder))
        assert words in text.replace("\N{NO-BREAK SPACE}", " "), (name, text)
        assert str(describe_run(read_run(folder))).startswith("<b>jumbot</b>")
    harmed = make_run(tmp_path / "harmed", accuracy=None, reasons=("proportions moved",))
    assert "did harm" in verdict(read_run(harmed))


def _write_baseline(run: Path, picture: str | None) -> None:
    """The files that a run with a report has beside its model."""
    estimate = {"value": 0.7, "low": 0.5, "high": 0.9, "why": "clusters"}
    baseline = {"what": "source-only", "changed": 0.25, "estimated_accuracy": estimate, "accuracy": 0.6, "n": 200}
    (run / "baseline.json").write_text(json.dumps(baseline), encoding="utf-8")
    rows = [
        {
            "why": why,
            "row": i,
            "id": f"<i>{i}</i>",
            "label": ODD[i],
            "confidence": 0.5,
            "received_mass": 0.1,
            "before": ODD[i + 1],
            "picture": picture,
        }
        for why in ("least explained", "most changed")
        for i in (0, 4)
    ]
    (run / "samples.json").write_text(json.dumps(rows), encoding="utf-8")


@pytest.mark.parametrize("picture", ["data:image/png;base64,AA==", None])
def test_samples_to_look_at(tmp_path: Path, picture: str | None) -> None:
    run = make_run(tmp_path / "run", classes=ODD, rows=20, steps=30, source_steps=5)
    _write_baseline(run, picture)
    page = Page(write_report([run], run))
    shown = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(shown) == (4 if picture else 0)
    assert page.count("script") == 1
    assert page.count("i") == 0
    assert "source-only baseline of this run" in page.text
    assert "60.0\N{NO-BREAK SPACE}%" in page.source
    assert ("a", {"href": "./predictions.csv"}) in page.tags
    filters = [attributes["data-filter"] for tag, attributes in page.tags if tag == "select"]
    ids = {attributes.get("id") for _, attributes in page.tags}
    assert filters
    assert set(filters) <= ids
    assert not any("open" in attributes for tag, attributes in page.tags if tag == "details")


def test_a_picture_that_is_none_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", classes=ODD, rows=20, steps=2, source_steps=1)
    _write_baseline(run, "javascript:alert(1)")
    with refused(r"samples\.json: \[0\]\.picture"):
        write_report([run], run)


def test_the_verdict_without_labels_follows_the_rule_of_harm(tmp_path: Path) -> None:
    cases = (
        ("helped", 0.9, 0.3, "jumbot", "seems to have helped"),
        ("few", 0.9, 0.01, "jumbot", "changed hardly any prediction"),
        ("even", 0.79, 0.3, "jumbot", "no sign of harm"),
        ("alone", 0.6, 0.3, "source-only", "Not adapted: .* Because so."),
    )
    for name, adapted, changed, method, words in cases:
        run = make_run(tmp_path / name, accuracy=None, rows=20, steps=30, source_steps=5)
        results = json.loads((run / "results.json").read_text(encoding="utf-8"))
        harm = {"adapted": adapted, "source_only": 0.8, "changed": changed}
        decision = {"method": method, "why": "because so.", "harm": harm}
        (run / "results.json").write_text(json.dumps(results | {"decision": decision}), encoding="utf-8")
        assert re.search(words, verdict(read_run(run))), name


@pytest.mark.drawn
def test_numbers_are_drawn_next_to_the_true_ones_and_the_source(tmp_path: Path, rng: np.random.Generator) -> None:
    X = rng.normal(size=(40, 2))
    y = np.stack([X[:, 0], 100 * X[:, 1]], 1)
    jumbot.adapt((X, y), (X, y), task="regression", steps=3, out=tmp_path / "known", method="jumbot", judge=False)
    jumbot.adapt((X, y[:, :1]), X, task="regression", steps=3, out=tmp_path / "unknown", method="jumbot", judge=False)
    known, unknown = ((tmp_path / name / "report.html").read_text() for name in ("known", "unknown"))
    assert "Predicted and true" in known
    assert "RMSE of 2 on the target" in known
    assert "Predicted and true" not in unknown
    assert "Distributions of the numbers" in unknown
    assert "a colour is a class" not in unknown


def test_the_first_box_has_the_answer_and_its_link_leads_somewhere(tmp_path: Path) -> None:
    for name, accuracy, place in (("labelled", 0.95, "samples"), ("unlabelled", None, "predictions")):
        run = make_run(tmp_path / name, classes=ODD, accuracy=accuracy, rows=20, steps=30, source_steps=5)
        _write_baseline(run, None)
        page = Page(write_report([run], run))
        ids = {attributes.get("id") for _, attributes in page.tags}
        assert place in ids
        assert ("a", {"href": f"#{place}"}) in page.tags
        assert page.text.index("How sure") < page.text.index("Next") < page.text.index("adapted a classifier")
        marks = [a for _, a in page.tags if a.get("class") == "mark"]
        assert len(marks) == (2 if accuracy else 1)  # this run has no estimate of its own


def test_a_comparison_says_who_is_best_and_how_sure_it_is(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / f"{method}{seed}", method=method, accuracy=accuracy, seed=seed, rows=20, steps=20)
        for method, accuracy in (("jumbot", 0.9), ("dann", 0.8))
        for seed in (0, 1)
    ]
    text = Page(write_report(runs, tmp_path)).text
    assert re.search(r"jumbot is best on .*?: 9\d\.\d.%, \d+\.\d points above dann\.", text)
    assert "2 seeds each: mean and deviation of jumbot and dann do not overlap." in text
    one = Page(write_report([runs[0], runs[2]], tmp_path / "one.html")).text
    assert "One seed each: use --seeds 3" in one
    blind = [make_run(tmp_path / f"blind{m}", method=m, accuracy=None, rows=20, steps=20) for m in ("jumbot", "dann")]
    task = read_run(blind[0]).task
    found = Page(
        write_report(blind, tmp_path / "b.html", "Comparison", {"dann": {task: [1.2]}, "jumbot": {task: [1.0]}})
    )
    assert "dann has the highest score without labels." in found.text


def test_the_page_of_tune_fits_a_screen(tmp_path: Path) -> None:
    """1280 pixels: the page is 68rem wide at most, a letter some 8 pixels, and cells have margins of 20."""
    from jumbot.report._tuning import _others, _table, _title, write_tuning
    from jumbot.report._words import TUNING

    scores = [
        name for name in TUNING if name not in ("gap", "smoothness", "rmse_not_used", "r2_not_used")
    ]  # of numbers
    names = ("jumbot:tau=0.03,eta3=0.5", "source-only", "deepjdot", "mcc:temperature=3", "jumbot:tau=1")
    rows = [
        {
            "candidate": name,
            "method": name.partition(":")[0],
            "settings": {},
            "whole": place < 4,
            "folder": f"candidates/{name.replace(':', '-')}",
            **dict.fromkeys(scores, 0.123),
        }
        for place, name in enumerate(names)
    ]
    record = {
        "why": ["A tie."],
        "candidates": rows,
        "source": {"name": "s"},
        "target": {"name": "t"},
        "jumbot": "0.2",
        "created": "2026-01-01",
        "command": None,
    }
    text = write_tuning(record, tmp_path).read_text(encoding="utf-8")
    assert "Other scores" in text
    shown, others = _table(rows), _others(rows)
    assert others is not None
    assert {*shown.head, *others.head} == {"candidate", "folder", *(_title(name) for name in scores)}
    for table in (shown, others):
        widths = [max(len(word) for line in column for word in [str(line)]) for column in zip(*table.rows, strict=True)]
        heads = [max(map(len, head.split())) for head in table.head]  # which are broken at blanks
        assert sum(8 * max(pair) + 20 for pair in zip(widths, heads, strict=True)) <= 68 * 16
