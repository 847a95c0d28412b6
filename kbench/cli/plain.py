"""`kbench --plain`: IPython's prompt with K, and every change told as a line.

The path for screen readers, poor terminals and those who prefer a prompt: nothing is redrawn,
nothing is said by colour alone, and what the workbench shows in its panes is announced after each
input: a setting that changed, a name that was made, a variable whose value is another, what the
workers of a cluster have done.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from kbench.engine.core import fork_safety

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from kbench.workbench.history.shell_journal import ShellJournal

_MAX_SHOWN = 8
Prepare = Callable[["InteractiveShell", "ShellJournal"], object]


class Announcer:
    """Collects what changed while an input ran, and says it when the input is done."""

    def __init__(
        self,
        names: dict[str, object],
        say: Callable[[str], None],
        more: Callable[[], list[str]] = list,
    ) -> None:
        from kbench.engine.runtime import config
        from kbench.workbench.analysis.job_news import JobNews

        self._more = more
        self._jobs = JobNews()
        self._names = names
        self._say = say
        self._lock = fork_safety.lock()
        self._settings: list[str] = []
        self._known = self._state()
        self.stop = config.changed.subscribe(self._setting)

    def _setting(self, name: str) -> None:
        with self._lock:
            self._settings.append(name)

    def _state(self) -> dict[str, tuple[int, int, object]]:
        """Identity and version of every tensor, array and model that has a public name.

        An array has no version, so its bytes stand for one, of a large one a sample of them.
        """
        from kbench.workbench.inspector import variable_rows

        return {
            name: (id(value), variable_rows.version(value), variable_rows.mark(value))
            for name, value in list(self._names.items())
            if not name.startswith("_") and _announced(value)
        }

    def announce(self, *_: object) -> None:
        """Say what is new since the last time; called after each input."""
        from kbench.engine.runtime import config
        from kbench.workbench.inspector import summary

        with self._lock:
            settings, self._settings = list(dict.fromkeys(self._settings)), []
        values = config.snapshot()
        for name in settings:
            self._say(f"setting {name} is now {values.get(name)}")
        state = self._state()
        changed = [name for name, mark in state.items() if self._known.get(name) != mark]
        for name in changed[:_MAX_SHOWN]:
            self._say(f"{name}: {summary.line(self._names[name], ascii=summary.ascii_only())}")
        if len(changed) > _MAX_SHOWN:
            self._say(f"and {len(changed) - _MAX_SHOWN} more names; %vars lists all")
        gone = [name for name in self._known if name not in self._names]
        if gone:
            self._say(f"gone: {', '.join(gone[:_MAX_SHOWN])}")
        for text in self._more():
            self._say(f"watch {text}")
        for text in self._jobs():
            self._say(text)
        self._known = state


def _announced(value: object) -> bool:
    from kbench.engine.inspect import describe
    from kbench.workbench.models import keras_models

    array = describe.held_array(value) is not None
    return array or describe.is_tensor(value) or keras_models.is_layer(value)


def fold_errors(shell: InteractiveShell) -> None:
    """Let a shell show errors as scripts do: the user's frames, and what the engine has to say."""
    import IPython
    from IPython.core.error import UsageError

    from kbench.cli import run as cli_run

    own = os.path.dirname(IPython.__file__) + os.sep

    def show(
        shell: InteractiveShell, kind: type, error: BaseException, trace: object, **_: object
    ) -> None:
        if isinstance(error, UsageError):
            shell.show_usage_error(error)
            return
        text = cli_run.fold(error, more=own)
        print(re.sub(r'File "<ipython-input-(\d+)-\w+>"', r"In [\1]", text), end="", flush=True)

    shell.set_custom_exc((Exception,), show)


def _settings() -> Config:
    """IPython's settings: the simple prompt wherever redrawing a line would be noise."""
    from traitlets.config import Config

    settings = Config()
    settings.TerminalIPythonApp.display_banner = False
    settings.TerminalInteractiveShell.confirm_exit = False
    settings.TerminalInteractiveShell.autosuggestions_provider = None
    settings.TerminalInteractiveShell.term_title = False
    settings.HistoryManager.hist_file = ":memory:"  # ours is that of all sessions
    simple = not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb"
    settings.TerminalInteractiveShell.simple_prompt = simple
    if simple or os.environ.get("NO_COLOR"):
        settings.InteractiveShell.colors = "nocolor"
    return settings


def run(prepare: Prepare | None = None) -> int:
    """Open the prompt, after `prepare` has seen its shell and journal; returns when it is left."""
    import kbench_launcher

    kbench_launcher.load()
    import numpy as np
    from IPython.terminal.ipapp import TerminalIPythonApp

    import kbench
    from kbench.cli.shared_history import share
    from kbench.notebook.ipython.magics import watch_news
    from kbench.version import __version__
    from kbench.workbench.history.input_history import History
    from kbench.workbench.history.shell_journal import ShellJournal

    names: dict[str, object] = {"K": kbench, "np": np}
    application = TerminalIPythonApp.instance(config=_settings(), user_ns=names)
    application.initialize(argv=[])
    shell = application.shell
    assert shell is not None
    shell.run_line_magic("load_ext", "kbench")
    fold_errors(shell)
    announcer = Announcer(shell.user_ns, print, watch_news)
    shell.events.register("post_run_cell", announcer.announce)
    print(f"kbench {__version__}, plain prompt. K is the backend, np NumPy; %vars lists names,")
    print("%kb the settings, %config_k NAME=VALUE sets one, %watch EXPRESSION follows a value.")
    log = ShellJournal(shell)
    kept = History()
    if kept.problem:
        print(kept.problem)
    code = 0
    try:
        if prepare is not None:
            prepare(shell, log)
        share(shell, kept)  # not before: what runs again is not typed again
        application.start()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 0
    finally:
        announcer.stop()
        kept.close()
        log.journal.close()
    log.end()
    return code
