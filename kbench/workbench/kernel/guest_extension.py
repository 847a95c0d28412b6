"""What is loaded into somebody else's kernel: the inspector, and nothing that changes the kernel.

No name is defined, errors and results look as before, and `exit()` does what it did. Only the
place of a tensor is shown as 'In [3]', which nobody sees but in messages of the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbench.engine.core import errors
from kbench.workbench.kernel import pane_channel
from kbench.workbench.kernel.extension import Channel, number_of, place_name, tell_error
from kbench.workbench.protocol import messages

if TYPE_CHECKING:
    from kbench.workbench.ipython_types import CellResult, Kernel, Shell

_GUEST_ATTRIBUTE = "_kbench_guest"


def load_ipython_extension(shell: Shell) -> None:
    """Open the inspector to front ends; a second time, or in a kernel of kbench, a no-op."""
    kernel: Kernel | None = getattr(shell, "kernel", None)
    if kernel is None or pane_channel.of(shell) or getattr(shell, _GUEST_ATTRIBUTE, None):
        return
    channel = Channel(shell)
    setattr(shell, _GUEST_ATTRIBUTE, channel)
    errors.set_place_namer(lambda file, line: place_name(shell, file, line))
    shell.events.register("pre_run_cell", lambda _info: channel.inspector.cell_started())
    shell.events.register("post_run_cell", lambda result: _ended(shell, channel, result))
    kernel.comm_manager.register_target(messages.TARGET, channel.open)


def _ended(shell: Shell, channel: Channel, result: CellResult) -> None:
    """A cell has ended: tell what is known of its error, and which names have changed."""
    error = getattr(result, "error_in_exec", None)
    if isinstance(error, BaseException):
        tell_error(shell, channel.publish, error)
    channel.inspector.cell_ended(number_of(result))
