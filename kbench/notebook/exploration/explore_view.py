"""How an exploration is drawn: the line, its inputs, what it gave; as HTML and as text."""

from __future__ import annotations

import inspect

import numpy as np

from kbench.engine.inspect import describe
from kbench.notebook.base.slicing import Slice
from kbench.notebook.exploration import explore_pictures
from kbench.notebook.exploration.explore_controls import Choice, Control, Fixed, Number, python_text
from kbench.notebook.exploration.explore_run import STORED, Outcome, Result
from kbench.notebook.exploration.explore_subject import Subject
from kbench.notebook.html import html, views
from kbench.notebook.markup.markup import (
    MAX_OUTPUT_BYTES,
    Html,
    details,
    element,
    escape,
    histogram,
    join,
    table,
)
from kbench.notebook.markup.style import STYLE
from kbench.workbench.inspector import summary

_LINE_CHARACTERS = 4_000
"""Characters of a line of code."""
_SELECT = "user-select:all;white-space:pre-wrap;margin:.2em 0"  # one click takes all of it
_OLD = "border-left:3px dashed currentColor;padding-left:.6em"
_GREY = "filter:grayscale(1)"


def code(text: str) -> Html:
    """Python to be copied."""
    return element("pre", element("code", escape_lines(text)), style=_SELECT)


def escape_lines(text: str) -> Html:
    """Text of several lines, each of them escaped."""
    return Html("\n".join(escape(line, _LINE_CHARACTERS) for line in text.split("\n")))


def head(subject: Subject, line: str) -> Html:
    """The line that does the same, and what makes its inputs."""
    parts = [code(line)]
    if subject.inputs:
        parts.append(details("how the inputs are made", code(f"{subject.preamble()}\n{line}")))
    return join(parts)


def inputs(subject: Subject, data_format: str | None = None) -> Html:
    """A table of the inputs: what they are, their dtypes, shapes, ranges, and a small picture.

    Without a format of images there are no pictures.
    """
    named = list(subject.named().items())[:12]
    rows: list[tuple[object, ...]] = [(name, *_facts(value)) for name, value in named]
    if not rows:
        return Html("")
    heads: tuple[str, ...] = ("name", "kind", "dtype[shape]", "range")
    if data_format is not None:
        thumbs = [_thumb(subject, name, value, data_format) for name, value in named]
        if any(thumbs):
            heads = (*heads, "picture")
            rows = [(*row, thumb) for row, thumb in zip(rows, thumbs, strict=True)]
    return element("div", table("inputs", heads, rows), class_="kb-text")


def _thumb(subject: Subject, name: str, value: object, data_format: str) -> Html:
    held = describe.held_array(value)
    if held is None:
        return Html("")
    shown = first_slice(subject, held.shape, data_format)
    if "kernel" in name and held.ndim == 4:  # rows, columns, channels in and out
        shown = Slice((0,) * 4, 0, 1)
    return explore_pictures.thumb(held, shown, name)


def first_slice(subject: Subject, shape: tuple[int, ...], data_format: str) -> Slice | None:
    """Of a batch of images the first channel of the first; else as `widest`."""
    if subject.name in explore_pictures.OF_IMAGES and len(shape) == 4:
        rows = 2 if data_format == "channels_first" else 1
        return Slice((0,) * 4, rows, rows + 1)
    return widest(shape)


def widest(shape: tuple[int, ...]) -> Slice | None:
    """The slice of the last two axes along which there is more than one entry; None without."""
    long = [axis for axis, size in enumerate(shape) if size > 1]
    return Slice((0,) * len(shape), long[-2], long[-1]) if len(long) > 1 else None


def _facts(value: object) -> tuple[object, object, object]:
    held = describe.held_array(value)
    kind = str(value.kind) if describe.is_tensor(value) else type(value).__name__
    if describe.is_tensor(value):
        spec = str(value.spec)
    elif held is not None:
        spec = describe.spec_text(held.shape, str(held.dtype))
    else:
        return kind, "", summary.line(value)
    return kind, spec, Html("") if held is None else spread(held)


def spread(array: np.ndarray) -> Html:
    """The range of an array with its histogram, and in words what is not finite."""
    row = describe.array(array)
    if row.get("refused"):
        return escape(row["refused"])
    bars = histogram(row["histogram"], row["min"], row["max"]) if row["finite"] else Html("")
    flags = summary.flags_text(row)
    return join([element("span", f"{flags} ", class_="kb-bad"), bars]) if flags else bars


def outputs(outcome: Outcome) -> Html:
    """A table of what the call gave."""
    rows = [(result.label or "result", *_row(result)) for result in outcome.results]
    if not rows:
        return Html("")
    cut = f", the first {len(rows)} of {len(rows) + outcome.cut}" if outcome.cut else ""
    heads = ("name", "kind", "dtype[shape]", "range or value")
    return element("div", table(f"gives{cut}", heads, rows), class_="kb-text")


def _row(result: Result) -> tuple[object, object, object]:
    held = describe.held_array(result.value)
    if held is None:
        return result.note, "", escape(result.text, 200)
    kind = result.note.split(" ")[0] or type(result.value).__name__
    kind = result.note if _is_update(result) else kind
    argument_words: object = spread(held) if held.size > 8 else escape(_values(result.text), 120)
    return kind, describe.spec_text(held.shape, str(held.dtype)), argument_words


