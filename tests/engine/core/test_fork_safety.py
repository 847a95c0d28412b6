"""Children forked while other threads of the parent compute, and those of pools of processes."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kbench.engine.core.fork_safety import cached_property

ROOT = Path(__file__).resolve().parents[3]

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.timeout(280),
]

# What all of these programs have: computations by name, and their values before anything forks.
SETUP = '''
import faulthandler, os, signal, sys, threading, time, warnings
import numpy as np
from kbench import backend as K
from kbench.engine.runtime import config
from kbench.engine.core import fork_safety as forking
from kbench.engine.runtime import threads

warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
faulthandler.register(signal.SIGALRM, chain=True)  # tells where it hangs, and ends
signal.alarm(LIMIT)
rng = np.random.default_rng(0)
X = rng.normal(size=(ROWS, 256)).astype("float32")
x, w = K.placeholder((None, 256)), K.variable(rng.normal(size=(256, 256)) * 0.01)
y = K.tanh(K.dot(x, w))
loss = K.mean(K.square(y))
step = w - 0.001 * K.gradients(loss, [w])[0]
softmax = K.function([x], [K.softmax(K.exp(K.tanh(x)) * 2)])
product = K.function([x], [y])
train = K.function([x], [loss], [(w, step)])
noise = K.function([x], [x + K.random_normal((ROWS, 256))])
WORK = {
    "softmax": lambda: softmax([X])[0],
    "product": lambda: product([X])[0],
    "train": lambda: train([X])[0],
    "noise": lambda: np.isfinite(noise([X])[0]).all(),
    "graph": lambda: K.eval(K.sum(K.square(K.variable(X)) + 1)),
    "settings": lambda: config.notify_changed("floatx"),
    "store": lambda: store(np.full((256, 256), next(count))),
}
count = iter(range(10**9))
twins = [K.variable(np.zeros((256, 256))) for _ in range(4)]
WANT = {name: WORK[name]() for name in ("softmax", "product", "graph")}


def store(value):
    """Give all twins the same value at once."""
    K.batch_set_value([(one, value) for one in twins])


def all_right():
    """Compute everything, on the child's one thread and on several."""
    first = {one.get_value().ravel()[0] for one in twins}
    assert len(first) == 1, first  # what is stored together is there together
    assert K.num_threads() == 1
    for number in (1, 2, 3):
        K.set_num_threads(number)
        for name, want in WANT.items():
            if name != "product" or KIND != "train":
                np.testing.assert_allclose(WORK[name](), want, rtol=1e-5, atol=1e-6)
    for name, work in WORK.items():
        work()


def forked():
    """The exit code of a child that computes everything."""
    child = os.fork()
    if child == 0:
        code = 3
        try:
            signal.alarm(LIMIT)
            all_right()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        os._exit(code)
    return os.waitpid(child, 0)[1]
