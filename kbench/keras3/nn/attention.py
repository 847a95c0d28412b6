"""Attention: every query takes a mean of values, by how its product with their keys is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec import Struct

from kbench.keras3.calls.planned import planned
from kbench.keras3.nn.activation import softmax
from kbench.keras3.numpy import elementwise, layout, linear, reduce
from kbench.keras3.numpy.elementwise import float_type

LEAST = 0.7
"""The part of the lowest number of a dtype that what is hidden gets: no sum of two overflows."""
KEYS_AT_ONCE = 512
"""Keys of a block with `flash_attention`: their logits for a query stay in the first cache."""


@planned
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    scale: Any = None,
    is_causal: bool = False,
    flash_attention: Any = None,
    attn_logits_soft_cap: Any = None,
) -> Any:
    """Means of values, of shape [batch, queries, heads, width].

    The keys and values may have fewer heads, each of which then serves several of the query's.
    """
    query, key, value = (layout.known(x) for x in (query, key, value))
    if any(len(x.shape) != 4 for x in (query, key, value)):
        raise ValueError(
            "`dot_product_attention` only supports 4D inputs. Received: "
            f"query.shape={query.shape}, key.shape={key.shape}, value.shape={value.shape}."
        )
    dtype = float_type(query, key, value)
    query, key, value = (elementwise.cast(x, dtype) for x in (query, key, value))
    heads, served = query.shape[2], key.shape[2]
    if served != heads:
        key = layout.repeat(key, heads // served, axis=2)
        value = layout.repeat(value, heads // served, axis=2)
    wide = "float32" if dtype in ("float16", "bfloat16") else dtype
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    form = _Form(scale, attn_logits_soft_cap, bias, mask, is_causal, wide)
    if flash_attention:
        return elementwise.cast(_in_blocks(query, key, value, form), dtype)
    logits = form.logits(query, key, 0)
    shares = elementwise.cast(softmax(logits, -1), dtype)
    return linear.einsum("bnts,bsnh->btnh", shares, value)


class _Form(Struct):
    """How products of queries and keys become logits."""

    scale: Any
    cap: Any
    bias: Any
    mask: Any
    is_causal: bool
    dtype: str

    def logits(self, query: Any, key: Any, first: int) -> Any:
        """The logits of all queries and those keys that begin with the number `first`."""
        found = elementwise.cast(linear.einsum("btnh,bsnh->bnts", query, key), self.dtype)
        found = elementwise.multiply(found, self.scale)
        stop = first + key.shape[1]
        if self.cap is not None:
            capped = elementwise.tanh(elementwise.divide(found, self.cap))
            found = elementwise.multiply(capped, self.cap)
        if self.bias is not None:
            part = _columns(layout.known(self.bias), first, stop)
            found = elementwise.add(found, elementwise.cast(part, self.dtype))
        seen = self._seen(query.shape[1], first, stop)
        if seen is None:
            return found
        least = np.asarray(-LEAST * float(np.finfo(self.dtype).max), self.dtype)
        return elementwise.where(seen, found, least)

    def _seen(self, rows: int, first: int, stop: int) -> Any:
        seen: Any = None
        if self.mask is not None:
            mask = elementwise.cast(layout.known(self.mask), "bool")
            seen = _columns(mask, first, stop)
        if self.is_causal:
            before = (np.arange(first, stop) <= np.arange(rows)[:, None])[None, None]
            seen = before if seen is None else elementwise.logical_and(seen, before)
        return seen


def _columns(x: Any, first: int, stop: int) -> Any:
    """The part of those keys, where the last axis has more than one entry."""
    return x if x.shape[-1] == 1 else x[..., first:stop]


def _in_blocks(query: Any, key: Any, value: Any, form: _Form) -> Any:
    """A softmax that runs along the keys: memory for a block of them, not for all.

    The largest logit so far, the sum of exponentials and the mean of values are kept, and scaled
    where a larger one comes (Dao et al. 2022, algorithm 1).
    """
    from kbench.keras3.core import stop_gradient

    total: Any = None
    counted: Any = None
    largest: Any = None
    for first in range(0, key.shape[1], KEYS_AT_ONCE):
        keys = key[:, first : first + KEYS_AT_ONCE]
        values = elementwise.cast(value[:, first : first + KEYS_AT_ONCE], form.dtype)
        logits = form.logits(query, keys, first)
        top = stop_gradient(reduce.max(logits, -1, True))
        if total is not None:
            top = elementwise.maximum(top, largest)
        shares = elementwise.exp(elementwise.subtract(logits, top))
        part = linear.einsum("bnts,bsnh->bnth", shares, values)
        count = reduce.sum(shares, -1, True)
        if total is not None:
            less = elementwise.exp(elementwise.subtract(largest, top))
            part = elementwise.add(part, elementwise.multiply(total, less))
            count = elementwise.add(count, elementwise.multiply(counted, less))
        total, counted, largest = part, count, top
    return layout.transpose(elementwise.divide(total, counted), (0, 2, 1, 3))
