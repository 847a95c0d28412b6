"""Print the lowest version of each dependency that pyproject.toml promises, as pip constraints."""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text("utf-8"))["project"]
needs = project["dependencies"] + project["optional-dependencies"]["keras"]
for requirement in needs:
    found = re.fullmatch(r"([\w.-]+)[=>]=([\w.]+)(,<[\w.]+)?", requirement)
    if found is None:
        sys.exit(f"no lower bound in {requirement!r}")
    print(f"{found[1]}=={found[2]}")
