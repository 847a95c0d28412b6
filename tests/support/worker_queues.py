"""Who runs which tests of a parallel run: whole files as with `--dist loadfile`, the longest first.

Tests of the interfaces wait for most of their time: for kernels, terminals, timers. Those of
the engine compute and compile. Every second worker begins with the interfaces and the rest with the
engine, so that both run side by side; whoever is done with his own helps the others.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

WAITING = ("tests/cli/", "tests/notebook/", "tests/tui/", "tests/workbench/")

SECONDS = {
    "tests/engine/ops/test_ops.py": 46,
    "tests/api/test_golden.py": 37,
    "tests/cli/test_main.py": 26,
    "tests/cli/test_sessions.py": 25,
    "tests/engine/codegen/test_loop_kernel.py": 25,
    "tests/engine/jit/test_service.py": 25,
    "tests/engine/kernels/test_fast_forms.py": 25,
    "tests/workbench/session/test_attached_session.py": 25,
    "tests/engine/fusion/test_rows.py": 20,
    "tests/engine/fusion/test_scan.py": 20,
    "tests/keras/test_keras_layers.py": 20,
    "tests/workbench/session/test_kernel_session.py": 20,
    "tests/tui/panes/test_panes.py": 18,
    "tests/engine/kernels/test_registry.py": 16,
    "tests/engine/core/folds/test_summation.py": 16,
    "tests/tui/test_fuzz.py": 16,
    "tests/programs/test_programs.py": 15,
    "tests/tui/panes/test_keras_models.py": 15,
    "tests/tui/value/test_value.py": 15,
    "tests/engine/execute/test_replay.py": 14,
    "tests/engine/kernels/conv/test_direct.py": 14,
    "tests/engine/ops/pool/test_pooling.py": 14,
    "tests/repository/test_layers.py": 14,
    "tests/tui/keys/test_comfort.py": 13,
    "tests/tui/value/test_picture.py": 13,
    "tests/engine/ops/test_tiers.py": 12,
    "tests/notebook/widgets/test_tensor_view.py": 12,
    "tests/test_engines.py": 12,
    "tests/tui/session/test_resume.py": 12,
    "tests/engine/compiler/test_decompose_softmax.py": 10,
    "tests/engine/compiler/test_passes.py": 10,
    "tests/engine/jit/test_disk_cache.py": 10,
    "tests/engine/kernels/data/test_gather.py": 10,
    "tests/engine/kernels/gemm/test_gemm.py": 10,
    "tests/engine/kernels/winograd/test_winograd.py": 10,
    "tests/engine/ops/ctc/test_cost.py": 10,
    "tests/notebook/ipython/test_extension.py": 10,
    "tests/tui/lesson/test_lesson_steps.py": 10,
    "tests/tui/lesson/test_lesson_typed.py": 10,
    "tests/tui/panes/test_watch.py": 10,
    "tests/tui/prompt/test_typing.py": 10,
    "tests/tui/session/test_nan_controller.py": 10,
    "tests/workbench/lessons/test_lessons.py": 10,
}
"""What the long files take with nothing compiled. Only their order matters: what is long and begins
last runs alone. Other files come after these."""

Units = dict[str, dict[str, bool]]


class WorkerQueues(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each worker the longest file that is left of its own kind, else of the other.

    What is done is forgotten. xdist's own class looks through all of it after each test, and
    through all names for each test that it gives away: ten seconds in a run of 20,000.
    """

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._places: dict[str, int] = {}

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]

    def _pending_of(self, workload: Units) -> int:
        return sum(map(len, workload.values()))

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget it; more work for the worker if it has next to nothing left."""
        nodeid = self.registered_collections[node][item_index]
        file = self._split_scope(nodeid)
        left = self.assigned_work[node][file]
        left.pop(nodeid, None)
        if not left:
            del self.assigned_work[node][file]
        self._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        if not self._places:
            self._places = {name: at for at, name in enumerate(self.registered_collections[node])}
        begins_with_waiting = int(node.gateway.id.removeprefix("gw")) % 2 == 1

        def rank(file: str) -> tuple[bool, int, int]:
            is_own = file.startswith(WAITING) == begins_with_waiting
            return is_own, SECONDS.get(file, 0), len(self.workqueue[file])

        file = max(self.workqueue, key=rank)
        tests = self.workqueue.pop(file)
        self.assigned_work[node][file] = tests
        node.send_runtest_some([self._places[nodeid] for nodeid in tests])
