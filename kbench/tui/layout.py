"""Where each pane stands, from the terminal's size and the user's choices: a pure function."""

from __future__ import annotations

from msgspec import Struct, field
from textual.geometry import Region

from kbench.tui.panes.registry import BY_ID, LESSON, PANES, SESSION, SIDE_PANES, STACK

LABEL_CELLS = 9
"""Cells of ` In [8]: ` before a prompt without a frame."""
# Percent: the session's part of each layout, then where panes meet that share a column, by the
# layout's kind and a pane.
SHARES = {
    "compact": 60,
    "two": 55,
    "three": 43,
    "three left": 50,  # of what the session leaves
    **{f"{kind} {pane.id}": share for pane in PANES for kind, share in pane.shares.items()},
}
SETTINGS_ROWS = 9
"""Rows of the settings below the watches in three columns."""
THREE_COLUMNS = 180
"""Cells of a screen from which on three columns stand side by side: the session then has 77 of
them, what a line of code and its error need, and each of the others about 50."""


class Choices(Struct):
    """What the user chose about the layout; `shares` are those of SHARES that were moved."""

    side: bool = True
    tab: str = "variables"
    stack: str = STACK[0]
    banner: int = 0  # rows of the banner, 0 while there is none
    notices: int = 0  # rows of what is told in passing, which take the status line's place
    zoom: str = ""
    lesson: bool = False  # one is open
    folded: bool = False  # of it only the line that tells the state is shown
    shares: dict[str, int] = field(default_factory=dict)

    def share(self, border: str) -> int:
        """Where a border stands, in percent."""
        return self.shares.get(border, SHARES[border])

    def move(self, border: str, share: int) -> None:
        """Put a border elsewhere, as far as what it parts stays usable."""
        self.shares[border] = max(25, min(share, 75))

    def has(self, pane: str) -> bool:
        """Whether there is such a pane now, shown or not."""
        return pane != LESSON or self.lesson

    @property
    def side_panes(self) -> tuple[str, ...]:
        """Those that there are now."""
        return tuple(pane for pane in SIDE_PANES if self.has(pane))


class Layout(Struct, frozen=True):
    """Regions by pane name; a pane that is not named is hidden. `bordered`: panes have frames."""

    kind: str
    regions: dict[str, Region]
    tabs: tuple[str, ...] = ()
    bordered: bool = True


def kind_of(width: int, height: int) -> str:
    """'tiny', 'compact', 'two' or 'three'."""
    if width < 60 or height < 16:
        return "tiny"
    if width < 100 or height < 30:
        return "compact"
    return "two" if width < THREE_COLUMNS else "three"


