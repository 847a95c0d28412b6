"""The table of widgets in docs/notebook.md, from `kbench/notebook/registry.py`.

python .ci/widgets.py           writes the table into the page anew
python .ci/widgets.py --check   fails if the page has another one
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "notebook.md"
BEGIN, END = "<!-- the table of widgets: .ci/widgets.py -->\n", "<!-- its end -->\n"


def main() -> int:
    """Write or compare."""
    sys.path.insert(0, str(ROOT))
    from kbench.notebook import registry

    text = PAGE.read_text("utf-8")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    wanted = f"{head}{BEGIN}\n{registry.document()}\n{END}{tail}"
    if "--check" in sys.argv:
        print("" if text == wanted else f"{PAGE.name} has another table: python .ci/widgets.py")
        return int(text != wanted)
    PAGE.write_text(wanted, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
