"""What opens over the main screen: help, history, dialogs. Each is a function of the bench."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.content import Content

from kbench.tui.dialogs.dialogs import ChoiceDialog, Pager, PasswordDialog
from kbench.tui.dialogs.files import ask_path, not_written
from kbench.tui.dialogs.history import HistoryScreen
from kbench.tui.dialogs.jump import JumpScreen
from kbench.tui.dialogs.pick import ListDialog
from kbench.tui.keys import keys
from kbench.tui.keys.key import Key
from kbench.tui.keys.presets import PRESETS
from kbench.tui.lesson import lesson_words
from kbench.tui.panes.registry import BY_ID, LESSON, PANES
from kbench.tui.text.text import OutputDecoder, safe
from kbench.tui.themes import MUTED
from kbench.tui.transcript.cells import Block, coloured
from kbench.tui.transcript.error_rows import chain_rows, expression_rows
from kbench.tui.transcript.examples import EXAMPLES

if TYPE_CHECKING:
    from kbench.tui.prompt.assist import Assist
    from kbench.tui.screen_bench import ScreenBench


def show_text(bench: ScreenBench, title: str, lines: list[Content]) -> None:
    """A text to read."""
    bench.open(Pager(title, lines))


def show_help(bench: ScreenBench) -> None:
    """The keys of the focused pane, then those that work everywhere."""
    pane = bench.arrangement.focused_pane()
    lines = [Content(BY_ID[pane].about), Content("")]
    if pane == LESSON:
        lines += [*lesson_words.commands(), Content("")]
    for place in (*bench.arrangement.key_taker(pane).places, "main"):
        if place == "main":
            lines += [Content(""), Content.styled("Everywhere", "bold")]
        for key in keys.of(place):
            lines.append(_key_line(bench, key))
        if place == "prompt" and bench.prompt.vim is not None:
            from kbench.tui.prompt.vim import HELP  # not in every first frame

            lines += [Content(""), Content.styled("Normal mode", "bold")]
            lines += [
                Content.assemble((f"  {key:<22} ", "$text-accent"), words) for key, words in HELP
            ]
            lines.append(Content("  A number before a command repeats it."))
    lines += [Content(""), Content.styled("Texts, lists and dialogs", "bold")]
    lines += [
        _key_line(bench, key)
        for places in keys.DIALOGS
        for place in places
        for key in keys.of(place)
    ]
    preset = bench.app.keymap.preset
    lines += [
        Content(""),
        Content(f"Keys as in: {preset}. The palette changes this: {', '.join(PRESETS)}."),
        Content(f'Other keys: id = "key" below [keys] in {bench.app.keys_file}'),
    ]
    show_text(bench, f"Help: {BY_ID[pane].title}", lines)


def _key_line(bench: ScreenBench, key: Key) -> Content:
    """One line of the help: keys, what they do, the id for keys.toml."""
    shown = bench.app.key_words(key.id, key.keys)
    start = f"  {shown:<22} "
    words = key.words.ljust(75 - len(start))
    return Content.assemble((start, "$text-accent"), f"{words} ", (key.id, MUTED))


def show_history(bench: ScreenBench) -> None:
    """Search the inputs of all sessions."""
    prompt, history = bench.prompt, bench.link.history

    def search(words: str) -> list[str]:
        if history is not None:
            return history.search(words)
        parts = words.lower().split()
        found = [code for code in prompt.inputs if all(part in code.lower() for part in parts)]
        return list(dict.fromkeys(reversed(found)))

    def take(code: str | None) -> None:
        if code is not None:
            bench.bring(code)
            bench.go("prompt")

    bench.open(HistoryScreen(search, prompt.text.strip().split("\n")[0]), take)


def explain(bench: ScreenBench, block: Block) -> None:
    """All of an error: the expression, every operand, the traceback."""
    error = block.error
    if error is None:
        return
    detail = error.detail
    reason = str(detail.get("reason") or error.value)
    lines = [Content.assemble((safe(error.name), "bold $text-error"))]
    lines += [Content(safe(line)) for line in reason.split("\n")]
    room = min(104, bench.size.width * 9 // 10 - 5)
    if detail.get("source") or detail.get("operands"):
        lines.append(Content(""))
        lines += chain_rows(detail, room, bench.app.glyphs, full=True)
        lines += expression_rows(detail.get("source") or (), detail, room, bench.app.glyphs)
    if detail.get("suggestion"):
        lines.append(Content.styled(f"  try {safe(str(detail['suggestion']))}", "$text-success"))
    lines += [Content(""), Content.styled("Cell", "bold")]
    lines += list(coloured(block.code))
    lines += [Content(""), Content.styled("Traceback", "bold")]
    decoder = OutputDecoder()
    for text in error.traceback:
        lines += [decoder.line(line) for line in text.split("\n")]
    show_text(bench, f"{error.name} in {block.label.strip(': ')}", lines)


async def show_documentation(bench: ScreenBench, assist: Assist) -> None:
    """What the kernel says of the call or name at the cursor."""
    text = await assist.documentation()
    if text:
        show_text(bench, "Documentation", [Content(safe(line)) for line in text.split("\n")])
    else:
        bench.notify("no documentation for what is at the cursor", 2)


def ask_restart(bench: ScreenBench, restart: Callable[[bool], None]) -> None:
    """Restart with or without running the cells again: `restart` gets which."""
    if bench.link.attached:
        words = "this kernel belongs to another program; restart it there"
        bench.notify(words, warning=True)
        return
    answers = [
        ("r", "restart and run the cells of this session again"),
        ("e", "restart with an empty namespace"),
        ("c", "cancel"),
    ]

    def act(answer: str | None) -> None:
        if answer in ("r", "e"):
            restart(answer == "r")

    question = "Restart the kernel? Its variables are lost; session and history stay."
    bench.open(ChoiceDialog(question, answers), act)


QUIT_GRACE_SECONDS = 0.3
"""Seconds in which a cell that shows its result usually ends, so that nobody is asked about it."""


def ask_quit(bench: ScreenBench, under_way: Callable[[], str]) -> None:
    """Quit, asking first while something is `under_way` ("cell", "file"; "" if nothing is)."""
    if not under_way():
        bench.exit()
    else:
        bench.later(QUIT_GRACE_SECONDS, lambda: _ask_quit_of_busy(bench, under_way()))


def _ask_quit_of_busy(bench: ScreenBench, what: str) -> None:
    if not what:
        bench.exit()
        return
    if not bench.in_front:  # asked already
        return

    def act(answer: str | None) -> None:
        if answer == "q":
            bench.exit()

    ends = "quit, it keeps running in the kernel" if bench.link.attached else "stop it and quit"
    question = "A cell is still running."
    if what == "file":
        question, ends = "A file is still being written.", "cancel it and quit"
    bench.open(ChoiceDialog(question, [("q", ends), ("s", "stay")]), act)


def ask_interrupt_others(bench: ScreenBench) -> None:
    """The running cell is another client's."""
    session: Any = bench.link.session

    def act(answer: str | None) -> None:
        if answer == "i":
            session.interrupt_others()

    answers = [("i", "interrupt it"), ("l", "let it run")]
    bench.open(ChoiceDialog("The running cell is another client's.", answers), act)


