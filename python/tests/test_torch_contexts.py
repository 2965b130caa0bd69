"""dwell.torch: contexts, statistics, the published interface, bursts, torch.compile, forked processes."""

import ctypes
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from conftest import run_python
from torch_support import DEVICE, dt, fallbacks, made, outcome, outcomes, taken, torch

# ---- Contexts, statistics, the published interface -------------------------------------------------------------------------------------


def test_contexts_nest_and_end_with_exceptions() -> None:
    before = taken()
    with pytest.raises(ZeroDivisionError), dt.eager(), dt.eager():
        made(4).add_(1)
        raise ZeroDivisionError
    assert taken() > before
    before = taken()
    made(4).add_(1)
    assert taken() == before

    @dt.accelerate
    def doubled(x: "torch.Tensor") -> "torch.Tensor":
        return x * 2

    assert doubled(made(4)).tolist() == (made(4) * 2).tolist()
    assert taken() > before
    dt.enable()
    try:
        before = taken()
        made(4).add_(1)
        assert taken() > before
    finally:
        dt.disable()


def test_large_tensors_go_to_pytorch() -> None:
    x = made(1000)
    with dt.eager(size_threshold=999):
        before = taken()
        y = x * 2
        assert taken() == before
        assert (x[:999] * 2).tolist() == y[:999].tolist()
        assert taken() == before + 1


def test_statistics_name_what_happened() -> None:
    x = made(4)
    before, fallen_back = dt.stats(), fallbacks()
    with dt.eager():
        (x + 1).sort()
    after = dt.stats()
    assert after["flushed"]["fallback"] == before["flushed"].get("fallback", 0) + 1
    assert fallbacks() - fallen_back == {("aten::sort", "operation"): 1}


def in_a_thread(call: Callable[[], Any]) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


REASONS = {
    "operation": ("aten::sort", lambda x: x.sort()),
    "arguments": ("aten::add.Tensor", lambda x: x + x[:3]),
    "elements": ("aten::remainder.Tensor", lambda x: x.int() % x.int()),
    "size": ("aten::mul.Tensor", lambda x: torch.cat([x] * 3) * 2),
    "size of a product": ("aten::mm", lambda x: x[:, None] @ x[None]),
    "type": ("aten::add.Tensor", lambda x: torch.complex(x, x) + 1),
    "type of a number": ("aten::add.Tensor", lambda x: x.to(torch.int8) + 300),
    "type of a result": ("aten::mv.out", lambda x: torch.mv(x.view(4, 4), x[:4], out=x.new_empty(4, dtype=torch.float64))),
    "layout": ("aten::add.out", lambda x: torch.add(x[:4], 1, out=x[2:6])),
    "layout that is sparse": ("aten::mul.Tensor", lambda x: x.to_sparse() * 2.0),
    "device": ("aten::add.Tensor", lambda x: x.to("meta") + 1),
    "thread": ("aten::add.Tensor", lambda x: in_a_thread(lambda: x + 1)),
}


@pytest.mark.skipif("DWELL_TORCH_KEY" in os.environ, reason="a mode sees other operations")
@pytest.mark.parametrize("name", REASONS)
def test_statistics_name_why_pytorch_ran_an_operation(name: str) -> None:
    operation, call = REASONS[name]
    x = made(16)
    with dt.eager(size_threshold=32):
        before = fallbacks()
        outcome(lambda: call(x))
        why = {reason for of, reason in fallbacks() - before if of == operation}
    assert why == {name.partition(" ")[0]}
    with dt.eager():
        before = fallbacks()
        x[:, None] + x
        assert not fallbacks() - before, "what was noted before is no reason"
        outcome(lambda: x + x[:3])
    assert fallbacks() - before == {("aten::add.Tensor", "arguments"): 1}


def test_the_published_interface() -> None:
    a, b = made(64), made(64) * 2
    out, product = torch.empty_like(a), torch.empty_like(a)
    dt.init(capacity=128, threads_per_block=256)
    for _ in range(300):
        dt.submit_add(a, b, out)
        dt.submit_mul(out, b, product)
    dt.flush(sync=True)
    assert torch.equal(out, a + b)
    assert torch.equal(product, (a + b) * b)
    dt.submit_add(a, a, out)
    assert out.tolist() == (a + a).tolist(), "a look flushes"
    dt.shutdown()
    with dt.scheduler_context(capacity=64, auto_flush_ms=1.0):
        y = a * b + a
    assert torch.equal(y, a * b + a)


