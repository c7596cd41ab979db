"""What a refusal is tested for: its type and the argument that it names, not its sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import jumbot

_NAME = re.compile(r"\^?([A-Za-z_]\w*)(?: must\b|:|\\b|$)")


@contextmanager
def refused(said: str) -> Iterator[pytest.ExceptionInfo[jumbot.ArgumentError]]:
    """The block raises an `ArgumentError` about the argument that `said` begins with: "tau", or "tau: 0".

    Where it begins with no name, such as that of a file, the message is searched for it.
    """
    with pytest.raises(jumbot.ArgumentError) as caught:
        yield caught
    if name := _NAME.match(said):
        assert caught.value.argument == name[1], caught.value
    else:
        assert re.search(said, str(caught.value)), caught.value
