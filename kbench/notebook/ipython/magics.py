"""`%load_ext kbench`: magics, HTML of tensors and functions. `%unload_ext kbench` undoes it.

%kb [arrays on|off]          version and settings; whether NumPy arrays are shown as tensors are
%kb help, %kb graph loss     what widgets there are, by `notebook/registry.py`; one of them
%vars [glob]                 the table of names
%config_k [floatx=float64]   the settings, or set some of them
%watch [expression | -d n]   watch an expression, show all, or remove one
%plan [f]                    the steps of the last recorded call of a function; alone, the workers
                             of the last fit or map over a cluster
%%profile                    run the cell and show every step that ran
%grad [loss]                 d loss / d variable: norms, zeros, what is dead or explodes
%nan f                       what made the first NaN or infinity in a tensor or a last call
%%ab epsilon=1e-7,1e-3       the cell's value under several settings, or on engine=kbench,numpy
%lesson n|reset|off  %check  %hint  %solution [--sure]  %skip  %again
%explore and %plot stand in `notebook/exploration/explore_magics.py`.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.display import display

from kbench.api.differences import seconds
from kbench.engine.core.errors import KbenchError
from kbench.engine.inspect import describe
from kbench.engine.runtime import config, read_only
from kbench.engine.runtime import profile as trace
from kbench.notebook import registry
from kbench.notebook.base import recording, redraw
from kbench.notebook.base.redraw import names, rows
from kbench.notebook.html import job_view, run_steps, views
from kbench.notebook.ipython import blanks, opening, show
from kbench.notebook.markup.markup import Html, element, join, table
from kbench.version import __version__
from kbench.workbench.analysis import compare as comparison
from kbench.workbench.analysis import job_rows, plan_text
from kbench.workbench.core_types import JsonObject
from kbench.workbench.inspector import summary
from kbench.workbench.inspector.recorder import Recorder
from kbench.workbench.kernel import pane_channel
from kbench.workbench.lessons.lesson_coach import Coach
from kbench.workbench.lessons.lesson_files import LessonError, load
from kbench.workbench.nan import nan_verbs, nan_words
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.runs import PlanStep
from kbench.workbench.watches import watched_set
from kbench.workbench.watches.watch_lines import WatchLines, words


class TextAndHtml:
    """Something with both forms that a front end chooses from: a text and HTML."""

    def __init__(self, text: str, markup: str) -> None:
        self.text, self.markup = text, markup

    def _repr_mimebundle_(self, **_kwargs: object) -> dict[str, str]:
        return {"text/plain": self.text, "text/html": self.markup}


@magics_class
class KbenchMagics(Magics):
    """The magics of kbench; each returns or shows text and HTML and changes nothing else."""

    coach: Coach | None = None
    watches: WatchLines | None = None

    @property
    def _running(self) -> Any:
        """The shell that these magics were registered with."""
        return self.shell

    @line_magic
    def kb(self, line: str) -> Any:
        """Version, settings, how many names there are; `%kb help` lists the widgets.

        `%kb graph loss` opens one of them; `%kb arrays on` shows arrays as tensors.
        """
        word, _, rest = line.strip().partition(" ")
        spec = registry.find(word)
        if spec is not None:
            return opening.typed(spec, rest.strip(), self._running)
        if line.strip() == "help":
            return _help()
        if word:
            if line.split() not in (["arrays", "on"], ["arrays", "off"]):
                got = describe.printable(line.strip())
                raise UsageError(f"%kb takes help, arrays on|off, {registry.words()}; got {got!r}")
            show.arrays(self._running, line.split()[1] == "on")
        shown = "as tensors are" if show.are_arrays(self._running) else "by NumPy"
        facts = [("version", __version__), *_settings(), ("names", str(len(names().names())))]
        return _pairs("kbench", [*facts, ("arrays shown", shown)])

    @line_magic
    def vars(self, line: str) -> TextAndHtml:
        """The names of the session, one line each; `%vars w*` takes those that match."""
        view = names()
        found = rows(view, line.strip() or None)
        values = view.values()
        width = max((len(row.name) for row in found), default=0)
        texts = [f"{row.name:<{width}}  {summary.line(values[row.key])}" for row in found]
        texts += [f"and {found.total - len(found)} more"] if found.total > len(found) else []
        none = f"no name fits {line.strip()!r}" if line.strip() else "no names yet"
        return TextAndHtml("\n".join(texts) or none, views.names_table(found))

    @line_magic
    def config_k(self, line: str) -> Any:
        """Without arguments the settings; `%config_k floatx=float64 epsilon=1e-5` sets some."""
        pairs = [_assignment(word) for word in re.sub(r"\s*=\s*", "=", line).split()]
        before = config.snapshot()
        done: list[str] = []
        try:
            for name, value in pairs:
                config.assign(name, value)
                done.append(name)
        except KbenchError as error:
            for name in done:
                config.assign(name, before[name])
            raise UsageError(f"nothing was changed: {error.reason}") from None
        settled = bool(pairs) or pane_channel.of(self._running) is not None
        return _pairs("kbench settings", _settings()) if settled else _panel()

    @line_magic
    def watch(self, line: str) -> Any:
        """`%watch K.mean(w)` watches an expression, `%watch -d 2` no longer; alone: all of them."""
        shell = self._running
        if KbenchMagics.watches is None:
            watched = watched_set.of_shell(shell)
            KbenchMagics.watches = WatchLines(lambda: shell.user_ns, watched)
        board, text = KbenchMagics.watches, line.strip()
        try:
            if text.startswith("-d"):
                number = text[2:].strip()
                if not number.isdigit():
                    raise ValueError(f"%watch -d needs the number of a watch, got {number!r}")
                print(f"no longer watched: {board.remove(int(number))}")
                return None
            if text:
                print(board.add(text))
                return None
        except ValueError as error:
            raise UsageError(str(error)) from None
        return _watched(board)

    @line_magic
    def plan(self, line: str) -> TextAndHtml:
        """The steps of the last recorded call of a `K.function`: form, time, speed.

        `%plan` alone: what each worker of the last fit or map over a cluster has done.
        """
        job = None if line.strip() else job_rows.first(job_rows.known())
        if job is not None:
            told = (job_rows.head(job), *job_rows.rows(job, job_view.MAX_WORKERS))
            return TextAndHtml(job_view.text(*told), views.styled(join(job_view.parts(*told))))
        value = self._running.user_ns.get(line.strip())
        if not describe.is_function(value):
            got = f"got {line.strip()!r}" if line.strip() else "as in %plan train"
            raise UsageError(f"%plan needs the name of a K.function, {got}")
        plan = describe.plan(value)
        if plan is None:
            raise UsageError(f"no call of {line.strip()} was recorded yet: call it, then ask again")
        return _run(plan)

    @cell_magic
    def profile(self, line: str, cell: str) -> None:
        """Run the cell, then show the steps of every evaluation in it."""
        if line.strip():
            raise UsageError(
                f"%%profile takes no argument; its code is the cell below it, got {line.strip()!r}"
            )
        with trace.record() as records:
            ran = self._running.run_cell(cell)
        if not records:
            print("nothing was evaluated in this cell")
        for record in records[:20]:
            display(_run(describe.run(record)))
        if len(records) > 20:
            print(f"{len(records)} evaluations, the first 20 shown")
        if not ran.success:
            raise UsageError("the cell did not finish; its error is above")

    @line_magic
    def grad(self, line: str) -> Any:
        """d loss / d variable on what was fed last; alone, of the newest scalar."""
        return self._running.run_line_magic("kb", f"gradients {line}")

    @line_magic
    def nan(self, line: str) -> TextAndHtml:
        """What made the first NaN or infinity: in a tensor, a `K.function`'s last call, a model."""
        text, space = line.strip(), self._running.user_ns
        if not text:
            raise UsageError("%nan needs a tensor, a K.function or a Keras model, as in %nan loss")
        try:
            with read_only.evaluation():
                value = space[text] if text in space else nan_verbs.evaluated(text, space)
                data = nan_verbs.traced(value, _fed(), space)
        except (ProtocolError, KbenchError) as error:
            raise UsageError(f"%nan {text}: {error.reason}") from None
        lines = nan_words.lines({**data, "name": text})
        told = "\n".join(lines)
        return TextAndHtml(told, views.styled(element("pre", views.lines(told, 8_000))))

    @cell_magic
    def ab(self, line: str, cell: str) -> Any:
        """The value of the cell's last line under each variant, side by side.

        The cell runs once for each with names of its own; nothing is stored.
        """
        from kbench.api.comparison import compare

        try:
            engines, settings = comparison.parse_beside_now(line)
            function = comparison.function(cell, self._running.user_ns)
        except comparison.VariantsError as error:
            raise UsageError(f"%%ab: {error}") from None
        find = comparison.feed_finder(_fed())
        trace.fed_value_sources.append(find)
        try:
            return compare(function, engines, settings=settings or None)
        except KbenchError as error:
            raise UsageError(f"%%ab: {error.reason}") from None
        finally:
            trace.fed_value_sources.remove(find)

    @line_magic
    def lesson(self, line: str) -> None:
        """Take lesson n: `%lesson 1`; alone, its exercises and what is done.

        `reset` forgets what was done in it, `off` closes it.
        """
        if line.strip() == "off":
            blanks.allow(self._running)
            KbenchMagics.coach = None
            return
        if line.strip() == "reset":
            self._say(self._coach().reset())
            return
        if line.strip():
            if not line.strip().isdigit():
                raise UsageError(f"%lesson needs a number, got {line.strip()!r}")
            try:
                lesson = load(int(line))
            except LessonError as error:
                raise UsageError(str(error)) from None
            KbenchMagics.coach = Coach(lesson, self._running.user_ns)
            blanks.refuse(self._running)
        print(self._coach().overview())

    @line_magic
    def check(self, line: str) -> TextAndHtml:
        """Check an exercise of the lesson, the current one by default."""
        verdict = _coach_call(self._coach().check, line)
        style = "kb-good" if verdict.passed else "kb-bad"
        content = element("p", views.long(verdict.message), class_=style, role="status")
        return TextAndHtml(verdict.message, views.styled(content))

    @line_magic
    def hint(self, line: str) -> None:
        """The next hint for an exercise."""
        self._say(_coach_call(self._coach().hint, line))

    @line_magic
    def solution(self, line: str) -> None:
        """The solution: after two failed checks, or at once with --sure."""
        words = line.split()
        sure = "--sure" in words
        print(_coach_call(self._coach().solution, " ".join(set(words) - {"--sure"}), sure))

    @line_magic
    def skip(self, line: str) -> None:
        """Put the answer of an exercise into the next cell, and count it as done."""
        coach = self._coach()
        name = line.strip() or coach.current or list(coach.lesson.exercises)[-1]
        answer = _coach_call(coach.skip, name)
        if redraw.in_terminal():
            print(f"{name} counts as done; this enters its answer:\n{answer}")
            return
        self._running.set_next_input(answer)
        self._say(f"{name} counts as done; the next cell enters its answer")

    @line_magic
    def again(self, line: str) -> None:
        """Put the code of an exercise, as it was at first, into the next cell."""
        code = _coach_call(self._coach().again, line)
        if redraw.in_terminal():
            print(code)
        else:
            self._running.set_next_input(code)

    def _say(self, text: str) -> None:
        """Tell a sentence. In a notebook it wraps at blanks; printed lines are cut within words."""
        if redraw.in_terminal():
            print(text)
        else:
            display(TextAndHtml(text, views.styled(element("p", views.long(text)))))

    def _coach(self) -> Coach:
        if KbenchMagics.coach is None:
            raise UsageError("no lesson is open; begin with %lesson 1")
        return KbenchMagics.coach


