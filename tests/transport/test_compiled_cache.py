"""What compiled functions are cached under: their code and all that it uses, but no words."""

import subprocess
import sys
import textwrap
import types

import numba
import pytest

from jumbot.transport._kernels import decorator, sweeps
from jumbot.transport._outcome import KL, TV

SOURCE = '''
import numpy as np
from jumbot.transport._kernels.decorator import compiled
{comment}
DEPTH = {depth}

@compiled({flags})
def inner(x):
    """{words}"""
    return x * DEPTH + {constant}

def outer_of(times):
    @compiled()
    def outer(x):
        return times * inner(x)
    return outer
'''
PLAIN = {"comment": "", "depth": "5", "flags": "", "words": "As it was.", "constant": "1.0"}


def outer(times=2.0, **changes):
    scope = {}
    # from a string there is no file to cache in: what counts is the digest
    exec(compile(textwrap.dedent(SOURCE.format(**PLAIN | changes)), __file__, "exec"), scope)
    return scope["outer_of"](times)


@pytest.mark.parametrize(
    "change", [{"words": "Said\n    otherwise."}, {"words": ""}, {"comment": "# why\n\n\n"}], ids=str
)
def test_words_are_not_compiled_again(change):
    assert decorator.meaning(outer(**change)) == decorator.meaning(outer())


@pytest.mark.parametrize(
    "change",
    [{"depth": "6"}, {"constant": "2.0"}, {"flags": "fastmath=True"}, {"times": 3.0}],
    ids=str,
)
def test_what_a_function_uses_counts(change):
    assert decorator.meaning(outer(**change)) != decorator.meaning(outer())


@pytest.mark.parametrize("value", ["np.uint64({})", "np.float32({})", "np.array([{}])[0]", "np.array([{}])", "({}, 1)"])
def test_constants_of_numpy_count(value):
    one, again, other = (decorator.meaning(outer(depth=value.format(number))) for number in (5, 5, 6))
    assert one == again != other


@pytest.mark.parametrize("value", ["((np.arange(2000.0), {}), 1)", "np.dtype('f{}')", "np.int{}"])
def test_nested_constants_and_types_count(value):
    one, again, other = (decorator.meaning(outer(depth=value.format(number))) for number in (8, 8, 16))
    assert one == again != other


def test_every_value_of_a_long_array_counts():
    arrays = [f"(np.arange(2000.0) + (np.arange(2000) == 999) * {k},)" for k in (0, 1)]
    assert len({decorator.meaning(outer(depth=array)) for array in arrays}) == 2


def test_a_default_counts():
    def plus(x, more=1.0):
        return x + more

    first = decorator.meaning(plus)
    plus.__defaults__ = (2.0,)
    assert decorator.meaning(plus) != first


def test_what_is_asked_of_a_module_counts():
    """At any depth: a function of a module that is called by one that is called."""
    module = types.ModuleType("elsewhere")

    def digest(constant):
        scope = {"compiled": decorator.compiled}
        exec(f"@compiled()\ndef deep(x):\n    return x + {constant}", scope)
        module.deep = scope["deep"]
        scope = {"compiled": decorator.compiled, "elsewhere": module}
        lines = (
            "@compiled()\ndef inner(x):\n    return elsewhere.deep(x)\n@compiled()\ndef outer(x):\n    return inner(x)"
        )
        exec(lines, scope)
        return decorator.meaning(scope["outer"])

    one, again, other = (digest(constant) for constant in (1.0, 1.0, 2.0))
    assert one == again != other


def test_functions_defined_later_count_without_our_cache(monkeypatch):
    """numba's own cache asks for a name when a function is defined, before what it calls may be there."""

    def name():
        def function(x):
            return x

        return decorator._by_public_numba(function, {"nogil": True}).py_func.__qualname__

    first = name()
    assert name() == first
    monkeypatch.setattr(decorator, "_sources", lambda: "0123456789abcdef")
    assert name() != first


def test_its_own_options_count():
    def double(x):
        return 2 * x

    assert len({decorator.meaning(decorator.compiled(allocates=flag)(double)) for flag in (True, False)}) == 2


def test_a_closure_over_compiled_functions_is_distinguished_from_another():
    kernels = sweeps.solver(KL, KL), sweeps.solver(TV, TV), sweeps.solver.__wrapped__(KL, KL)
    one, other, again = (decorator.meaning(kernel) for kernel in kernels)
    assert one == again != other


def test_every_compiled_function_has_this_cache():
    package = [m for name, m in sys.modules.items() if name.startswith("jumbot.")]
    found = [x for m in package for x in vars(m).values() if isinstance(x, numba.core.registry.CPUDispatcher)]
    assert len(found) > 20
    assert {type(x._cache) for x in found} == {decorator.CACHE}


SCRIPT = """
import sys
from jumbot.transport._kernels.decorator import compiled

@compiled()
def inner(x):
    return x + {constant}

@compiled()
def outer(x):
    return inner(x)

print(outer(1.0), sum(outer.stats.cache_hits.values()))
"""


def test_on_disk(tmp_path):
    """A line and a comment more: from the cache.  Another constant in what it calls: compiled."""
    script, seen = tmp_path / "script.py", []
    for source in (SCRIPT, "# a comment\n\n" + SCRIPT, SCRIPT.replace("{constant}", "2.0")):
        script.write_text(source.replace("{constant}", "1.0"))
        seen.append(subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout.split())
    assert seen == [["2.0", "0"], ["2.0", "1"], ["3.0", "0"]]


def test_collection_goes_on_after_compiling():
    import gc

    @decorator.compiled()
    def doubled(x):
        return 2 * x

    assert gc.isenabled()
    assert doubled(3) == 6
    assert gc.isenabled()
    gc.disable()
    try:
        assert doubled(3.0) == 6.0
        assert not gc.isenabled()
    finally:
        gc.enable()
