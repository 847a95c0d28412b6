"""The magics of all front ends by their names; the workbench's kernel has them from its start.

What they do stands in `notebook/ipython/`, with HTML and widgets. So the first use of one loads
all, as `%load_ext kbench` does, and until then only the names are there: for completion, for
`%lsmagic` and for "did you mean".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from kbench.workbench.ipython_types import Shell

Kind = Literal["line", "cell"]
EXTENSION = "kbench"
MAGICS: dict[Kind, dict[str, str]] = {
    "line": {
        "kb": "%kb: version and settings; %kb help: the widgets",
        "vars": "%vars w*: the names that match, one line each",
        "config_k": "%config_k floatx=float64: sets; alone, shows the settings",
        "watch": "%watch K.mean(w): watches an expression; alone, shows all; -d 1 removes one",
        "plan": "%plan f: the steps of the last recorded call of a function",
        "grad": "%grad loss: d loss / d variable: norms, zeros, what is dead or explodes",
        "nan": "%nan f: which operation gave the first NaN or infinity",
        "explore": "%explore softmax(x): a control for each argument",
        "plot": "%plot w: a picture of a value, a record or a run",
        "lesson": "%lesson 1: takes a lesson; alone, its exercises",
        "check": "%check: checks the exercise",
        "hint": "%hint: the next hint for the exercise",
        "solution": "%solution: the solution, after two failed checks or with --sure",
        "skip": "%skip: enters the answer of the exercise",
        "again": "%again: the code of the exercise as it was at first",
    },
    "cell": {
        "ab": "%%ab epsilon=1e-7,1e-3: the cell under several settings, or engine=kbench,numpy",
        "profile": "%%profile: runs the cell and shows every step",
    },
}


def install(shell: Shell) -> None:
    """Have all of them in a shell; what has one of these names already stays."""
    known = shell.magics_manager.magics
    for kind, magics in MAGICS.items():
        for name, usage in magics.items():
            if name not in known[kind]:
                shell.register_magic_function(_loading(shell, kind, name, usage), kind, name)


def _loading(shell: Shell, kind: Kind, name: str, usage: str) -> Callable[..., object]:
    """Stands for a magic until it is used; the extension then puts the real one in its place."""

    def load_and_call(*typed: str) -> object:
        shell.run_line_magic("load_ext", EXTENSION)
        magic = cast("Callable[..., object]", shell.magics_manager.magics[kind][name])
        return magic(*typed)

    load_and_call.__doc__ = usage
    return load_and_call
