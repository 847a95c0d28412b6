"""Where each pane stands, from the terminal's size and the user's choices: a pure function."""

from __future__ import annotations

from dataclasses import dataclass, field

from textual.geometry import Region

SIDE_PANES = ("variables", "value", "plan", "settings")
TITLES = {
    "prompt": "Prompt",
    "transcript": "Session",
    "variables": "Variables",
    "value": "Value",
    "plan": "Plan",
    "settings": "Config",
}
LABEL = 9  # ` In [8]: ` before a prompt without a frame
SHARES = {"compact": 60, "two": 52, "three": 43}  # the session's part in percent
LEFT = 50  # percent of what the session leaves that the left of three columns gets
FOCUS_ORDER = ("prompt", "transcript", *SIDE_PANES)


@dataclass
class Choices:
    """What the user chose about the layout; `shares` is the session's part per layout."""

    side: bool = True
    tab: str = "variables"
    banner: int = 0  # rows of the banner, 0 while there is none
    zoom: str = ""
    shares: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
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
    return "two" if width < 160 else "three"


def arrange(width: int, height: int, choices: Choices, lines: int) -> Layout:
    """Lay out the screen; `lines` is how many the prompt's text has."""
    kind = kind_of(width, height)
    if kind == "tiny":
        return _tiny(width, height, lines, choices.banner)
    banner = min(choices.banner, height // 4)
    body = Region(0, 1 + banner, width, height - 2 - banner)
    frame = {"status": Region(0, 0, width, 1), "keybar": Region(0, height - 1, width, 1)}
    if banner:
        frame["banner"] = Region(0, 1, width, banner)
    if choices.zoom:
        return _zoomed(kind, body, choices, lines, frame)
    if kind == "compact":
        return _compact(body, choices, lines, frame)
    return _columns(kind, body, choices, lines, frame)


def _tiny(width: int, height: int, lines: int, banner: int) -> Layout:
    """Prompt and transcript; a banner takes the place of the notice."""
    notice = 1 if height >= 4 else 0
    hint = 1 if height >= 6 else 0
    prompt = max(1, min(lines, (height - notice - hint) // 2))
    rest = max(height - notice - hint - prompt, 0)
    label = LABEL if width >= 2 * LABEL else 0
    regions = {"prompt": Region(label, notice + rest, width - label, prompt)}
    if label:
        regions["label"] = Region(0, notice + rest, label, 1)
    if notice:
        regions["banner" if banner else "status"] = Region(0, 0, width, 1)
    if rest:
        regions["transcript"] = Region(0, notice, width, rest)
    if hint:
        regions["hint"] = Region(0, height - 1, width, 1)
    return Layout("tiny", regions, bordered=False)


def _session(area: Region, lines: int, bordered: bool) -> dict[str, Region]:
    """Transcript over prompt over the hint line."""
    edge = 2 if bordered else 0
    prompt = min(max(lines, 1), max(area.height // 3, 1)) + edge
    top = max(area.height - prompt - 1, 0)
    label = 0 if bordered else LABEL
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
        return Layout("compact", frame | _session(body, lines, False), SIDE_PANES, False)
    share = choices.shares.get("compact", SHARES["compact"])
    top = min(max(body.height * share // 100, 6), body.height - 4)
    session = _session(Region(0, body.y, body.width, top), lines, False)
    regions = frame | session
    regions["tabs"] = Region(0, body.y + top, body.width, 1)
    regions[choices.tab] = Region(0, body.y + top + 1, body.width, body.height - top - 1)
    return Layout("compact", regions, SIDE_PANES, False)


def _zoomed(
    kind: str, body: Region, choices: Choices, lines: int, frame: dict[str, Region]
) -> Layout:
    bordered = kind != "compact"
    if choices.zoom in ("prompt", "transcript"):
        return Layout(kind, frame | _session(body, lines, bordered), (), bordered)
    return Layout(kind, frame | {choices.zoom: body}, (), bordered)


def _columns(
    kind: str, body: Region, choices: Choices, lines: int, frame: dict[str, Region]
) -> Layout:
    if not choices.side:
        return Layout(kind, frame | _session(body, lines, True))
    if kind == "two":
        left = body.width * choices.shares.get("two", SHARES["two"]) // 100
        regions = frame | _session(Region(0, body.y, left, body.height), lines, True)
        upper = body.height * 45 // 100
        right = body.width - left
        tab = choices.tab if choices.tab != "variables" else "value"
        regions["variables"] = Region(left, body.y, right, upper)
        regions["tabs"] = Region(left, body.y + upper, right, 1)
        regions[tab] = Region(left, body.y + upper + 1, right, body.height - upper - 1)
        return Layout("two", regions, SIDE_PANES[1:])
    middle = body.width * choices.shares.get("three", SHARES["three"]) // 100
    left = (body.width - middle) * LEFT // 100
    right = body.width - left - middle
    settings = 9
    value = (body.height * 60) // 100
    regions = frame | _session(Region(left, body.y, middle, body.height), lines, True)
    regions["variables"] = Region(0, body.y, left, body.height - settings)
    regions["settings"] = Region(0, body.y + body.height - settings, left, settings)
    regions["value"] = Region(left + middle, body.y, right, value)
    regions["plan"] = Region(left + middle, body.y + value, right, body.height - value)
    return Layout("three", regions)


def border_at(layout: Layout, x: int, y: int) -> str:
    """The layout's kind when (x, y) is on the border between the session and the panes, else ''."""
    session, tabs = layout.regions.get("transcript"), layout.regions.get("tabs")
    if session is None or (tabs is None and "settings" not in layout.regions):
        return ""
    if layout.kind == "compact":
        return "compact" if tabs is not None and y == tabs.y and x > tabs.right - 20 else ""
    if layout.kind in ("two", "three") and 1 <= y:
        return layout.kind if abs(x - session.right + 0.5) < 1 else ""
    return ""


def share_at(kind: str, width: int, height: int, x: int, y: int) -> int:
    """The session's part in percent when its border is put at (x, y)."""
    if kind == "compact":
        return 100 * (y - 1) // max(height - 2, 1)
    if kind == "two":
        return 100 * (x + 1) // max(width, 1)
    # Three columns: left is a part of what the middle leaves, and x = left + middle.
    part = LEFT / 100
    return round(100 * (x + 1 - part * width) / ((1 - part) * max(width, 1)))
