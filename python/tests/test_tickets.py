"""Waiting: blocking, with futures, in asyncio."""

import asyncio
import concurrent.futures
import gc
import queue
import sys
import threading
import time
import traceback

import dwell
import pytest


def test_wait_gives_up(latch):
    latch.await_start()
    start = time.monotonic()
    assert latch.ticket.wait(0.2) is False
    assert 0.15 < time.monotonic() - start < 10
    assert latch.ticket.wait(0) is False
    assert not latch.ticket.done
    assert "pending" in repr(latch.ticket)
    latch.release()
    assert latch.ticket.wait(20) is True
    assert latch.ticket.wait() is True
    assert latch.ticket.done
    assert "done" in repr(latch.ticket)


def test_done_is_an_attribute(ops):
    ticket = ops.nothing()
    ticket.wait()
    assert ticket.done is True
    with pytest.raises(TypeError, match="not callable"):
        ticket.done()
    future = ticket.as_future()
    future.result(60)
    assert future.done()


def test_the_gil_is_free_while_waiting(latch):
    latch.await_start()
    threading.Timer(0.3, latch.release).start()
    start = time.monotonic()
    latch.ticket.wait()  # never ends if the GIL is held
    assert time.monotonic() - start < 10


def test_the_gil_is_free_while_the_ring_is_full():
    from conftest import Latch, Operators, device

    with dwell.Runtime(device(), workers=1, ring_slots=128, task_timeout=0) as rt:
        ops = Operators(rt)
        nothing = ops.nothing
        latch = Latch(rt, ops)
        latch.await_start()
        threading.Timer(0.3, latch.release).start()
        for _ in range(1000):
            nothing()
        rt.sync()
        assert rt.metrics().submitted >= 1001


def test_status(ops):
    assert ops.nothing().status() == 0
    assert ops.fail(42).status() == 42


def test_positions_grow(ops):
    first, second = ops.nothing(), ops.nothing()
    assert second.position == first.position + 1
    assert first.device == second.device == 0


def test_callbacks(rt, ops, latch):
    latch.await_start()
    heard = concurrent.futures.Future()
    threads = []

    def callback(ticket):
        threads.append(threading.get_ident())
        heard.set_result((ticket.position, ops.nothing().wait()))  # a callback may use the runtime

    latch.ticket.add_done_callback(callback)
    assert not threads
    latch.release()
    assert heard.result(20) == (latch.ticket.position, True)
    assert threads[0] != threading.get_ident()


def test_futures(ops, latch):
    latch.await_start()
    future = latch.ticket.as_future()
    assert isinstance(future, concurrent.futures.Future)
    assert not future.done()
    failing = ops.fail(3).as_future()
    assert isinstance(failing.exception(20), dwell.TaskFailed)
    assert failing.exception().code == 3
    latch.release()
    assert future.result(20) is None
    done, pending = concurrent.futures.wait([ops.nothing().as_future() for _ in range(20)], timeout=20)
    assert len(done) == 20 and not pending


def test_await(rt, ops, latch):
    latch.await_start()

    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while not latch.ticket.done:
                ticks += 1
                await asyncio.sleep(0.01)

        async def release():
            await asyncio.sleep(0.2)
            latch.release()

        await asyncio.gather(tick(), release(), *(one(latch.ticket) for _ in range(10)))
        assert ticks > 3
        await ops.nothing()
        with pytest.raises(dwell.TaskFailed):
            await ops.fail(1)
        # Thousands at once.
        await asyncio.gather(*(one(ops.nothing(after=latch.ticket)) for _ in range(2000)))

    async def one(ticket):
        await ticket

    asyncio.run(main())
    asyncio.run(main_again(ops))  # another loop


async def main_again(ops):
    await ops.nothing()
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.sleep(10), 0.01)


def test_await_is_cancelled(ops, latch):
    latch.await_start()

    async def main():
        async def one():
            await latch.ticket

        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(one(), 0.05)
        latch.release()
        await one()

    asyncio.run(main())


@pytest.fixture
def parked(rt):
    """Parks the runtime, and yields a function that resumes it."""
    rt.park()
    left = [None]

    def resume():
        if left:
            left.pop()
            rt.resume()

    yield resume
    resume()


def test_cancelling_an_await_cancels_the_task(ops, parked):
    awaited, by_task, in_future, shielded = (ops.nothing() for _ in range(4))

    async def main():
        async def one():
            await by_task

        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(awaited, 0.01)
        task = asyncio.create_task(one())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(in_future.as_future()), 0.01)
        shield = asyncio.shield(shielded)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(shield, 0.01)
        parked()
        await shielded

    asyncio.run(main())
    for ticket in (awaited, by_task, in_future):
        with pytest.raises(dwell.Cancelled, match=r"by `cancel`"):
            ticket.wait()
    assert shielded.status() == 0


def test_cancelling_an_await_leaves_a_started_task(ops, latch):
    latch.await_start()

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(latch.ticket, 0.05)

    asyncio.run(main())
    assert not latch.ticket.done
    latch.release()
    assert latch.ticket.status() == 0


