"""The files of compiled kernels: what damages them, what they depend on, how they are linked."""

from __future__ import annotations

import ctypes
import os
import re
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from kernel_helpers import compiled_at_once

from kbench.engine.jit import disk_cache, loader
from kbench.engine.jit.compiling import compile_lock, linker
from tests.engine.jit.test_service import COUNTS, HERE, run_script
from tests.engine.runtime.test_paths import MADE

__all__ = ["compiled_at_once"]

HEADER = {"form": "image", "entries": {}, "bases": [], "externals": {}, "numbers": {}}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KBENCH_CACHE_DIR", str(tmp_path))
    return disk_cache.folder()


# ------------------------------------------------------------------ damage


def test_what_is_stored_is_read(folder):
    disk_cache.write("one", "k", HEADER, b"code")
    header, code = disk_cache.read("one", "k")
    assert code == b"code" and header == {**HEADER, "key": "k"}
    assert disk_cache.read("one", "other") is None and disk_cache.read("other", "k") is None


def _flip(data, place):
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


DAMAGE = {
    "empty": lambda data: b"",
    "cut": lambda data: data[:-1],
    "cut early": lambda data: data[:20],
    "longer": lambda data: data + b"\0",
    "another format": lambda data: _flip(data, 3),
    "checksum": lambda data: _flip(data, 20),
    "length": lambda data: _flip(data, 49),
    "header": lambda data: _flip(data, 60),
    "code": lambda data: _flip(data, len(data) - 1),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_removed(folder, kind):
    disk_cache.write("one", "k", HEADER, b"code" * 10)
    path = disk_cache.code_path("one", "k")
    path.write_bytes(DAMAGE[kind](path.read_bytes()))
    assert disk_cache.read("one", "k") is None
    assert not path.exists()


def test_every_flipped_bit_is_noticed(folder):
    disk_cache.write("one", "k", HEADER, b"code")
    path = disk_cache.code_path("one", "k")
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(_flip(whole, place))
        assert disk_cache.read("one", "k") is None, place


def test_a_renamed_file_is_not_believed(folder):
    disk_cache.write("one", "k", HEADER, b"code")
    os.replace(disk_cache.code_path("one", "k"), disk_cache.code_path("one", "m"))
    assert disk_cache.read("one", "m") is None


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no owners of files")
def test_a_file_that_others_may_write_is_not_run(folder):
    disk_cache.write("one", "k", HEADER, b"code")
    disk_cache.code_path("one", "k").chmod(0o666)
    assert disk_cache.read("one", "k") is None


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", MADE)
def test_what_is_no_file_is_removed(folder, kind):
    """And never waited for: a pipe, a device, a folder with something in it."""
    path = disk_cache.code_path("one", "k")
    MADE[kind](path)
    if path.is_dir():
        (path / "inside").write_text("")
    assert disk_cache.read("one", "k") is None
    disk_cache.write_source("one", "k", "text")
    disk_cache.write("one", "k", HEADER, b"code")
    assert disk_cache.read("one", "k")[1] == b"code"


def test_a_folder_where_a_file_is_to_be_written_gives_way(folder):
    (disk_cache.code_path("one", "k") / "inside").mkdir(parents=True)
    (folder / "one-k.py").mkdir()
    disk_cache.write_source("one", "k", "text")
    disk_cache.write("one", "k", HEADER, b"code")
    assert disk_cache.read("one", "k")[1] == b"code"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no owners of files")
def test_nobody_else_can_write_into_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KBENCH_CACHE_DIR", str(tmp_path))
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    kernels.chmod(0o777)
    assert disk_cache.folder() == kernels and kernels.stat().st_mode & 0o777 == 0o755
    other = tmp_path / "another"
    monkeypatch.setenv("KBENCH_CACHE_DIR", str(other))
    assert disk_cache.folder().stat().st_mode & 0o077 == 0


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no owners of files")
def test_a_folder_of_somebody_else_is_not_believed(folder, monkeypatch):
    disk_cache.write("one", "k", HEADER, b"code")
    monkeypatch.setattr(disk_cache, "_folders", {})
    monkeypatch.setattr(disk_cache, "_unwritable", set())
    stranger = folder.stat().st_uid + 1
    monkeypatch.setattr(os, "getuid", lambda: stranger)
    folder.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert disk_cache.folder() != folder
    if folder.stat().st_uid:  # root's files are believed
        assert disk_cache.read("one", "k") is None


@pytest.mark.slow
def test_damaged_files_are_compiled_anew(tmp_path):
    run_script(tmp_path, "wait")
    files = sorted(tmp_path.rglob("*.kernel"))
    assert len(files) == 2
    for path in files:
        path.write_bytes(DAMAGE["code"](path.read_bytes()))
    assert run_script(tmp_path, "wait", COUNTS) == (["2", "0", "0"], "")
    assert run_script(tmp_path, "wait", COUNTS) == (["0", "2", "0"], "")


def _fail(*arguments, **options):
    raise OSError(30, "Read-only file system")


def test_a_cache_that_can_only_be_read_is_read(folder, monkeypatch):
    for name in ("one", "damaged"):
        disk_cache.write(name, "k", HEADER, b"code")
        disk_cache.write_source(name, "k", "text")
    disk_cache.code_path("damaged", "k").write_bytes(b"")
    monkeypatch.setattr(disk_cache, "_folders", {})
    monkeypatch.setattr(disk_cache, "_unwritable", set())
    with monkeypatch.context() as patch, pytest.warns(RuntimeWarning, match="cannot be written"):
        patch.setattr(disk_cache.tempfile, "mkstemp", _fail)
        other = disk_cache.folder()
    assert other != folder and not disk_cache.cacheable()
    assert disk_cache.read("one", "k")[1] == b"code"
    assert disk_cache.source_path("one", "k") == folder / "one-k.py"
    assert disk_cache.read("damaged", "k") is None
    for name in ("damaged", "new"):
        disk_cache.write(name, "k", HEADER, b"own")
        assert disk_cache.read(name, "k")[1] == b"own"
    assert disk_cache.code_path("new", "k").parent == other


@pytest.mark.parametrize("step", ["fdopen", "replace"])
def test_a_file_that_cannot_be_written_leaves_nothing_behind(folder, monkeypatch, step):
    monkeypatch.setattr(disk_cache.os, step, _fail)
    with pytest.raises(OSError):
        disk_cache.write("one", "k", HEADER, b"code")
    assert list(folder.iterdir()) == []


def test_a_full_disk_leaves_everything_on_numpy(tmp_path):
    """And nothing half written."""
    pytest.importorskip("resource", reason="this system has no limits of files")
    before = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))\n"
    after = (
        "print(kernel, len(stats().failures), request(program), [r for _, r in stats().failures])"
    )
    printed, errors = run_script(tmp_path, "wait", after, before)
    assert printed[:3] == ["None", "2", "None"] and "large" in " ".join(printed)
    assert errors.count("RuntimeWarning") == 1 and "cannot be written" in errors
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.slow
def test_processes_that_compile_the_same_at_once_do_not_disturb_each_other(tmp_path):
    # However long one of them takes, as on a busy machine: the others wait for it.
    patient = """
from kbench.engine.jit import compile_threads
compile_threads.AWAITED_STUCK_SECONDS = 100.0
"""
    with ThreadPoolExecutor(3) as threads:
        several = [threads.submit(run_script, tmp_path, "wait", COUNTS, patient) for _ in range(3)]
    total = 0
    for one in several:
        (compiled, hits, failures), errors = one.result()
        assert int(compiled) + int(hits) == 2 and failures == "0" and errors == ""
        total += int(compiled)
    assert total == 2 or not compile_lock.fcntl
    assert run_script(tmp_path, "wait", COUNTS) == (["0", "2", "0"], "")
    found = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    kinds = [re.split("[-_]", name)[0] + Path(name).suffix for name in found]
    # The loop and the driver, each with its source; texts of the loop and of two files.
    code = ["driver.kernel", "driver.py", "fused.kernel", "fused.py"]
    assert kinds == [*code, *["text.py"] * 3], found


