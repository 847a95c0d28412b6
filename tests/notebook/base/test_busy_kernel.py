"""A real kernel whose program is busy: widgets answer on the subshell that JupyterLab asks for.

Each cell here runs until a message of the front end has had its effect, so a message that waits for
the cell would let both wait for ever.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

LIMIT = 60.0
SETUP = """
import time
import numpy as np
from kbench import backend as K
from kbench.engine.runtime import config
from kbench.notebook import (
    CompareView, ConfigPanel, GradPanel, GraphView, PlanTable, TensorView, VariableTable,
    WatchList, explore, explorer,
)
w = K.variable(np.zeros((3, 2, 2)), name='w')
x = K.placeholder((None, 2), name='x')
loss = K.mean(K.square(K.dot(x, w[0])))
step = K.function([x], [loss], name='step')
step([np.ones((1, 2))])
"""


class Front:
    """What a front end does: runs cells, and sends to comms on a subshell."""

    def __init__(self, manager: KernelManager) -> None:
        self.client = manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=LIMIT)
        message = self.client.session.msg("create_subshell_request", {})
        self.client.control_channel.send(message)
        self.subshell = self.client.control_channel.get_msg(timeout=LIMIT)["content"]["subshell_id"]
        self.idle: set[str] = set()
        self.shown: dict[str, str] = {}
        self.values: list[tuple[str, str]] = []  # of which widgets told, in order

    def run(self, code: str) -> str:
        """Run a cell to its end; what its last expression shows."""
        return self.ended(self.begin(code))

    def begin(self, code: str) -> str:
        """Begin a cell, and see that it has begun."""
        ident = self.client.execute(code, user_expressions={})
        self.until(lambda kind, content, parent: parent == ident and kind == "execute_input")
        return ident

    def ended(self, ident: str) -> str:
        """Wait for the end of a cell."""
        while True:
            reply = self.client.get_shell_msg(timeout=LIMIT)
            if reply["parent_header"].get("msg_id") == ident:
                break
        content = reply["content"]
        assert content["status"] == "ok", "\n".join(content.get("traceback", []))
        if ident not in self.idle:
            self.until(lambda *_message: ident in self.idle)
        return self.shown.pop(ident, "")

    def until(self, seen: Callable[[str, dict[str, Any], str], Any]) -> None:
        """Hear what the kernel broadcasts until it is what is waited for."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            message = self.client.get_iopub_msg(timeout=LIMIT)
            kind, content = message["header"]["msg_type"], message["content"]
            if kind == "comm_msg" and content["data"].get("method") == "update":
                shown = str(content["data"]["state"].get("value", ""))
                self.values.append((content["comm_id"], shown))
            parent = message["parent_header"].get("msg_id", "")
            if kind == "execute_result":
                self.shown[parent] = content["data"]["text/plain"]
            if content.get("execution_state") == "idle":
                self.idle.add(parent)
            if seen(kind, content, parent):
                return
        raise AssertionError("the kernel did not tell it")

    def drawn(self, words: str) -> None:
        """Wait until some widget shows the words."""

        def shown(*_message: Any) -> bool:
            return any(words in value for _, value in self.values)

        if words and not shown():
            self.until(shown)

    def send(self, comm: str, data: dict[str, Any]) -> None:
        """What a control of a widget tells the kernel, on the subshell."""
        message = self.client.session.msg("comm_msg", {"comm_id": comm, "data": data})
        message["header"]["subshell_id"] = self.subshell
        self.client.shell_channel.send(message)

    def set(self, comm: str, **state: Any) -> None:
        self.send(comm, {"method": "update", "state": state, "buffer_paths": []})

    def comms(self, *widgets: str) -> list[str]:
        """The comms of some widgets, given as expressions."""
        code = f"[one.comm.comm_id for one in ({', '.join(widgets)},)]"
        found: list[str] = json.loads(self.run(code).replace("'", '"'))
        return found


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(tmp_path_factory.mktemp("kernel")))
    try:
        made = Front(manager)
        made.run(SETUP)
        yield made
        made.client.stop_channels()
    finally:
        manager.shutdown_kernel(now=True)