'''

COMPUTING = """
done, stop = [0, 0], False


def work(number):
    while not stop:
        WORK[KIND]()
        done[number] += 1


workers = [threading.Thread(target=work, args=(number,), daemon=True) for number in (0, 1)]
for one in workers:
    one.start()
codes = []
for _ in range(FORKS):
    time.sleep(0.02)
    codes.append(forked())
assert codes == [0] * FORKS, codes
before = list(done)
while not all(now > then for now, then in zip(done, before)):  # the parent's threads go on
    time.sleep(0.01)
stop = True
for one in workers:
    one.join()
print("right")
"""


def run(code: str, limit: int = 240, jit: str = "auto", **values: object) -> None:
    """Run a program to its end, within a time; it says what it hung in."""
    head = "\n".join(f"{name} = {value!r}" for name, value in {"LIMIT": limit, **values}.items())
    done = subprocess.run(
        [sys.executable, "-c", f"{head}\n{code}"],
        env={**os.environ, "KBENCH_JIT": jit, "KBENCH_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=limit + 30,
        cwd=ROOT,
    )
    assert (done.returncode, done.stdout.split()[-1:]) == (0, ["right"]), done.stderr[-4000:]


KINDS = ("softmax", "product", "train", "noise", "graph", "settings", "store")


@pytest.mark.slow
@pytest.mark.parametrize("jit", ["auto", "off"])
@pytest.mark.parametrize("kind", KINDS)
def test_children_forked_while_threads_compute_do_too(kind: str, jit: str) -> None:
    run(SETUP + COMPUTING, jit=jit, KIND=kind, FORKS=5, ROWS=2000)


def test_a_child_forked_while_threads_compute_does_too() -> None:
    run(SETUP + COMPUTING, jit="off", KIND="train", FORKS=2, ROWS=300)


# ------------------------------------------------------------------ every lock


HELD = """
held, release = threading.Event(), threading.Event()
forking.FORK_WAIT_SECONDS = 0.05


own = threading.Lock()  # of a listener, which stays with the parent
stop = config.changed.subscribe(lambda name: own.acquire() and own.release())


def hold():
    locks = [own, *forking._locks]
    for one in locks:
        one.acquire()
    held.set()
    release.wait()
    for one in reversed(locks):
        one.release()


holder = threading.Thread(target=hold)
holder.start()
held.wait()
code = forked()
release.set()
holder.join()
assert code == 0, code
all_right.__globals__["K"].set_num_threads(1)
all_right()  # and the parent has its locks as before
print("right")
"""


def test_a_child_needs_no_lock_that_another_thread_holds() -> None:
    """Not one of them, whoever uses it: settings, names, memory, functions, seeds, listeners."""
    run(SETUP + HELD, jit="off", KIND="train", ROWS=300)


# ------------------------------------------------------------------ pools of processes

POOLS = """
import concurrent.futures, faulthandler, multiprocessing, os, signal, sys, threading, warnings
import numpy as np
from kbench import backend as K

warnings.simplefilter("ignore", DeprecationWarning)
X = np.linspace(-1, 1, 40_000, dtype="float32").reshape(200, 200)
x, w = K.placeholder((None, 200)), K.variable(np.eye(200))
y = K.tanh(K.dot(x, w))
product = K.function([x], [y])
train = K.function([x], [K.mean(y)], [(w, w * 1.0)])


def job(number):
    signal.alarm(200)
    value = product([X * number])[0]
    train([X])
    return float(np.abs(value - np.tanh(X * number)).max()), os.getpid()


def jobs(kind):
    if kind == "joblib loky" or kind == "joblib multiprocessing":
        import joblib

        with joblib.parallel_backend(kind.split()[1], n_jobs=2):
            return joblib.Parallel()(joblib.delayed(job)(number) for number in NUMBERS)
    how, method = kind.split()
    context = multiprocessing.get_context(method)
    if how == "pool":
        with context.Pool(2) as pool:
            return pool.map(job, NUMBERS, chunksize=1)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        return list(pool.map(job, NUMBERS))


NUMBERS = (1, 2, 3, 4)

def main():
    faulthandler.register(signal.SIGALRM, chain=True)
    signal.alarm(200)
    stop, done = threading.Event(), 0
    here = K.function([x], [K.sin(y) + 1], [(w, w * 1.0)])  # what the parent does meanwhile

    def work():
        nonlocal done
        while not stop.is_set():
            here([X])
            done += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        found = jobs(sys.argv[1])
        before = done
        while done == before:
            pass
    finally:
        stop.set()
        thread.join()
    assert max(error for error, _ in found) < 1e-5, found
    assert os.getpid() not in {pid for _, pid in found}
    print("right")
"""
START = "import program\n\nif __name__ == '__main__':\n    program.main()\n"  # loky wants a module


KINDS_OF_POOLS = [
    f"{how} {m}" for how in ("pool", "futures") for m in ("fork", "forkserver", "spawn")
]
KINDS_OF_POOLS += ["joblib loky", "joblib multiprocessing"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS_OF_POOLS)
def test_pools_of_processes_compute_beside_their_parent(tmp_path: Path, kind: str) -> None:
    (tmp_path / "program.py").write_text(POOLS)
    (tmp_path / "start.py").write_text(START)
    done = subprocess.run(
        [sys.executable, "start.py", kind],
        capture_output=True,
        text=True,
        timeout=250,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout.split()[-1:]) == (0, ["right"]), done.stderr[-4000:]


# ------------------------------------------------------------------ where locks come from

FOLDERS = ("engine", "keras_client", "workbench", "notebook")
OWN = {  # where a lock of the interpreter's is right
    "engine/core/fork_safety.py",
}


def _makes_locks(path: Path) -> bool:
    names = {"Lock", "RLock", "Semaphore", "BoundedSemaphore", "Barrier"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            bare = node.func.attr == "Condition" and not node.args
            if node.func.attr in names or bare:
                if ast.unparse(node.func).startswith(("threading.", "multiprocessing.")):
                    return True
    return False


def test_a_cached_property_waits_for_no_other_object() -> None:
    """That of functools does in Python 3.11: for ever, in a child whose parent held its lock."""
    inside, leave = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, waits: bool) -> None:
            self.waits = waits

        @cached_property
        def value(self) -> int:
            if self.waits:
                inside.set()
                assert leave.wait(30)
            return 7

    thread = threading.Thread(target=lambda: Slow(True).value, daemon=True)
    thread.start()
    assert inside.wait(30)
    found: list[int] = []
    other = threading.Thread(target=lambda: found.append(Slow(False).value), daemon=True)
    other.start()
    other.join(10)
    leave.set()
    thread.join(30)
    assert found == [7]


def test_cached_properties_come_from_there() -> None:
    for folder in FOLDERS:
        for path in (ROOT / "kbench" / folder).rglob("*.py"):
            if path.stem != "fork_safety":
                assert "functools import cached_property" not in path.read_text("utf-8"), path
                assert "@functools.cached_property" not in path.read_text("utf-8"), path


def test_locks_are_made_in_one_place() -> None:
    found = {
        str(path.relative_to(ROOT / "kbench"))
        for folder in FOLDERS
        for path in (ROOT / "kbench" / folder).rglob("*.py")
        if _makes_locks(path)
    }
    assert found == OWN