def ask_password(bench: ScreenBench, prompt: str) -> None:
    """A cell has called getpass(); Esc and ^C interrupt it."""

    def act(answer: str | None) -> None:
        session = bench.link.session
        if session is None:
            return
        if answer is None:
            session.interrupt()
        else:
            session.answer(answer)

    title = safe(prompt.replace("\n", " ")).strip() or "password"
    bench.open(PasswordDialog(title, password=True), act)


def ask_save(bench: ScreenBench) -> None:
    """Write the cells of this session to a script or a notebook."""
    session = bench.link.session
    if session is None:
        return

    async def write(path: Path) -> None:
        def work() -> object:
            from kbench.workbench.export import export

            form = export.notebook if path.suffix == ".ipynb" else export.script
            return form(session.cells.values(), path)

        try:
            written = await bench.link.call(work)
        except (OSError, ValueError) as error:
            bench.notify(not_written(path, error), error=True)
        else:
            bench.notify(f"written: {written}")

    def check(path: str) -> str:
        return "" if path.endswith((".py", ".ipynb")) else "the name must end in .py or .ipynb"

    title = "write the session to a script (.py) or a notebook (.ipynb)"
    ask_path(bench, title, "session.py", check, write)


def show_jump(bench: ScreenBench) -> None:
    """One letter per pane, on the pane."""
    there = [pane for pane in PANES if bench.arrangement.choices.has(pane.id)]
    letters = {pane.letter: (pane.id, pane.title) for pane in there}
    layout = bench.arrangement.layout_now

    def act(pane: str | None) -> None:
        if pane is not None:
            bench.go(pane)

    bench.open(JumpScreen(letters, layout.regions if layout else {}), act)


def show_examples(bench: ScreenBench) -> None:
    """Inputs to begin with; the one that is chosen goes to the prompt."""

    def take(at: int | None) -> None:
        if at is not None:
            bench.bring(EXAMPLES[at][1])
            bench.go("prompt")

    rows = [words for words, _ in EXAMPLES]
    bench.open(ListDialog("Examples, put into the prompt", rows), take)