@pytest.mark.slow
def test_a_process_that_compiles_removes_old_files(tmp_path):
    old = tmp_path / "kernels" / "old-k.kernel"
    old.parent.mkdir()
    old.write_bytes(b"old")
    os.utime(old, (0, 0))
    assert run_script(tmp_path, "wait", COUNTS) == (["2", "0", "0"], "")
    assert not old.exists()


@pytest.mark.slow
def test_measured_limits_are_kept(tmp_path, monkeypatch):
    from kbench.engine.inspect import roofline

    monkeypatch.setenv("KBENCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(roofline, "COPY_BYTES", 2**20)
    monkeypatch.setattr(roofline, "GEMM_SIZE", 64)
    monkeypatch.setattr(roofline, "MEASURING_SECONDS", 0.01)
    first = roofline.measure()
    assert min(first.copy_gb_per_s, first.gemm_float32, first.gemm_float64) > 0
    assert first.read_gb_per_s > 0 and all(rate > 0 for _, rate in first.cached)
    assert roofline.measure() == first
    assert roofline.measure(again=True).copy_gb_per_s >= first.copy_gb_per_s
    (path,) = tmp_path.glob("limits-*.json")
    for broken in ("{", "{}", '{"copy_gb_per_s": "fast"}', "[1]", '{"cached": 3}'):
        path.write_text(broken)
        assert roofline.measure().copy_gb_per_s > 0


# ------------------------------------------------------------------ what a key depends on


def test_a_key_depends_on_source_helpers_versions_and_processor(monkeypatch, tmp_path):
    text = "from kbench.engine.intrinsics.toolkit import load_float32\n"
    first = disk_cache.key_of(text)
    assert first == disk_cache.key_of(text)
    assert first != disk_cache.key_of(text + "\n")
    monkeypatch.setattr(disk_cache, "machine", lambda: "another")
    assert first != disk_cache.key_of(text)
    monkeypatch.undo()
    monkeypatch.setattr(disk_cache, "_compilers", lambda: "another")
    assert first != disk_cache.key_of(text)
    monkeypatch.undo()
    known = disk_cache._helper
    monkeypatch.setattr(
        disk_cache,
        "_helper",
        lambda name: ("edited", known(name)[1]) if name == "intrinsics/exp" else known(name),
    )
    assert first != disk_cache.key_of(text)  # toolkit imports it
    plain = "from kbench.engine.jit.numba_backend import entry\n"
    edited = disk_cache.key_of(plain)
    monkeypatch.undo()
    assert edited == disk_cache.key_of(plain)  # which does not


def test_settings_of_numba_make_another_key(monkeypatch):
    before = disk_cache._compilers.__wrapped__()
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    assert disk_cache._compilers.__wrapped__() != before


def test_old_files_are_removed_and_used_ones_kept(folder):
    disk_cache.write("used", "k", HEADER, b"code")
    disk_cache.write("old", "k", HEADER, b"code")
    former = folder.parent / "kernels-of-a-former-version"
    former.mkdir()
    for path in (disk_cache.code_path("used", "k"), disk_cache.code_path("old", "k"), former):
        os.utime(path, (0, 0))
    assert disk_cache.read("used", "k") is not None  # which says that it is in use
    disk_cache.prune()
    assert disk_cache.read("used", "k") is not None
    assert disk_cache.read("old", "k") is None and not former.exists()


# ------------------------------------------------------------------ linking

RETURN = b"\xc3" + bytes(15)  # x86: back to the caller


def elf(code=RETURN, symbol="kbench_f", relocations=(), undefined=(), flags=2 | 4):
    """A relocatable ELF file for x86-64 with one section of code."""
    names = b"\0" + b"\0".join(one.encode() for one in (symbol, *undefined)) + b"\0"
    table, place = bytes(24), 1
    for number, one in enumerate((symbol, *undefined)):
        table += struct.pack("<IBBHQQ", place, 16, 0, 0 if number else 1, 0, 0)
        place += len(one) + 1
    rela = b"".join(
        struct.pack("<QQq", at, number << 32 | kind, addend)
        for at, kind, number, addend in relocations
    )
    parts = [(1, flags, code, 0, 0), (2, 0, table, 3, 1), (3, 0, names, 0, 0), (4, 0, rela, 2, 1)]
    body, sections = b"", bytes(64)
    for kind, flag, data, link, info in parts:
        sections += struct.pack(
            "<IIQQQQIIQQ", 0, kind, flag, 0, 64 + len(body), len(data), link, info, 16, 0
        )
        body += data
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    head += struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, 5, 0)
    return head + body + sections


