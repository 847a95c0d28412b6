"""What the browser's tests start ends with them, also when they are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import browser_lab
import psutil
import pytest
from browser_lab import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of this"),
]

START = """import sys
from pathlib import Path
from browser_lab import Lab
lab = Lab(Path(sys.argv[1]))
print(lab.process.pid, flush=True)
sys.stdin.read()"""


def test_a_server_ends_with_the_test_that_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", START, str(tmp_path)], cwd=Path(browser_lab.__file__).parent,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as test:  # fmt: skip
        assert test.stdout is not None
        server = psutil.Process(int(test.stdout.readline()))
        assert server.is_running() and "jupyter" in " ".join(server.cmdline())
        os.kill(test.pid, signal.SIGKILL)
        until(lambda: not server.is_running(), "the end of the server")
