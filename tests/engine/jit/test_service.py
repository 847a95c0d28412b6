"""Kernels at work: threads, cancelling, the compile service, its cache and what damages it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from kernel_helpers import (
    compiled_at_once,
    kernel,
    values,
)

__all__ = ["compiled_at_once"]


from kbench.engine.codegen.loop_kernel import request
from kbench.engine.codegen.loop_program import Input, loop_nest, loop_value
from kbench.engine.jit import disk_cache
from kbench.engine.jit import service as jit_service
from kbench.engine.jit.compiling import compiler_process
from kbench.engine.jit.service import stats
from kbench.engine.kernels import registry
from kbench.engine.kernels.reduce import argreduce

# ------------------------------------------------------------------ threads and cancelling


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_threads():
    from kbench.engine.runtime import config

    x = np.random.default_rng(1).normal(size=(1500, 1000)).astype(np.float32)
    cases = [
        ("sum", "first"),
        ("sum", "last"),
        ("sum", "all"),
        ("cumsum", "last"),
        ("cumsum", "all"),
    ]
    cases += [("mean", "first"), ("var", "all"), ("argmax", "first")]
    before = config.num_threads()
    results = {}
    try:
        for threads in (1, 2):
            config.set_num_threads(threads)
            for name, view in cases:
                data = x.reshape(-1) if view == "all" else x
                shape = (
                    data.shape
                    if name == "cumsum"
                    else np.delete(data.shape, {"all": 0, "last": 1, "first": 0}[view])
                )
                out = np.empty(shape, "int64" if name == "argmax" else "float32")
                registry.find(name, "float32", view)(out, data)
                results[name, view, threads] = out
    finally:
        config.set_num_threads(before)
    for name, view in cases:
        np.testing.assert_array_equal(results[name, view, 1], results[name, view, 2])


def test_two_threads_may_call_at_once():
    x = values("float32", 200_000)
    program = loop_nest((Input("float32", (True,)),), (loop_value("exp(a0) + 1", "float32"),), (0,))
    run = kernel(program).run
    want = np.empty_like(x)
    run([want], [x], x.shape)
    wrong = []

    def work():
        for _ in range(50):
            out = np.empty_like(x)
            run([out], [x], x.shape)
            if not np.array_equal(out, want):
                wrong.append(out)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_a_cancelled_run_stops_between_tiles():
    x = np.ones(8_000_000, np.float64)
    out = np.zeros_like(x)
    program = loop_nest(
        (Input("float64", (True,)),), (loop_value("pow(a0, 1.1 * a0)", "float64"),), (0,)
    )
    looks = []

    def check():
        looks.append(1)
        if len(looks) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kernel(program).run([out], [x], x.shape, check)
    assert 0 < out.sum() < out.size
    with pytest.raises(KeyboardInterrupt):
        kernel(program).run([out], [x], x.shape, _interrupt)


def _interrupt():
    raise KeyboardInterrupt


# ------------------------------------------------------------------ the compile service

SCRIPT = """
import warnings
import numpy as np
from kbench.engine.codegen.loop_kernel import request
from kbench.engine.codegen.loop_program import Input, loop_nest, loop_value
from kbench.engine.jit.service import stats, wait_idle
program = loop_nest((Input("float32", (True,)),), (loop_value("exp(a0) * 3", "float32"),), (0,))
kernel = request(program)
x = np.linspace(-1, 1, 200_000).astype("float32")
out = np.empty_like(x)
if kernel is not None:
    kernel.run([out], [x], x.shape)
    np.testing.assert_allclose(out, np.exp(x) * 3, rtol=1e-6)
