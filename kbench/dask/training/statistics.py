"""Batch normalization over the whole batch, where each worker has only a shard of it.

The graph of a model is made anew with the moments of the batch in place of those of the shard:
mean = all_mean(mean of the shard), variance = all_mean(variance of the shard + square of how far
its mean is from the batch's). What Keras keeps as moving variance it multiplies by n / (n - 1 -
epsilon), with the n of the shard; that is put right as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbench import backend as K
from kbench.dask.training.collective import all_mean
from kbench.engine.compiler.rewrite import rebuild, with_inputs
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traverse import walk
from kbench.engine.ops.reduce.batch_norm import BatchMoments


def normalizes_batches(roots: Sequence[Tensor]) -> bool:
    """Whether a graph has moments of a batch."""
    return any(_moments_of(node) is not None for node in walk(roots))


def of_the_whole_batch(roots: Sequence[Tensor], share: Tensor) -> list[Tensor]:
    """`roots` with the moments of all shards; made within `collective.one_graph`.

    `share` is a scalar: this shard's part of the rows of the batch.
    """
    nodes = walk(roots)
    found = [moments for node in nodes if (moments := _moments_of(node)) is not None]
    rewriter = _Rewriter(share, found, _multiplied(nodes))
    return rebuild(roots, set(), rewriter.visit)


def _moments_of(node: Tensor) -> BatchMoments | None:
    moments = node.batch_moments
    return moments if isinstance(moments, BatchMoments) and 0 in moments.axes else None


def _multiplied(nodes: Sequence[Tensor]) -> set[int]:
    """Nodes that are multiplied by a number, as Keras does with a variance that it keeps."""
    found: set[int] = set()
    for node in nodes:
        if node.op.name == "multiply":
            first, second = node.inputs
            if second.ndim == 0:
                found.add(id(first))
    return found


class _Rewriter:
    def __init__(self, share: Tensor, found: list[BatchMoments], multiplied: set[int]) -> None:
        self._share = share
        self._centres = {id(moments.centre): moments for moments in found}
        self._spreads = {id(moments.spread): moments for moments in found}
        self._multiplied = multiplied
        self._made: dict[int, tuple[Tensor, Tensor]] = {}

    def visit(self, node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        if id(node) in self._centres:
            return self._whole(self._centres[id(node)], inputs)[0]
        if id(node) in self._spreads:
            return self._whole(self._spreads[id(node)], inputs)[1]
        result = with_inputs(node, inputs)
        moments = _moments_of(node)
        if moments is not None and id(node) in self._multiplied:
            return self._unbiased_for_the_batch(result, moments)
        return result

    def _whole(self, moments: BatchMoments, inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Mean and variance over the batch; `inputs` are what both are taken of."""
        made = self._made.get(id(moments.centre))
        if made is None:
            centre = with_inputs(moments.centre, inputs)
            spread = with_inputs(moments.spread, inputs)
            mean = all_mean(centre)
            made = mean, all_mean(spread + K.square(centre - mean))
            self._made[id(moments.centre)] = made
        return made

    def _unbiased_for_the_batch(self, variance: Tensor, moments: BatchMoments) -> Tensor:
        """What gives N / (N - 1 - epsilon) when it is multiplied by n / (n - 1 - epsilon)."""
        shape = K.shape(moments.x)
        sizes = K.prod(K.stack([shape[axis] for axis in moments.axes]))
        here = K.cast(sizes, variance.spec.dtype)
        whole = here / K.cast(self._share, variance.spec.dtype)
        less = 1.0 + moments.epsilon
        return variance * ((whole / (whole - less)) / (here / (here - less)))