def _is_update(result: Result) -> bool:
    return result.note.startswith(STORED)


def _values(text: str) -> str:
    """The values of a short array out of its summary."""
    return text.partition("B  ")[2] or text


def arrays(outcome: Outcome | None) -> dict[str, np.ndarray]:
    """The arrays that a call gave, by their places in what it gave."""
    found = {}
    for result in outcome.results if outcome is not None else ():
        held = describe.held_array(result.value)
        if held is not None:
            found[f"result{result.label}"] = held
    return found


def result(
    outcome: Outcome, shown: Slice | None, old: bool, png: bytes = b"", name: str | None = None
) -> str:
    """What a call gave: a table, and the values of one array; an `old` result says so."""
    parts = []
    if old:
        words = f"the last good result, of {outcome.line}"
        parts.append(element("p", element("b", escape(words, 400)), role="note"))
    held = arrays(outcome)
    name = name if name in held else next(iter(held), "")
    array = held.get(name)
    alone = array is not None and len(outcome.results) == 1 and not _is_update(outcome.results[0])
    if png or not alone or array is None or array.size < 2:
        parts.append(outputs(outcome))
    text = views.styled(join(parts)) if parts else ""
    if png:
        text += views.picture(png, f"heat map of {name}{shown or ''}, {outcome.line}")
    elif array is not None and array.size > 1:
        text += html.array_view(array, name, shown)
    return f'<div style="{_OLD};{_GREY}">{text}</div>' if old else text


def maps(subject: Subject, outcome: Outcome, data_format: str, name: str | None) -> str:
    """What went in and what came out as pictures beside each other; '' where that is no image."""
    named = list(subject.named().items())
    held = arrays(outcome)
    name = name if name in held else next(iter(held), "")
    given = describe.held_array(named[0][1]) if named else None
    if given is None or name not in held:
        return ""
    found = explore_pictures.feature_maps(named[0][0], given, name, held[name], data_format)
    return views.styled(found) if found else ""


def failure(outcome: Outcome) -> str:
    """Why a call gave nothing: the reason, and the operands where they stand in the line."""
    if not outcome.words:
        return ""
    first, *more = outcome.words
    parts = [element("p", views.long(first), class_="kb-bad")]
    if more:
        parts.append(element("pre", escape_lines("\n".join(more))))
    return views.styled(element("div", join(parts), role="status"))


def portrait(
    subject: Subject,
    good: Outcome | None,
    now: Outcome | None,
    shown: Slice | None = None,
    name: str | None = None,
) -> str:
    """The picture that stays in a saved notebook, at most as large as any output."""
    line = now.line if now is not None else subject.line({})
    parts = [element("p", element("b", f"exploring {subject.name}"), class_="kb-head")]
    parts += [head(subject, line), inputs(subject)]
    text = views.styled(join(parts))
    more = ""
    if now is not None and now.words:
        more += failure(now)
    if good is not None:
        more += result(good, shown, good is not now, name=name)
    text += more.replace(f"<style>{STYLE}</style>", "")  # needed once
    if len(text.encode()) > MAX_OUTPUT_BYTES and good is not None:
        text = views.styled(join([*parts, outputs(good)]))
    return text


# ------------------------------------------------------------------ as text


def text(subject: Subject, good: Outcome | None, now: Outcome | None) -> str:
    """What a terminal shows: the line, inputs, result or error, and what could be changed."""
    line = now.line if now is not None else subject.line({})
    lines = [line]
    named = subject.named()
    width = max((len(word) for word in [*named, *subject.controls, "result"]), default=0)
    lines += [f"  {name:<{width}}  {_line(value)}" for name, value in named.items()]
    if now is not None and now.words:
        lines += [f"  {word}" for word in now.words[:12]]
    elif good is not None:
        lines += [
            f"  {result.label or 'result':<{width}}  {result.text}" for result in good.results
        ]
    lines += [
        f"  {name:<{width}}  {control_words(control)}" for name, control in subject.controls.items()
    ]
    return "\n".join(lines)


def _line(value: object) -> str:
    """An input in one line; the names that tensors have for themselves say nothing here."""
    held = describe.held_array(value)
    return summary.line(value if held is None else held)


def control_words(control: Control) -> str:
    """What a control can be set to, in words."""
    if isinstance(control, Fixed):
        return f"stays {describe.printable(python_text(control.value), 60)}"
    if isinstance(control, Choice):
        shown = ", ".join(label for label, _ in control.options[:8])
        return f"one of {shown}{', ...' if len(control.options) > 8 else ''}"
    if isinstance(control, Number):
        low, high = control.low, control.high
        low, high = (10**low, 10**high) if control.log else (low, high)
        return f"{describe.number(low)} to {describe.number(high)}"
    return "any text" if isinstance(control.start, str) else "False or True"


def argument_words(subject: Subject, name: str) -> str:
    """What the documentation says of an argument, in one line; at least which one it is."""
    doc = inspect.getdoc(subject.function) or ""
    lines = doc.partition("Arguments:")[2].partition("Returns:")[0].splitlines()
    for at, line in enumerate(lines):
        if line.strip().startswith(f"{name}: "):
            found = [line.strip()]
            for more in lines[at + 1 :]:
                if not more.startswith(" " * 8) or ": " in more[:24]:
                    break
                found.append(more.strip())
            return describe.printable(" ".join(found), 300)
    return f"argument {name} of {subject.name}"
