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

QUICK_SECONDS = {
    "tests/engine/ops/test_ops.py": 30,
    "tests/engine/fusion/test_rows.py": 25,
    "tests/api/test_golden.py": 20,
    "tests/engine/jit/test_service.py": 18,
    "tests/engine/codegen/test_loop_kernel.py": 16,
    "tests/engine/core/folds/test_summation.py": 16,
    "tests/engine/fusion/test_scan.py": 16,
    "tests/tui/panes/test_panes.py": 16,
    "tests/engine/execute/test_replay.py": 15,
    "tests/engine/kernels/test_fast_forms.py": 15,
    "tests/repository/test_layers.py": 14,
    "tests/workbench/session/test_attached_session.py": 14,
    "tests/cli/test_commands.py": 13,
    "tests/cli/test_main.py": 13,
    "tests/workbench/session/test_kernel_session.py": 13,
    "tests/keras/test_keras_layers.py": 12,
    "tests/tui/panes/test_keras_models.py": 12,
    "tests/engine/ops/test_tiers.py": 11,
    "tests/api/test_engines.py": 11,
    "tests/engine/kernels/test_registry.py": 10,
    "tests/engine/ops/pool/test_pooling.py": 10,
    "tests/tui/keys/test_comfort.py": 10,
    "tests/tui/lesson/test_lesson_steps.py": 10,
    "tests/tui/lesson/test_lesson_typed.py": 10,
    "tests/tui/panes/value/test_value.py": 10,
}
"""What the long files take with nothing compiled. Only their order matters: what is long and begins
last runs alone. Other files come after these."""

SLOW_SECONDS = {
    "tests/api/test_golden.py": 773,
    "tests/engine/ops/test_tiers.py": 751,
    "tests/dask/test_fit.py": 664,
    "tests/programs/test_programs.py": 400,
    "tests/keras/test_examples.py": 313,
    "tests/dask/test_map_faults.py": 288,
    "tests/keras/test_keras_layers_stacks.py": 286,
    "tests/engine/fusion/test_rows.py": 274,
    "tests/engine/ops/test_edges.py": 261,
    "tests/tui/test_fuzz.py": 235,
    "tests/engine/fusion/test_scan.py": 220,
    "tests/tui/lesson/test_every_lesson.py": 200,
    "tests/notebook/browser/test_browser_widgets.py": 195,
    "tests/engine/codegen/test_loop_kernel.py": 185,
    "tests/dask/test_rows.py": 172,
    "tests/engine/jit/test_service.py": 164,
    "tests/engine/jit/test_targets.py": 161,
    "tests/notebook/browser/test_browser_clicks.py": 147,
    "tests/cli/test_commands.py": 145,
    "tests/engine/core/test_fork_safety.py": 140,
    "tests/keras/test_keras_applications.py": 137,
    "tests/workbench/lessons/test_lessons.py": 136,
    "tests/engine/ops/test_ops.py": 134,
    "tests/notebook/browser/test_browser_explorer.py": 122,
    "tests/engine/compiler/test_random_graphs.py": 121,
    "tests/tui/test_screenshot.py": 118,
    "tests/tui/prompt/test_typing.py": 109,
    "tests/tui/terminal/test_terminal_sessions.py": 104,
    "tests/tui/terminal/test_terminal_pictures.py": 101,
    "tests/notebook/browser/test_browser_saved.py": 83,
    "tests/engine/kernels/test_registry.py": 63,
    "tests/repository/test_cluster.py": 59,
    "tests/tui/panes/test_panes.py": 54,
    "tests/tui/terminal/test_terminal_panes.py": 50,
    "tests/keras3/test_examples.py": 118,
    "tests/keras3/test_random_models.py": 92,
    "tests/keras3/test_applications.py": 60,
    "tests/keras3/test_bench.py": 40,
    "tests/keras3/test_curves.py": 35,
    "tests/keras3/test_import.py": 35,
    "tests/keras3/test_lesson.py": 30,
}
"""What those of the slow tests take."""

NICE = 10
"""Levels by which those that compute stand behind: a terminal is answered at once, and the time
that it waits is theirs."""

Units = dict[str, dict[str, bool]]


def is_for_interfaces(worker: str) -> bool:
    """Whether a worker, such as `gw1`, begins with the tests that wait."""
    return int(worker.removeprefix("gw")) % 2 == 1


class WorkerQueues(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each worker the longest file that is left of its own kind, else of the other.

    What is done is forgotten. xdist's own class looks through all of it after each test, and
    through all names for each test that it gives away: ten seconds in a run of 20,000.
    """

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._places: dict[str, int] = {}
        is_quick = config.getoption("markexpr") == "not slow"
        self._seconds = QUICK_SECONDS if is_quick else SLOW_SECONDS

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
        begins_with_waiting = is_for_interfaces(node.gateway.id)

        def rank(file: str) -> tuple[bool, int, int]:
            is_own = file.startswith(WAITING) == begins_with_waiting
            return is_own, self._seconds.get(file, 0), len(self.workqueue[file])

        file = max(self.workqueue, key=rank)
        tests = self.workqueue.pop(file)
        self.assigned_work[node][file] = tests
        node.send_runtest_some([self._places[nodeid] for nodeid in tests])
