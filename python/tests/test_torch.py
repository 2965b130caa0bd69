"""dwell.torch: order, looks at results, threads, gradients, statistics and the published interface."""

import _thread
import copy
import ctypes
import gc
import io
import os
import pickle
import queue
import re
import threading
import time
from typing import Any

import pytest
from conftest import run_python
from torch_support import DEVICE, dt, made, outcome, outcomes, taken, torch


def added(x: "torch.Tensor") -> "torch.Tensor":
    """x + 1, which is not there yet."""
    before = taken()
    result = x + 1
    assert taken() == before + 1
    return result


# ---- Looks at what is not there yet ----------------------------------------------------------------------------------------------------

LOOKS = {
    "item": lambda x: x[0].item(),
    "float": lambda x: float(x[1]),
    "truth": lambda x: bool(x[0] > 0),
    "list": lambda x: x.tolist(),
    "copy to the host": lambda x: x.cpu().tolist(),
    "text": lambda x: str(x),
    "pickle": lambda x: pickle.loads(pickle.dumps(x)).tolist(),
    "deep copy": lambda x: copy.deepcopy(x).tolist(),
    "dlpack": lambda x: torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)).tolist(),
    "from_dlpack": lambda x: torch.from_dlpack(x).tolist(),
    "equal": lambda x: torch.equal(x, x.clone()),
    "sort": lambda x: x.sort()[0].tolist(),
    "unique": lambda x: x.unique().tolist(),
    "nonzero": lambda x: x.nonzero().tolist(),
    "boolean index": lambda x: x[x > 1.7].tolist(),
    "list of tensors": lambda x: torch.cat([x, x]).tolist(),
    "foreach": lambda x: [t.tolist() for t in torch._foreach_add([x, x], 1.0)],
    "iteration": lambda x: [float(v) for v in x],
    "view": lambda x: x.view(2, 4)[1, 2:].tolist(),
    "storage": lambda x: list(x.cpu().untyped_storage()),
}


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_sees_the_result(name: str) -> None:
    x = made(8)
    expected = LOOKS[name](x + 1)
    with dt.eager():
        assert LOOKS[name](added(x)) == expected
    with dt.eager():
        result = added(x)
    assert LOOKS[name](result) == expected, "behind the context"


@pytest.mark.skipif(DEVICE != "cpu", reason="NumPy shares memory of the host")
def test_numpy_sees_the_result() -> None:
    x = made(8)
    with dt.eager():
        seen = added(x).numpy()
        assert seen.tolist() == (x + 1).tolist()


def test_a_file_holds_the_result() -> None:
    x = made(8)
    file = io.BytesIO()
    with dt.eager():
        torch.save(added(x), file)
    file.seek(0)
    assert torch.equal(torch.load(file), x + 1)


def test_memory_from_numpy_is_read_when_it_was_given() -> None:
    numpy = pytest.importorskip("numpy")
    memory = numpy.ones(4, dtype="float32")
    x = torch.from_numpy(memory)
    with dt.eager():
        y = (x if DEVICE == "cpu" else x.to(DEVICE)) + 1
        dt.flush(sync=True)
        memory[:] = 5
    assert y.tolist() == [2, 2, 2, 2]


# ---- Hazards and memory ----------------------------------------------------------------------------------------------------------------


def test_overlapping_views_keep_their_order() -> None:
    def program() -> "torch.Tensor":
        x = torch.arange(32.0, device=DEVICE)
        x[:16].add_(x[16:])
        x[::2].mul_(2)
        x.view(4, 8).t()[3].sub_(x[:4])
        x[8:24].copy_(x[:16] * 3)
        return x

    expected, got = outcomes(program)
    assert torch.equal(expected, got)


def test_a_result_written_where_it_is_read_is_an_error_as_in_pytorch() -> None:
    x = made(16)
    expected, got = outcomes(lambda: torch.add(x[:8], 1, out=x[4:12]))
    assert isinstance(expected, RuntimeError)
    assert str(got) == str(expected)