"""


def run_script(folder, mode, after="", before=""):
    """Run SCRIPT in a process of its own; gives what it printed, and its warnings."""
    environment = {**os.environ, "KBENCH_CACHE_DIR": str(folder), "KBENCH_JIT": mode}
    done = subprocess.run(
        [sys.executable, "-c", before + SCRIPT + after],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


@pytest.fixture
def with_driver(tmp_path):
    """A cache with the driver, which takes a second to compile, and no kernel."""
    jit_service.service.prefetch()
    assert jit_service.service.wait_idle(120)
    (tmp_path / "kernels").mkdir(mode=0o700)
    for path in disk_cache.folder().glob("driver-*"):
        shutil.copy(path, tmp_path / "kernels")
    return tmp_path


COUNTS = "s = stats(); print(s.compiled, s.cache_hits, len(s.failures))"


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path):
    assert run_script(tmp_path, "wait", COUNTS) == (["2", "0", "0"], "")
    assert run_script(tmp_path, "wait", COUNTS) == (["0", "2", "0"], "")


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_gives_one_warning(tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    printed, errors = run_script(in_the_way, "wait", COUNTS)
    assert printed == ["2", "0", "0"]
    assert errors.count("RuntimeWarning") == 1 and "cannot be written" in errors


def test_off_loads_no_compiler_and_auto_does_not_wait(with_driver):
    after = "import sys; print(kernel, 'numba' in sys.modules)"
    assert run_script(with_driver, "off", after)[0] == ["None", "False"]
    after = "print(kernel); wait_idle(); print(request(program) is not None)"
    assert run_script(with_driver, "auto", after)[0] == ["None", "True"]
    after = "import sys; print(kernel is not None, {'numba', 'llvmlite'} & set(sys.modules))"
    assert run_script(with_driver, "auto", after)[0] == ["True", "set()"]


def test_no_source_needs_numba_to_be_written(tmp_path):
    """Sources are written where they are needed, at once; they are compiled elsewhere."""
    after = """
import sys
from kbench.engine.kernels import registry as library
for entry in library.catalogue():
    library.find(*entry)
print({"numba", "llvmlite"} & set(sys.modules), stats().failures, stats().pending > 100)
"""
    assert run_script(tmp_path, "auto", after)[0] == ["set()", "()", "True"]


def test_importing_kernels_loads_no_numba():
    code = "import kbench.engine.kernels.registry, sys; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_computes_on_its_own(with_driver):
    after = """
import os
child = os.fork()
if child == 0:
    kernel.run([out], [x], x.shape)
    other = loop_nest((Input("float32", (True,)),), (loop_value("a0 - 1", "float32"),), (0,))
    request(other).run([out], [x], x.shape)
    os._exit(0 if np.array_equal(out, x - 1) else 3)
print(os.waitpid(child, 0)[1])
"""
    before = "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n"
    assert run_script(with_driver, "wait", after, before)[0] == ["0"]


def test_a_failed_compile_is_remembered():
    program = loop_nest((Input("bool", (True,)),), (loop_value("-a0", "bool"),), (0,))
    before = len(stats().failures)
    assert request(program) is None and request(program) is None
    assert len(stats().failures) == before + 1
    assert "sign" in dict(stats().failures)[program.name]


def test_the_source_can_be_read():
    program = loop_nest((Input("float32", (True,)),), (loop_value("exp(a0) * 2", "float32"),), (0,))
    text = kernel(program).source
    assert "t0 = exp_f32(a0) * np.float32(2.0)" in text
    assert kernel(program).path.read_text() == text


def test_the_whole_library_can_be_compiled_ahead(monkeypatch):
    entries = [("sum", "float32", "all"), ("argmax", "float64", "last")]
    monkeypatch.setattr(registry, "catalogue", lambda: entries)
    seen = []
    assert registry.warmup(lambda *state: seen.append(state)) == 2
    assert [one[:2] for one in seen] == [(1, 2), (2, 2)]
    assert {one[2] for one in seen} == {"sum float32 all", "argmax float64 last"}
    failing = [("cumsum", "bool", "last")]
    monkeypatch.setattr(registry, "catalogue", lambda: failing)
    assert registry.warmup() == 0


def test_without_numba_everything_stays_on_numpy(tmp_path):
    (tmp_path / "numba.py").write_text("raise ImportError('no Numba here')")
    before = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    after = "print(kernel, stats().loaded, len(stats().failures), request(program))"
    printed, errors = run_script(tmp_path / "cache", "wait", after, before)
    assert printed == ["None", "False", "2", "None"] and errors == ""


HERE = """
import subprocess
def refused(*arguments, **options):
    raise OSError("no processes here")
