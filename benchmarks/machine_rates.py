"""What a machine gives to launches: bytes per second by how many are touched, and what it costs to
wake threads.

All of it is measured with the engine's own kernels and its own pool. A copy of float32 moves the
bytes: with arrays that no cache holds, and with arrays that the caches hold. The cost of waking has
two parts. The leader signals each thread before it begins; that is what an almost empty launch
takes more on two threads than on one. And a thread begins late; that is told by a launch of some
length. Both are measured while threads still look for work, and after they have gone to sleep.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np

SET_BYTES = tuple(1 << power for power in range(18, 29))
"""Bytes that a copy touches, half of them read and half written."""
ROUND_SECONDS = 0.06
ROUNDS = 3
LATE_SECONDS = 2e-4
"""Length of the launch by which it is seen how late a thread begins."""
SLEEP_SECONDS = 2e-3
"""After so long without work every thread of the pool sleeps."""
WAKINGS = 150


def _kernel(expression: str) -> Any:
    from kbench.engine.codegen.loop_kernel import request
    from kbench.engine.codegen.loop_program import Input, loop_nest, loop_value
    from kbench.engine.jit.service import service

    value = loop_value(expression, "float32")
    program = loop_nest((Input("float32", (True,)),), (value,), (0,))
    request(program)
    service.wait_idle(60)
    kernel = request(program)
    if kernel is None:
        raise RuntimeError(f"no kernel for {expression}")
    return kernel


def _launch(kernel: Any, count: int) -> Callable[[int, bool], None]:
    """What runs the first items of a kernel, on all threads or on one."""
    from kbench.engine.jit.service import service
    from kbench.engine.runtime.workspace import Workspace

    source = np.full(count, 0.5, np.float32)
    target = np.ones_like(source)
    prepared = kernel.prepare([target], [source], source.shape, Workspace())
    (launch,) = prepared.parts

    def run(items: int, many: bool) -> None:
        assert target is not source  # both are kept as long as this is
        service.driver.run(launch.address, launch.params, 0, items, many)

    return run


def _typical(run: Callable[[], None], seconds: float) -> float:
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return median(times)


def rates(counts: Sequence[int]) -> dict[int, list[tuple[int, float]]]:
    """Bytes per second of copies by the bytes that they touch, for each number of threads: medians
    of some rounds, in turns."""
    import kbench as K

    kernel = _kernel("a0")
    found: dict[int, list[tuple[int, float]]] = {count: [] for count in counts}
    for size in SET_BYTES:
        run = _launch(kernel, size // 8)
        times: dict[int, list[float]] = {count: [] for count in counts}
        for count in [*counts] * ROUNDS:
            K.set_num_threads(count)
            times[count].append(_typical(partial(run, size // 8, count > 1), ROUND_SECONDS))
        for count in counts:
            found[count].append((size, size / median(times[count])))
    return found


def _rested(run: Callable[[], None], rest: float) -> float:
    """The median of runs, each after so many seconds of other work."""
    times = []
    for _ in range(WAKINGS):
        ready = time.perf_counter() + rest
        while time.perf_counter() < ready:
            pass
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return median(times)


def waking() -> dict[str, float]:
    """Seconds that one more thread costs the leader, and that it begins late; awake and asleep."""
    import kbench as K

    K.set_num_threads(2)
    run = _launch(_kernel("sin(a0) * cos(a0)"), 1 << 17)
    items = 1 << 14
    items = int(items * LATE_SECONDS / _typical(partial(run, items, False), 0.05))
    items = max(128, min(1 << 17, items))
    found = {}
    for name, rest in (("awake", 0.0), ("asleep", SLEEP_SECONDS)):
        empty, full = (
            [_rested(partial(run, count, many), rest) for many in (False, True)]
            for count in (2, items)
        )
        signal = max(0.0, empty[1] - empty[0])
        found[f"signal_{name}"] = signal
        found[f"late_{name}"] = max(0.0, 2 * (full[1] - full[0] / 2 - signal))
    return found
