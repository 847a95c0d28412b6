"""Settings: setters, keras.json, the environment, events, and threads that set them."""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbench import backend as K
from kbench.engine.core.errors import shown
from kbench.engine.runtime import config, environment, keras_json, paths

# ------------------------------------------------------------------ setters

SETTERS: list[tuple[str, Callable[[Any], None], Callable[[], Any], Any]] = [
    ("epsilon", K.set_epsilon, K.epsilon, 1e-3),
    ("epsilon", K.set_epsilon, K.epsilon, 0.0),
    ("epsilon", K.set_epsilon, K.epsilon, np.float32(0.5)),
    ("epsilon", K.set_epsilon, K.epsilon, "1e-4"),
    ("floatx", K.set_floatx, K.floatx, "float16"),
    ("floatx", K.set_floatx, K.floatx, "float64"),
    ("image_data_format", K.set_image_data_format, K.image_data_format, "channels_first"),
    ("num_threads", K.set_num_threads, K.num_threads, 1),
]


@pytest.mark.parametrize(("name", "setter", "getter", "value"), SETTERS)
def test_a_setter_sets_tells_and_counts(name: str, setter: Any, getter: Any, value: Any) -> None:
    setter(getter())
    before, told = config.epoch(), []
    forget = config.changed.subscribe(told.append)
    try:
        setter(value)
        setter(value)
    finally:
        forget()
    assert getter() == type(getter())(value) == config.snapshot()[name]
    assert told == [name]
    assert config.epoch() == before + 1


REFUSED = [
    ("epsilon", [float("nan"), float("inf"), -1, "x", None, [1], True, np.bool_(True), 1j, b"1"]),
    ("epsilon", [10**400, 10**5001, -(10**400), "1e400", np.array([1e-3]), np.array(True)]),
    ("floatx", ["float8", "int32", "bfloat16", None, 32, np.float32, "", True, 10**5001]),
    ("image_data_format", ["nhwc", "CHANNELS_LAST", None, 1, True, 10**5001]),
    ("num_threads", [0, -1, 1.5, "2", None, True, 99999999999, 10**5001, -(10**5001)]),
    ("learning_phase", [2, -1, "train", 0.5, [1], 10**5001]),
    ("backend", ["kbench"]),
    ("no such thing", [1]),
]


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in REFUSED for value in values], ids=shown
)
def test_a_refused_value_changes_nothing(name: str, value: Any) -> None:
    before, epoch = config.snapshot(), config.epoch()
    with pytest.raises(K.ArgumentError):
        config.assign(name, value)
    assert (config.snapshot(), config.epoch()) == (before, epoch)


def test_every_setting_can_be_assigned() -> None:
    told: list[str] = []
    forget = config.changed.subscribe(told.append)
    values = {
        "epsilon": 0.25,
        "floatx": "float16",
        "image_data_format": "channels_first",
        "learning_phase": 1,
        "num_threads": 1,
    }
    assert set(values) == set(config.snapshot())
    config.assign("num_threads", 2)
    told.clear()
    try:
        for name, value in values.items():
            config.assign(name, value)
    finally:
        forget()
    assert config.snapshot() == values
    assert told == list(values)
    config.assign("learning_phase", None)
    assert config.snapshot()["learning_phase"] is None


def test_what_settings_do() -> None:
    K.set_epsilon(0.5)
    assert K.eval(K.binary_crossentropy(K.constant([1.0]), K.constant([0.0]))) == 0.0
    K.set_floatx("float64")
    assert K.cast_to_floatx([1, 2]).dtype == "float64"
    assert K.dtype(K.exp(K.constant(1, dtype="int32"))) == "float64"
    K.set_image_data_format("channels_first")
    assert (K.image_data_format(), config.image_dim_ordering()) == ("channels_first", "th")
    assert K.normalize_data_format(None) == "channels_first"
    assert K.normalize_data_format("Channels_Last") == "channels_last"
    assert K.backend() == "kbench"


# ------------------------------------------------------------------ keras.json


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keras.json"


