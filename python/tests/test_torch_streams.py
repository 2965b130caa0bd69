"""dwell.torch on CUDA streams: order around bursts, events, graph captures, several threads."""

import random
import threading
from typing import Any

import pytest
from torch_support import DEVICE, dt, made, taken, torch

pytestmark = pytest.mark.skipif(DEVICE != "cuda", reason="streams are a GPU's")

_CYCLES = 20_000_000  # of an idle kernel: some 10 ms, longer than the start of a burst


def busy() -> None:
    """Keeps the current stream busy: later work stays pending."""
    torch.cuda._sleep(_CYCLES)


def late(value: float, like: Any) -> Any:
    """Returns a tensor of 0 that the busy current stream sets to `value` later."""
    x = torch.zeros_like(like)
    busy()
    x.copy_(torch.full_like(like, value))
    return x


# ---- The current stream --------------------------------------------------------------------------------------------------------------


def test_a_burst_comes_behind_what_the_stream_holds() -> None:
    x = made(256)
    kernel = late(3.0, x)
    with dt.eager():
        y = kernel * 2 + x
    assert torch.equal(y, x + 6)


def test_later_work_on_the_stream_follows_the_burst() -> None:
    x = made(256)
    large = torch.zeros(1 << 20, device=DEVICE)
    with dt.eager():
        busy()
        y = x + 1
        large[:256] = y
        z = large.sort(descending=True)[0]  # run by PyTorch
    assert torch.equal(z[:256], (x + 1).sort(descending=True)[0])


@pytest.mark.parametrize("resident", [False, True])
def test_operations_of_both_sides_alternate(resident: bool) -> None:
    x = made(512)
    expected = x.clone()
    with dt.eager(resident=resident):
        y = x.clone()
        for i in range(50):
            y = y * 1.01 + i
            y = y.sort()[0]  # run by PyTorch
    for i in range(50):
        expected = (expected * 1.01 + i).sort()[0]
    torch.testing.assert_close(y, expected)


# ---- Other streams ---------------------------------------------------------------------------------------------------------------------


def test_a_change_of_the_stream_flushes_on_the_old_one() -> None:
    side = torch.cuda.Stream()
    x = made(64)
    with dt.eager():
        before = dt.stats()["flushed"]["stream"]
        y = x + 1
        with torch.cuda.stream(side):
            z = torch.ones(64, device=DEVICE) * 3
        w = x * 2
        assert dt.stats()["flushed"]["stream"] >= before + 1
    torch.cuda.synchronize()
    assert torch.equal(y, x + 1) and torch.equal(w, x * 2) and z.tolist() == [3] * 64


def test_a_side_stream_that_is_waited_for() -> None:
    side = torch.cuda.Stream()
    x = made(64)
    with dt.eager():
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = late(5.0, x) + x
        torch.cuda.current_stream().wait_stream(side)
        z = y * 2
    assert torch.equal(z, (x + 5) * 2)


def test_an_event_stands_behind_what_was_collected() -> None:
    side = torch.cuda.Stream()
    x = made(64)
    event = torch.cuda.Event()
    with dt.eager():
        busy()
        y = x + 1
        event.record()
        with torch.cuda.stream(side):
            side.wait_event(event)
            z = y * 2
        side.synchronize()
        assert torch.equal(z.cpu(), ((x + 1) * 2).cpu())
        busy()
        w = x - 1
        event.record()
        event.synchronize()
        assert w.cpu().tolist() == (x - 1).tolist()


def test_synchronising_the_device_waits_for_what_was_collected() -> None:
    x = made(64)
    host = torch.empty(64, pin_memory=True)
    with dt.eager():
        busy()
        y = x + 1
        host.copy_(y, non_blocking=True)
        torch.cuda.synchronize()
        assert host.tolist() == (x + 1).tolist()