def test_the_scheduler_context_collects_up_to_its_capacity() -> None:
    x = made(64)
    with dt.scheduler_context(capacity=10, auto_flush_ms=0):
        before = dt.stats()
        results = [x + number for number in range(35)]
        time.sleep(0.05)
        after = dt.stats()
    assert after["taken"] - before["taken"] == 35
    flushed = {reason: count - before["flushed"].get(reason, 0) for reason, count in after["flushed"].items()}
    assert {reason: count for reason, count in flushed.items() if count} == {"full": 3}
    assert dt.stats()["flushed"]["asked"] == after["flushed"]["asked"] + 1, "at the end"
    assert torch.equal(torch.stack(results), torch.stack([x + number for number in range(35)]))


def test_the_scheduler_context_takes_tensors_up_to_its_size() -> None:
    x = made(64)
    with dt.scheduler_context(size_threshold=63, auto_flush_ms=0):
        before, fallen_back = taken(), fallbacks()
        whole = x + 1
        assert taken() == before
        part = x[:63] + 1
        assert taken() == before + 1
        assert fallbacks() - fallen_back == {("aten::add.Tensor", "size"): 1}
    assert torch.equal(whole[:63], part)


def test_large_operations_see_what_was_collected() -> None:
    x = made(64)
    expected = ((x[:32] + 1).repeat(2) * x).sum()
    with dt.scheduler_context(size_threshold=32, auto_flush_ms=0):
        before, fallen_back = dt.stats(), fallbacks()
        out = x.clone()
        out[:32].copy_(x[:32] + 1)
        out[32:].copy_(out[:32])
        assert dt.stats()["flushed"]["fallback"] == before["flushed"]["fallback"]
        torch.mul(out, x, out=out)
        assert dt.stats()["flushed"]["fallback"] == before["flushed"]["fallback"] + 1
        out += 1
        out -= out.new_ones(64)
        assert fallbacks() - fallen_back >= Counter({("aten::" + name, "size"): 1 for name in ("mul.out", "add_.Tensor", "sub_.Tensor")})
        total = out.sum()
    torch.testing.assert_close(total, expected)


def test_results_come_without_a_flush() -> None:
    x = made(4)
    with dt.scheduler_context(auto_flush_ms=1.0):
        flushed = dt.stats()["flushed"]["asked"]
        y = x + 1
        deadline = threading.Event()
        for _ in range(2000):
            if dt.stats()["flushed"]["asked"] != flushed:
                break
            deadline.wait(0.001)
        assert dt.stats()["flushed"]["asked"] != flushed
    assert torch.equal(y, x + 1)


def test_it_can_be_switched_off() -> None:
    done = run_python(
        """
        import torch, dwell.torch as dt
        with dt.eager():
            x = torch.ones(4) + 1
        dt.init(); dt.submit_add(x, x, x); dt.flush(); dt.shutdown()
        print(x.tolist(), dt.stats()["taken"])
        """,
        DWELL_TORCH="off",
    )
    assert done.stdout.strip() == "[4.0, 4.0, 4.0, 4.0] 0"


def test_a_process_that_ends_inside_a_context_ends() -> None:
    done = run_python("import torch, dwell.torch as dt\ndt.enable()\nx = torch.ones(4)\nfor i in range(100): x = x * 1.01\nprint('end')")
    assert done.stdout.strip() == "end"


def test_a_process_ends_while_the_loop_works_and_programs_are_compiled() -> None:
    done = run_python(
        f"""
        import torch, dwell.torch as dt
        dt.enable(resident=True, capacity=10)
        x = torch.ones(64, device={DEVICE!r})
        outs = [torch.empty_like(x) for _ in range(50)]
        for i in range(60):
            for out in outs: torch.add(x, x, out=out)
        with dt.record() as recorded:
            torch.add(outs[0], x, out=outs[1])
        recorded().replay()
        print('end')
        """
    )
    assert done.stdout.strip() == "end"


def test_a_missing_compiler_is_named() -> None:
    done = run_python(
        """
        import torch, dwell.torch as dt
        try:
            with dt.eager(): pass
        except dt.BuildError as error:
            print(error)
        """,
        PATH="/nonexistent",
        CXX="",
    )
    assert "g++" in done.stdout


# ---- Bursts and resident loops ----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(DEVICE == "cpu", reason="only on a GPU: on a CPU a flush waits")
def test_bursts_start_while_operations_are_collected() -> None:
    x = torch.eye(256, device=DEVICE).roll(1, 0)  # its products are exact
    with dt.eager():
        before = dt.stats()["flushed"]
        y = x
        for _ in range(500):
            y = y @ x
        y = y + 1
        after = dt.stats()["flushed"]
    assert after["idle"] > before["idle"]
    assert after["full"] == before["full"]
    assert torch.equal(y, torch.eye(256, device=DEVICE).roll(501, 0) + 1)


