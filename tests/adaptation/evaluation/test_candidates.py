"""What `tune` tries."""

from __future__ import annotations

import pytest

from jumbot._settings.recipes import RECIPES
from jumbot.adaptation._config import make_config
from jumbot.adaptation._variants import candidates


def settings(recipe: str) -> dict[str, float]:
    options = make_config(None, "jumbot", recipe, {}).options
    return {name: getattr(options, name) for name in ("eta1", "eta2", "eta3", "tau")}


def test_fifteen_candidates_with_general_and_partial_settings() -> None:
    found = candidates("table")
    assert len(found) == len({each.label for each in found}) == len({each.folder for each in found}) == 15
    assert [each.method for each in found[:7]] == [
        *("source-only", "jumbot", "jumbot"),
        *("deepjdot", "mcc", "m-pot", "elot"),
    ]
    assert found[1].changes == settings("table")
    assert found[2].changes == settings("office-home")
    taus = {word: [c.changes["tau"] for c in found if c.label.startswith(f"{word} tau")] for word in WORDS}
    assert sorted(taus["jumbot"]) == [0.125, 0.25, 0.5, 1, 2]
    assert sorted(taus["jumbot partial"]) == pytest.approx([0.03, 0.06, 0.12, 0.24, 0.48])


WORDS = ("jumbot", "jumbot partial")


def test_digits_have_partial_settings_in_the_same_proportion() -> None:
    assert candidates("digits")[2].changes == {"eta1": 0.03, "eta2": 0.15, "eta3": 10.0, "tau": 0.24}


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_second_candidate_is_what_adapt_would_do(recipe: str) -> None:
    found = candidates(recipe)
    assert found[0].method == "source-only"
    assert found[1].changes == settings(recipe)
    assert len(found) == 15
    assert all(" " not in each.folder for each in found)


def test_both_recipes_of_tables_try_the_same() -> None:
    assert candidates("table") == candidates("table-partial")


@pytest.mark.parametrize("recipe", RECIPES)
def test_which_settings_are_called_partial(recipe: str) -> None:
    partial = recipe in ("table", "table-partial", "measurements", "words", "photographs", "office-home-partial")
    assert candidates(recipe)[1].label.startswith("jumbot partial" if partial else "jumbot tau")
