"""`kbench.dask.fit`: Keras' own `fit`, whose steps are computed by the workers of a cluster.

Each batch is cut along axis 0 into shards. Workers compute the loss and the gradients of their
shards by one `K.function`; sums are made two by two; the optimizer runs once, in this process, and
new weights go out. The loop is Keras' own, so callbacks, history, validation, sample and class
weights, generators and the progress bar are as in `model.fit`.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from kbench.dask import activity, worker
from kbench.dask.errors import ClusterError
from kbench.dask.training.cluster import Cluster
from kbench.dask.training.data import Data
from kbench.dask.training.interrupts import LostInterrupts
from kbench.dask.training.program import FIT, build, packed
from kbench.dask.training.step import ClusterStep
from kbench.engine.core.errors import ArgumentError, shown

STATISTICS = ("synchronized", "local")


def fit(
    model: Any,
    x: Any = None,
    y: Any = None,
    *,
    client: Any = None,
    shards: int | None = None,
    batch_norm: str = "synchronized",
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_steps: int = 100,
    **arguments: Any,
) -> Any:
    """Train a compiled model of Keras 2.3.1 by all workers of a Dask cluster, synchronously.

    The result is that of `model.fit` with the same batches: losses and weights differ by rounding
    (relative 1e-5 in float32, 1e-12 in float64), and repeat to the bit with as many shards. Random
    numbers, as of dropout, follow from seed, step and shard: others than on one machine. The model
    is trained in place; docs/scale.md tells of faults and interrupts.

    Arguments:
        x, y: arrays, lists or dicts of them, a generator or a `keras.utils.Sequence`, as of
            `model.fit`. Each array, that of weights and validation too, may be one of Dask, [rows,
            ...] in chunks of known sizes: these stay on the workers, and so do its rows.
        client: a `distributed.Client`; None for the one that was made last.
        shards: parts of each batch along axis 0; None for as many as there are workers.
        batch_norm: "synchronized" normalizes by the moments of the whole batch, as one machine
            does; "local" by those of each shard: faster, and another result.
        checkpoint: a file that gets the model every `checkpoint_steps` steps, and when the
            cluster is lost; None for none.
        **arguments: all others of `model.fit`; `batch_size` is that of the whole batch. `shuffle`
            is Keras', for arrays of Dask as well: True permutes all rows, so that each step takes
            some from nearly all chunks, which costs a task for each; "batch" permutes batches.
    Returns:
        The `keras.callbacks.History`.
    Raises:
        ShapeError: arrays of Dask with chunks of unknown sizes, or other counts of rows.
        DtypeError: one that has no numbers.
        ArgumentError: the model cannot be trained by shards: it is not compiled, is stateful, has a
            loss that is a sum, a metric that does not add up, or rows that depend on one another;
            or arrays of Dask come from a generator, or with `steps_per_epoch`.
        ClusterError: no cluster, or one that is lost; the model has the weights of its last step.
        EngineError: no Dask, or a worker with another kbench, NumPy or Python.
    """
    found = _client(client)
    _check(model, batch_norm, checkpoint_steps)
    with LostInterrupts() as interrupts:
        data = Data.given(model, x, y, arguments)
        worker.prepare(found)
        program, store = build(model, uuid.uuid4().hex[:12], batch_norm == "synchronized")
        count = _shards(found, shards)
        tracker = activity.track("fit", str(getattr(model, "name", "model")), _steps(x, arguments))
        try:
            cluster = Cluster(found, packed(program))
            step = ClusterStep(model, program, store, cluster, count, tracker, interrupts)
            result = _trained(model, step, _Keeper(model, step, checkpoint, checkpoint_steps), data)
            _tell(step.break_even.sentence(), tracker, arguments)
        finally:
            tracker.end()
    return result


def _tell(sentence: str, tracker: activity.Tracker, arguments: dict[str, Any]) -> None:
    """Say in the end whether more workers were worth while, where that is known."""
    tracker.say(sentence)
    if sentence and arguments.get("verbose", 1):
        print(f"{FIT}: {sentence}")


def _shards(client: Any, asked: int | None) -> int:
    """How many shards a batch has."""
    count = len(client.nthreads()) if asked is None else asked
    if type(count) is int and count >= 1:
        return count
    if asked is None:
        raise ClusterError("the cluster has no workers", function=FIT)
    raise ArgumentError(f"shards must be at least 1, got {shown(asked)}", function=FIT)


def _steps(x: Any, arguments: dict[str, Any]) -> int | None:
    """How many steps there will be, if that can be told beforehand."""
    epochs = arguments.get("epochs", 1)
    steps = arguments.get("steps_per_epoch")
    several = list(x.values()) if isinstance(x, dict) else x
    first = several[0] if isinstance(several, (list, tuple)) and several else several
    if steps is None and isinstance(getattr(first, "shape", None), tuple) and first.shape:
        held_back = arguments.get("validation_split", 0.0)
        rows = int(first.shape[0] * (1 - held_back))
        steps = -(-rows // (arguments.get("batch_size") or 32))
    elif steps is None and hasattr(type(x), "__getitem__") and hasattr(x, "__len__"):
        steps = len(x)  # of a keras.utils.Sequence
    known = type(steps) is int and type(epochs) is int
    return steps * (epochs - arguments.get("initial_epoch", 0)) if known else None


def _client(client: Any) -> Any:
    """The client of a cluster."""
    import distributed

    if client is None:
        try:
            client = distributed.default_client()
        except ValueError:
            raise ClusterError(
                "no cluster: make a client first, as dask.distributed.Client() does for this "
                "machine, or give client=",
                function=FIT,
            ) from None
    if not isinstance(client, distributed.Client) or client.asynchronous:
        raise ArgumentError(
            f"client must be a distributed.Client that is not asynchronous, got {shown(client)}",
            function=FIT,
        )
    return client


def _check(model: Any, batch_norm: str, checkpoint_steps: int) -> None:
    if not hasattr(model, "_make_train_function") or not callable(getattr(model, "fit", None)):
        raise ArgumentError(
            f"model must be a model of Keras 2.3.1, got {shown(model)}", function=FIT
        )
    if not hasattr(model, "train_function"):
        raise ArgumentError("the model is not compiled: call model.compile first", function=FIT)
    if batch_norm not in STATISTICS:
        raise ArgumentError(
            f"batch_norm must be 'synchronized' or 'local', got {shown(batch_norm)}", function=FIT
        )
    if type(checkpoint_steps) is not int or checkpoint_steps < 1:
        raise ArgumentError(
            f"checkpoint_steps must be at least 1, got {shown(checkpoint_steps)}", function=FIT
        )


def _trained(model: Any, step: ClusterStep, keeper: _Keeper, data: Data) -> Any:
    """What Keras' own loop gives, with the cluster's steps in it."""
    with (
        _instead(model, keeper.train, step.test),
        keeper.telling(),
        data.held(step.cluster.client) as given,
    ):
        return model.fit(**given)


@contextlib.contextmanager
def _instead(model: Any, train: Any, test: Any) -> Iterator[None]:
    """Let Keras call these in place of its own functions."""
    before = model.train_function, model.test_function
    model.train_function, model.test_function = train, test
    try:
        yield
    finally:
        model.train_function, model.test_function = before


class _Keeper(Struct):
    """Saves the model now and then, and says what is kept when the cluster is gone."""

    model: Any
    step: ClusterStep
    path: str | os.PathLike[str] | None
    every: int
    saved: int | None = None  # the step of the last checkpoint

    def train(self, inputs: Any) -> list[Any]:
        results = self.step.train(inputs)
        if self.path is not None and self.step.steps % self.every == 0:
            self._save()
        note = self.step.break_even.sentence() if self.step.steps % 10 == 0 else ""
        if note:
            self.step.tracker.say(note)
        return results

    def _save(self) -> None:
        """Whole or not at all: under another name first."""
        path = os.fspath(self.path)  # type: ignore[arg-type]
        unfinished = f"{path}.unfinished"
        self.model.save(unfinished)
        os.replace(unfinished, path)
        self.saved = self.step.steps

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Say what is left when the cluster is gone."""
        try:
            yield
        except ClusterError as error:
            raise self._told(error) from error

    def _told(self, error: ClusterError) -> ClusterError:
        """The error with what is left."""
        kept = f"the model has the weights of step {self.step.steps} of this fit"
        if self.path is not None:
            try:
                self._save()
                kept += f", and so has {os.fspath(self.path)!r}"
            except OSError as failed:
                kept += f"; they could not be saved ({failed})"
        return ClusterError(f"{error.reason}; {kept}; fit again goes on from there", function=FIT)
