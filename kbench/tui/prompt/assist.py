"""Completion and signatures for the prompt, from the kernel, never in the way of typing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kbench.tui.lesson.lesson_words import COMMANDS
from kbench.tui.messages import HintChanged
from kbench.tui.prompt.completion import MAX_MATCHES, CompletionList, Match
from kbench.tui.prompt.prompt import Prompt
from kbench.tui.session.link import AskFailed, Latest
from kbench.workbench.protocol.session import Help, Meanings

if TYPE_CHECKING:
    from kbench.tui.screen_bench import ScreenBench
    from kbench.workbench.session.session_interface import Completion

ENGAGED = ("up", "down", "enter")
TYPING_PAUSE_SECONDS = 0.08
"""Seconds without a key before the kernel is asked."""
MEANING_SECONDS = 0.3
"""For the kernel to say what completions are; beyond it the list comes without."""
_QUALIFIED = re.compile(r"(?:[^\W\d]\w*\.)+$")
_DOTTED = re.compile(r"[A-Za-z_][\w]*(\.[\w]*)+$")
_DONE = re.compile(r"(?:(?<![\w.])\d[\w.]*|___|[^\w.])$")
"""Before the cursor: a number, a lesson's blank, or no word at all, so nothing to complete."""
_QUOTED_HINT = re.compile(r"(: |-> )'([^']*)'")  # hints that Python keeps as text


def inside_call(code: str, position: int) -> bool:
    """True when an opening parenthesis before the cursor is still open."""
    depth = 0
    for character in reversed(code[:position]):
        if character == ")":
            depth += 1
        elif character == "(":
            if depth == 0:
                return True
            depth -= 1
    return False


