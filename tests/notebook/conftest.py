"""Settings and graph as they were, and no widget left, after every test of the notebook side.

And the browser of the tests named `test_browser_*`: one for each file, with a JupyterLab of its
own, which start when the first test asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import ipywidgets
import pytest

from kbench import backend as K
from kbench.engine.runtime import config
from kbench.workbench.progress import courses

if TYPE_CHECKING:
    from browser_lab import Browser


@pytest.fixture(autouse=True)
def default_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    K.clear_session()  # names count anew, whatever other tests have made
    monkeypatch.setattr(courses, "program", courses.Courses())  # nor is there a loss of theirs
    yield
    ipywidgets.Widget.close_all()
    for name, value in (
        ("epsilon", 1e-7), ("floatx", "float32"), ("image_data_format", "channels_last")
    ):  # fmt: skip
        config.assign(name, value)
    K.clear_session()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A server and a browser for the tests of a file; what is opened stays open.

    For no longer: an event loop runs in this thread as long as there is a browser, and tests of
    other files may need one of their own.
    """
    from browser_lab import opened

    yield from opened(tmp_path_factory.mktemp("browser"))


@pytest.fixture
def browser(started: Browser) -> Iterator[Browser]:
    """The browser for one test, which leaves no page open and no kernel running."""
    yield started
    started.close_books()
