"""Level of detail, stillness, and the newest question first."""

import threading
import time

import numpy as np

from vnt.view.levels import Latest, Stillness, parts_of


def until(true, seconds: float = 20.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def test_parts_are_disjoint_and_whole():
    parts = parts_of(300_000)
    assert [len(part) for part in parts] == [20_000, 180_000, 100_000]
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(300_000))


def test_still_once_after_many_moves():
    said = []
    stillness = Stillness(lambda: said.append("moving"), lambda: said.append("still"), threading.RLock())
    for _ in range(10):
        stillness.moved()
    assert said == ["moving"]
    until(lambda: len(said) == 2)
    assert said == ["moving", "still"]
    stillness.moved()
    assert said == ["moving", "still", "moving"]


def test_what_is_overtaken_is_skipped():
    done, wanted, gate = [], [0], threading.Event()

    def work():
        done.append(wanted[0])
        gate.wait(5)

    latest = Latest(work)
    for number in range(1, 50):
        wanted[0] = number
        latest.ask()
        until(lambda: done)
    gate.set()
    until(lambda: len(done) == 2)
    assert done == [1, 49]


def test_the_worker_outlives_an_error():
    calls = []

    def work():
        calls.append(1)
        raise ValueError("no")

    latest = Latest(work)
    for number in (1, 2):
        latest.ask()
        until(lambda number=number: len(calls) == number)
    until(lambda: latest.error is not None)
    assert isinstance(latest.error, ValueError)
