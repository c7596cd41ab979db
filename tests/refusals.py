"""What a refusal is tested for: its type and the argument that it names, not its sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import jumbot

_NAME = re.compile(r"\^?([A-Za-z_]\w*)(?: must\b|:|\\b|$)")


@contextmanager
def refused(wanted: str) -> Iterator[pytest.ExceptionInfo[jumbot.ArgumentError]]:
    """The block raises an `ArgumentError` about the argument that `wanted` begins with: "tau", or "tau: 0".

    A message may name a file before the argument.  Where `wanted` begins with no name, the message is searched for it.
    """
    with pytest.raises(jumbot.ArgumentError) as caught:
        yield caught
    name, message = _NAME.match(wanted), str(caught.value)
    named = name and (caught.value.argument == name[1] or re.search(rf"(?:^|: |, ){name[1]}\b", message))
    assert named or re.search(wanted, message), message
