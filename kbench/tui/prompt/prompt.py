"""The prompt: a Python editor whose Enter runs the input once it is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from textual import events
from textual.geometry import Offset
from textual.message import Message
from textual.style import Style
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, EditResult, Selection, TextAreaTheme

from kbench.tui.keys import keys
from kbench.tui.lesson.lesson_typed import TypedCommand, command_in, retyped
from kbench.tui.messages import HintChanged, PromptResized, Submitted
from kbench.tui.prompt.field import act_on
from kbench.tui.prompt.typed_code import completeness, indent_after
from kbench.tui.text.text import typed
from kbench.workbench.lessons.lesson_files import BLANK
from kbench.workbench.lessons.lesson_pages import blanks, filled_in, made

if TYPE_CHECKING:
    from kbench.tui.prompt.vim import Vim

SYNTAX = {
    "comment": "italic",
    "string": "$text-success",
    "string.documentation": "$text-success",
    "number": "$text-warning",
    "float": "$text-warning",
    "boolean": "$text-warning",
    "constant.builtin": "$text-warning",
    "keyword": "$text-accent",
    "keyword.function": "$text-accent",
    "keyword.return": "$text-accent",
    "keyword.operator": "$text-accent",
    "conditional": "$text-accent",
    "repeat": "$text-accent",
    "exception": "$text-accent",
    "include": "$text-accent",
    "function": "$text-primary",
    "function.call": "$text-primary",
    "method": "$text-primary",
    "method.call": "$text-primary",
    "class": "$text-primary",
    "type": "$text-primary",
}


class Aside(Struct, frozen=True):
    """What stands in the prompt while it is put aside, and the inputs that Up walks through."""

    text: str
    selection: Selection
    given: str
    starter: str
    inputs: list[str]


class Prompt(TextArea):
    """Input of the session; see `keys.TABLE` under "prompt"."""

    BINDINGS = keys.bindings("prompt")

    class Typed(Message):
        """Text or cursor have changed."""

    class Asked(Message):
        """complete, search, signature, close, leave, quit, up, down; go_on: Enter without text.

        close: the list of completions alone.
        """

        def __init__(self, what: str) -> None:
            self.what = what
            super().__init__()

    class ListKey(Message):
        """up, down or enter while the list of completions is open."""

        def __init__(self, key: str) -> None:
            self.key = key
            super().__init__()

    def __init__(self) -> None:
        super().__init__(
            "", id="prompt", soft_wrap=True, show_line_numbers=False, theme="css", compact=True
        )
        self.cursor_blink = False
        self.highlight_cursor_line = False
        self.inputs: list[str] = []
        self._at = 0  # position in history; len(history) is the draft
        self._draft = ""
        self._lines = 1
        self.list_keys: tuple[str, ...] = ()  # kept by the assistant: keys that go to its list
        self.given = self.starter = ""  # what a lesson has put here, and its code with the blanks
        self.taught = False  # a lesson is open, and takes words after a colon
        self._aside: Aside | None = None  # while a cell waits for a line
        self.vim: Vim | None = None  # takes the keys first

    # ------------------------------------------------------------------ history

    def remember(self, code: str) -> None:
        """Add an input to what Up and Down walk through."""
        if not self.inputs or self.inputs[-1] != code:
            self.inputs.append(code)
        self._at = len(self.inputs)

    def take_history(self, older: list[str]) -> None:
        """Put the inputs of earlier sessions before those of this one."""
        self.inputs[:0] = older
        self._at += len(older)

    # ------------------------------------------------------------------ answers

    @property
    def answering(self) -> bool:
        """Whether a cell waits for what is typed."""
        return self._aside is not None

    @property
    def own_text(self) -> str:
        """What is typed and has not run, be it put aside or not."""
        return self.text if self._aside is None else self._aside.text

    def put_aside(self, inputs: list[str]) -> None:
        """Make room for an answer; Up walks through `inputs` meanwhile. Does nothing twice."""
        if self._aside is None:
            if self.vim is not None:
                self.vim.insert()
            own = Aside(self.text, self.selection, self.given, self.starter, self.inputs)
            self.put("")
            self._aside, self.inputs, self._at = own, inputs, len(inputs)

    def take_back(self) -> None:
        """Go on with what was put aside."""
        own, self._aside = self._aside, None
        if own is not None:
            self.inputs, self._at = own.inputs, len(own.inputs)
            self.put(own.text)
            self.selection, self.given, self.starter = own.selection, own.given, own.starter

    def walk_history(self, step: int) -> bool:
        """Show the previous (-1) or next (1) input that starts like the draft; False at the end."""
        if self._at < len(self.inputs) and self.text != self.inputs[self._at]:
            self._at = len(self.inputs)  # edited since: it is a draft now
        if self._at >= len(self.inputs):
            self._draft = self.text
        at = self._at + step
        while 0 <= at < len(self.inputs):
            if self.inputs[at].startswith(self._draft) and self.inputs[at] != self.text:
                break
            at += step
        if at < 0:
            return False
        if at >= len(self.inputs):
            if self._at >= len(self.inputs):
                return False
            self._at = len(self.inputs)
            self.put(self._draft)
            return True
        self._at = at
        self.put(self.inputs[at])
        return True

    # ------------------------------------------------------------------ editing

    def edit(self, edit: Edit) -> EditResult:
        """Whatever comes into the prompt, pasted or from the history, can be drawn."""
        edit.text = typed(edit.text)
        return super().edit(edit)

    def put(self, text: str) -> None:
        """Replace the text (undoable) and go to its end."""
        self.given = ""
        self.replace(text, (0, 0), self.document.end)
        self.move_cursor(self.document.end)

    def keep(self) -> bool:
        """Let Up bring back what was typed and not run; False where there is nothing such."""
        if not self.text.strip() or self.as_given or self.text in self.inputs:
            return False
        self.remember(self.text)
        return True

    def give(self, text: str, starter: str = "") -> None:
        """Put code of a lesson here, its first blank, or what `starter` has there, selected.

        Of an answer that is more than a word the end is gone to: it is changed, not typed anew.
        """
        self.put(text)
        self.given, self.starter = text, starter
        if not self.select_blank() and (span := filled_in(starter, text)) is not None:
            row, start, end = span
            one_word = self.text.split("\n")[row][start:end].replace(".", "").isalnum()
            self.selection = Selection((row, start if one_word else end), (row, end))

    def select_blank(self, after_cursor: bool = False) -> bool:
        """Select a blank of a lesson's code, so that typing replaces it; False without one.

        `after_cursor`: the first behind the cursor, or else the first of all.
        """
        found = blanks(self.text) if self.given or not after_cursor else []
        if after_cursor:
            found.sort(key=lambda place: place < self.cursor_location)
        for row, column in found[:1]:
            self.selection = Selection((row, column), (row, column + len(BLANK)))
        return bool(found)

    @property
    def as_given(self) -> bool:
        """Whether nothing has been changed of what a lesson has put here."""
        return bool(self.given) and self.text.strip() == self.given.strip()

    @property
    def _filled_in(self) -> bool:
        """Whether code of a lesson was edited within its lines: then Enter runs it anywhere."""
        return bool(self.given) and self.document.line_count == len(self.given.split("\n"))

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        """Undoing asks for this when the text is shorter already and the cursor not yet back."""
        if self.cursor_location[0] >= self.document.line_count:
            return Offset()
        return super().scroll_cursor_visible(center, animate)

    # ------------------------------------------------------------------ vim

    def use_vim(self, wanted: bool) -> None:
        """Have the keys of vim, or no longer."""
        if wanted != (self.vim is not None):
            from kbench.tui.prompt.vim import Vim  # not in every first frame

            self.vim = Vim(self) if wanted else None
            self.tell_mode()

    @property
    def commanding(self) -> bool:
        """Whether a letter is a command, which may lead elsewhere."""
        return self.vim is not None and self.vim.normal

    @property
    def composing(self) -> bool:
        """Whether code is typed, which can be completed."""
        return not self.answering and not self.commanding

    @property
    def mark(self) -> str:
        """The mode that the keys are in, '' where there is but one."""
        return "" if self.vim is None else self.vim.mark

    def tell_mode(self) -> None:
        """It has changed."""
        self.post_message(HintChanged(""))

    def go_to(self, offset: int) -> None:
        """Put the cursor at an offset into the text."""
        self.move_cursor(self._location(offset))

    def open_line(self, below: bool) -> None:
        """A new line below or above that of the cursor, indented as it asks for."""
        row = self.cursor_location[0]
        line = self.document.lines[row]
        if below:
            end = (row, len(line))
            self.replace(f"\n{indent_after(line)}", end, end)
            self.move_cursor((row + 1, len(self.document.lines[row + 1])))
        else:
            indent = line[: len(line) - len(line.lstrip())]
            self.replace(f"{indent}\n", (row, 0), (row, 0))
            self.move_cursor((row, len(indent)))

    # ------------------------------------------------------------------ keys

    @property
    def position(self) -> int:
        """The cursor as an offset into the text."""
        row, column = self.cursor_location
        return sum(len(line) + 1 for line in self.document.lines[:row]) + column

    def insert_at(self, start: int, end: int, text: str) -> None:
        """Replace the characters `start` to `end`, offsets into the text."""
        self.replace(text, self._location(start), self._location(end))

    def _location(self, offset: int) -> tuple[int, int]:
        before = self.text[:offset]
        row = before.count("\n")
        return row, len(before) - (before.rfind("\n") + 1)

    def action_run(self) -> None:
        """Run the text as it is."""
        self._submit(now=True)

    def _submit(self, now: bool = False) -> None:
        if self.vim is not None:
            self.vim.insert()
        if self.answering:
            self.post_message(Submitted(self.text, now))
            return
        code = self.text.rstrip()
        self.post_message(Submitted(code, now) if code else self.Asked("go_on"))

    def action_newline(self) -> None:
        """Break the line and indent as the line before asks for; in vim's normal mode, go on."""
        if self.commanding:
            self.action_cursor_down()
            return
        row, column = self.cursor_location
        line = self.document.lines[row][:column]
        self._replace_via_keyboard("\n" + indent_after(line), *self.selection)

    @property
    def command(self) -> TypedCommand | None:
        """The command of a lesson that stands before the cursor."""
        found = command_in(self.text, self.position, self.given, self.starter)
        return found if self.taught or (found and not found.rest) else None

    def _enter(self) -> None:
        if self.answering:
            self._submit()
            return
        if self.taught and self.command is not None:
            self._submit()
            return
        if self.given and (meant := retyped(self.text, self.starter)) is not None:
            self.replace(meant, (0, 0), self.document.end)
            self.move_cursor(self.document.end)
        if self._filled_in and completeness(self.text.rstrip() + "\n") != "incomplete":
            self._submit()
            return
        state = completeness(self.text)
        ending = self.text[self.position :]
        blank_line = not self.document.lines[-1].strip() and self.document.line_count > 1
        if state == "incomplete" and blank_line and not ending.strip():
            state = completeness(self.text.rstrip() + "\n")
        if state == "incomplete" or (ending.strip() and self.document.line_count > 1):
            self.action_newline()
        elif state == "invalid" and self.document.line_count > 1 and not blank_line:
            self.action_newline()
        else:
            self._submit()

    async def _on_key(self, event: events.Key) -> None:
        if event.key.startswith("alt+"):  # it has a character, but nobody means to type it
            event.prevent_default()
            if self.vim is not None and not self._bound(event.key):
                self.vim.take_escaped(event.key.removeprefix("alt+"))
            return
        if event.key in self.list_keys:
            event.stop()
            event.prevent_default()
            self.post_message(self.ListKey(event.key))
            return
        if self.vim is not None and self.vim.take(event):
            event.stop()
            event.prevent_default()
            if event.key == "escape":
                self.post_message(self.Asked("close"))
            return
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self._enter()
            return
        if not event.is_printable and await act_on(self, event.key):
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)

    def _bound(self, key: str) -> bool:
        """Whether a key does something now."""
        found = self.screen.active_bindings.get(key)
        return found is not None and found.enabled

    def on_paste(self, event: events.Paste) -> None:
        """A whole answer takes the place of the code with the blanks, not of the first blank.

        The editor's own handler follows.
        """
        if self.as_given and set(made(event.text)) & set(made(self.given)):
            self.select_all()

    def action_line(self, step: int) -> None:
        """A line up or down; beyond the first and the last line, through the history."""
        outside = self.cursor_at_first_line if step < 0 else self.cursor_at_last_line
        if outside and self.walk_history(step):
            return
        if step < 0:
            self.action_cursor_up()
        else:
            self.action_cursor_down()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Tell the screen when the prompt needs another height."""
        event.stop()
        lines = self.wrapped_document.height
        if lines != self._lines:
            self._lines = lines
            self.post_message(PromptResized())
        self.post_message(self.Typed())

    def on_text_area_selection_changed(self, event: TextArea.SelectionChanged) -> None:
        """The cursor has moved."""
        event.stop()
        self.post_message(self.Typed())

    def action_complete(self) -> None:
        """Tab."""
        self.post_message(self.Asked("complete"))

    def action_search(self) -> None:
        """Search the history."""
        self.post_message(self.Asked("search"))

    def action_signature(self) -> None:
        """Documentation of the call at the cursor."""
        self.post_message(self.Asked("signature"))

    def action_turn(self, way: str) -> None:
        """A page up or down, of whatever is read."""
        self.post_message(self.Asked(way))

    def action_leave(self) -> None:
        """Close the list, or leave the prompt."""
        self.post_message(self.Asked("leave"))

    def action_end_input(self) -> None:
        """Quit when there is nothing to lose, else delete a character."""
        if self.text:
            self.action_delete_right()
        else:
            self.post_message(self.Asked("quit"))

    @property
    def lines_needed(self) -> int:
        """Rows that the text takes at the present width."""
        return max(self._lines, 1)

    def colour(self) -> None:
        """Load the Python grammar and colour the text; without it the text stays plain."""
        try:
            self.language = "python"
        except Exception as error:  # the grammar is a foreign binary; plain text always works
            self.post_message(HintChanged(f"no colours: {type(error).__name__}"))
            return
        self.recolour()

    def recolour(self) -> None:
        """Take the colours of the code from the app's theme."""
        styles = {name: Style.parse(words).rich_style for name, words in SYNTAX.items()}
        # TextArea draws anew for another name only, and keeps a theme by its name for ever.
        name = "kbench-odd" if self.theme == "kbench-even" else "kbench-even"
        self.register_theme(TextAreaTheme(name, syntax_styles=styles))
        self.theme = name

    def update_suggestion(self) -> None:
        """Suggest the newest input that begins with the text, as fish does."""
        text = self.text
        found = ""
        if text and "\n" not in text and self.cursor_location == self.document.end:
            for older in reversed(self.inputs[-500:]):
                if older.startswith(text) and older != text:
                    found = older[len(text) :].split("\n")[0]
                    break
        self.suggestion = found

    def check_consume_key(self, key: str, character: str | None = None) -> bool:
        """Printable keys and Enter belong to the editor; with Alt they are commands."""
        if key.startswith("alt+"):
            return False
        consumed = super().check_consume_key(key, character)
        return bool(consumed) or key == "enter"
