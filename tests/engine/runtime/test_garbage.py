"""No search for garbage while graphs are built and planned, and again after that."""

import gc
import threading

import numpy as np
import pytest

from kbench import backend as K
from kbench.engine.runtime.garbage import uncollected


def test_blocks_lie_in_each_other_and_end():
    assert gc.isenabled()
    with uncollected():
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_ends_a_block():
    with pytest.raises(KeyError), uncollected():
        raise KeyError
    assert gc.isenabled()


def test_who_has_switched_it_off_keeps_it_off():
    gc.disable()
    try:
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_threads_share_a_block():
    inside, left = threading.Event(), threading.Event()

    def work():
        with uncollected():
            inside.set()
            left.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(10)
    with uncollected():
        pass
    assert not gc.isenabled()
    left.set()
    thread.join()
    assert gc.isenabled()


def test_a_plan_is_made_and_first_run_without_a_search():
    seen = []

    def look(phase, info):
        seen.append(info)

    x = K.placeholder((2000, 32))
    node = x
    for number in range(40):
        node = K.softmax(K.sum(node, axis=-1, keepdims=True) * node + number)
    usual = gc.get_threshold()
    gc.collect()
    gc.callbacks.append(look)
    try:
        gc.set_threshold(50)
        function = K.function([x], [node])
        assert len(seen) <= 4  # a search may begin as the plan is done: its start and its end
        seen.clear()
        function([np.zeros((2000, 32), "float32")])
    finally:
        gc.set_threshold(*usual)
        gc.callbacks.remove(look)
    assert len(seen) <= 6  # one as it is bound, another as it has run; else some hundreds
