"""What opens over the main screen: help, history, dialogs. Each is a function of the screen."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content

from kbench.tui import geometry, keys
from kbench.tui.blocks import Block, coloured
from kbench.tui.error_rows import expression_rows
from kbench.tui.palette import MUTED
from kbench.tui.screens.dialogs import Ask, Choice, Pager
from kbench.tui.screens.history import HistoryScreen
from kbench.tui.text import OutputDecoder, safe
from kbench.tui.widgets.plan import PlanTable
from kbench.tui.widgets.prompt import Prompt
from kbench.tui.widgets.variables import VariablesTable

if TYPE_CHECKING:
    from kbench.tui.screens.main import MainScreen

ABOUT = {
    "prompt": "Type Python. Enter runs it once it is complete; K is the backend.",
    "transcript": "All cells of this session. Up and down choose one.",
    "variables": "Your names, as the kernel pushes them. Enter shows a value, or unfolds a model.",
    "value": "A slice of an array of any size; of a symbol or layer, the graph that leads to it.",
    "plan": "What the last run did, step by step. Enter shows the source of a fused step.",
    "settings": "Changed in the kernel at once; what the kernel refuses is not shown as set.",
}
PLACES = {
    "prompt": ("prompt",),
    "transcript": ("transcript",),
    "variables": ("table", "variables"),
    "value": ("grid",),
    "plan": ("table",),
    "settings": ("settings",),
}
LETTERS = {
    "p": "prompt", "t": "transcript", "v": "variables", "a": "value", "l": "plan", "c": "settings",
}


def show_text(screen: MainScreen, title: str, lines: list[Content]) -> None:
    """A text to read."""
    screen.app.push_screen(Pager(title, lines))


def show_help(screen: MainScreen) -> None:
    """The keys of the focused pane, then those that work everywhere."""
    pane = screen.focused_pane()
    lines = [Content(ABOUT[pane]), Content("")]
    for place in (*PLACES[pane], "main"):
        if place == "main":
            lines += [Content(""), Content.styled("Everywhere", "bold")]
        for key in keys.of(place):
            shown = screen.bench.key_words(key.id, key.keys)
            lines.append(
                Content.assemble(
                    (f"  {shown:<22} ", "$text-accent"),
                    f"{key.words:<50} ",
                    (key.id, MUTED),
                )
            )
    words = f'Other keys: id = "key" below [keys] in {screen.bench.keys_file}'
    lines += [Content(""), Content(words)]
    show_text(screen, f"Help: {geometry.TITLES[pane]}", lines)


def show_history(screen: MainScreen) -> None:
    """Search the inputs of all sessions."""
    prompt, history = screen.query_one(Prompt), screen.bench.link.history

    def search(words: str) -> list[str]:
        if history is not None:
            return history.search(words)
        parts = words.lower().split()
        found = [one for one in prompt.inputs if all(part in one.lower() for part in parts)]
        return list(dict.fromkeys(reversed(found)))

    def take(code: str | None) -> None:
        if code is not None:
            prompt.put(code)
        prompt.focus()

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


def show_source(screen: MainScreen, step: str) -> None:
    """The generated source of a step of the last run."""
    source = screen.query_one(PlanTable).source(step)
    if source:
        show_text(screen, f"source of step {step}", list(coloured(source)))
    else:
        screen.notify("this step has no generated source", timeout=2, markup=False)


async def show_documentation(screen: MainScreen) -> None:
    """What the kernel says of the call or name at the cursor."""
    text = await screen.assist.documentation()
    if text:
        show_text(screen, "Documentation", [Content(safe(line)) for line in text.split("\n")])
    else:
        screen.notify("nothing is known about what stands at the cursor", timeout=2, markup=False)


def ask_restart(screen: MainScreen) -> None:
    """Restart with or without running the cells again."""
    answers = [
        ("r", "restart and run the cells of this session again"),
        ("e", "restart with an empty namespace"),
        ("c", "cancel"),
    ]

    def act(answer: str | None) -> None:
        if answer in ("r", "e"):
            screen.conductor.restart(replay=answer == "r")

    question = "Restart the kernel? Its variables are lost; session and history stay."
    screen.app.push_screen(Choice(question, answers), act)


ENDING = 0.3  # seconds in which a cell that shows its result usually ends


def ask_quit(screen: MainScreen) -> None:
    """Quit, asking first while something runs and does not end at once."""
    if screen.conductor.state != "busy":
        screen.app.exit(0)
    else:
        screen.set_timer(ENDING, partial(_ask_quit_of_busy, screen))


def _ask_quit_of_busy(screen: MainScreen) -> None:
    if screen.conductor.state != "busy":
        screen.app.exit(0)
        return
    if screen.app.screen is not screen:  # asked already
        return

    def act(answer: str | None) -> None:
        if answer == "q":
            screen.app.exit(0)

    answers = [("q", "quit, the running cell is stopped"), ("s", "stay")]
    screen.app.push_screen(Choice("A cell is running.", answers), act)


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
    screen.app.push_screen(Ask(title, password=password), act)


def ask_save(screen: MainScreen) -> None:
    """Write the cells of this session to a script or a notebook."""
    session = screen.bench.link.session
    if session is None:
        return

    async def write(path: str) -> None:
        def work() -> object:
            from kbench.workbench import export

            form = export.notebook if path.endswith(".ipynb") else export.script
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
        if path:
            screen.background(partial(write, path))

    screen.app.push_screen(Ask("write the session to", "session.py", check=check), act)


def ask_filter(screen: MainScreen) -> None:
    """Filter the variables while typing."""
    table = screen.query_one(VariablesTable)
    screen.app.push_screen(Ask("show names that contain", table.filter_text, live=table.set_filter))


def show_jump(screen: MainScreen) -> None:
    """One letter per pane."""
    answers = [(letter, geometry.TITLES[pane]) for letter, pane in LETTERS.items()]

    def act(answer: str | None) -> None:
        if answer is not None:
            screen.action_pane(LETTERS[answer])

    screen.app.push_screen(Choice("Jump to", answers), act)


def show_diagnostics(screen: MainScreen) -> None:
    """What a bug report needs."""
    show_text(screen, "Diagnostics", [Content(safe(line)) for line in diagnostics(screen)])


def diagnostics(screen: MainScreen) -> list[str]:
    """Versions, sizes, timings, keys and the log of a dead kernel, as plain lines."""
    import platform  # not needed before the first frame

    bench, conductor = screen.bench, screen.conductor
    size = screen.size
    layout = screen.layout_now.kind if screen.layout_now else "-"
    lines = [
        f"kbench {_version('kbench')}  python {platform.python_version()}  {platform.platform()}",
        "  ".join(
            f"{name} {_version(name)}"
            for name in ("textual", "rich", "jupyter_client", "ipykernel", "numpy", "numba")
        ),
        f"screen {size.width}x{size.height}, layout {layout}, theme {bench.theme}"
        f", colours {'off' if bench.no_color else 'on'}",
        f"kernel {conductor.state}"
        + (f", ready after {conductor.ready_seconds:.2f} s" if conductor.ready_seconds else ""),
    ]
    if conductor.hello:
        lines.append(f"inspector {({k: v for k, v in conductor.hello.items() if k != 'verbs'})}")
    trips = sorted(screen.panes.round_trips)
    if trips:
        lines.append(
            f"value round trips: {len(trips)}, median {trips[len(trips) // 2] * 1000:.1f} ms, "
            f"longest {trips[-1] * 1000:.1f} ms"
        )
    session = bench.link.session
    if session is not None:
        lines.append(f"journal {session.journal.path or session.journal.problem}")
    lines += [f"keys file {bench.keys_file}", f"last key seen: {bench.last_key}"]
    lines += [f"! {problem}" for problem in bench.problems]
    if conductor.death is not None:
        lines += ["", "log of the kernel that died:", *conductor.death.log.split("\n")]
    return lines


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
