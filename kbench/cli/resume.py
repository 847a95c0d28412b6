"""`kbench --plain --resume`: earlier sessions, as numbered lines and plain questions."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

from kbench.cli.attach import choose, clean
from kbench.workbench.history import session_archive
from kbench.workbench.history.shell_journal import ShellJournal
from kbench.workbench.session import events
from kbench.workbench.session.cell import Cell

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kbench.workbench.ipython_types import Shell


def offer(shell: InteractiveShell, log: ShellJournal) -> None:
    """Let the user choose a session, show its cells, and run again what the user says."""
    past = session_archive.resumable()
    if not past:
        print("no session is kept; there is nothing to resume")
        return
    at = choose([session.words for session in past], "bring back") if len(past) > 1 else 0
    if at is None:
        return
    cells = session_archive.adopt(log, past[at])
    how = "" if past[at].finished else ", which ended unexpectedly"
    print(f"session of {past[at].when}{how}; nothing was run again")
    for cell in cells:
        _show(cell)
    if past[at].draft.strip():
        print(f"typed and not run:\n{_text(past[at].draft)}")
    _ask(shell, log, session_archive.runnable(cells))


def _text(text: str) -> str:
    """Safe to print where standard output may not be UTF-8."""
    encoding = sys.stdout.encoding or "ascii"
    return clean(text).encode(encoding, "backslashreplace").decode(encoding)


def _show(cell: Cell) -> None:
    label = f"In [{cell.count if cell.count is not None else ' '}]: "
    print(label + _text(cell.code).replace("\n", "\n" + " " * len(label)))
    for event in cell.outputs:
        if isinstance(event, events.Stream):
            print(_text(event.text), end="" if event.text.endswith("\n") else "\n")
        elif isinstance(event, events.Result):
            print(_text(event.text))
        elif isinstance(event, events.Error):
            print(_text(f"{event.name}: {event.value}"))
    if cell.status in ("lost", "withdrawn"):
        print("(did not finish)" if cell.status == "lost" else "(did not run)")


def _answer(question: str, letters: str) -> str:
    """One of the letters; the last of them at the end of the input."""
    while True:
        try:
            typed = input(question).strip().lower()
        except EOFError:
            return letters[-1]
        if typed[:1] and typed[:1] in letters:
            return typed[:1]
        print(f"answer with one of {', '.join(letters)}")


def _ask(shell: InteractiveShell, log: ShellJournal, cells: list[Cell]) -> None:
    if not cells:
        return
    whole = session_archive.finished_cells(cells)
    count = f"{len(whole)} cell{'s' * (len(whole) != 1)}"
    answer = _answer(f"run (a)ll {count} again, (o)ne by one, (n)othing: ", "aon")
    if answer == "a":
        for cell in whole:
            log.run(cast("Shell", shell), cell)
    for cell in cells if answer == "o" else ():
        _show(cell)
        answer = _answer("(r)un it, (s)kip it, (q)uit asking: ", "rsq")
        if answer == "r":
            log.run(cast("Shell", shell), cell)
        elif answer == "q":
            break
