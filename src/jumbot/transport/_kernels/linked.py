"""Compiled functions for compiled callers: they are optimised only where they are called.

numba optimises each function and generates machine code for it, then does both again in every caller, which contains a
copy of all that it needs.  Functions that only compiled ones call never run separately, and a loop that is vectorised
again in each copy grows with every level of calls.  Here such a function is typed and lowered, and the rest is done
once, in the function that Python calls: a quarter less time to compile.

These are private classes of numba.  If they are missing, or lack what is replaced here, importing this module raises an
ImportError, and `decorator.py` does without it.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

_SMALL = 330
"""Instructions, as numba writes them, of a loop of one line.  Longer ones are not inlined: LLVM would before they are
vectorised, while they are short, and then has one function in which it vectorises half of them."""
_REPLACED = (
    "add_ir_module",
    "_optimize_final_module",
    "_finalize_final_module",
    "get_pointer_to_function",
    "codegen",
)

if absent := [name for name in _REPLACED if not hasattr(JITCodeLibrary, name)]:
    raise ImportError(f"numba.core.codegen.JITCodeLibrary has no {', '.join(absent)}")


class Linked(Compiler):
    """The steps of `numba.njit` for functions that Python does not call and that use no Python objects."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        loops = any(isinstance(each, types.Array) for each in self.state.args)
        self.state.library = _Library(self.state.targetctx.codegen(), loops)


class _Library(JITCodeLibrary):
    """Intermediate code to be linked into that of callers, neither optimised as a whole nor made machine code."""

    def __init__(self, codegen: Any, loops: bool) -> None:
        super().__init__(codegen, "linked")
        self._loops = loops

    def add_ir_module(self, module: Any) -> None:
        for function in module.functions if self._loops else ():
            long = sum(len(block.instructions) for block in function.blocks) > _SMALL
            if long and "alwaysinline" not in function.attributes:
                function.attributes.add("noinline")
        super().add_ir_module(module)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    @property
    def codegen(self) -> Any:
        return _NoEnvironment


class _NoEnvironment:
    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """It holds the Python objects of compiled code, of which there are none, and is part of the machine code."""