subprocess.Popen = refused
"""


def test_without_processes_the_process_itself_compiles(with_driver):
    after = "import sys; print(kernel is not None, 'numba' in sys.modules)"
    assert run_script(with_driver, "wait", after, HERE)[0] == ["True", "True"]


@pytest.mark.slow
def test_a_host_that_is_not_python_is_not_started_again(with_driver):
    before = "import sys; sys.executable = '/usr/bin/false'\n"
    after = "print(kernel is not None, 'numba' in sys.modules)"
    assert run_script(with_driver, "wait", after, before)[0] == ["True", "True"]


@pytest.mark.slow
@pytest.mark.parametrize("deaths, state", [(1, "ready"), (2, "failed")])
def test_a_compiler_that_dies_is_replaced_once(tmp_path, monkeypatch, deaths, state):
    monkeypatch.setenv("KBENCH_CACHE_DIR", str(tmp_path))
    left = [deaths]

    class Mortal(compiler_process.CompilerProcess):
        def compile(self, name, text, folder, shared_key=""):
            if name != "driver" and left[0]:
                left[0] -= 1
                self.interrupt()
                raise EOFError("the compiling process has ended")
            return super().compile(name, text, folder, shared_key)

    monkeypatch.setattr(compiler_process, "CompilerProcess", Mortal)
    service = jit_service.Service()
    job = service.submit("mortal", lambda: argreduce.source("argmax", "float32", True))
    service.stop()
    assert job.state == state
    assert ("has ended" in job.reason) == (state == "failed")


@pytest.mark.slow
def test_another_cache_folder_may_be_set_while_something_compiles(tmp_path, monkeypatch):
    """Its code lay in the folder before, was looked for in this one, and nothing ran any more."""
    monkeypatch.setenv("KBENCH_CACHE_DIR", str(tmp_path / "before"))

    class Slow(compiler_process.CompilerProcess):
        def compile(self, name, text, folder, shared_key=""):
            key = super().compile(name, text, folder, shared_key)
            monkeypatch.setenv("KBENCH_CACHE_DIR", str(tmp_path / name))
            return key

    monkeypatch.setattr(compiler_process, "CompilerProcess", Slow)
    service = jit_service.Service()
    job = service.submit("moved", lambda: argreduce.source("argmax", "float32", True))
    service.stop()
    assert (job.state, service.job("driver").state) == ("ready", "ready")


def test_a_source_without_kernels_fails(with_driver):
    after = """
from kbench.engine.jit.service import service
print(service.submit("nothing", lambda: "x = 1").reason)
"""
    assert run_script(with_driver, "wait", after)[0][-3:] == ["defines", "no", "kernel"]


@pytest.mark.slow
def test_two_compilers_work_at_once(tmp_path):
    """The driver, asked for first, is needed by all the others."""
    before = "from kbench.engine.jit.service import service; service._max_compilers = 2\n"
    after = """
from kbench.engine.kernels import registry as library
names = ("sum", "max", "prod", "argmax")
finds = [library.find(name, "float32", "all") for name in names]
wait_idle()
print(all(library.find(name, "float32", "all") for name in names), len(stats().failures))
"""
    assert run_script(tmp_path, "auto", after, before)[0] == ["True", "0"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="priorities of POSIX")
def test_the_user_comes_before_a_compiler():
    """Between sessions Linux shares evenly, so that a compiler must stay in that of the user; and
    what interrupts the user must not reach it."""
    process = compiler_process.CompilerProcess()
    try:
        assert process._answer() == {"ready": True}
        pid = process._process.pid
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, pid) == min(
            own + compiler_process.BACKGROUND_NICENESS, 19
        )
        assert os.getsid(pid) == os.getsid(0)
        assert os.getpgid(pid) != os.getpgid(0)
    finally:
        process.close()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="priorities of POSIX")
def test_a_compiler_is_as_urgent_as_those_who_wait(tmp_path):
    """And only as long as they wait; also when what they wait for was begun before."""
    after = """
