"""Functions of Python: the address of an array, and a call of a short kernel.

`jit/fast_call.py` says why, and makes `own`: an array of what they need of the interpreter.
"""

from kbench.engine.intrinsics.atomics import ask_1, ask_2
from kbench.engine.intrinsics.primitives import call_range, field
from kbench.engine.jit.numba_backend import function, inline

TYPE, DATA = 1, 2  # words of an object, and of an array


@inline
def data_of(own, thing):
    table = field(own, DATA)
    kind = field(thing, TYPE)
    if kind != field(table, 0) and ask_2(field(table, 1), kind, field(table, 0)) == 0:
        return -1
    return field(thing, DATA)


@function(2)
def address_of(own, array):
    address = data_of(own, array)
    return 0 if address == -1 else ask_1(field(field(own, DATA), 2), address)


@function(3)
def call(own, arguments, count):
    table = field(own, DATA)
    if count != 4:
        return 0
    address = ask_2(field(table, 3), field(arguments, 0), 0)
    params = data_of(own, field(arguments, 1))
    start = ask_2(field(table, 3), field(arguments, 2), 0)
    stop = ask_2(field(table, 3), field(arguments, 3), 0)
    if address <= 0 or params <= 0 or start < 0 or stop < 0:
        return 0
    call_range(address, params, start, stop)
    ask_1(field(table, 4), field(table, 5))
    return field(table, 5)
