"""Sources of pooling whose lanes are channels: windows that lie inside go side by side.

`gather` owns rows of the result; `route` owns a strip of rows of the input and visits every window
that reaches into it. What it adds up there may be made in scratch, and written past the caches at
the end. Every size is in elements.
"""

from __future__ import annotations

TILES = '''"""The inner loops of pooling in DTYPE."""
from kbench.engine.jit.numba_backend import entry
from kbench.engine.intrinsics.fma_tile import geometry
from kbench.engine.kernels.pool.channel_tile import dealt, gathered, routed

LANES = geometry("DTYPE")[0]
'''
NAMES = ("max", "max_past", "average", "average_past", "added", "written", "written_past",
         "shared", "shared_past")  # fmt: skip

_GATHERED = """_NAME = gathered("KIND", "DTYPE", LANES, PAST)


@entry(8)
def NAME(windows, table, taps, step_x, out, step_out, divides, channels):
    _NAME(windows, table, taps, step_x, out, step_out, divides, channels)


"""
_ROUTED = """_NAME = routed("DTYPE", LANES, KIND, PAST)


@entry(9)
def NAME(windows, table, taps, step_x, h, g, step_h, away, channels):
    _NAME(windows, table, taps, step_x, h, g, step_h, away, channels)


"""

_SHARED_OUT = """_NAME = dealt("DTYPE", LANES, PAST)


@entry(9)
def NAME(windows, table, taps, step_x, h, g, step_h, away, channels):
    _NAME(windows, table, taps, step_x, g, step_h, channels)


"""


def _entry(name: str) -> str:
    kind, _, past = name.partition("_")
    text = _GATHERED if kind in ("max", "average") else _ROUTED
    text = _SHARED_OUT if kind == "shared" else text
    kind = {"added": "True", "written": "False"}.get(kind, kind)
    return text.replace("NAME", name).replace("KIND", kind).replace("PAST", str(bool(past)))


TILES += "".join(map(_entry, NAMES))

GATHER, ROUTE = "kernels/pool/sources/channel_gather", "kernels/pool/sources/channel_route"