def test_a_coroutine_that_is_closed_leaves_the_task(ops, parked):
    ticket = ops.nothing()

    async def one():
        await ticket

    async def main():
        waiting = one()
        waiting.send(None)
        waiting.close()

    asyncio.run(main())
    parked()
    assert ticket.status() == 0


def test_cancelling_a_future_asks_and_its_end_tells(ops, parked, latch):
    waiting = ops.nothing().as_future()
    assert waiting.cancel() is False
    assert not waiting.cancelled() and not waiting.done()
    parked()
    with pytest.raises(concurrent.futures.CancelledError):
        waiting.result(20)
    assert waiting.cancelled() and waiting.cancel()

    latch.await_start()
    running = latch.ticket.as_future()
    assert running.cancel() is False
    latch.release()
    assert running.result(20) is None
    assert running.cancel() is False and not running.cancelled()

    failing = ops.fail(3).as_future()
    assert isinstance(failing.exception(20), dwell.TaskFailed)
    assert failing.cancel() is False


def test_tickets_cancel(ops, parked):
    ticket = ops.nothing()
    assert ticket.cancel()
    parked()
    with pytest.raises(dwell.Cancelled, match=r"by `cancel`"):
        ticket.wait()
    assert not ticket.cancel()


def test_tickets_of_a_closed_runtime_cancel_nothing():
    from conftest import device

    with dwell.Runtime(device(), workers=1) as rt:
        ticket = rt.define("nothing", "DWELL_OPERATOR(nothing)(dwell::Group) {}")()
    assert ticket.cancel() is False


class Own(Exception):
    pass


def raises_own():
    raise Own("the disk is full", 28)


def test_exceptions_of_a_host_node_are_the_cause(rt):
    graph = dwell.Graph()
    graph.add_host("bad", raises_own)
    exec = rt.instantiate(graph)

    def check(error):
        assert isinstance(error, dwell.TaskFailed)
        assert "Own: ('the disk is full', 28)" in str(error)
        cause = error.__cause__
        assert type(cause) is Own and cause.args == ("the disk is full", 28)
        assert traceback.extract_tb(cause.__traceback__)[-1].name == "raises_own"

    ticket = rt.launch(exec)
    for _ in range(2):
        with pytest.raises(dwell.TaskFailed) as info:
            ticket.wait()
        check(info.value)
    check(rt.launch(exec).as_future().exception(20))

    async def main():
        with pytest.raises(dwell.TaskFailed) as info:
            await rt.launch(exec)
        check(info.value)

    asyncio.run(main())
    for _ in range(70):
        rt.launch(exec).status()
    with pytest.raises(dwell.TaskFailed) as info:
        ticket.wait()
    assert info.value.__cause__ is None, "frames hold much: the last 64 are kept"


def test_exceptions_of_other_callbacks_keep_their_traceback(rt, ops, monkeypatch):
    heard = queue.Queue()
    monkeypatch.setattr(sys, "unraisablehook", lambda told: heard.put((type(told.exc_value), told.exc_traceback)))

    def check():
        kind, where = heard.get(timeout=20)
        assert kind is Own
        assert traceback.extract_tb(where)[-1].name == "raises_own"

    ops.nothing().add_done_callback(lambda _: raises_own())
    check()
    with rt.watch("ring", 60, lambda _: raises_own()):
        check()
    with dwell.Runtime("cpu", workers=1, log=lambda _: raises_own()) as noisy:
        noisy.define(
            "note", 'DWELL_OPERATOR(note)(dwell::Group g) { if (g.rank() == 0) dwell::log(g, dwell::level::error, "x"); }'
        )().wait()
        check()

    # Errors of calls on the calling thread are not wrapped.
    with pytest.raises(Own, match="the disk is full") as info:
        rt.capture(raises_own)
    assert traceback.extract_tb(info.value.__traceback__)[-1].name == "raises_own"


def test_event_loops_leak_no_descriptors(ops, latch):
    import os

    def descriptors():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    latch.await_start()

    async def main():
        ticket = ops.nothing(after=latch.ticket)
        asyncio.get_running_loop().call_later(0.01, latch.release)
        await ticket

    asyncio.run(main())
    before = descriptors()
    for _ in range(20):

        async def again():
            await asyncio.gather(*(one(ops.nothing()) for _ in range(50)))

        async def one(ticket):
            await ticket

        asyncio.run(again())
    assert descriptors() <= before + 1


def test_cancel(rt, ops, parked):
    waiting = ops.nothing()
    assert rt.cancel(waiting)
    parked()
    with pytest.raises(dwell.Cancelled):
        waiting.wait()
    assert waiting.status() < 0
    assert not rt.cancel(ops_done(ops))


def ops_done(ops):
    ticket = ops.nothing()
    ticket.wait()
    return ticket


def test_many_threads_submit(rt, ops):
    import numpy as np

    count = rt.array(np.zeros(1, "u4"))
    add = rt.define(
        "add_one",
        """
DWELL_OPERATOR(add_one)(dwell::Group g, dwell::Span<dwell::u32> x) { if (g.rank() == 0) x.atomic_add(0, 1u); }""",
    )

    def work():
        for _ in range(500):
            add(count)
        rt.submit_many(add, [(count,)] * 500).wait()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rt.sync()
    assert count.read()[0] == 4000