import os, threading, time
from kbench.engine.kernels.reduce import argreduce as rows
from kbench.engine.jit.service import service


def behind():
    while not service._compilers:
        time.sleep(0.001)
    pid = service._compilers[0]._process.pid
    return os.getpriority(os.PRIO_PROCESS, pid) - os.getpriority(os.PRIO_PROCESS, 0)


print(behind())
os.environ["KBENCH_JIT"] = "wait"
waiting = threading.Thread(target=request, args=(program,))
waiting.start()
while not service.job(program.name).waiting:
    time.sleep(0.001)
print(behind())
waiting.join()
os.environ["KBENCH_JIT"] = "auto"
service.submit("later", lambda: rows.source("argmax", "float32", True))
while service.job("later").compiler is None:
    time.sleep(0.001)
print(behind(), service.job("later").waiting)
wait_idle()
print(stats().pending)
"""
    own = str(compiler_process.BACKGROUND_NICENESS)
    assert run_script(tmp_path, "auto", after)[0] == [own, "0", own, "0", "0"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="priorities of POSIX")
def test_a_warm_up_is_as_urgent_as_its_user(tmp_path):
    """Whoever warms up waits for all that is compiled meanwhile, and for nothing after it."""
    after = """
import os, time
from kbench.engine.jit.service import service
from kbench.engine.kernels import registry

behind = []


def look(*state):
    for compiler in list(service._compilers):
        pid = compiler._process.pid
        behind.append(os.getpriority(os.PRIO_PROCESS, pid) - os.getpriority(os.PRIO_PROCESS, 0))


registry.catalogue = lambda: [("argmax", "float32", "last"), ("argmax", "float64", "last")]
print(registry.warmup(look), *sorted(set(behind)))
service.submit("later", lambda: registry.argreduce.source("argmin", "float32", True))
while service.job("later").compiler is None:
    time.sleep(0.001)
behind.clear()
look()
print(max(behind))
"""
    own = str(compiler_process.BACKGROUND_NICENESS)
    assert run_script(tmp_path, "auto", after)[0] == ["2", "0", own]


@pytest.mark.slow
def test_what_may_not_be_made_urgent_is_compiled_anew(tmp_path, monkeypatch):
    """Whoever has stood back may come forward only where the system allows it."""
    monkeypatch.setenv("KBENCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("KBENCH_JIT", "auto")
    monkeypatch.setattr(jit_service, "PRIORITY_GRACE_SECONDS", 0.0)
    urgencies = []

    class Stubborn(compiler_process.CompilerProcess):
        def __init__(self, urgent=False):
            urgencies.append(urgent)
            super().__init__(urgent)

        def raise_priority(self):
            return self.urgent

    monkeypatch.setattr(compiler_process, "CompilerProcess", Stubborn)
    service = jit_service.Service()
    service._max_compilers = 1
    job = service.submit("stubborn", lambda: argreduce.source("argmax", "float32", True))
    while not any(one.compiler for one in service._jobs.values()):
        pass
    monkeypatch.setenv("KBENCH_JIT", "wait")
    assert service.submit("stubborn", lambda: "") is job
    service.stop()
    assert (job.state, job.crashes, urgencies) == ("ready", 0, [False, True])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="parents of POSIX")
@pytest.mark.parametrize(
    "without", ["", "import kbench.engine.jit.compiling.worker as w; w._PARENT_DEATH_SIGNAL = -1"]
)
def test_a_compiler_ends_with_a_parent_that_is_killed(without):
    """Also where a child of the parent keeps the other end of its input open, for hours."""
    program = """
