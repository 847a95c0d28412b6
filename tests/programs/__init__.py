"""The judge of composed programs: draws them at random, runs them on every tier, compares.

`operations` is the table of what programs are made of, `draw` makes one from a seed, `run` builds
and runs it in the kernel modes, `judge` says whether the results agree, `shrink` makes a failing
one small. `interpreted` runs generated kernels as Python, so that thousands of programs need no
compiler. `python -m programs --help`, in the folder of the tests, judges as many as one likes;
what failed once is a row of `kept.json`.
"""