def _coach_call(action: Any, line: str, *arguments: Any) -> Any:
    """Call a method of the coach on the exercise named in `line`; complaints are usage errors."""
    try:
        return action(line.strip() or None, *arguments)
    except LessonError as error:
        raise UsageError(str(error)) from None


def _fed() -> Recorder:
    """What keeps the values that were fed last."""
    return recording.earlier() or Recorder()


def _settings() -> list[tuple[str, str]]:
    return [(name, views.setting(name, value)) for name, value in config.snapshot().items()]


def _assignment(word: str) -> tuple[str, Any]:
    name, equals, text = word.partition("=")
    if not equals or not name:
        raise UsageError(f"%config_k needs name=value, got {word!r}")
    try:
        return name, ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return name, text


def watch_news() -> list[str]:
    """Lines of the watches whose value is another than when they were last told."""
    return [] if KbenchMagics.watches is None else KbenchMagics.watches.news()


def _watched(board: WatchLines) -> TextAndHtml:
    """All watches as lines and as a table."""
    found = board.rows()
    texts = board.texts(found)
    rows = [(row.expression, row.before, words(row)) for row in found]
    content = element("div", table("watches", ("watch", "before", "now"), rows), class_="kb-text")
    return TextAndHtml(
        "\n".join(texts) or "no watches; %watch K.mean(w) adds one", views.styled(content)
    )