PRODUCTS = {
    "mm": lambda m, out: torch.mm(m[0], m[1], out=out[0]),
    "bmm": lambda m, out: torch.bmm(m, m, out=out),
    "addmm": lambda m, out: torch.addmm(m[0][0], m[0], m[1], beta=0.5, alpha=2, out=out[1]),
    "addmm_": lambda m, out: out[1].addmm_(m[0], m[1], beta=0.5),
    "baddbmm": lambda m, out: torch.baddbmm(m[0], m, m, out=out),
    "baddbmm_": lambda m, out: out.baddbmm_(m, m, alpha=2),
    "mv": lambda m, out: torch.mv(m[0], m[1][0], out=out[0][2]),
    "dot": lambda m, out: torch.dot(m[0][0], m[1][0], out=out[0][0][0]),
    "a column": lambda m, out: torch.mv(m[0], m[1][0], out=out[0][:, 3]),
    "transposed": lambda m, out: torch.mm(m[0], m[1], out=out[0].t()),
    "its bias": lambda m, out: torch.addmm(out[0], m[0], m[1], out=out[0]),
    "a part of where a factor is": lambda m, _: torch.mm(m[0], m[1], out=m[2]),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_written_where_it_is_wanted(name: str) -> None:
    def write() -> tuple[Any, Any]:
        matrices = torch.arange(48.0, device=DEVICE).view(3, 4, 4) / 16
        out = torch.ones(3, 4, 4, device=DEVICE)
        before = taken()
        PRODUCTS[name](matrices, out)
        steps.append(taken() - before)
        return matrices, out

    steps: list[int] = []
    expected, got = outcomes(write)
    assert steps == [0, 1]
    torch.testing.assert_close(got, expected)


def test_a_product_that_does_not_fit_its_place_is_pytorchs() -> None:
    x = made(4, 4)
    wide = torch.empty(4, 4, dtype=torch.float64, device=DEVICE)
    expected, got = outcomes(lambda: torch.mm(x, x, out=wide))
    assert isinstance(expected, RuntimeError)
    assert str(got) == str(expected)
    other, empty = made(4, 4), torch.empty(0, device=DEVICE)
    with dt.eager():
        before = taken()
        torch.mm(x, other, out=empty)
        outcome(lambda: torch.mm(x, other, out=x))
    assert taken() == before
    assert torch.equal(empty, made(4, 4) @ other)


WRONG = {
    "shapes": lambda x: x + x[:5],
    "matrices": lambda x: x.view(4, 4) @ x.view(8, 2),
    "conversion": lambda x: x.long().add_(1.5),
    "negation": lambda x: -(x > 1),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_pytorchs(name: str) -> None:
    x = made(16)
    expected, got = outcomes(lambda: WRONG[name](x))
    assert isinstance(expected, RuntimeError)
    assert (type(got), str(got)) == (type(expected), str(expected))


def test_dropped_results_are_computed_in_memory_of_their_own() -> None:
    x = made(256)
    with dt.eager():
        total = torch.zeros(256, device=DEVICE)
        for i in range(500):
            total += (x * i).sin()  # dropped before it runs
    expected = torch.zeros(256, device=DEVICE)
    for i in range(500):
        expected += (x * i).sin()
    torch.testing.assert_close(total, expected, rtol=1e-4, atol=1e-4)


def test_results_that_nobody_sees_are_not_computed() -> None:
    x = made(64)
    with dt.eager():
        x.add_(1)
    tasks = dt.stats()["tasks"]
    with dt.eager():
        for _ in range(100):
            (x + 1).relu()
    assert dt.stats()["tasks"] == tasks
    with dt.eager():
        y = x
        for _ in range(200):
            y = y * 0.5 + x
    assert dt.stats()["tasks"] <= tasks + 10
    expected = x.clone()
    for _ in range(200):
        expected = expected * 0.5 + x
    torch.testing.assert_close(y, expected)


def test_a_dropped_result_is_there_for_what_was_made_of_it() -> None:
    x = made(8, 16)
    with dt.eager(capacity=10_000):
        y = x * 2
        row, total, transposed = y[3] + 1, y.sum(1), y.t() * x.t()
        z = x + 1
        view = z[2:4]
        del y, z
        kept = view.detach()
        del view
    torch.testing.assert_close(row, (x * 2)[3] + 1)
    torch.testing.assert_close(total, (x * 2).sum(1))
    torch.testing.assert_close(transposed, (x * 2).t() * x.t())
    torch.testing.assert_close(kept, (x + 1)[2:4])


@pytest.mark.skipif(DEVICE != "cpu", reason="memory of the host")
def test_memory_of_numpy_is_written_though_its_tensor_is_gone() -> None:
    numpy = pytest.importorskip("numpy")
    memory = numpy.ones(8)
    with dt.eager():
        torch.from_numpy(memory).add_(1)
    assert memory.tolist() == [2.0] * 8


def test_inputs_may_be_dropped_at_once() -> None:
    with dt.eager():
        sums = [made(64).mul_(i).sum() for i in range(100)]
    assert [float(s) for s in sums] == pytest.approx([float(made(64).mul_(i).sum()) for i in range(100)], rel=1e-5)


def test_no_memory_is_left_behind() -> None:
    def memory() -> int:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def descriptors() -> list[str]:
        """What they are of, but for operators: programs that run often become some."""
        links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
        files = [os.readlink(link) for link in links if os.path.lexists(link)]
        return sorted(re.sub(r"\[\d+\]", "", file) for file in files if not file.startswith("/memfd:dwell_"))

    x = made(64)

    def work(count: int) -> None:
        with dt.eager():
            y = x
            for i in range(count):
                y = torch.relu(y * 0.5 + x)
                if i % 1000 == 0:
                    y.sum().item()

    work(170_000)  # what is opened once is open then
    gc.collect()
    files = descriptors()
    # A million operations at a time. Compilers keep memory too, when programs that run often are compiled: that comes to an end.
    grown = []
    for _ in range(4):
        before = memory()
        work(340_000)
        gc.collect()
        grown.append(memory() - before)
        if grown[-1] < 16 << 20:
            break
    assert grown[-1] < 16 << 20, grown
    deadline = time.monotonic() + 60
    while len(descriptors()) > len(files) and time.monotonic() < deadline:
        time.sleep(0.1)  # the compiler of such an operator may run
    left = descriptors()
    assert len(left) <= len(files), (files, left)


# ---- Modes of PyTorch's ----------------------------------------------------------------------------------------------------------------


def test_versions_are_counted() -> None:
    x = made(4)
    with dt.eager():
        version = x._version
        x.add_(1)
        torch.mul(x, 2, out=x)
        assert x._version == version + 2
    w = made(4, requires_grad=True)
    expected, got = outcomes(lambda: _changed_behind_its_use(w))
    assert "modified by an inplace operation" in str(got)
    assert str(expected)[:80] == str(got)[:80]


def _changed_behind_its_use(w: "torch.Tensor") -> None:
    x = w * 1
    y = x * x
    x.add_(1)
    y.sum().backward()


def test_modes_keep_their_meaning() -> None:
    w = made(4, requires_grad=True)
    with dt.eager():
        with torch.no_grad():
            assert not (w * 2).requires_grad
        with torch.inference_mode():
            assert (w * 2).is_inference()
        assert (w * 2).grad_fn is not None
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            assert (made(4, 4) @ made(4, 4)).dtype == torch.bfloat16
    before = taken()
    with dt.eager():
        batched = torch.vmap(lambda row: (row * 2).sum())(made(3, 5))
        slope = torch.func.grad(lambda v: (v * v).sum())(made(5))
        turned = torch.func.jvp(lambda v: v.sin(), (made(5),), (torch.ones(5, device=DEVICE),))[1]
    assert taken() > before
    torch.testing.assert_close(batched, (made(3, 5) * 2).sum(1))
    torch.testing.assert_close(slope, made(5) * 2)
    torch.testing.assert_close(turned, made(5).cos())


def test_subclasses_and_other_layouts_go_to_pytorch() -> None:
    class Marked(torch.Tensor):
        pass

    with dt.eager():
        x = made(4).as_subclass(Marked)
        assert isinstance(x + 1, Marked)
        sparse = made(4, 4).to_sparse()
        assert torch.equal((sparse + sparse).to_dense(), made(4, 4) * 2)
        assert (torch.empty(3, device="meta") + 1).shape == (3,)


def test_random_numbers_stay_the_same() -> None:
    def draw() -> list[float]:
        torch.manual_seed(11)
        x = torch.rand(5, device=DEVICE) + 1
        return [*x.tolist(), *torch.nn.functional.dropout(x, 0.5).tolist(), *torch.randn(3, device=DEVICE).mul_(2).tolist()]

    expected, got = outcomes(draw)
    assert got == expected


# ---- Training --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_a_model_is_trained_as_without(optimizer: str) -> None:
    def train() -> list[float]:
        torch.manual_seed(5)
        nn = torch.nn
        layers = [nn.Linear(8, 32), nn.Tanh(), nn.LayerNorm(32), nn.Linear(32, 16), nn.GELU(), nn.Linear(16, 3)]
        model = nn.Sequential(*layers).to(DEVICE, torch.float64)
        steps = getattr(torch.optim, optimizer)(model.parameters(), lr=0.01, foreach=False)
        x = torch.randn(32, 8, device=DEVICE, dtype=torch.float64)
        y = torch.randn(32, 3, device=DEVICE, dtype=torch.float64)
        losses = []
        for _ in range(12):
            steps.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            steps.step()
            losses.append(loss.detach())
        return [float(loss) for loss in losses]

    before = taken()
    expected, got = outcomes(train)
    assert taken() > before + 250
    assert got == pytest.approx(expected, rel=1e-9)


def test_a_backward_pass_sees_what_was_collected() -> None:
    x = made(16).requires_grad_()
    with dt.eager():
        (x * x).exp().sum().backward()
        gradient = x.grad.tolist()
    assert gradient == pytest.approx((2 * x * (x * x).exp()).tolist(), rel=1e-5)


# ---- Threads ---------------------------------------------------------------------------------------------------------------------------


def test_other_threads_see_results() -> None:
    given: queue.SimpleQueue = queue.SimpleQueue()
    seen: list[float] = []

    def consume() -> None:
        while (x := given.get()) is not None:
            seen.append(float(x.sum()))

    thread = threading.Thread(target=consume)
    with dt.eager():
        thread.start()
        for i in range(200):
            given.put(torch.full((16,), float(i), device=DEVICE) * 2 + 1)
        given.put(None)
        thread.join()
    assert seen == [16.0 * (2 * i + 1) for i in range(200)]


def test_a_flush_of_another_thread_is_waited_for() -> None:
    over = threading.Event()

    def flush_all_the_time() -> None:
        while not over.is_set():
            dt.flush()

    thread = threading.Thread(target=flush_all_the_time)
    with dt.eager():
        thread.start()
        try:
            for i in range(2000):
                x = torch.zeros(4096, device=DEVICE)
                x.add_(i).mul_(2)
                assert float(x[-1]) == 2 * i
        finally:
            over.set()
            thread.join()


def test_threads_have_contexts_of_their_own() -> None:
    results: dict[int, float] = {}

    def work(number: int) -> None:
        with dt.eager(capacity=50):
            x = torch.full((64,), float(number), device=DEVICE)
            for _ in range(300):
                x = x * 0.5 + number
            results[number] = float(x[0])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: pytest.approx(2.0 * n) for n in range(6)}


def test_a_thread_of_the_engine_works_for_others_behind_a_context_of_its_own() -> None:
    """It is not a thread of Python's, and has the keys of the thread that has started the backward pass."""
    x = made(16)
    over = threading.Lock()
    over.acquire()
    results: list[Any] = []

    def work() -> None:
        with dt.eager():
            results.append(x + 1)
        before = taken()
        torch._C._dispatch_tls_set_dispatch_key_included("Fake", True)
        results.append(x * 2)
        results.append(taken() - before)
        dt.flush()
        over.release()

    _thread.start_new_thread(work, ())
    assert over.acquire(timeout=60)
    y, z, count = results
    assert torch.equal(y, x + 1)
    assert torch.equal(z, x * 2)
    assert count == 1


def test_a_hook_may_have_a_context_of_its_own() -> None:
    x = made(16).requires_grad_()

    def hook(gradient: Any) -> Any:
        with dt.eager():
            return gradient * 2

    for times in range(1, 4):
        with dt.eager():
            y = x * 3
            y.register_hook(hook)
            before = dt.stats()
            y.sum().backward()
            after = dt.stats()
        assert x.grad.tolist() == [6.0 * times] * 16
        fallbacks = {name for name, calls in after["fallback"].items() if calls != before["fallback"].get(name, 0)}
        assert not fallbacks & {"aten::mul.Tensor", "aten::add_.Tensor", "aten::add.Tensor", "aten::fill_.Scalar"}, fallbacks


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
    before = dt.stats()
    with dt.eager():
        (made(4) + 1).sort()
    after = dt.stats()
    assert after["flushed"]["fallback"] == before["flushed"]["fallback"] + 1
    assert after["fallback"]["aten::sort"] == before["fallback"].get("aten::sort", 0) + 1
    assert not [name for name in after["fallback"] if name.startswith("dwell::")]


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


def test_a_resident_loop_comes_and_goes() -> None:
    x = made(64)
    a, b, c = (torch.zeros_like(x) for _ in range(3))
    with dt.record() as recorded:
        torch.mul(x, 2, out=c)
    recording = recorded()
    with dt.eager():
        a.add_(x)
        with dt.eager(resident=True):
            b.add_(a).add_(x)
            a.copy_(b.sort()[0])  # not taken
            b.mul_(a)
            recording.replay()
            b.add_(c)
        a.sub_(b)
    assert torch.equal(c, x * 2)
    torch.testing.assert_close(b, (x + x) * (x + x).sort()[0] + x * 2)
    torch.testing.assert_close(a, (x + x).sort()[0] - b)


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

    compiled = torch.compile(function, backend=dt.backend, dynamic=True)
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
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1, "shapes do not compile it anew"


def test_a_context_may_be_compiled_inside() -> None:
    compiled = torch.compile(lambda x: torch.relu(x + 1) * 2, backend="eager")
    x = made(16)
    expected, got = outcomes(lambda: compiled(x))
    assert torch.equal(expected, got)


# ---- Processes that are forked off -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(DEVICE != "cpu", reason="PyTorch does not use a GPU in a process that was forked off")
def test_a_forked_process_goes_on_without() -> None:
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