class Assist:
    """Watches the prompt; asks after a pause, drops answers that come too late."""

    def __init__(self, bench: ScreenBench) -> None:
        self.bench = bench
        self._matches = Latest(bench.run)
        self._help = Latest(bench.run)
        self._typed = 0
        self._popup: CompletionList | None = None  # looked up once: it is asked for at every key
        self._signature = ""

    @property
    def prompt(self) -> Prompt:
        """The prompt."""
        return self.bench.prompt

    @property
    def popup(self) -> CompletionList | None:
        """The list of completions, None before it is mounted."""
        if self._popup is None:
            self._popup = self.bench.view(CompletionList)
        return self._popup

    @property
    def open(self) -> bool:
        """True while the list is on the screen."""
        return self.popup is not None and bool(self.popup.display)

    def close(self) -> bool:
        """Take the list away; False when there was none."""
        was_open = self.open
        if self.popup is not None:
            self.popup.hide()
        self.prompt.list_keys = ()
        return was_open

    def list_key(self, key: str) -> None:
        """Up, down or Enter while the list is open."""
        options = self.popup
        if options is None or not options.display:
            self.prompt.list_keys = ()
        elif key == "enter":
            self.take()
        elif options.highlighted is None:
            options.highlighted = 0
            self.prompt.list_keys = ENGAGED
        else:
            options.move(1 if key == "down" else -1)

    # ------------------------------------------------------------------ typing

    def typed(self) -> None:
        """The text or the cursor has changed."""
        self._typed += 1
        number = self._typed
        if self.open and not self._still_fits():
            self.close()
        self.bench.later(TYPING_PAUSE_SECONDS, lambda: self._rested(number))

    def _rested(self, number: int) -> None:
        if number != self._typed or not self.prompt.has_focus:
            return
        text, position = self.prompt.text, self.prompt.position
        command = self._commands()
        if self.open or command or _DOTTED.search(text[:position]):
            self._ask_matches(explicit=False)
        if inside_call(text, position):
            self._help.submit(self._fetch_help)
        elif self._signature:
            self._signature = ""
            self.bench.tell(HintChanged(""))

    def _still_fits(self) -> bool:
        options, prompt = self.popup, self.prompt
        if options is None:
            return False
        typed = prompt.text[options.span[0] : prompt.position]
        return bool(typed) and "\n" not in typed and not typed[-1].isspace()

    # ------------------------------------------------------------------ completion

    def complete(self) -> None:
        """Tab: take the choice, complete, or indent where nothing stands before the cursor.

        Where there is nothing to complete in a lesson's code it goes to the next blank.
        """
        prompt = self.prompt
        row, column = prompt.cursor_location
        if self.open and not self._common():
            self.take()
        elif self.open:
            prompt.list_keys = ENGAGED
        elif not prompt.document.lines[row][:column].strip():
            prompt.insert(" " * (4 - column % 4))
        elif _DONE.search(prompt.document.lines[row][:column]) and prompt.select_blank(
            after_cursor=True
        ):
            return
        else:
            self._ask_matches(explicit=True)

    def _common(self) -> bool:
        """Put what all completions of the open list begin with; False when it stands there."""
        options, prompt = self.popup, self.prompt
        if options is None or prompt.list_keys == ENGAGED:
            return False
        start, end = options.span[0], max(prompt.position, options.span[1])
        prefix = options.common_prefix()
        if len(prefix) <= end - start:
            return False
        prompt.insert_at(start, end, prefix)
        options.span = (start, start + len(prefix))
        if len(options.matches) == 1:
            self.close()
        return True

    def _commands(self) -> list[str]:
        """What the word behind the colon of a lesson's command could become."""
        text = self.prompt.text[: self.prompt.position]
        if not self.bench.arrangement.choices.lesson or not text.startswith(":"):
            return []
        return [f":{command}" for command in COMMANDS if f":{command}".startswith(text)]

    def _ask_matches(self, explicit: bool) -> None:
        text, position = self.prompt.text, self.prompt.position
        if commands := self._commands():
            self._offer([Match(one, "lesson") for one in commands], (0, position), explicit)
            return

        async def fetch() -> None:
            found = await self.bench.link.complete(text, position)
            prompt = self.prompt
            if found is None or (prompt.text, prompt.position) != (text, position):
                return
            matches = await self._meant(found, text)
            if (prompt.text, prompt.position) == (text, position):
                self._offer(matches, (found.start, found.end), explicit)

        self._matches.submit(fetch)

    async def _meant(self, found: Completion, text: str) -> list[Match]:
        """The completions with what they are; without where the kernel does not tell at once."""
        before = _QUALIFIED.search(text[: found.start])
        prefix = before.group() if before else ""
        plain = [Match(*pair) for pair in zip(found.matches, found.kinds, strict=False)]
        names = [prefix + one.text for one in plain[:MAX_MATCHES]]
        try:
            told = await self.bench.link.ask(Meanings(names=names), timeout=MEANING_SECONDS)
        except AskFailed:
            return plain
        known = zip(plain, told.kinds, told.signatures, strict=False)
        meant = [
            Match(one.text, kind or one.kind, signature.replace("\n", " "))
            for one, kind, signature in known
        ]
        return meant + plain[len(meant) :]

    def _offer(self, matches: list[Match], span: tuple[int, int], explicit: bool) -> None:
        options, prompt = self.popup, self.prompt
        if options is None:
            return
        typed = prompt.text[span[0] : span[1]]
        if not typed.rpartition(".")[2].startswith("_"):
            public = [
                match for match in matches if not match.text.rpartition(".")[2].startswith("_")
            ]
            matches = public or matches
        known = all(match.text == typed for match in matches)
        if known and explicit and prompt.select_blank(after_cursor=True):
            self.close()
            return
        if not matches or (known and not explicit):
            self.close()
            return
        options.offer(matches, span)
        if explicit and len(matches) == 1:
            self.take()
            return
        if explicit and len(prefix := options.common_prefix()) > len(typed):
            prompt.insert_at(*span, prefix)
            options.span = (span[0], span[0] + len(prefix))
        options.stand(prompt.cursor_screen_offset, self.bench.region)
        if not options.display:
            self.close()
        elif explicit:
            prompt.list_keys = ENGAGED
        elif prompt.list_keys != ENGAGED:
            # It came by itself: Enter still runs the input, Down goes into the list.
            options.highlighted = None
            prompt.list_keys = ("down",)

    def take(self) -> None:
        """Put the highlighted completion, or else the first, in place."""
        options = self.popup
        if options is None:
            return
        if options.highlighted is None:
            options.highlighted = 0
        if options.chosen is None:
            return
        prompt, chosen = self.prompt, options.chosen
        prompt.insert_at(options.span[0], max(prompt.position, options.span[1]), chosen)
        self.close()

    # ------------------------------------------------------------------ signatures

    async def _fetch_help(self) -> None:
        prompt = self.prompt
        text, position = prompt.text, prompt.position
        try:
            data = await self.bench.link.ask(Help(code=text, position=position), timeout=1.0)
        except AskFailed:
            return
        words = " ".join(data.signature.split())
        words = _QUOTED_HINT.sub(r"\1\2", words)
        if self.prompt.text == text and words:
            self._signature = words
            self.bench.tell(HintChanged(words))

    async def documentation(self) -> str:
        """All that the kernel says of the call or name at the cursor."""
        prompt = self.prompt
        session = self.bench.link.session
        if session is None:
            return ""
        found = await self.bench.link.call(session.inspect_object, prompt.text, prompt.position)
        return str(found)
