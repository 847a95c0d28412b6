"""The `kbench` command's first lines: reach `kbench.cli` without loading the engine.

Importing `kbench.cli` would first run `kbench/__init__.py`, which loads NumPy and the engine: a
tenth of a second that `kbench --version` and the terminal's own process have no use for. So the
package is put in place unloaded, with its path, which is all that importing a submodule needs; it
loads itself, once, when something first asks it for a public name.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from types import ModuleType

_loading = threading.RLock()
_begun = threading.Event()


class _Unloaded(ModuleType):
    """A package whose `__init__` runs when a name that it would define is first asked for."""

    def __getattr__(self, name: str) -> object:
        if not name.startswith("__") or name == "__all__":
            load()
            if type(self) is not _Unloaded:
                return getattr(self, name)
            if name in self.__dict__:  # asked for by the loading itself
                return self.__dict__[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def load() -> None:
    """Run the package's `__init__` now, if it has not been run yet; others wait for it."""
    with _loading:
        package = sys.modules.get("kbench")
        if not isinstance(package, _Unloaded) or _begun.is_set():
            return
        _begun.set()
        loader = package.__spec__.loader if package.__spec__ else None
        assert loader is not None
        loader.exec_module(package)
        if isinstance(package, _Unloaded):  # unless `__init__` gave it a class of its own
            package.__class__ = ModuleType


def place() -> None:
    """Put the unloaded package among the modules, unless it is there already."""
    if "kbench" in sys.modules:
        return
    spec = importlib.util.find_spec("kbench")
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError("kbench is not installed beside its launcher")
    package = importlib.util.module_from_spec(spec)
    package.__class__ = _Unloaded
    sys.modules["kbench"] = package


def main() -> int:
    """Run the command line; the console script's entry point."""
    place()
    from kbench.cli.main import main as command

    return command(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
