"""`%unload_ext kbench` leaves a shell, and what it shares with others, as it was before."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shells import opened, run

from kbench.engine.core import errors
from kbench.engine.graph import variables
from kbench.engine.runtime import config, profile
from kbench.notebook.ipython import progress_bar


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Any]:
    yield from opened(tmp_path)


def state(shell: Any) -> dict[str, Any]:
    """All of a shell, and of what it shares with others, that an extension could change."""
    formatters = shell.display_formatter.formatters
    shell.find_line_magic("load_ext")  # IPython brings its own magics when they are needed
    bundles = shell.display_formatter.mimebundle_formatter
    usual = {"_", "__", "___", "_i", "_ii", "_iii", "_ih", "_oh", "_dh"}
    signals = (profile.run_finished, profile.inputs_fed, config.changed, variables.changed)
    found: dict[str, Any] = {
        "magics": {kind: dict(known) for kind, known in shell.magics_manager.magics.items()},
        "registry": dict(shell.magics_manager.registry),
        "printers": {
            name: [
                dict(getattr(one, f"{kind}_printers")) for kind in ("type", "deferred", "singleton")
            ]
            for name, one in [*formatters.items(), ("bundle", bundles)]
        },
        "handlers": (shell.custom_exceptions, shell.CustomTB),
        "showtraceback": shell.showtraceback.__func__,
        "transformers": [
            list(shell.ast_transformers),
            list(shell.input_transformers_cleanup),
            list(shell.input_transformers_post),
            list(shell.input_transformer_manager.line_transforms),
            list(shell.input_transformer_manager.token_transformers),
        ],
        "events": {name: list(known) for name, known in shell.events.callbacks.items()},
        "hooks": (sys.excepthook, sys.displayhook, sys.unraisablehook, sys.stdout, sys.stderr),
        "builtins": {name: id(value) for name, value in vars(builtins).items() if name != "_"},
        "names": set(shell.user_ns) - usual,
        "attributes": set(vars(shell)),
        "matchers": list(shell.Completer.custom_matchers),
        "signals": [bool(one) for one in signals],
        "keepers": list(profile.fed_value_sources),
        "places": str(errors.Place("/a/b.py", 3)),
        "settings": config.snapshot(),
    }  # fmt: skip
    return found


@pytest.mark.slow
@pytest.mark.parametrize("bars", [False, True])
def test_unloading_leaves_the_shell_as_it_was(
    bare: Any, bars: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bars:  # as in a kernel
        monkeypatch.setattr(type(bare), "kernel", object(), raising=False)
    bare.run_cell("1")
    before = state(bare)
    for _ in range(2):
        bare.run_line_magic("load_ext", "kbench")
        bare.run_line_magic("reload_ext", "kbench")
        assert hasattr(bare, progress_bar._BARS) == bars
        run(bare, "K.function([], [K.variable(1.0)])")
        run(bare, "%lesson 1\n%watch 1 + 1\n%kb arrays on\n%vars\n%explore relu\n%plot [1.0]")
        run(bare, "K.nonsense(1)")
        bare.run_line_magic("unload_ext", "kbench")
        after = state(bare)
        names = [name for name in before if before[name] != after[name]]
        assert names == [], {name: (before[name], after[name]) for name in names}


def test_what_was_shown_otherwise_before_is_so_again(bare: Any) -> None:
    formatter = bare.display_formatter.mimebundle_formatter
    formatter.for_type_by_name("kbench.engine.execute.function", "Function", print)
    bare.run_line_magic("load_ext", "kbench")
    run(bare, "K.function([], [K.variable(1.0)])")
    bare.run_line_magic("unload_ext", "kbench")
    assert formatter.deferred_printers == {("kbench.engine.execute.function", "Function"): print}


def test_loading_that_fails_leaves_nothing(bare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run(bare, "1 / 0")  # IPython keeps the last traceback
    before = state(bare)
    monkeypatch.setattr(
        "kbench.notebook.ipython.extension.error_report.install", lambda shell: 1 / 0
    )
    assert "ZeroDivisionError" in run(bare, "%load_ext kbench")
    after = state(bare)
    changed = [name for name in before if before[name] != after[name]]
    assert changed == [], {name: (before[name], after[name]) for name in changed}
