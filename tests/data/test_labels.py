"""Labels of any kind, and the classes of two domains brought together."""

from __future__ import annotations

import re

import numpy as np
import pytest

from jumbot.data import as_domain, match_classes, prepare
from jumbot.data._labels import encode_labels
from tests.refusals import refused


@pytest.mark.parametrize(
    ("values", "labels", "classes"),
    [
        (["b", "a", "b"], [1, 0, 1], ("a", "b")),
        (np.array([2, -1, 10]), [1, 0, 2], ("-1", "2", "10")),
        (np.array([1.0, np.nan, 0.0]), [1, -1, 0], ("0", "1")),
        (["10", "9", "x", "", None], [1, 0, 2, -1, -1], ("9", "10", "x")),
        (np.array([[3], [1]]), [1, 0], ("1", "3")),
        ([True, False], [1, 0], ("False", "True")),
        (np.array([b"cat", b"dog"]), [0, 1], ("cat", "dog")),
        ([1, "a", 2.0, float("nan")], [0, 2, 1, -1], ("1", "2", "a")),
        (np.array([], dtype=float), [], ()),
        (np.array(["2021-01-01", "2020-01-01", "NaT"], "M8[D]"), [1, 0, -1], ("2020-01-01", "2021-01-01")),
        (np.array(["2020-01-01T10:30", "2020-01-01"], "M8[ns]"), [1, 0], ("2020-01-01", "2020-01-01T10:30:00")),
    ],
)
def test_encoding(values, labels, classes) -> None:
    encoded, names = encode_labels(values)
    assert encoded.dtype == np.int64
    assert (encoded.tolist(), names) == (labels, classes)


def test_numbers_and_their_texts_are_one_class() -> None:
    assert encode_labels(np.array([1.0, 2.0]))[1] == encode_labels(["1", "2"])[1] == encode_labels([1, 2])[1]


def test_labels_that_are_no_classes() -> None:
    with refused(r"0\.37"):
        encode_labels([0.37, 1.0])
    with refused("labels"):
        encode_labels(np.zeros((3, 2)))


def test_times_are_no_numbers_to_predict() -> None:
    """Of nanoseconds numpy makes numbers."""
    with refused("regression"):
        as_domain((np.zeros((2, 2)), np.array(["2020", "2021"], "M8[ns]")), task="regression")


def test_target_classes_are_matched_by_name() -> None:
    source = as_domain((np.zeros((4, 2)), ["cat", "dog", "eel", "dog"]))
    target = as_domain((np.zeros((3, 2)), ["eel", "fox", "cat"]), name="target")
    with pytest.warns(UserWarning, match=r"target: 1.*\(fox\)"):
        _, matched, _ = prepare(source, target)
    assert matched.labels.tolist() == [2, -1, 0]
    assert matched.classes == ("cat", "dog", "eel")


def test_labels_without_a_common_name_are_dropped_with_a_warning() -> None:
    target = as_domain((np.zeros((2, 2)), [2020, 2021]), name="photos")
    with pytest.warns(UserWarning, match=r"photos:.*\(2020, 2021\)"):
        matched = match_classes(target, ("cat", "dog"))
    assert matched.labels is None


def test_missing_labels_stay_missing() -> None:
    target = as_domain((np.zeros((3, 1)), ["b", None, "b"]))
    assert match_classes(target, ("a", "b")).labels.tolist() == [1, -1, 1]


@pytest.mark.parametrize(
    ("labels", "classes", "match"),
    [
        ([1, 2, 3], ("0", "1", "2"), r"the source lacks \(3\).* All of its labels minus 1 are labels of the source"),
        ([0, 1, 2], ("1", "2", "3"), r"the source lacks \(0\).* All of its labels plus 1 are labels of the source"),
        ([0, 0, 5], ("0", "1", "2"), r"the source lacks \(5\); accuracies leave them out\.$"),
    ],
)
def test_labels_that_seem_shifted_by_one_are_named(labels, classes, match: str) -> None:
    target = as_domain((np.zeros((3, 1)), labels))
    with pytest.warns(UserWarning, match=match):
        match_classes(target, classes)


@pytest.mark.parametrize("labels", [["Cat", "dog", "DOG"], ["Cat", "DOG", "DOG"]])
def test_labels_in_another_spelling_are_named_with_those_that_may_be_meant(labels) -> None:
    target = as_domain((np.zeros((3, 1)), labels))
    with pytest.warns(UserWarning, match="'Cat'.*'cat'"):
        match_classes(target, ("cat", "dog"))


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        (None, "the source has no labels"),
        (["a", "a", "a"], r"only one class \(a\)"),
        (["a", "b", None], "1 of 3 source samples have no label, the first is row 2"),
    ],
)
def test_sources_that_cannot_teach(labels, match: str) -> None:
    with refused(match):
        prepare(as_domain(np.zeros((3, 2)), labels, name="s"), as_domain(np.zeros((3, 2))))


_COMPOSED, _COMBINED = "caf\N{LATIN SMALL LETTER E WITH ACUTE}", "cafe\N{COMBINING ACUTE ACCENT}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Hair drier", "hair_drier"),
        ("Yes", "yes"),
        ("-0", "0"),
        (_COMBINED, _COMPOSED),
        ("yes", "yes\N{ZERO WIDTH SPACE}"),
    ],
)
def test_classes_that_differ_in_spelling_alone(one: str, other: str) -> None:
    target = as_domain(np.zeros((1, 2)))
    with pytest.warns(UserWarning, match=f"'{one}'.*{re.escape(repr(other))}"):
        prepare(as_domain((np.zeros((2, 2)), [one, other])), target)
    prepare(as_domain((np.zeros((2, 2)), [-1, 1])), target)


def test_a_class_with_one_sample_is_kept() -> None:
    source, _, _ = prepare(as_domain((np.zeros((3, 2)), ["a", "b", "b"])), as_domain(np.zeros((1, 2))))
    assert source.counts().tolist() == [1, 2]


def test_source_classes_without_samples_are_left_out() -> None:
    whole = as_domain((np.zeros((4, 2)), ["a", "b", "c", "c"]))
    with pytest.warns(UserWarning, match=r"\(b\)"):
        source, target, _ = prepare(whole.subset([0, 2, 3]), whole)
    assert source.classes == target.classes == ("a", "c")
    assert target.labels.tolist() == [0, -1, 1, 1]