def test_references_are_resolved():
    relocations = [(0, 1, 1, 5), (8, 24, 1, 0), (16, 1, 2, 3)]
    linked = linker.link([elf(bytes(24), "f", relocations, ["memcpy"])] * 2, ["f", "f"])
    assert linked.entries == {"f": 32}
    assert linked.bases == [0, 32] and linked.externals == {"memcpy": [16, 48]}
    assert struct.unpack_from("<qqq", linked.code, 32) == (32 + 5, -8, 3)


WRONG = {
    "not ELF": b"MZ" + bytes(100),
    "empty": b"",
    "cut": elf()[:100],
    "another processor": elf()[:18] + b"\xb7\0" + elf()[20:],
    "variables": elf(flags=2 | 1),
    "variables of a thread": elf(flags=2 | 0x400),
    "a function of Python": elf(bytes(16), "f", [(0, 1, 2, 0)], ["PyErr_SetString"]),
    "a conversion of LLVM's library": elf(bytes(16), "f", [(0, 1, 2, 0)], ["__truncsfhf2"]),
    "a call outside": elf(bytes(16), "f", [(0, 4, 2, 0)], ["memcpy"]),
    "an unknown reference": elf(bytes(16), "f", [(0, 9, 1, 0)]),
    "no such entry": elf(symbol="other"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_cannot_be_linked_is_refused(kind):
    with pytest.raises((linker.UnlinkableError, ValueError)):
        linker.link([WRONG[kind]], ["f"])


def test_an_unknown_function_is_not_left_to_another_loader():
    """LLVM's would take whatever has that name: the process crashed in it."""
    with pytest.raises(linker.UnknownFunctionError, match="__truncsfhf2"):
        linker.link([WRONG["a conversion of LLVM's library"]], ["f"])


@pytest.mark.skipif(not loader.can_run_images(), reason="images do not run here")
def test_an_image_calls_the_c_library():
    """Not the instructions are tested, but where their addresses are filled in."""
    linked = linker.link([elf(bytes(16), "f", [(0, 1, 2, 0), (8, 1, 1, 0)], ["memcpy"])], ["f"])
    header = {**HEADER, "entries": linked.entries, "bases": linked.bases}
    loaded = loader.load_image({**header, "externals": linked.externals}, bytes(linked.code))
    found = np.ctypeslib.as_array((ctypes.c_int64 * 2).from_address(loaded.f.address))
    assert found[0] == ctypes.cast(ctypes.CDLL(None).memcpy, ctypes.c_void_p).value
    assert found[1] == loaded.f.address
    with pytest.raises(AttributeError, match="no 'g'"):
        _ = loaded.g


@pytest.mark.slow
def test_object_code_that_is_no_image_is_loaded_by_llvm(tmp_path):
    before = HERE + "from kbench.engine.jit import loader; loader.can_run_images = bool\n"
    assert run_script(tmp_path, "wait", COUNTS, before) == (["2", "0", "0"], "")
    after = "import sys; " + COUNTS + "; print('llvmlite' in sys.modules)"
    assert run_script(tmp_path, "wait", after) == (["0", "2", "0", "True"], "")


@pytest.mark.slow
def test_a_system_that_runs_no_images_stays_on_numpy(tmp_path):
    """Such as one that forbids memory to be made executable."""
    before = """
from kbench.engine.jit import loader as loading
def refused(header, code):
    raise OSError("compiled code may not be executed")
loading.load_image = refused
"""
    after = "print(kernel, len(stats().failures))"
    assert run_script(tmp_path, "wait", after, before)[0] == ["None", "2"]


@pytest.mark.parametrize("damage", [None, b"", b"# 0\nanother", b"\xff", "folder"])
def test_a_kept_text_is_made_again_only_if_it_is_damaged(damage, tmp_path, monkeypatch):
    monkeypatch.setenv("KBENCH_CACHE_DIR", str(tmp_path))
    made = []

    def make():
        made.append(1)
        return "a = 1\n"

    assert not disk_cache.is_kept("a file", "float32")
    assert disk_cache.keep_text(make, "a file", "float32") == "a = 1\n"
    assert disk_cache.is_kept("a file", "float32")
    (path,) = (tmp_path / "kernels").glob("text-*.py")
    if damage == "folder":
        path.unlink()
        path.mkdir()
    elif damage is not None:
        path.write_bytes(damage)
    for _ in range(2):
        assert disk_cache.keep_text(make, "a file", "float32") == "a = 1\n"
    assert len(made) == 1 + (damage is not None)
    assert disk_cache.keep_text(lambda: "another", "a file", "float64") == "another"
