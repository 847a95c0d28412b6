"""JupyterLab, nbclassic and a headless browser for the tests named `test_browser_*`.

The server listens on the loopback address with a token of its own; settings, workspaces, runtime
files, kernels' folders and notebooks are in a temporary folder. Pictures go into the folder that
KBENCH_BROWSER_PICTURES names, else below pytest's own temporary folder.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[3]
NAMES = ("chromium", "chromium-browser", "google-chrome")
LIMIT = 60.0  # seconds for anything that a page or a kernel is waited for; a bound, no expectation
SIZE = {"width": 1280, "height": 1200}
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "apputils-extension/themes": {"theme": "JupyterLab Light"},
    # Every cell of the page is there, whether or not it is in view: tests ask for cells by number.
    "notebook-extension/tracker": {"windowingMode": "none"},
}
# Becomes Python with the arguments given, which the system ends when whoever started it is gone.
MORTAL = """import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG, which the next line keeps
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"""
# An output whose widget the page has not drawn yet.
UNDRAWN = ".jp-OutputArea-output.jupyter-widgets:not(:has(.jupyter-widgets))"
BUSY_FREE = """() => {
    const panel = window.jupyterapp.shell.currentWidget;
    return panel?.sessionContext?.session?.kernel?.status === 'idle';
}"""

# nbclassic asks a kernel for its widgets, and at the end draws every cell anew whose output is one:
# a widget that is shown before is lost. That may take seconds, and no event tells of it. It is
# counted here, from before the page makes its notebook.
COUNT_DRAWN = """
window.drawnAgain = 0;
window.Jupyter = {
    set notebook(made) {
        Object.defineProperty(this, 'notebook', {value: made, writable: true, enumerable: true});
        const kind = Object.getPrototypeOf(made), draw = kind.render_cell_output;
        kind.render_cell_output = function (cell) {
            draw.call(this, cell);
            window.drawnAgain += 1;
        };
    },
};"""


def chromium() -> str:
    """The browser on PATH; without one the tests fail and say what to install."""
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return found
    raise RuntimeError(f"no browser on PATH ({', '.join(NAMES)}): apt-get install chromium")


def until(
    condition: Callable[[], Any], what: str | Callable[[], str], seconds: float = LIMIT
) -> Any:
    """Wait for `condition` to hold, and give what it gave; `what` says what was waited for."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() >= end:
            raise AssertionError(
                f"{what if isinstance(what, str) else what()}: not in {seconds:g} s"
            )
        time.sleep(0.05)


class Lab:
    """A JupyterLab server of its own, and where its notebooks are."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.notebooks = home / "notebooks"
        self.notebooks.mkdir(parents=True)
        self.token = secrets.token_hex(16)
        self.settings = home / "settings"
        for name, values in SETTINGS.items():
            self.set(name, **values)
        runtime = home / "runtime"
        environment = {
            **os.environ,
            "HOME": str(home),
            "PYTHONPATH": str(ROOT),
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_DATA_DIR": str(home / "data"),
            "JUPYTER_RUNTIME_DIR": str(runtime),
            "JUPYTERLAB_SETTINGS_DIR": str(self.settings),
            "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
            "KBENCH_STATE_DIR": str(home / "state"),
        }
        command = [sys.executable, "-c", MORTAL, "-m", "jupyter", "lab"]
        command += ["--no-browser", "--allow-root"]
        options = {
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.port": free_port(),
            "ServerApp.root_dir": self.notebooks,
            "ServerApp.use_redirect_file": False,
            "IdentityProvider.token": self.token,
            "LabApp.expose_app_in_browser": True,
            "LabApp.collaborative": False,
        }
        command += [f"--{name}={value}" for name, value in options.items()]
        self.log = home / "server.log"
        with self.log.open("w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                command, env=environment, cwd=home, stdout=log, stderr=log, start_new_session=True
            )
        until(lambda: self._answers(runtime), "JupyterLab's start")

    def _answers(self, runtime: Path) -> bool:
        """Whether the server has written down where it listens, and does."""
        if self.process.poll() is not None:
            raise RuntimeError(f"JupyterLab ended:\n{self.log.read_text(encoding='utf-8')}")
        file = runtime / f"jpserver-{self.process.pid}.json"
        try:
            self.url = json.loads(file.read_text(encoding="utf-8"))["url"]
            port = int(self.url.rstrip("/").rsplit(":", 1)[1])
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except (OSError, ValueError):
            return False
        return True

    def set(self, name: str, **values: object) -> None:
        """Write a setting of JupyterLab's; pages that are opened later have it."""
        path = self.settings / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values), encoding="utf-8")

    def write(self, name: str, cells: Sequence[str]) -> str:
        """A notebook of code cells."""
        book = nbformat.v4.new_notebook()
        book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
        book.cells = [nbformat.v4.new_code_cell(code) for code in cells]
        nbformat.write(book, self.notebooks / name)
        return name

    def end_kernels(self) -> None:
        """End every kernel; a notebook that is opened next gets one of its own."""
        for session in self._ask("GET", "api/sessions"):
            self._ask("DELETE", f"api/sessions/{session['id']}")

    def _ask(self, method: str, path: str) -> Any:
        """A question of the server's own interface."""
        headers = {"Authorization": f"token {self.token}"}
        request = urllib.request.Request(self.url + path, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=LIMIT) as reply:
            text = reply.read()
        return json.loads(text) if text else None

    def stop(self) -> None:
        """End the server, and with it its kernels."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


WIDGET_CELLS = (
    """import numpy as np