# what is made and shown, the control, what it is set to, what the cell waits for, what is drawn
ROWS = {
    "slice": (
        "TensorView(w, 'w')",
        "it.steppers[0]",
        {"value": 2},
        "it.slice.index[0] == 2",
        "w[2",
    ),
    "picture": ("TensorView(w, 'w')", "it.mode", {"index": 1}, "it.picture", "image/png"),
    "setting": (
        "ConfigPanel()",
        "it.fields['floatx']",
        {"index": 2},
        "K.floatx() == 'float64'",
        "",
    ),
    "filter": ("VariableTable()", "it.filter", {"value": "w*"}, "'1 name<' in it.html", "1 name"),
    "watch": ("WatchList()", "it.expression", {"value": "1 + 1"}, "it.expressions", "1 + 1"),
    "loss": ("GradPanel()", "it.loss", {"index": 1}, "it._loss == 'loss'", ""),
    "graph": ("GraphView('loss')", "it.find", {"value": "nope"}, "'no node' in it.html", "no node"),
    "plan": ("PlanTable()", "it.sort", {"index": 2}, "it.sort.value == 'time'", ""),
    "versus": ("CompareView('1 + 1')", "it.variants", {"value": ""}, "it.variants.value == ''", ""),
    "explored": (
        "explore('relu')",
        "it.controls['alpha']",
        {"value": -1.0},
        "'alpha=-1.0' in it.now.line",
        "K.relu(x, alpha=-1.0)",
    ),
    "other": (
        "explore()",
        "it._choosers[1]",
        {"index": 3},
        "it.controls and it.now and 'conv2d_transpose' in it.now.line",
        "K.conv2d_transpose(x, kernel",
    ),
    "tab": ("explorer()", "it", {"selected_index": 4}, "it.tabs['graph'].redraws.running", ""),
}


@pytest.mark.parametrize(
    "name", [one if one == "slice" else pytest.param(one, marks=pytest.mark.slow) for one in ROWS]
)
def test_a_busy_program_does_not_hold_widgets_up(name: str, front: Front) -> None:
    make, control, state, condition, drawn = ROWS[name]
    front.run(f"it = {make}\nit")
    (comm,) = front.comms(control)
    front.values.clear()
    cell = front.begin(  # stores all the while, so that the kernel speaks from other threads, too
        f"number = 0\nwhile not ({condition}):\n"
        "    number += 1\n    K.set_value(w, np.full((3, 2, 2), number)); time.sleep(0.01)\n"
    )
    front.set(comm, **state)
    front.ended(cell)
    front.drawn(drawn)
    front.run("it.close(); config.assign('floatx', 'float32')")


@pytest.mark.slow
def test_moves_come_at_most_every_100_ms_and_the_last_one_counts(front: Front) -> None:
    front.run("big = np.random.default_rng(0).normal(size=(60, 200, 200))\n"
              "it = TensorView(big, 'big', mode='heat map')\nit")  # fmt: skip
    stepper, body = front.comms("it.steppers[0]", "it._body")
    cell = front.begin("while it.slice.index[0] != 59: time.sleep(0.01)")
    heard: list[int] = []

    def told(kind: str, content: dict[str, Any], parent: str) -> bool:
        if kind == "comm_msg" and content["comm_id"] == body:
            heard.append(len(json.dumps(content["data"])))
        return any(comm == body and "[59, :, :]" in value for comm, value in front.values)

    for place in range(60):
        front.set(stepper, value=place)
    front.until(told)
    assert len(heard) < 50 and max(heard) < 160_000, heard
    front.ended(cell)
    front.run("it.close()")


@pytest.mark.slow
def test_ab_waits_for_the_cell_and_not_the_cell_for_it(front: Front) -> None:
    front.run("it = CompareView('K.ones((2,)) * K.epsilon()', 'epsilon=1,2')\nit")
    (press,) = front.comms("it.compare_button")
    cell = front.begin("while 'running cell' not in it.html: time.sleep(0.01)\nsaid = it.html")
    front.send(press, {"method": "custom", "content": {"event": "click"}})
    front.ended(cell)
    front.drawn("2 variants")
    assert front.run("K.epsilon()") == "1e-07"
    front.run("it.close()")