def load(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The settings after reading a file, and the warnings given."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        keras_json.load_file(path)
    return config.snapshot(), [str(one.message) for one in caught]


FILES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"epsilon": 1e-3, "floatx": "float64"}, {"epsilon": 1e-3, "floatx": "float64"}),
    ({"image_data_format": "channels_first"}, {"image_data_format": "channels_first"}),
    ({"image_dim_ordering": "th"}, {"image_data_format": "channels_first"}),
    (
        {"image_dim_ordering": "th", "image_data_format": "channels_last"},
        {"image_data_format": "channels_last"},
    ),
    ({"backend": "theano", "theme": "dark"}, {}),
]


@pytest.mark.parametrize(("fields", "wanted"), FILES)
def test_a_file_is_read(path: Path, fields: dict[str, Any], wanted: dict[str, Any]) -> None:
    path.write_text(json.dumps(fields), encoding="utf-8")
    before = config.snapshot()
    after, warned = load(path)
    assert warned == []
    assert after == {**before, **wanted}


BROKEN: list[tuple[str, list[str]]] = [
    ('{\n "epsilon": 1e-3,\n', ["keras.json, line 3"]),
    ("[1, 2]", ["keras.json, line 1", "not a JSON object"]),
    ("", ["keras.json, line 1"]),
    ('{"floatx": "float8"}', ["keras.json", "'floatx'", "float8"]),
    ('{"epsilon": NaN}', ["keras.json", "'epsilon'", "finite"]),
    ('{"epsilon": null}', ["keras.json", "'epsilon'"]),
    ('{"image_dim_ordering": "x"}', ["keras.json", "'image_data_format'"]),
    ('{"image_dim_ordering": ["th"]}', ["keras.json", "'image_data_format'"]),
    ('{"floatx": ["float32"]}', ["keras.json", "'floatx'"]),
    ("[" * 100_000, ["keras.json, line 1", "levels of lists and objects"]),
    ('{\n"mine":\n' + '{"a":' * 200, ["keras.json, line 3", "levels of lists and objects"]),
    ('{"epsilon": true}', ["keras.json, line 1, field 'epsilon'", "got True"]),
    ('{\n"epsilon": "1e-5"}', ["keras.json, line 2, field 'epsilon'", "the string '1e-5'"]),
    ('{\n\n"epsilon": -1e-7}', ["keras.json, line 3, field 'epsilon'", "at least 0"]),
    ('{"epsilon": Infinity}', ["keras.json, line 1, field 'epsilon'", "finite"]),
    ('{"epsilon": 1e999}', ["keras.json, line 1, field 'epsilon'", "finite"]),
    ('{"epsilon": [1e-7]}', ["keras.json, line 1, field 'epsilon'"]),
    ('{"epsilon": 1' + "0" * 400 + "}", ["keras.json, line 1, field 'epsilon'", "finite"]),
    ('{\n"epsilon": 1' + "0" * 5000 + "}", ["keras.json, line 2: a number of 5001 digits"]),
    ('{\n"mine": -1' + "0" * 5000 + "}", ["keras.json, line 2: a number of 5001 digits"]),
    ('{"floatx": true}', ["keras.json, line 1, field 'floatx'", "got True"]),
    ('{"floatx": 32,\n"epsilon": null}', ["line 1, field 'floatx'", "line 2, field 'epsilon'"]),
    ('{"image_data_format": 1}', ["keras.json, line 1, field 'image_data_format'"]),
    ('{"image_data_format": {"a": 1}}', ["keras.json, line 1, field 'image_data_format'"]),
    ('{"floatx": "float64",\n "floatx": "float16"}', ["line 2: 'floatx' appears twice"]),
    ('\ufeff{"floatx": "float64"}', ["keras.json, line 1", "byte order mark"]),
    ('"floatx"', ["keras.json, line 1", "not a JSON object"]),
    ('{"floatx": "float64"} x', ["keras.json, line 1"]),
    ('{"mine": "' + "x" * (1 << 20) + '"}', ["keras.json", "larger than 1,048,576 bytes"]),
]