def test_memory_of_dropped_tensors_is_used_again_only_behind_the_burst() -> None:
    x = made(1024)
    expected = torch.zeros(1024, device=DEVICE)
    for i in range(200):
        expected += (x + i).sqrt()
    with dt.eager():
        total = torch.zeros(1024, device=DEVICE)
        busy()
        for i in range(200):
            total += (x + i).sqrt()
            torch.randn(1024, device=DEVICE)  # PyTorch runs it at once: it may reuse the memory of dropped results
    torch.testing.assert_close(total, expected)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="it takes two GPUs")
def test_devices_have_bursts_of_their_own() -> None:
    first, second = torch.ones(64, device="cuda:0"), torch.ones(64, device="cuda:1")
    with dt.eager():
        first = first + 1
        with torch.cuda.device(1):
            second = second + 2
        third = second.to("cuda:0") + first
    assert third.tolist() == [5] * 64


# ---- Captures ------------------------------------------------------------------------------------------------------------------------


def test_captures_are_left_to_pytorch() -> None:
    x, y = made(64), torch.empty(64, device=DEVICE)
    with dt.eager():
        y.copy_(x * 2)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        before = taken()
        with torch.cuda.graph(graph):
            y.copy_(x * 2 + 1)
        assert taken() == before
        x.add_(1)  # taken: the replay must follow it
        assert taken() == before + 1
        graph.replay()
        z = y + 1
    assert torch.equal(z, x * 2 + 2)
    x.fill_(4)
    graph.replay()
    assert y.tolist() == [9] * 64


def test_operations_before_a_capture_run_before_it() -> None:
    x = made(64)
    with dt.eager():
        y = x + 1
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            z = y * 2
        graph.replay()
        w = z + 1
    assert torch.equal(w, (x + 1) * 2 + 1)


# ---- Random programs ---------------------------------------------------------------------------------------------------------------


def program(seed: int, streams: list[Any], eager: bool) -> list[list[float]]:
    """Runs random operations on a few tensors, each on a random stream that waits for the earlier ones."""
    rng = random.Random(seed)
    cells = [torch.full((rng.choice([16, 256, 4096]),), float(i + 1), device=DEVICE) for i in range(6)]
    torch.cuda.synchronize()
    last: Any = None

    def step() -> None:
        i, j = rng.randrange(6), rng.randrange(6)
        a, b = cells[i], cells[j]
        least = min(a.numel(), b.numel())
        match rng.randrange(7):
            case 0:
                cells[i] = a * 0.5 + 1
            case 1:
                a[:least] += b[:least]
                a.mul_(0.5)
            case 2:
                cells[i] = a.sort(descending=True)[0]  # run by PyTorch
            case 3:
                a.copy_(b.sum() / b.numel() + a * 0.5)
            case 4:
                a[: least // 2] = b[least // 2 : least]
            case 5:
                busy()
            case 6:
                cells[i] = torch.cat([b[:8], a[8:]])

    def run() -> None:
        nonlocal last
        for _ in range(60):
            stream = rng.choice(streams)
            with torch.cuda.stream(stream):
                if last is not None:
                    stream.wait_event(last)
                for _ in range(rng.randrange(1, 6)):
                    step()
                last = torch.cuda.Event()
                last.record()

    if eager:
        with dt.eager():
            run()
    else:
        run()
    torch.cuda.synchronize()
    return [cell.tolist() for cell in cells]


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_over_streams(seed: int) -> None:
    streams = [torch.cuda.Stream() for _ in range(3)]
    expected, got = program(seed, streams, False), program(seed, streams, True)
    for x, y in zip(expected, got, strict=True):
        assert y == pytest.approx(x, rel=1e-5)


def test_random_programs_of_several_threads_each_with_its_streams() -> None:
    expected = [program(seed, [torch.cuda.Stream() for _ in range(2)], False) for seed in range(4)]
    got: list[Any] = [None] * 4
    problems: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            got[seed] = program(seed, [torch.cuda.Stream() for _ in range(2)], True)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not problems
    for one, other in zip(expected, got, strict=True):
        for x, y in zip(one, other, strict=True):
            assert y == pytest.approx(x, rel=1e-5)
