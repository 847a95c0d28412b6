"""Print the newest Python that kbench promises and this machine has: python3.13 before python3.12.

Looks where commands are found and where pyenv keeps what it has built. Without any, the Python that
runs this is printed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path


def promised(project: Path) -> list[str]:
    """Versions of the classifiers, as 3.13, the newest first."""
    classifiers = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["classifiers"]
    form = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    found = [form.fullmatch(one) for one in classifiers]
    versions = [one[1] for one in found if one]
    return sorted(versions, key=lambda one: int(one.partition(".")[2]), reverse=True)


def candidates(version: str) -> Iterator[str]:
    """Programs that may be this version."""
    known = shutil.which(f"python{version}")
    if known:
        yield known
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True))


def works(program: str, version: str) -> bool:
    """Whether it runs, is that version, and can make a virtual environment."""
    code = "import sys, ensurepip, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([program, "-c", code], capture_output=True, text=True)
    return done.returncode == 0 and done.stdout.strip() == version


if __name__ == "__main__":
    versions = promised(Path(sys.argv[1]))
    pairs = ((program, version) for version in versions for program in candidates(version))
    print(next((program for program, version in pairs if works(program, version)), sys.executable))