def arrange(width: int, height: int, choices: Choices, lines: int) -> Layout:
    """Lay out the screen; `lines` is how many the prompt's text has."""
    kind = kind_of(width, height)
    if kind == "tiny":
        return _tiny(width, height, lines, choices)
    banner, notices = (min(rows, height // 4) for rows in (choices.banner, choices.notices))
    top = max(notices, 1)
    body = Region(0, top + banner, width, height - 1 - top - banner)
    head = "notices" if notices else "status"
    frame = {head: Region(0, 0, width, top), "keybar": Region(0, height - 1, width, 1)}
    if banner:
        frame["banner"] = Region(0, top, width, banner)
    if choices.zoom and choices.has(choices.zoom):
        return _zoomed(kind, body, choices, lines, frame)
    if kind == "compact":
        return _compact(body, choices, lines, frame)
    return _columns(kind, body, choices, lines, frame)


def _tiny(width: int, height: int, lines: int, choices: Choices) -> Layout:
    """Prompt and transcript, an open lesson above; a banner takes the place of the notice."""
    notice = max(1, min(choices.notices, height // 4)) if height >= 4 else 0
    hint = 1 if height >= 6 else 0
    lesson = _tiny_lesson(height - notice - hint, choices)
    prompt = max(1, min(lines, (height - notice - hint - lesson) // 2))
    rest = max(height - notice - hint - prompt, 0)
    label = LABEL_CELLS if width >= 2 * LABEL_CELLS else 0
    regions = {"prompt": Region(label, notice + rest, width - label, prompt)}
    if label:
        regions["label"] = Region(0, notice + rest, label, 1)
    if notice:
        head = "notices" if choices.notices else "banner" if choices.banner else "status"
        regions[head] = Region(0, 0, width, notice)
    if lesson:
        regions[LESSON] = Region(0, notice, width, lesson)
    if rest > lesson:
        regions["transcript"] = Region(0, notice + lesson, width, rest - lesson)
    if hint:
        regions["hint"] = Region(0, height - 1, width, 1)
    return Layout("tiny", regions, bordered=False)


def _tiny_lesson(height: int, choices: Choices) -> int:
    """Rows of the lesson where there is little room: title, some prose, state; or the state."""
    if not choices.lesson or height < 3:
        return 0
    return 1 if choices.folded or height < 8 else height // 2


def _session(area: Region, lines: int, bordered: bool) -> dict[str, Region]:
    """Transcript over prompt over the hint line."""
    edge = 2 if bordered else 0
    prompt = min(max(lines, 1), max(area.height // 2 - edge, 1)) + edge
    top = max(area.height - prompt - 1, 0)
    label = 0 if bordered else LABEL_CELLS
    regions = {
        "transcript": Region(area.x, area.y, area.width, top),
        "prompt": Region(area.x + label, area.y + top, area.width - label, prompt),
        "hint": Region(area.x, area.y + top + prompt, area.width, 1),
    }
    if label:
        regions["label"] = Region(area.x, area.y + top, label, 1)
    return regions


def _compact(body: Region, choices: Choices, lines: int, frame: dict[str, Region]) -> Layout:
    if not choices.side:
        return Layout("compact", frame | _session(body, lines, False), choices.side_panes, False)
    tab = choices.tab if choices.has(choices.tab) else "variables"
    share = choices.share("compact lesson" if tab == LESSON else "compact")
    top = min(max(body.height * share // 100, 6), body.height - 4)
    if tab == LESSON and choices.folded:
        top = body.height - 2
    session = _session(Region(0, body.y, body.width, top), lines, False)
    regions = frame | session
    regions["tabs"] = Region(0, body.y + top, body.width, 1)
    regions[tab] = Region(0, body.y + top + 1, body.width, body.height - top - 1)
    return Layout("compact", regions, choices.side_panes, False)


def _taught(kind: str, area: Region, choices: Choices, lines: int) -> dict[str, Region]:
    """The session, below the lesson while one is open."""
    if not choices.lesson:
        return _session(area, lines, True)
    rows = 1 if choices.folded else max(area.height * choices.share(f"{kind} lesson") // 100, 6)
    rest = Region(area.x, area.y + rows, area.width, area.height - rows)
    return {LESSON: Region(area.x, area.y, area.width, rows), **_session(rest, lines, True)}


def _zoomed(
    kind: str, body: Region, choices: Choices, lines: int, frame: dict[str, Region]
) -> Layout:
    bordered = kind != "compact"
    if choices.zoom in SESSION:
        return Layout(kind, frame | _session(body, lines, bordered), (), bordered)
    return Layout(kind, frame | {choices.zoom: body}, (), bordered)


def _columns(
    kind: str, body: Region, choices: Choices, lines: int, frame: dict[str, Region]
) -> Layout:
    if not choices.side:
        return Layout(kind, frame | _taught(kind, body, choices, lines))
    if kind == "two":
        left = body.width * choices.share("two") // 100
        session = Region(0, body.y, left, body.height)
        regions = frame | _taught(kind, session, choices, lines)
        upper = body.height * choices.share("two variables") // 100
        right = body.width - left
        below = tuple(pane for pane in SIDE_PANES if BY_ID[pane].region not in ("left", LESSON))
        tab = choices.tab if choices.tab in below else "value"
        regions["variables"] = Region(left, body.y, right, upper)
        regions["tabs"] = Region(left, body.y + upper, right, 1)
        regions[tab] = Region(left, body.y + upper + 1, right, body.height - upper - 1)
        return Layout("two", regions, below)
    middle = body.width * choices.share("three") // 100
    left = (body.width - middle) * choices.share("three left") // 100
    right = body.width - left - middle
    rest = body.height - SETTINGS_ROWS
    watch = rest * choices.share("three watch") // 100
    value = body.height * choices.share("three value") // 100
    stack = (body.height - value) // 2
    session = Region(left, body.y, middle, body.height)
    regions = frame | _taught(kind, session, choices, lines)
    regions["variables"] = Region(0, body.y, left, rest - watch)
    regions["watch"] = Region(0, body.y + rest - watch, left, watch)
    regions["settings"] = Region(0, body.y + rest, left, SETTINGS_ROWS)
    x, y = left + middle, body.y + value
    regions["value"] = Region(x, body.y, right, value)
    regions["plan"] = Region(x, y + stack, right, body.height - value - stack)
    tabs = 1 if len(STACK) > 1 else 0
    if tabs:
        regions["tabs"] = Region(x, y, right, 1)
    regions[choices.stack] = Region(x, y + tabs, right, stack - tabs)
    return Layout("three", regions, STACK if tabs else ())


LOWER_EDGES = {
    "two variables": "variables", "three watch": "variables", "three value": "value",
    "two lesson": LESSON, "three lesson": LESSON,
}  # fmt: skip


def border_at(layout: Layout, x: int, y: int) -> str:
    """The border on which (x, y) is, by its name in SHARES; '' on none."""
    session, tabs = layout.regions.get("transcript"), layout.regions.get("tabs")
    if session is None or (tabs is None and "settings" not in layout.regions):
        return ""
    if layout.kind == "compact":
        border = _drawer(layout)
        return border if tabs is not None and y == tabs.y and x > tabs.right - 20 else ""
    for border, pane in LOWER_EDGES.items():
        if border.startswith(layout.kind) and pane in layout.regions:
            above = layout.regions[pane]
            on_frame = y == above.bottom - 1 or (y == above.bottom and x > above.right - 20)
            if on_frame and above.x < x < above.right - 1:
                return border
    if layout.kind in ("two", "three") and 1 <= y:
        if abs(x - session.right + 0.5) < 1:
            return layout.kind
        if layout.kind == "three" and abs(x - session.x + 0.5) < 1:
            return "three left"
    return ""


def _drawer(layout: Layout) -> str:
    """The border above the drawer, which has another place while the lesson is in it."""
    return "compact lesson" if LESSON in layout.regions else "compact"


def border_of(layout: Layout, pane: str) -> str:
    """The border that moves up and down at a pane, '' where there is none."""
    if "transcript" not in layout.regions:  # one pane has the whole screen
        return ""
    if layout.kind == "compact":
        return _drawer(layout)
    if layout.kind == "tiny":
        return ""
    if LESSON in layout.regions and pane in (LESSON, *SESSION):
        return f"{layout.kind} lesson"
    if pane in SESSION or "variables" not in layout.regions:
        return ""
    if layout.kind == "two":
        return "two variables"
    return "three watch" if pane in ("variables", "watch", "settings") else "three value"


def share_at(border: str, layout: Layout, choices: Choices, x: int, y: int) -> int:
    """The percentage of a border that is put at (x, y)."""
    bar, session = layout.regions["keybar"], layout.regions["transcript"]
    width, top = bar.width, min(session.y, layout.regions.get(LESSON, session).y)
    height = max(bar.y - top, 1)
    if border.startswith("compact"):
        return _percent(y - top, height)
    if border in ("two variables", "three value", "two lesson", "three lesson"):
        return _percent(y + 1 - top, height)
    if border == "two":
        return _percent(x + 1, width)
    if border == "three left":
        return _percent(x + 1, width - session.width)
    if border == "three watch":
        rest = height - SETTINGS_ROWS
        return _percent(rest - (y + 1 - top), rest)
    # The left column is a part of what the middle leaves, and x = left + middle.
    part = choices.share("three left") / 100
    return round(100 * (x + 1 - part * width) / ((1 - part) * max(width, 1)))


def _percent(part: int, whole: int) -> int:
    """The smallest percentage of `whole` that is `part` once it is rounded down."""
    return -(-100 * part // max(whole, 1))
