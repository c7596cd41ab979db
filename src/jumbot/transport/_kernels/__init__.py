"""Compiled kernels, and the threads that run them.

What costs seconds when numba compiles, found with its event listeners (`numba.core.event`) on the KL sweeps, whose
first call takes 3.9 s of processor time on an empty cache (2026-11-17; 5.1 before `linked.py`):

- Half is LLVM and half numba's own passes in Python.  Both grow with the number of statements and of functions, and
  hardly with the level of optimisation: at `NUMBA_OPT=1` a tenth is saved.
- A function that compiled ones call costs .05 to .1 s before it does anything, even so (`linked.py`); `inline="always"`
  costs as much at each call and slows its caller down.  So a loop that is needed twice is a function, and a loop that
  is needed once stays where it is.
- `x[:] = y` between arrays costs 2 s: its error message brings in formatting of texts.  `np.empty` and `np.zeros` of
  another shape or dtype, integer `min` and `max` cost .03 s each; a literal True or False compiles a function again.
- Counting references to arrays takes a seventh, and functions that allocate need it; so others work in memory of their
  caller (`allocates` in `decorator.py`, `own` in `memory.py`).
- Looking for garbage while numba makes its objects takes a sixth; it is paused (`decorator.py`).
- All functions of a pair of divergences are compiled for one signature: contiguous, writable, float64.

What runs once per problem is NumPy.  Each pair of divergences compiles what it needs and no more.
"""
