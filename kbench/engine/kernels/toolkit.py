"""Every name a generated source may import, from the files that define them."""

from kbench.engine.kernels import integer, primitives, simd, simd_more, streaming, trig
from kbench.engine.kernels.compile import exact_kernel, inline, range_kernel

__all__ = ["exact_kernel", "inline", "range_kernel"]

for _module in (primitives, integer, simd, simd_more, streaming, trig):
    for _name, _value in vars(_module).items():
        if not _name.startswith("_"):
            globals().setdefault(_name, _value)
