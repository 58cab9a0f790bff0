"""The Python module: wildcards, overflow of rings, unsubscribing within a handler, threads, errors."""

import gc
import sys
import threading
import time

import pytest
from courser_router import Router


@pytest.mark.parametrize(
    "filter, key, hit",
    [
        ("a/b", "a/b", True),
        ("a/b", "a/c", False),
        ("a/+", "a/b", True),
        ("a/+", "a", False),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("#", "a/b", True),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS", True),
        ("a/+/b", "a//b", True),
        ("日本/+", "日本/東京", True),
    ],
)
def test_wildcards(filter, key, hit):
    router = Router()
    seen = []
    subscription = router.subscribe(filter, lambda id, route, message: seen.append((id, route, message)))
    message = object()
    router.post(router.key(key), message)
    assert seen == ([(subscription.id, key, message)] if hit else [])
    assert subscription.unsubscribe() and not subscription.unsubscribe()
    router.post(router.key(key), message)
    assert len(seen) == hit


def test_wrong_keys_filters_and_arguments():
    router = Router()
    for key in ["", "a/+", "#", "a\0"]:
        with pytest.raises(ValueError):
            router.key(key)
    for filter in ["", "a#", "a/#/b", "a+"]:
        with pytest.raises(ValueError):
            router.subscribe(filter, print)
    with pytest.raises(ValueError):
        router.subscribe("a", 7)
    with pytest.raises(ValueError):
        router.subscribe_ring("a", 0)
    with pytest.raises(ValueError):
        router.subscribe_ring("a", 1, "forget")
    with pytest.raises(ValueError):
        router.subscribe_ring("a", 1).recv(-1)


@pytest.mark.parametrize(
    "overflow, left, dropped",
    [("drop_oldest", [6, 7, 8, 9], 6), ("drop_newest", [0, 1, 2, 3], 6), ("coalesce", [9], 0)],
)
def test_ring_overflow(overflow, left, dropped):
    router = Router()
    ring = router.subscribe_ring("n/+", 4, overflow)
    key = router.key("n/x")
    for n in range(10):
        router.post(key, n)
    assert len(ring) == len(left) and ring.dropped == dropped
    assert [ring.recv() for _ in left] == [("n/x", n) for n in left]
    assert ring.recv(0.01) is None
    ring.close()
    with pytest.raises(ValueError):
        ring.recv()
    assert router.stats()[2] == 0


def test_a_blocking_ring_loses_nothing_while_the_interpreter_runs_both_sides():
    router = Router()
    ring = router.subscribe_ring("n", 2, "block")
    key = router.key("n")
    poster = threading.Thread(target=lambda: [router.post(key, n) for n in range(500)])
    poster.start()
    assert [ring.recv(30)[1] for _ in range(500)] == list(range(500))
    poster.join()


def test_unsubscribing_within_a_handler():
    router = Router()
    calls = []

    def once(id, route, message):
        calls.append(message)
        assert router.unsubscribe(id)
        assert not router.unsubscribe(id)

    def by_handle(id, route, message):
        calls.append(message)
        other.unsubscribe()

    first = router.subscribe("a", once)
    other = router.subscribe("a", lambda *args: calls.append("other"))
    key = router.key("a")
    router.post(key, 1)
    router.post(key, 2)
    assert sorted(map(str, calls)) == ["1", "other", "other"]
    assert not first.live and other.live
    calls.clear()
    ends = router.subscribe("b", by_handle)
    router.post(router.key("b"), 3)
    router.post(key, 4)
    assert calls == [3] and not other.live
    ends.unsubscribe()


def test_waiting_within_a_handler_is_an_error():
    router = Router()
    caught = []
    other = router.subscribe("b", print)

    def waits(*args):
        with pytest.raises(RuntimeError) as error:
            other.unsubscribe_wait()
        caught.append(error)

    with router.subscribe("a", waits):
        router.post(router.key("a"), None)
    assert len(caught) == 1 and router.stats()[2] == 0


def test_unsubscribe_wait_waits():
    router = Router()
    started, finished = threading.Event(), threading.Event()

    def slow(*args):
        started.set()
        time.sleep(0.05)
        finished.set()

    subscription = router.subscribe("a", slow)
    poster = threading.Thread(target=lambda: router.post(router.key("a"), None))
    poster.start()
    assert started.wait(30)
    subscription.unsubscribe_wait()
    assert finished.is_set()
    poster.join()


def test_an_error_in_a_handler_does_not_stop_the_others(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    router = Router()
    calls = []
    bad = router.subscribe("a", lambda *args: 1 / 0)
    good = router.subscribe("+", lambda *args: calls.append(1))
    router.post(router.key("a"), None)
    assert calls == [1] and isinstance(reported[0].exc_value, ZeroDivisionError)
    bad.unsubscribe(), good.unsubscribe()


def test_what_handlers_hold_is_let_go():
    class Held:
        alive = 0

        def __init__(self):
            Held.alive += 1

        def __del__(self):
            Held.alive -= 1

    router = Router()
    for _ in range(100):
        held = Held()
        subscription = router.subscribe("a", lambda *args, held=held: held)
        router.post(router.key("a"), Held())
        subscription.unsubscribe_wait()
        del held, subscription
    gc.collect()
    assert Held.alive == 0
    del router
