"""Rings of messages between operators and Python."""

import asyncio
import threading

import dwell
import pytest
from conftest import device

numpy = pytest.importorskip("numpy")

PAIR = [("producer", "u4"), ("number", "u4")]
SOURCE = """
struct Pair {
  dwell::u32 producer;
  dwell::u32 number;
};
"""
SEND = (
    SOURCE
    + """
DWELL_OPERATOR(send)(dwell::Group g, dwell::Ring<Pair> ring, dwell::u32 producer, dwell::u32 count) {
  const dwell::Gang gang = g.gang();
  dwell::u32 next = gang.resume(0u);
  if (g.rank() == 0)
    while (next < count && ring.try_push(Pair{producer, next})) ++next;
  next = g.reduce(next, [](dwell::u32 a, dwell::u32 b) { return a > b ? a : b; });
  if (next < count) return gang.yield(next);
  if (g.rank() == 0) ring.close();
}"""
)
ADD = """
DWELL_OPERATOR(add)(dwell::Group g, dwell::Ring<float> ring, dwell::Span<float> sum) {
  float mine = 0;
  ring.drain(g, [&](float value, dwell::u64) { mine += value; });
  if (dwell::device::any_in_group(!ring.finished())) {
    sum.atomic_add(0, mine);
    return g.gang().yield(0u);
  }
  sum.atomic_add(0, mine);
}"""
ECHO = """
DWELL_OPERATOR(echo)(dwell::Group g, dwell::ByteRing from, dwell::ByteRing to) {
  if (g.rank() == 0)
    for (;;) {
      const dwell::ByteMessage message = from.try_pop();
      if (!message) break;
      to.push(g, message.bytes(), message.type());
    }
}"""


@pytest.fixture
def runtime():
    with dwell.Runtime(device(), workers=2 if device() == "cpu" else 0) as made:
        yield made


def test_messages_of_operators(runtime):
    send = runtime.define("send", SEND)
    ring = runtime.ring(PAIR, 64, consumers="host", checksum=True)
    ticket = send(ring, 7, 1000, gang=1)
    numbers = []
    for message in ring:
        assert message["producer"] == 7
        numbers.append(int(message["number"]))
    assert numbers == list(range(1000))
    ticket.wait()
    assert ring.finished
    assert ring.pop() is None
    assert ring.counts() == {"discarded": 0, "abandoned": 0, "damaged": 0, "damaged_at": 0}


def test_async_for(runtime):
    send = runtime.define("send", SEND)
    ring = runtime.ring(PAIR, 16, consumers="host")

    async def collect():
        send(ring, 1, 300, gang=1)
        return [int(message["number"]) async for message in ring]

    assert asyncio.run(collect()) == list(range(300))


def test_python_sends(runtime):
    add = runtime.define("add", ADD)
    ring = runtime.ring("float32", 16, producers="host")
    total = runtime.array([0.0], "float32")
    ticket = add(ring, total, gang=1)

    def produce():
        for i in range(100):
            assert ring.push(float(i), timeout=30)

    threads = [threading.Thread(target=produce) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ring.close()
    ticket.wait()
    assert total.read()[0] == 2 * sum(range(100))
    with pytest.raises(dwell.Closed):
        ring.push(1.0)
    assert not ring.try_push(1.0)


def test_bytes(runtime):
    echo = runtime.define("echo", ECHO)
    there = runtime.byte_ring(4096, producers="host", checksum=True)
    back = runtime.byte_ring(4096, consumers="host", checksum=True)
    messages = [(i % 256, bytes(range(i))) for i in range(0, 60, 7)]
    for kind, message in messages:
        there.push(message, kind)
    echo(there, back).wait()
    assert [back.pop() for _ in messages] == messages
    assert back.pop(timeout=0.01) is None
    assert back.try_pop() is None
    with pytest.raises(dwell.InvalidArgument, match="message_bytes"):
        there.push(bytes(5000))


def test_full_and_wrong(runtime):
    ring = runtime.ring("int64", 4, producers="host")
    for i in range(4):
        assert ring.try_push(i)
    assert not ring.try_push(4)
    assert not ring.push(4, timeout=0.01)
    with pytest.raises(dwell.Unsupported, match="consumers"):
        ring.try_pop()
    with pytest.raises(dwell.InvalidArgument, match="power of two"):
        runtime.ring("int64", 100)
    with pytest.raises(dwell.InvalidArgument, match="producers"):
        runtime.ring("int64", 4, producers="nobody")
    send = runtime.define("send", SEND)
    with pytest.raises(dwell.SignatureMismatch, match=r"dwell\.Ring"):
        send(5, 1, 1, gang=1)
    with pytest.raises(dwell.SignatureMismatch, match="8 bytes fits"):
        send(runtime.ring("float32", 4), 1, 1, gang=1)


def test_end_of_the_runtime(runtime):
    ring = runtime.ring("int64", 4, consumers="host")
    runtime.close()
    with pytest.raises(dwell.Closed):
        ring.pop()
