"""Every name a generated source may import, from the files that define them."""

from kbench.engine.intrinsics import (
    erf_pow,
    exp,
    integer,
    loop_hints,
    memory,
    nontemporal,
    primitives,
    subnormals,
    trig,
)
from kbench.engine.jit.numba_backend import exact_kernel, inline, range_kernel

__all__ = ["exact_kernel", "inline", "range_kernel"]

for _module in (
    primitives,
    integer,
    exp,
    erf_pow,
    loop_hints,
    memory,
    nontemporal,
    subnormals,
    trig,
):
    for _name, _value in vars(_module).items():
        if not _name.startswith("_"):
            globals().setdefault(_name, _value)