import os, signal, subprocess, sys, time
from kbench.engine.jit.compiling import compiler_process as compiler

if sys.argv[1]:  # without the signal of Linux
    compiler._START = sys.argv[1] + "; " + compiler._START
process = compiler.CompilerProcess()
descriptor = process._process.stdin.fileno()
keeper = subprocess.Popen(["sleep", "100"], pass_fds=[descriptor], stdout=subprocess.DEVNULL)
assert process._answer() == {"ready": True}
print(process._process.pid, keeper.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, without], stdout=subprocess.PIPE, text=True, timeout=60
    )
    child, keeper = map(int, done.stdout.split())
    try:
        deadline = time.monotonic() + 20
        while _runs(child) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not _runs(child)
        assert _runs(keeper)
    finally:
        os.kill(keeper, signal.SIGKILL)


def _runs(pid):
    """Whether a process is there and no zombie."""
    found = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    return bool(found) and not found.startswith("Z")


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", HERE, HERE + "sys.modules['llvmlite'] = None\n"])
def test_somebody_compiles_from_the_first_request_to_the_last_compile(tmp_path, before):
    after = """
from kbench.engine.runtime import threads
print(threads.is_compiling())
wait_idle()
deadline = time.monotonic() + 60
while threads.is_compiling() and time.monotonic() < deadline:
    time.sleep(0.001)
print(threads.is_compiling(), stats().pending)
"""
    printed = run_script(tmp_path, "auto", after, "import sys, time\n" + before)[0]
    assert printed == ["True", "False", "0"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_its_own_compiler(tmp_path):
    """And lets go of its parent's, which must see the parent end."""
    before = "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n"
    after = """
import os
from kbench.engine.jit.service import service
assert kernel is None
child = os.fork()
if child == 0:
    wait_idle()
    os._exit(0 if request(program) is not None else 3)
wait_idle()
print(os.waitpid(child, 0)[1], request(program) is not None)
"""
    assert run_script(tmp_path, "auto", after, before)[0] == ["0", "True"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    "moment",
    ["service._compiler_depth", "any('core.codegen' in name for name in list(sys.modules))"],
)
def test_a_child_forked_during_a_compile_does_not_hang(tmp_path, moment):
    """Nor one forked while the compiler is being imported."""
    before = HERE + "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n"
    after = """
import os, sys, time
from kbench.engine.jit.service import service
while not {moment}:
    time.sleep(0.001)
child = os.fork()
if child == 0:
    os.environ["KBENCH_JIT"] = "wait"
    other = loop_nest((Input("float32", (True,)),), (loop_value("a0 - 1", "float32"),), (0,))
    os._exit(0 if request(other) is None and request(program) is None else 3)
print(os.waitpid(child, 0)[1])
""".replace("{moment}", moment)
    assert run_script(tmp_path, "auto", after, before)[0] == ["0"]


@pytest.mark.slow
def test_compiling_leaves_the_users_warnings_alone(tmp_path):
    """Numba swaps the filters of the process while it compiles, in a thread beside the user's."""
    before = HERE + "import time, warnings\n"
    after = """
filters = list(warnings.filters)
request(program)
while stats().pending:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        time.sleep(0.0005)
        warnings.warn("mine")
    assert len(caught) == 1
print(warnings.filters == filters)
"""
    assert run_script(tmp_path, "auto", after, before)[0] == ["True"]


@pytest.mark.slow
def test_compiling_needs_no_scipy_linalg(tmp_path):
    """Its import swaps the filters, too; and Numba of the user's own finds it after ours."""
    after = """
request(program)
while stats().pending:
    time.sleep(0.001)
print("scipy.linalg" in sys.modules)
import numba, numpy
print(numba.njit(lambda a, b: a @ b)(numpy.eye(2), numpy.ones((2, 2))).sum())
"""
    before = HERE + "import sys, time\n"
    assert run_script(tmp_path, "auto", after, before)[0] == ["False", "4.0"]
