"""The compiled form of ops that only move data: told once where everything goes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from kbench.engine.core.spec import Spec, known_size
from kbench.engine.core.types import KernelArguments
from kbench.engine.graph.op import KernelFactory, KernelSelector
from kbench.engine.kernels.data import strided_copy
from kbench.engine.runtime import config

Copy = Callable[[np.ndarray, np.ndarray], None]
"""`copy(target, source)`: views of any strides; the source is broadcast over the target."""

FillByCopies = Callable[..., None]
"""`fill(copy, out, *arrays, **attrs)` fills `out` by calls of `copy(target, source)`."""


def copy_kernel(infer: Callable[..., Spec], fill: FillByCopies) -> KernelSelector:
    """The `kernel=` of an op with this rule: `fill`, with the kernels that copy, when it is large.

    `copy` takes views of any strides; what it is given as source is broadcast over the target.
    """

    def select(*specs: Spec, **attrs: object) -> KernelFactory | None:
        result = infer(*specs, **attrs)
        nbytes = (known_size(result.shape) or 0) * np.dtype(result.dtype).itemsize
        if nbytes < max(1, config.min_elements(strided_copy.MIN_KERNEL_BYTES)):
            return None

        def call(out: np.ndarray, *arrays: *KernelArguments) -> None:
            *given, cancel_check = arrays
            fill(partial(strided_copy.copy, cancel_check=cancel_check), out, *given, **attrs)

        return lambda: call if strided_copy.find("rows", result.dtype) is not None else None

    return select
