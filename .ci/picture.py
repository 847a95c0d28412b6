"""Draws the picture of docs/architecture.md from the imports: `python .ci/picture.py` writes it.

Packages and the engine's rooms stand below one another; an arc goes from each to what it imports,
the thicker the more modules do.
"""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "architecture.svg"

ORDER = (
    *("cli", "tui", "notebook", "workbench", "dask", "api", "backend", "keras_client"),
    *("engine.inspect", "engine.execute", "engine.fusion", "engine.compiler"),
    *("engine.control_flow", "engine.autodiff", "engine.ops", "engine.kernels", "engine.codegen"),
    *("engine.graph", "engine.intrinsics", "engine.jit", "engine.runtime", "engine.core"),
)
ROW, LEFT, WIDTH = 30, 20, 190
STYLE = (
    "text{font:13px sans-serif;fill:#222}.n{fill:#777;font-size:11px}rect{fill:#eef2f7;"
    "stroke:#8aa}.e rect{fill:#f7f1e3;stroke:#b99}path{fill:none;stroke:#68a;opacity:.45}"
    "svg{background:#fff}"
)


def room_of(module: str) -> str:
    """The entry of `ORDER` that a module belongs to; "" for the package itself and its version."""
    name = module.removeprefix("kbench.")
    return next((one for one in ORDER if name == one or name.startswith(f"{one}.")), "")


def drawn() -> str:
    """The picture as SVG."""
    rooms = runpy.run_path(str(ROOT / ".ci" / "rooms.py"))
    graph = rooms["imports"](rooms["modules"]())
    files = Counter(room_of(module) for module in graph)
    arrows = Counter(
        (room_of(module), room_of(other)) for module, others in graph.items() for other in others
    )
    place = {room: 20 + ROW * row for row, room in enumerate(ORDER)}
    right = LEFT + WIDTH
    lines = []
    for (room, other), count in sorted(arrows.items()):
        if room and other and room != other:
            first, last = place[room] + 11, place[other] + 11
            bend = right + 24 + abs(last - first) * 0.62
            lines.append(
                f'<path d="M{right} {first}C{bend:.0f} {first} {bend:.0f} {last} {right} {last}" '
                f'stroke-width="{1 + count**0.5 / 2:.1f}"><title>{room} imports {other}: '
                f"{count} times</title></path>"
            )
    for room in ORDER:
        kind = ' class="e"' if room.startswith("engine.") else ""
        lines.append(
            f'<g{kind}><rect x="{LEFT}" y="{place[room]}" width="{WIDTH}" height="22" rx="4"/>'
            f'<text x="{LEFT + 9}" y="{place[room] + 15}">{room}</text><text class="n" '
            f'x="{right - 9}" y="{place[room] + 15}" text-anchor="end">{files[room]}</text></g>'
        )
    height = 20 + ROW * len(ORDER) + 8
    words = "kbench's packages and rooms, with an arc from each to what it imports"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="560" height="{height}" role="img" '
            f'aria-label="{words}"><style>{STYLE}</style>',
            *lines,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
    print(PICTURE.relative_to(ROOT))
