"""Normal numbers from uniform ones, by formulas that NumPy and the compiled kernels share.

The formulas are kernel files: `pair` makes two numbers of two, `within` one of one. The numbers
must be the same whichever tier draws them and on every machine, so no logarithm or sine of a
library is called: all is additions, products, quotients and roots, each rounded on its own, which
is what NumPy does and what the kernels are compiled to do. A formula is valid for arrays and for
single numbers; only what its names mean differs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from kbench.engine.jit import kernel_file

ARRAYS = "kernels.random.arrays."
"""The module whose names mean the same for arrays."""


def source(name: str, dtype: str, home: str = "") -> str:
    """The formula `pair` or `within` of float32 or float64 as a function.

    Its names are helpers of kernels, or those of the same name in another module of the engine.
    """
    end = dtype.removeprefix("float")
    meanings = {
        "formula": f"{home or 'jit.numba_backend.'}exact_inline",
        "select": f"{home}select",
    }
    if name == "pair":
        meanings["integer"] = f"int{end}"
        meanings["bits_of"] = f"{home}bits_of_f{end}"
        meanings["of_bits"] = f"{home}f{end}_of_bits"
        meanings["square_root"] = f"{home}square_root"
    file = f"kernels/random/sources/normal_{name}"
    return kernel_file.specialized(file, DTYPE=dtype, value=dtype, **meanings)


@functools.cache
def function(name: str, dtype: str) -> Callable[..., Any]:
    """The same formula for contiguous arrays, which it does not change."""
    names: dict[str, Any] = {}
    text = source(name, dtype, ARRAYS)
    exec(compile(text, f"<kbench {name} {dtype}>", "exec"), names)
    found: Callable[..., Any] = names[name]
    return found