def _panel() -> Any:
    return registry.widget("ConfigPanel")()


def _help() -> TextAndHtml:
    """The widgets: what opens each, and what it shows."""
    rows = [(f"kbench.{spec.call}", registry.typed(spec), spec.about) for spec in registry.WIDGETS]
    left, right = (max(len(row[at]) for row in rows) for at in (0, 1))
    lines = [f"{call:<{left}}  {typed:<{right}}  {about}" for call, typed, about in rows]
    content = element("div", table("widgets", ("widget", "typed", "shows"), rows), class_="kb-text")
    return TextAndHtml("\n".join(lines), views.styled(content))


def _pairs(title: str, facts: list[tuple[str, str]]) -> TextAndHtml:
    width = max(len(name) for name, _ in facts)
    text = "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in facts)])
    content = element("div", table(title, ("name", "value"), facts), class_="kb-text")
    return TextAndHtml(text, views.styled(content))


def _run(rows: JsonObject) -> TextAndHtml:
    """A recorded run as text and as a table."""
    lines = [f"{rows['function']}  {seconds(float(rows['seconds']))}"]
    steps = [PlanStep.built(row) for row in rows["rows"]]
    for row in steps[:40]:
        speed = f"{row.gb_per_s:.3g} GB/s" if row.gb_per_s else ""
        time, moved, name = seconds(row.seconds), describe.size(row.bytes), row.op
        if len(name) > 24:  # a line of its own, or the figures are cut where lines are short
            lines.append(f"  {name}")
            name = ""
        lines.append(f"  {name:<24} {row.form:<8} {time:>10} {moved:>8}  {speed}".rstrip())
    if len(steps) > 40:
        lines.append(f"  {len(steps)} steps, the first 40 shown")
    title: Html = element("p", element("b", f"function {rows['function']}"), class_="kb-head")
    limits = plan_text.known_limits()
    shown = run_steps.table(steps, float(rows["seconds"]), limits, of_peak=limits is not None)
    style = run_steps.columns(limits is not None).style
    return TextAndHtml("\n".join(lines), views.styled(join([title, shown]), style))
