"""Numbers that tell whether bytes of a graph have come through unharmed: CRC-32 of what a node is.

They find damage, not forgery: what pickle reads can do anything, whatever its checksums.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping

import numpy as np

from kbench.engine.core.csr import Held, is_csr
from kbench.engine.core.errors import ArgumentError
from kbench.engine.core.spec import Spec

_PLAIN = frozenset((str, int, float, bool, bytes, type(None)))
_OURS = "kbench.engine."


def of_value(value: Held | np.generic) -> int:
    """Of the entries of an array, or of a sparse matrix: its entries and where they stand."""
    if is_csr(value):
        total = 0
        for part in (value.data, value.indices, value.indptr):
            total = zlib.crc32(np.ascontiguousarray(part).data, total)
        return total
    return zlib.crc32(np.ascontiguousarray(value).data)


def unharmed_value(value: object, spec: Spec, checksum: int, name: str) -> Held:
    """A variable's value out of bytes; it may lie in them, as nothing stores into such memory.

    Raises:
        ArgumentError: it is none of this dtype and shape, or has another checksum.
    """
    fits = is_csr(value) if spec.sparse else isinstance(value, np.ndarray)
    if (
        not fits
        or (value.dtype, value.shape) != (np.dtype(spec.dtype), spec.shape)  # type: ignore[attr-defined]
        or of_value(value) != checksum
    ):
        raise ArgumentError(
            f"the bytes of variable {name!r} {spec} are damaged: its value has another checksum",
            function="pickle.loads",
        )
    if is_csr(value):
        return value.copy()
    return np.require(value, requirements="A")


def of_text(
    text: str, parts: Mapping[str, object], told: Callable[[object], object] = lambda _: None
) -> int:
    """Of a text, and of numbers, texts and arrays by their names, and of containers of them.

    Of whatever else there is `told` says what counts, as the names of tensors do, and None of the
    rest; but what has a state of its own in the engine counts by that, as random numbers do by
    their seed and place.
    """
    if parts:
        text += repr([(key, _plain(part, told)) for key, part in parts.items()])
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def _plain(value: object, told: Callable[[object], object]) -> object:
    """A value as what has the same text in every process."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, (tuple, list)):
        return [_plain(entry, told) for entry in value]
    if isinstance(value, Mapping):
        return "map", [(_plain(key, told), _plain(entry, told)) for key, entry in value.items()]
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufc":
        return value.dtype.str, value.shape, of_value(value)
    if isinstance(value, slice):
        return [_plain(entry, told) for entry in (value.start, value.stop, value.step)]
    if kind.__module__.startswith(_OURS) and kind.__getstate__ is not object.__getstate__:
        return _plain(value.__getstate__(), told)
    known = told(value)
    return None if known is None else _plain(known, told)
