"""Where kbench keeps what outlives a process, and where Keras keeps its settings."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from kbench.engine.environment import env


def cache_dir() -> Path:
    """Folder of compiled kernels: KBENCH_CACHE_DIR, else the user's cache folder."""
    asked = env("KBENCH_CACHE_DIR")
    return Path(asked) if asked else _user_dirs().user_cache_path


def state_dir() -> Path:
    """Folder of history, journal and lesson progress: KBENCH_STATE_DIR, else the user's."""
    asked = env("KBENCH_STATE_DIR")
    return Path(asked) if asked else _user_dirs().user_state_path


def _user_dirs() -> Any:
    import platformdirs

    return platformdirs.PlatformDirs("kbench", appauthor=False)


def keras_home() -> Path:
    """Folder of keras.json: $KERAS_HOME, else ~/.keras, else below the temp folder."""
    asked = env("KERAS_HOME")
    if asked:
        return Path(asked)
    home = Path.home()
    base = home if os.access(home, os.W_OK) else Path(tempfile.gettempdir())
    return base / ".keras"
