"""What opens over the main screen: help, history, dialogs. Each is a function of the screen."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.content import Content

from kbench.tui.dialogs.dialogs import ChoiceDialog, InputDialog, Pager, may_replace
from kbench.tui.dialogs.history import HistoryScreen
from kbench.tui.dialogs.jump import JumpScreen
from kbench.tui.dialogs.pick import ListDialog
from kbench.tui.keys import keys
from kbench.tui.keys.key import Key
from kbench.tui.lesson import lesson_words
from kbench.tui.panes.registry import BY_ID, LESSON, PANES
from kbench.tui.panes.value.controller import ValueController
from kbench.tui.prompt.prompt import Prompt
from kbench.tui.text.text import OutputDecoder, safe
from kbench.tui.themes import MUTED
from kbench.tui.transcript.cells import Block, coloured
from kbench.tui.transcript.error_rows import chain_rows, expression_rows
from kbench.tui.transcript.examples import EXAMPLES

if TYPE_CHECKING:
    from kbench.tui.main_screen import MainScreen


def show_text(screen: MainScreen, title: str, lines: list[Content]) -> None:
    """A text to read."""
    screen.app.push_screen(Pager(title, lines))


def show_help(screen: MainScreen) -> None:
    """The keys of the focused pane, then those that work everywhere."""
    pane = screen.focused_pane()
    lines = [Content(BY_ID[pane].about), Content("")]
    if pane == LESSON:
        lines += [*lesson_words.commands(), Content("")]
    for place in (*screen.key_taker(pane).places, "main"):
        if place == "main":
            lines += [Content(""), Content.styled("Everywhere", "bold")]
        for key in keys.of(place):
            lines.append(_key_line(screen, key))
    lines += [Content(""), Content.styled("Texts, lists and dialogs", "bold")]
    lines += [
        _key_line(screen, key)
        for places in keys.DIALOGS
        for place in places
        for key in keys.of(place)
    ]
    preset = screen.bench.keymap.preset
    lines += [
        Content(""),
        Content(f"Keys as in: {preset}. The palette changes this; emacs and vscode are there too."),
        Content(f'Other keys: id = "key" below [keys] in {screen.bench.keys_file}'),
    ]
    show_text(screen, f"Help: {BY_ID[pane].title}", lines)


def _key_line(screen: MainScreen, key: Key) -> Content:
    """One line of the help: keys, what they do, the id for keys.toml."""
    shown = screen.bench.key_words(key.id, key.keys)
    start = (f"  {shown:<22} ", "$text-accent")
    return Content.assemble(start, f"{key.words:<50} ", (key.id, MUTED))


def show_history(screen: MainScreen) -> None:
    """Search the inputs of all sessions."""
    prompt, history = screen.query_one(Prompt), screen.bench.link.history

    def search(words: str) -> list[str]:
        if history is not None:
            return history.search(words)
        parts = words.lower().split()
        found = [code for code in prompt.inputs if all(part in code.lower() for part in parts)]
        return list(dict.fromkeys(reversed(found)))

    def take(code: str | None) -> None:
        if code is not None:
            screen.bring(code)
            screen.action_pane("prompt")

    screen.app.push_screen(HistoryScreen(search, prompt.text.strip().split("\n")[0]), take)


def explain(screen: MainScreen, block: Block) -> None:
    """All of an error: the expression, every operand, the traceback."""
    error = block.error
    if error is None:
        return
    detail = error.detail
    reason = str(detail.get("reason") or error.value)
    lines = [Content.assemble((safe(error.name), "bold $text-error"))]
    lines += [Content(safe(line)) for line in reason.split("\n")]
    room = min(104, screen.size.width * 9 // 10 - 5)
    if detail.get("source") or detail.get("operands"):
        lines.append(Content(""))
        lines += chain_rows(detail, room, screen.bench.glyphs, full=True)
        lines += expression_rows(detail.get("source") or (), detail, room, screen.bench.glyphs)
    if detail.get("suggestion"):
        lines.append(Content.styled(f"  try {safe(str(detail['suggestion']))}", "$text-success"))
    lines += [Content(""), Content.styled("Cell", "bold")]
    lines += list(coloured(block.code))
    lines += [Content(""), Content.styled("Traceback", "bold")]
    decoder = OutputDecoder()
    for text in error.traceback:
        lines += [decoder.line(line) for line in text.split("\n")]
    show_text(screen, f"{error.name} in {block.label.strip(': ')}", lines)


async def show_documentation(screen: MainScreen) -> None:
    """What the kernel says of the call or name at the cursor."""
    text = await screen.assist.documentation()
    if text:
        show_text(screen, "Documentation", [Content(safe(line)) for line in text.split("\n")])
    else:
        screen.notify("nothing is known about what stands at the cursor", timeout=2, markup=False)


def ask_restart(screen: MainScreen) -> None:
    """Restart with or without running the cells again."""
    if screen.session_controller.attached:
        words = "this kernel belongs to another program; restart it there"
        screen.notify(words, severity="warning", markup=False)
        return
    answers = [
        ("r", "restart and run the cells of this session again"),
        ("e", "restart with an empty namespace"),
        ("c", "cancel"),
    ]

    def act(answer: str | None) -> None:
        if answer in ("r", "e"):
            screen.session_controller.restart(replay=answer == "r")

    question = "Restart the kernel? Its variables are lost; session and history stay."
    screen.app.push_screen(ChoiceDialog(question, answers), act)


QUIT_GRACE_SECONDS = 0.3
"""Seconds in which a cell that shows its result usually ends, so that nobody is asked about it."""


def ask_quit(screen: MainScreen) -> None:
    """Quit, asking first while something is under way that does not end at once."""
    if not _under_way(screen):
        screen.app.exit(0)
    else:
        screen.set_timer(QUIT_GRACE_SECONDS, partial(_ask_quit_of_busy, screen))


def _under_way(screen: MainScreen) -> str:
    """What would be stopped; cells of another client are not."""
    running = screen.session_controller.running()
    if screen.session_controller.state == "busy" and not (running is not None and running.origin):
        return "cell"
    return "file" if screen.panes.controller(ValueController).exporter.running else ""


def _ask_quit_of_busy(screen: MainScreen) -> None:
    what = _under_way(screen)
    if not what:
        screen.app.exit(0)
        return
    if screen.app.screen is not screen:  # asked already
        return

    def act(answer: str | None) -> None:
        if answer == "q":
            screen.app.exit(0)

    stays = screen.session_controller.attached
    ends = "quit, it keeps running in the kernel" if stays else "stop it and quit"
    question = "A cell is still running."
    if what == "file":
        question, ends = "A file is still being written.", "cancel it and quit"
    screen.app.push_screen(ChoiceDialog(question, [("q", ends), ("s", "stay")]), act)


def ask_interrupt_others(screen: MainScreen) -> None:
    """The running cell is another client's."""
    session: Any = screen.bench.link.session

    def act(answer: str | None) -> None:
        if answer == "i":
            session.interrupt_others()

    answers = [("i", "interrupt it"), ("l", "let it run")]
    screen.app.push_screen(ChoiceDialog("The running cell is another client's.", answers), act)


