"""Static pictures of what the widgets show: settings and the table of names.

A widget's MIME bundle carries one of these beside its live view, so that a notebook that is
exported, reopened or read on a code hosting site still shows the state in which it was left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from kbench.engine import config, describe
from kbench.notebook.markup import LIMIT, Html, element, escape, histogram, join, page, table
from kbench.notebook.style import STYLE

ROW_LIMIT = 100
MESSAGE_LIMIT = 400


def with_twin(bundle: dict[str, Any] | None, draw: Callable[[], str]) -> dict[str, Any] | None:
    """A widget's bundle with a static picture in it; the picture never spoils the widget."""
    if bundle is not None:
        try:
            bundle["text/html"] = draw()
        except Exception as error:
            bundle["text/html"] = page(escape(f"not shown: {type(error).__name__}"), [])
    return bundle


def styled(content: Html) -> str:
    """One piece of markup with the style sheet, for the text parts of a widget."""
    return f'<div class="kb"><style>{STYLE}</style>{content}</div>'


def long(text: str) -> Html:
    """A sentence, escaped; longer than a name may be."""
    return escape(text, MESSAGE_LIMIT)


def settings() -> str:
    """The settings as a table."""
    rows = [(name, setting(name, value)) for name, value in config.snapshot().items()]
    content = table("settings", ("name", "value"), rows)
    return page(_title("kbench settings"), [element("div", content, class_="kb-text")])


def setting(name: str, value: Any) -> str:
    """A setting's value as shown to people."""
    if name == "learning_phase" and value is None:
        return "symbolic"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _title(text: str) -> Html:
    return element("p", element("b", text), class_="kb-head")


# ------------------------------------------------------------------ names


def tensors_among(namespace: Mapping[str, Any], pattern: str = "*") -> list[tuple[str, Any]]:
    """The tensors, functions and arrays of a namespace, by name; private names are left out."""
    found = []
    for name, value in sorted(namespace.items(), key=lambda one: str(one[0])):
        shown = isinstance(name, str) and not name.startswith("_") and fnmatchcase(name, pattern)
        if shown and _is_shown(value):
            found.append((name, value))
    return found


def _is_shown(value: Any) -> bool:
    if describe.is_tensor(value) or describe.is_function(value):
        return True
    return describe.held_array(value) is not None


def name_row(name: str, value: Any, known: dict[Any, Any] | None = None) -> dict[str, Any]:
    """What the table says of one name; `known` keeps statistics per version of a variable."""
    if describe.is_function(value):
        counts = f"{len(value.inputs)} in, {len(value.outputs)} out"
        return {"name": name, "kind": "function", "spec": counts, "bytes": None, "stats": None}
    array = describe.held_array(value)
    if not describe.is_tensor(value):
        spec = describe.spec_text(array.shape, array.dtype.name)  # type: ignore[union-attr]
        stats = describe.array(array)
        size = stats["bytes"]
        return {"name": name, "kind": "array", "spec": spec, "bytes": size, "stats": stats}
    row = describe.tensor(value)
    row["name"] = name
    row["stats"] = None if array is None else _statistics(value, array, known)
    return row


def _statistics(value: Any, array: Any, known: dict[Any, Any] | None) -> dict[str, Any]:
    """Statistics of a variable or constant, taken again only when its version has changed."""
    key = id(value)
    version = getattr(value, "version", 0)
    if known is not None and key in known and known[key][0] is value and known[key][1] == version:
        found: dict[str, Any] = known[key][2]
        return found
    found = describe.array(array)
    if known is not None:
        known[key] = (value, version, found)
    return found


def names_table(rows: Sequence[Mapping[str, Any]], title: str = "names") -> str:
    """The rows of `name_row` as a table; a long list is cut, and says so."""
    if not rows:
        return page(_title(title), [element("p", "no tensors, functions or arrays yet")])
    shown = rows[:ROW_LIMIT]
    while True:
        text = _names_page(shown, len(rows), title)
        if len(text.encode()) <= LIMIT or len(shown) == 1:
            return text
        shown = shown[: max(len(shown) * 3 // 4, 1)]


def _names_page(shown: Sequence[Mapping[str, Any]], total: int, title: str) -> str:
    lines = [
        (
            row["name"],
            row["kind"],
            row["spec"],
            _last_shape(row),
            describe.size(row["bytes"]),
            _range(row),
            f"v{row['version']}" if "version" in row else "",
        )
        for row in shown
    ]
    cut = "" if len(shown) == total else f"the first {len(shown)} of "
    caption = f"{cut}{total} names"
    heads = ("name", "kind", "dtype[shape]", "last shape", "size", "range", "version")
    content = element("div", table(caption, heads, lines), class_="kb-text")
    return styled(join([_title(title), content]))


def _last_shape(row: Mapping[str, Any]) -> str:
    last = row.get("last")
    return f"[{', '.join(map(str, last['shape']))}]" if last else ""


def _range(row: Mapping[str, Any]) -> Html:
    """Range with histogram, then NaN and infinities in words."""
    stats = row["stats"]
    if stats is None:
        last = row.get("last")
        return escape(last["text"]) if last and "text" in last else Html("")
    if stats.get("refused"):
        return escape(stats["refused"])
    pieces: list[Html] = []
    if stats["finite"]:
        pieces.append(histogram(stats["histogram"], stats["min"], stats["max"]))
    pieces += list(_flags(stats))
    return join(pieces)


def _flags(stats: Mapping[str, Any]) -> Iterable[Html]:
    for word, label in (("nan", "NaN"), ("inf", "Inf")):
        if stats[word]:
            yield element("span", f" {label} {stats[word]}!", class_="kb-bad")