@pytest.mark.parametrize(("text", "told"), BROKEN, ids=[text[:40] for text, _ in BROKEN])
def test_a_broken_file_warns_once_and_leaves_the_defaults(
    path: Path, text: str, told: list[str]
) -> None:
    path.write_text(text, encoding="utf-8")
    before = config.snapshot()
    after, warned = load(path)
    assert after == before
    assert len(warned) == 1
    assert all(part in warned[0] for part in told), warned[0]


@pytest.mark.parametrize(
    ("data", "line"),
    [(b"\xff\xfe{}", 1), (b'{\n\n"floatx": "\xe9"}', 3), ("{}".encode("utf-16"), 1)],
)
def test_bytes_that_are_no_text_warn(path: Path, data: bytes, line: int) -> None:
    path.write_bytes(data)
    (warned,) = load(path)[1]
    assert f"keras.json, line {line}: it is not UTF-8" in warned


def test_numbers_and_nesting_in_texts_are_no_matter(path: Path) -> None:
    mine = "7" * 5000 + "[" * 500 + '\\"' + "{" * 500
    path.write_text(json.dumps({"mine": mine, "floatx": "float64"}), encoding="utf-8")
    after, warned = load(path)
    assert (after["floatx"], warned) == ("float64", [])
    keras_json.save_file(path)
    assert json.loads(path.read_text(encoding="utf-8"))["mine"] == mine


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no owners of files")
@pytest.mark.parametrize("change", ["owner", "folder's owner", "mode", "folder's mode"])
def test_a_file_that_others_can_write_is_not_believed(
    path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text('{"floatx": "float64", "backend": "evilmod"}', encoding="utf-8")
    if "owner" in change:
        own = paths.is_own
        stranger = (path.parent if "folder" in change else path).stat().st_ino
        monkeypatch.setattr(paths, "is_own", lambda one: own(one) and one.st_ino != stranger)
    else:
        (path.parent if "folder" in change else path).chmod(0o777)
    before = config.snapshot()
    with pytest.warns(UserWarning, match="others can write it; using the defaults") as warned:
        assert keras_json.load_file(path) == {}
    assert (config.snapshot(), len(warned)) == (before, 1)
    if "folder" in change:
        with pytest.raises(OSError, match="the folder .* others can write it"):
            keras_json.save_file(path)
    else:
        keras_json.save_file(path)
        kept = json.loads(path.read_text(encoding="utf-8"))
        assert (kept["backend"], kept["floatx"]) == ("kbench", "float32")


def test_a_strangers_folder_among_the_temporary_ones(tmp_path: Path, run_python: Any) -> None:
    """Where the home cannot be written, anybody can have made the folder that is looked into."""
    (tmp_path / ".keras").mkdir()
    (tmp_path / ".keras").chmod(0o777)
    (tmp_path / ".keras" / "keras.json").write_text('{"backend": "evilmod"}', encoding="utf-8")
    (tmp_path / "evilmod.py").write_text("print('evil')", encoding="utf-8")
    given = {"TMPDIR": str(tmp_path), "HOME": "/nowhere", "KERAS_HOME": ""}
    code = "import kbench as K; print(K.backend())"
    done = run_python("-c", code, env={**given, "PYTHONPATH": str(tmp_path)}, cwd=tmp_path)
    assert done.stdout == "kbench\n"
    assert done.stderr.count("others can write it; using the defaults") == 1


def test_a_folder_in_the_files_place_warns(path: Path) -> None:
    path.mkdir()
    assert len(load(path)[1]) == 1


def test_no_file_is_no_matter_and_none_is_made(path: Path) -> None:
    before = config.snapshot()
    assert load(path) == (before, [])
    assert not path.exists()


def test_saving_keeps_unknown_fields(path: Path) -> None:
    path.write_text('{"backend": "tensorflow", "mine": [1, 2]}', encoding="utf-8")
    K.set_epsilon(0.125)
    assert keras_json.save_file(path) == path
    assert json.loads(path.read_text(encoding="utf-8")) == {
        "backend": "tensorflow",
        "mine": [1, 2],
        "epsilon": 0.125,
        "floatx": "float32",
        "image_data_format": "channels_last",
    }
    assert list(path.parent.iterdir()) == [path], "no temporary file is left"


def test_saving_makes_the_folder(tmp_path: Path) -> None:
    written = keras_json.save_file(tmp_path / "a" / "b" / "keras.json")
    assert json.loads(written.read_text(encoding="utf-8"))["backend"] == "kbench"


def test_a_save_that_fails_leaves_the_old_file(path: Path, monkeypatch: Any) -> None:
    path.write_text('{"mine": 1}', encoding="utf-8")

    def fail(*_arguments: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(keras_json.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        keras_json.save_file(path)
    assert path.read_text(encoding="utf-8") == '{"mine": 1}'
    assert list(path.parent.iterdir()) == [path], "no temporary file is left"


def test_a_broken_file_is_not_overwritten_silently(path: Path) -> None:
    path.write_text('{"mine": 1,', encoding="utf-8")
    keras_json.save_file(path)
    assert sorted(one.name for one in path.parent.iterdir()) == ["keras.json", "keras.json.broken"]
    kept = [one for one in path.parent.iterdir() if one != path]
    assert json.loads(path.read_text(encoding="utf-8"))["floatx"] == "float32"
    assert [one.read_text(encoding="utf-8") for one in kept] == ['{"mine": 1,']


# ------------------------------------------------------------------ the environment


def test_the_file_is_read_at_import(tmp_path: Path, run_python: Any) -> None:
    (tmp_path / "keras.json").write_text('{"floatx": "float64"}', encoding="utf-8")
    code = "import kbench as K; print(K.floatx(), K.epsilon())"
    done = run_python("-c", code, env={"KERAS_HOME": str(tmp_path)})
    assert (done.stdout, done.stderr) == ("float64 1e-07\n", "")
    (tmp_path / "keras.json").write_text("{", encoding="utf-8")
    done = run_python("-c", code, env={"KERAS_HOME": str(tmp_path)})
    assert done.stdout == "float32 1e-07\n"
    assert done.stderr.count("keras.json, line 1") == 1


VARIABLES: list[tuple[str, str, Callable[[], Any], Any]] = [
    ("KBENCH_JIT", "off", config.jit_mode, "off"),
    ("KBENCH_JIT", "WAIT", config.jit_mode, "wait"),
    ("KBENCH_EXACT", "1", environment.flag, True),
    ("KBENCH_EXACT", "True", environment.flag, True),
    ("KBENCH_EXACT", "0", environment.flag, False),
    ("KBENCH_EXACT", "false", environment.flag, False),
    ("KBENCH_EXACT", "no", environment.flag, False),
    ("KBENCH_JIT", "", config.jit_mode, "auto"),
    ("KBENCH_CACHE_DIR", "/some/where", paths.cache_dir, Path("/some/where")),
    ("KBENCH_STATE_DIR", "/some/where", paths.state_dir, Path("/some/where")),
    ("KERAS_HOME", "/some/where", paths.keras_home, Path("/some/where")),
    ("KERAS_HOME", "", paths.keras_home, Path.home() / ".keras"),
]


@pytest.mark.parametrize(("name", "text", "getter", "wanted"), VARIABLES)
def test_environment(
    name: str, text: str, getter: Any, wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, text)
    assert (getter(name) if getter is environment.flag else getter()) == wanted


NONSENSE: list[tuple[str, str, Callable[[], Any], str]] = [
    ("KBENCH_JIT", "nonsense", config.jit_mode, "auto, wait or off, got 'nonsense'; auto is"),
    ("KBENCH_JIT", "1" * 500, config.jit_mode, "got '1111"),
    ("KBENCH_EXACT", "nonsense", config.exact, "must be 1 or 0, got 'nonsense'; 0 is used"),
    ("KBENCH_LEAST", "-1", lambda: config.min_elements(7), "a whole number from 0 to"),
    *[
        ("KBENCH_NUM_THREADS", text, environment.default_threads.__wrapped__, "from 1 to 1024, got")
        for text in ("0", "x", "-1", "1.5", "99999999999", "9" * 5000, "\u00b2", "\u0663")
    ],
]


@pytest.mark.parametrize(("name", "text", "getter", "told"), NONSENSE)
def test_nonsense_in_the_environment_warns_once(
    name: str, text: str, getter: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(config._values, "exact", None)
    monkeypatch.delenv(name, raising=False)
    usual = getter()
    monkeypatch.setenv(name, text)
    environment._warn.cache_clear()
    with pytest.warns(RuntimeWarning) as warned:
        assert getter() == usual
        assert getter() == usual
    (message,) = [str(one.message) for one in warned]
    assert name in message and told in message and len(message) < 200


@pytest.mark.parametrize(("text", "wanted"), [("1", 1), ("3", 3), ("", None), ("x", None)])
def test_threads_of_the_environment(text: str, wanted: Any, run_python: Any) -> None:
    code = "import kbench.engine.runtime.config as c; print(c.num_threads())"
    done = run_python("-c", code, env={"KBENCH_NUM_THREADS": text})
    own = run_python("-c", code, env={"KBENCH_NUM_THREADS": ""})
    assert int(done.stdout) == (wanted or int(own.stdout))
    assert done.stderr.count("KBENCH_NUM_THREADS") == (text == "x")


# ------------------------------------------------------------------ threads


def test_settings_from_many_threads() -> None:
    wrong: list[Any] = []

    def work(index: int) -> None:
        for number in range(200):
            K.set_floatx(("float32", "float64")[(index + number) % 2])
            K.set_epsilon(10.0 ** -(number % 7))
            if K.floatx() not in ("float32", "float64") or not 0 < K.epsilon() <= 1:
                wrong.append(config.snapshot())

    threads = [threading.Thread(target=work, args=(index,)) for index in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []


def test_a_listener_that_fails_harms_nobody() -> None:
    heard: list[str] = []

    def fail(_name: str) -> None:
        raise RuntimeError("listener")

    forget = [config.changed.subscribe(fail), config.changed.subscribe(heard.append)]
    try:
        K.set_epsilon(0.0625)
    finally:
        for one in forget:
            one()
    assert (K.epsilon(), heard) == (0.0625, ["epsilon"])


@pytest.mark.parametrize("plain", [False, True])
def test_variables_are_read_as_they_are_now(plain: bool, monkeypatch: Any) -> None:
    """On interpreters, too, whose os.environ keeps its variables in a way of its own."""
    if plain:
        monkeypatch.setattr(environment, "_held", os.environ)
        monkeypatch.setattr(environment, "_key", str)
    monkeypatch.delenv("KBENCH_TEST", raising=False)
    assert environment.env("KBENCH_TEST") is None
    for text in ("", "1", "\u00e9t\u00e9"):
        monkeypatch.setenv("KBENCH_TEST", text)
        assert environment.env("KBENCH_TEST") == (text or None)


def test_exact_is_read_from_the_environment_until_it_is_set(monkeypatch: Any) -> None:
    monkeypatch.setitem(config._values, "exact", None)
    assert not K.exact()
    monkeypatch.setenv("KBENCH_EXACT", "1")
    assert K.exact()
    before = config.epoch()
    K.set_exact(False)
    assert not K.exact() and config.epoch() == before + 1
    K.set_exact(np.bool_(True))
    monkeypatch.delenv("KBENCH_EXACT")
    assert K.exact() is True


def test_a_setting_follows_its_variable(monkeypatch: Any) -> None:
    """It is read once for each text, and at once when that is another."""
    read: list[str] = []

    def length(name: str) -> int:
        read.append(name)
        return len(environment.env(name) or "")

    monkeypatch.delenv("KBENCH_TEST", raising=False)
    setting = environment.Setting("KBENCH_TEST", length)
    assert [setting.value(), setting.value()] == [0, 0]
    for text in ("a", "bcd", "a"):
        monkeypatch.setenv("KBENCH_TEST", text)
        assert [setting.value(), setting.value()] == [len(text)] * 2
    monkeypatch.delenv("KBENCH_TEST")
    assert setting.value() == 0
    assert len(read) == 5
