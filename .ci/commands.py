"""Print the commands of README.md's "Set up" block, one a line; .ci/run runs what is printed."""

from __future__ import annotations

import re
import sys
from pathlib import Path


def commands(text: str) -> list[str]:
    """The lines of the first fenced block that makes a virtual environment."""
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        lines = [line.strip() for line in block.splitlines()]
        found = [line for line in lines if line.startswith("python3 -m venv")]
        if found:
            return found
    return []


if __name__ == "__main__":
    print("\n".join(commands(Path(sys.argv[1]).read_text(encoding="utf-8"))))