@pytest.mark.skipif(DEVICE != "cpu", reason="memory of the host")
def test_a_resident_loop_works_without_a_flush() -> None:
    out = torch.zeros(4)
    seen = ctypes.c_float.from_address(out.data_ptr())
    with dt.eager(resident=True, capacity=10):
        before = dt.stats()["flushed"]
        for _ in range(100):
            out.add_(1)
        deadline = time.monotonic() + 20
        while seen.value != 100 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert seen.value == 100
        assert dt.stats()["flushed"] == before


def test_a_resident_loop_starts_and_stops() -> None:
    x = made(64)
    a, b, c = (torch.zeros_like(x) for _ in range(3))
    with dt.record() as recorded:
        torch.mul(x, 2, out=c)
    recording = recorded()
    with dt.eager():
        a.add_(x)
        with dt.eager(resident=True):
            b.add_(a).add_(x)
            a.copy_(b.sort()[0])  # run by PyTorch
            b.mul_(a)
            recording.replay()
            b.add_(c)
        a.sub_(b)
    assert torch.equal(c, x * 2)
    torch.testing.assert_close(b, (x + x) * (x + x).sort()[0] + x * 2)
    torch.testing.assert_close(a, (x + x).sort()[0] - b)


def test_a_resident_loop_that_rests_goes_on() -> None:
    x = torch.arange(8.0, device=DEVICE)
    torch.ops.dwell.rest()
    for rests in (False, True, True):
        with dt.eager(resident=True, always=True):
            y = x + 1
            if rests:
                assert torch.ops.dwell.rest() == 1
            z = y * 2
        assert torch.ops.dwell.rest() == 1
        assert torch.ops.dwell.rest() == 0, "it has had no operation since"
        assert z.tolist() == [2 * (i + 1) for i in range(8)]


@pytest.mark.skipif(DEVICE == "cpu", reason="waits for a whole GPU")
def test_a_wait_for_the_device_takes_the_resident_loop_off() -> None:
    x = torch.zeros(8, device=DEVICE)
    for wait in (torch.cuda.synchronize, torch.cuda.empty_cache):
        with dt.eager(resident=True, always=True):
            x += 1
        wait()
        assert torch.ops.dwell.rest() == 0, "it is off already"
    assert x.tolist() == [2] * 8


def test_limits_end_with_their_context() -> None:
    x = made(1000)
    with dt.eager():
        with dt.eager(size_threshold=10):
            before = taken()
            x * 2
            assert taken() == before
        x * 2
        assert taken() == before + 1


# ---- torch.compile ---------------------------------------------------------------------------------------------------------------------


def test_a_compiled_function_runs_by_dwell() -> None:
    w = made(16, 16).requires_grad_()

    def function(x: "torch.Tensor") -> "torch.Tensor":
        return torch.softmax(torch.relu(x @ w) * 0.1 + 1, -1).sin().mean(0)

    compiled = torch.compile(function, backend="dwell", dynamic=True)
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]  # counts the whole process
    for rows in (3, 5, 8):
        x = made(rows, 16)
        before = taken()
        got = compiled(x)
        got.sum().backward()
        assert taken() > before + 5
        gradient = w.grad.clone()
        w.grad = None
        expected = function(x)
        expected.sum().backward()
        torch.testing.assert_close(got, expected)
        torch.testing.assert_close(gradient, w.grad)
        w.grad = None
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs + 1, "shapes do not compile it anew"


def test_a_context_may_be_compiled_inside() -> None:
    compiled = torch.compile(lambda x: torch.relu(x + 1) * 2, backend="eager")
    x = made(16)
    expected, got = outcomes(lambda: compiled(x))
    assert torch.equal(expected, got)


# ---- Forked processes ------------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(DEVICE != "cpu", reason="PyTorch does not use a GPU in a process that was forked off")
def test_a_forked_process_runs_without_dwell() -> None:
    done = run_python(
        """
        import os, torch, dwell.torch as dt
        with dt.eager():
            x = torch.ones(8) + 1
            pid = os.fork()
            if pid == 0:
                with dt.eager():
                    y = x * 3 + torch.ones(8)
                os._exit(0 if y.tolist() == [7.0] * 8 else 1)
            z = x * 5
            print(os.waitpid(pid, 0)[1], z[0].item())
        """
    )
    assert done.stdout.strip() == "0 10.0"


def test_lazy_copies_stay_apart() -> None:
    x = made(16)
    copy = torch._lazy_clone(x)
    before = copy.tolist()
    with dt.eager():
        x.add_(1)
        assert copy.tolist() == before
        assert x.tolist() != before