import kbench
from kbench import backend as K
w = K.variable(np.random.RandomState(0).normal(size=(4, 6, 8)), name="w")
y = K.softmax(K.relu(w))""",
    "w",
    "kbench.TensorView(w, 'w', mode='heat map')",
    "kbench.GraphView(y)",
    "kbench.ConfigPanel()",
)
"""A notebook that shows a value and three widgets."""


def skip_without(name: str) -> None:
    """Skip the tests of a file whose front end is not installed."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(
            f"{name} is not installed: pip install -e '.[front-ends]', as .ci/run does",
            allow_module_level=True,
        )


@contextmanager
def serving(
    words: Sequence[str], home: Path, variables: Mapping[str, str], sign: str
) -> Iterator[None]:
    """A front end of the module `words[0]`, which knows `home` alone, from its `sign` on."""
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT), **variables}
    command, log = [sys.executable, "-c", MORTAL, "-m", *words], home / "log"
    with log.open("w") as out:
        server = subprocess.Popen(command, cwd=home, env=environment, stdout=out, stderr=out)
    try:
        until(lambda: sign in log.read_text(), lambda: f"{words[0]}: {log.read_text()}", 60)
        yield
    finally:
        server.terminate()
        server.wait(20)


def free_port() -> int:
    """A port of the loopback address on which nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Browser:
    """A headless browser; each notebook is opened in a context of its own."""

    def __init__(self, lab: Lab, pictures: Path) -> None:
        from playwright.sync_api import sync_playwright

        self.lab = lab
        self.pictures = pictures
        self._driver = sync_playwright().start()
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        self._browser = self._driver.chromium.launch(
            executable_path=chromium(), args=[*options, "--disable-dev-shm-usage"]
        )
        self._contexts: list[Any] = []

    def open(self, name: str, dark: bool = False, kernel: bool = True) -> Book:
        """Open a notebook of the lab's, in the light or the dark theme.

        Without a kernel, the notebook must name one that is not there; the dialog is then answered.
        """
        theme = "JupyterLab Dark" if dark else "JupyterLab Light"
        self.lab.set("apputils-extension/themes", theme=theme)
        return Book(self, self._context(), name, dark, kernel)

    def classic(self, name: str, dark: bool = False, width: int = SIZE["width"]) -> Any:
        """A page with a notebook of the lab's in nbclassic, which has its kernel's widgets.

        One of the notebook's outputs must be a widget: see `COUNT_DRAWN`. nbclassic has one theme,
        a light one; `dark` is what the reader's system prefers.
        """
        from nbclassic import nbclassic_path  # which is another beside Notebook 7

        page, lab = self.page(dark), self.lab
        page.set_viewport_size({**SIZE, "width": width})
        page.add_init_script(COUNT_DRAWN)
        page.goto(f"{lab.url.rstrip('/')}{nbclassic_path()}/notebooks/{name}?token={lab.token}")
        page.wait_for_function("() => window.drawnAgain")
        return page

    def page(self, dark: bool = False) -> Any:
        """An empty page, of a reader whose system prefers a light or a dark theme."""
        return self._context(color_scheme="dark" if dark else "light").new_page()

    def blank(self, scripts: bool = True) -> Any:
        """An empty page that can load nothing but files, and may run no scripts."""
        page = self.page() if scripts else self._context(java_script_enabled=False).new_page()
        page.route(re.compile("^https?:"), lambda route: route.abort())
        return page

    def _context(self, **options: str | bool) -> Any:
        context = self._browser.new_context(viewport=SIZE, reduced_motion="reduce", **options)
        context.set_default_timeout(LIMIT * 1000)
        self._contexts.append(context)
        return context

    def close_books(self) -> None:
        """Close what a test has opened, and end its kernels."""
        while self._contexts:
            self._contexts.pop().close()
        self.lab.end_kernels()

    def stop(self) -> None:
        """End the browser."""
        self._browser.close()
        self._driver.stop()


class Book:
    """One notebook on a page, as a person has it before them."""

    def __init__(self, browser: Browser, context: Any, name: str, dark: bool, kernel: bool) -> None:
        self.name, self.dark, self._browser = name, dark, browser
        self.page = context.new_page()
        self.said: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.said.append(f"page error: {error}"))
        self.page.on("requestfailed", self._failed)
        lab = browser.lab
        self.page.goto(f"{lab.url}lab/tree/{name}?reset&token={lab.token}")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        if kernel:
            self.wait_idle()
        else:
            self.page.locator(".jp-Dialog select").select_option("null")
            self.page.locator(".jp-Dialog .jp-mod-accept").click()
            self.page.locator(".jp-Dialog").wait_for(state="detached")

    def _console(self, message: Any) -> None:
        if message.type == "error":
            self.said.append(f"{message.text} ({message.location.get('url', '')})")

    def _failed(self, request: Any) -> None:
        # Requests that end because the page is left are no fault of the page.
        if request.failure != "net::ERR_ABORTED":
            self.said.append(f"request failed: {request.url}: {request.failure}")

    def wait_idle(self) -> None:
        """Wait until the kernel has nothing to do."""
        self.page.wait_for_function(BUSY_FREE)

    def command(self, name: str) -> None:
        """Carry out a command of JupyterLab's, as its menus do, without waiting for its end."""
        self.page.evaluate("name => { window.jupyterapp.commands.execute(name); }", name)

    def run_all(self) -> None:
        """Run every cell and wait for the last."""
        self.command("notebook:run-all-cells")
        self.page.wait_for_function(
            """() => {
                const prompts = [...document.querySelectorAll(
                    '.jp-CodeCell .jp-InputArea-prompt')].map(one => one.textContent);
                return prompts.length && prompts.every(one => /\\[\\d+\\]/.test(one));
            }"""
        )
        self.wait_idle()

    def start(self, number: int) -> None:
        """Run a code cell by its number, counted from 0, and do not wait for it."""
        self.cell(number).locator(".jp-InputArea-editor").click()
        self.page.keyboard.press("Control+Enter")

    def run(self, number: int) -> str:
        """Run a code cell and wait for its end, and for its widgets; the text of what it shows."""
        prompt = self.cell(number).locator(".jp-InputArea-prompt")
        before = prompt.inner_text()
        self.start(number)
        until(lambda: prompt.inner_text() not in (before, "[*]:"), f"the end of cell {number}")
        self.wait_idle()
        undrawn = self.cell(number).locator(UNDRAWN)
        until(lambda: not undrawn.count(), f"the widgets of cell {number}")
        return str(self.outputs(number).first.inner_text()) if self.outputs(number).count() else ""

    def cell(self, number: int) -> Any:
        """The code cell of this number, counted from 0."""
        return self.page.locator(".jp-CodeCell").nth(number)

    def outputs(self, number: int) -> Any:
        """What a code cell shows."""
        return self.cell(number).locator(".jp-OutputArea-output")

    def save(self) -> Path:
        """Save the notebook; the file."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        return self._browser.lab.notebooks / self.name

    def picture(self, name: str, of: Any = None) -> Path:
        """Keep a picture of the page, or of one element of it."""
        path = self._browser.pictures / f"{name}{'-dark' if self.dark else ''}.png"
        (self.page if of is None else of).screenshot(path=str(path))
        return path


def pictures_folder(temporary: Path) -> Path:
    """Where pictures are kept."""
    folder = Path(os.environ.get("KBENCH_BROWSER_PICTURES") or temporary / "pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def opened(temporary: Path) -> Iterator[Browser]:
    """A server and a browser; both end when the tests that use them have."""
    lab = Lab(temporary / "lab")
    try:
        browser = Browser(lab, pictures_folder(temporary))
        try:
            yield browser
        finally:
            browser.stop()
    finally:
        lab.stop()