def ask_input(screen: MainScreen, prompt: str, password: bool) -> None:
    """A cell has called input()."""

    def act(answer: str | None) -> None:
        session = screen.bench.link.session
        if session is None:
            return
        if answer is None:
            session.interrupt()
        else:
            session.answer(answer)

    title = safe(prompt.replace("\n", " ")).strip() or "input"
    screen.app.push_screen(InputDialog(title, password=password), act)


def ask_save(screen: MainScreen) -> None:
    """Write the cells of this session to a script or a notebook."""
    session = screen.bench.link.session
    if session is None:
        return

    async def write(path: Path) -> None:
        def work() -> object:
            from kbench.workbench.export import export

            form = export.notebook if path.suffix == ".ipynb" else export.script
            return form(session.cells.values(), path)

        try:
            written = await screen.bench.link.call(work)
        except (OSError, ValueError) as error:
            screen.notify(str(error), severity="error", markup=False)
        else:
            screen.notify(f"written: {written}", markup=False)

    def check(path: str) -> str:
        return "" if path.endswith((".py", ".ipynb")) else "the name must end in .py or .ipynb"

    def act(path: str | None) -> None:
        if not path:
            return
        target = Path(path).expanduser().absolute()
        go = partial(screen.background, partial(write, target))
        if target.exists():
            screen.app.push_screen(*may_replace(str(target), go))
        else:
            go()

    title = "write the session to a script (.py) or a notebook (.ipynb)"
    screen.app.push_screen(InputDialog(title, "session.py", check=check), act)


def show_jump(screen: MainScreen) -> None:
    """One letter per pane, on the pane."""
    there = [pane for pane in PANES if screen.choices.has(pane.id)]
    letters = {pane.letter: (pane.id, pane.title) for pane in there}
    regions = screen.layout_now.regions if screen.layout_now else {}

    def act(pane: str | None) -> None:
        if pane is not None:
            screen.action_pane(pane)

    screen.app.push_screen(JumpScreen(letters, regions), act)


def show_examples(screen: MainScreen) -> None:
    """Inputs to begin with; the one that is chosen goes to the prompt."""

    def take(at: int | None) -> None:
        if at is not None:
            screen.bring(EXAMPLES[at][1])
            screen.action_pane("prompt")

    rows = [words for words, _ in EXAMPLES]
    screen.app.push_screen(ListDialog("Examples, put into the prompt", rows), take)
