"""Library kernel of kbench: softmax, its logarithm, or the logarithm of its sum, row by row."""

import numpy as np

from kbench.engine.intrinsics.exp import log_f64
from kbench.engine.intrinsics.integer import maximum_float, plus
from kbench.engine.intrinsics.primitives import field
from kbench.engine.intrinsics.specialized import (
    FORM,
    IS_WIDENED,
    exp_value,
    load_element,
    peek_element,
    store_element,
    value,
)
from kbench.engine.jit.numba_backend import part, range_kernel


@part
def sum_of_exponentials(y, x, base, n, top):
    """The sum of a row against its largest; softmax keeps the exponentials where it can."""
    total = 0.0
    for low in range(0, n, 4096):
        some = value(0)
        for j in range(low, min(low + 4096, n)):
            if FORM == "softmax" and not IS_WIDENED:
                grown = exp_value(load_element(x, base + j) - top)
                store_element(y, base + j, grown)
                some = plus(some, grown)
            else:
                some = plus(some, exp_value(load_element(x, base + j) - top))
        total += np.float64(some)
    return total


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    x = field(params, 1)
    n = field(params, 2)
    for row in range(start, stop):
        base = row * n
        top = value(-np.inf)
        for j in range(n):
            top = maximum_float(top, load_element(x, base + j))
        total = sum_of_exponentials(y, x, base, n, top)
        if FORM == "softmax":
            scale = value(1.0 / total)
            for j in range(n):
                if IS_WIDENED:
                    grown = exp_value(load_element(x, base + j) - top)
                    store_element(y, base + j, grown * scale)
                else:
                    store_element(y, base + j, peek_element(y, base + j) * scale)
        elif FORM == "log_softmax":
            shift = value(log_f64(total))
            for j in range(n):
                store_element(y, base + j, (load_element(x, base + j) - top) - shift)
        else:
            result = value(np.float64(top) + log_f64(total))
            limit = (top == value(np.inf)) | (top == value(-np.inf))
            store_element(y, row, top if limit else result)
