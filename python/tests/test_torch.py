"""dwell.torch: order, sync points, hazards and memory, PyTorch's modes."""

import copy
import ctypes
import gc
import io
import os
import pickle
import re
import time
from typing import Any

import pytest
from torch_support import DEVICE, dt, made, outcome, outcomes, taken, torch


def added(x: "torch.Tensor") -> "torch.Tensor":
    """Returns x + 1, still pending."""
    before = taken()
    result = x + 1
    assert taken() == before + 1
    return result


# ---- Sync points -----------------------------------------------------------------------------------------------------------------------

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
    "tensor of tensors": lambda x: torch.tensor([x[0], [x[1] * 2][0]]).tolist(),
    "as_tensor of tensors": lambda x: torch.as_tensor([[x[0]], [x[1]]]).tolist(),
    "new_tensor of tensors": lambda x: x.new_tensor([x[0] * 2, 1.0]).tolist(),
    "sparse": lambda x: torch.sparse_coo_tensor(x.long().clamp(0, 3).view(1, 8), x, (4,)).to_dense().tolist(),
    "storage": lambda x: list(x.cpu().untyped_storage()),
}


@pytest.mark.parametrize("name", LOOKS)
def test_sync_points_see_the_result(name: str) -> None:
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


def address_in(capsule: object) -> int:
    """Returns the data pointer of a DLPack capsule: the first field."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.c_void_p.from_address(pointer(capsule, b"dltensor")).value or 0


ADDRESSES = {
    "data_ptr": lambda x: x.data_ptr(),
    "storage": lambda x: x.untyped_storage().data_ptr(),
    "to_dlpack": lambda x: address_in(torch.utils.dlpack.to_dlpack(x)),
    "__dlpack__": lambda x: address_in(x.__dlpack__()),
    "__array_interface__": lambda x: x.__array__().__array_interface__["data"][0],
}


@pytest.mark.skipif(DEVICE != "cpu", reason="memory of the host")
@pytest.mark.parametrize("name", ADDRESSES)
def test_addresses_lead_to_the_result(name: str) -> None:
    """Reads memory past PyTorch, which would run pending operations."""
    x = made(8)
    with dt.eager():
        y = added(x)
        assert list((ctypes.c_float * 8).from_address(ADDRESSES[name](y))) == (x + 1).tolist()


def test_a_file_holds_the_result() -> None:
    x = made(8)
    file = io.BytesIO()
    with dt.eager():
        torch.save(added(x), file)
    file.seek(0)
    assert torch.equal(torch.load(file), x + 1)


def test_memory_from_numpy_is_read_at_the_call() -> None:
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
def test_products_are_written_to_out(name: str) -> None:
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


def test_products_that_do_not_fit_out_are_pytorchs() -> None:
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
    "difference": lambda x: (x > 1) - 1,
    "factor": lambda x: x.long().add(x.long(), alpha=1.5),
    "division by 0": lambda x: x.long() // 0,
    "division by a tensor": lambda x: x.long() % (x > 9).long(),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_pytorchs(name: str) -> None:
    x = made(16)
    expected, got = outcomes(lambda: WRONG[name](x))
    if name.startswith("division") and DEVICE != "cpu":
        assert torch.equal(got, expected)  # kernels on a GPU do not check for 0
        return
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


def test_unused_results_are_not_computed() -> None:
    x = made(64)

    def tasks() -> int:
        """Counts tasks, except one for each idle flush: that computes all results alive at that moment."""
        stats = dt.stats()
        return stats["tasks"] - stats["flushed"]["idle"]

    with dt.eager():
        x.add_(1)
    before = tasks()
    with dt.eager():
        for _ in range(100):
            (x + 1).relu()
    assert tasks() <= before
    with dt.eager():
        y = x
        for _ in range(200):
            y = y * 0.5 + x
    assert tasks() <= before + 10
    expected = x.clone()
    for _ in range(200):
        expected = expected * 0.5 + x
    torch.testing.assert_close(y, expected)


def test_dropped_results_remain_for_their_users() -> None:
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
def test_memory_of_numpy_is_written_after_its_tensor_is_dropped() -> None:
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
        """Lists the files of all descriptors, except operators': programs that run often become operators."""
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

    work(170_000)  # opens the lasting descriptors
    gc.collect()
    files = descriptors()
    # A million operations a round. Compiling frequent programs keeps memory too, but only in the first rounds.
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
        time.sleep(0.1)  # the compiler of an operator may still run
    left = descriptors()
    assert len(left) <= len(files), (files, left)


# ---- PyTorch's modes -------------------------------------------------------------------------------------------------------------------


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
    before = taken()
    with dt.eager():
        batched = torch.vmap(lambda row: (row * 2).sum())(made(3, 5))
        slope = torch.func.grad(lambda v: (v * v).sum())(made(5))
        turned = torch.func.jvp(lambda v: v.sin(), (made(5),), (torch.ones(5, device=DEVICE),))[1]
    assert taken() > before
    torch.testing.assert_close(batched, (made(3, 5) * 2).sum(1))
    torch.testing.assert_close(slope, made(5) * 2)
    torch.testing.assert_close(turned, made(5).cos())


def test_autocast_chooses_the_types() -> None:
    weights = made(16, 8).requires_grad_()

    def layers() -> tuple[Any, ...]:
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            products = torch.nn.functional.linear(made(4, 8), weights)
            rows = products.relu().softmax(-1)
            loss = torch.nn.functional.mse_loss(rows, rows.detach() * 0.5)
        return products, rows, loss, *torch.autograd.grad(loss, weights)

    before = taken()
    expected, got = outcomes(layers)
    assert taken() >= before + 5
    for x, y in zip(expected, got, strict=True):
        assert y.dtype == x.dtype
        torch.testing.assert_close(y, x)
    assert (got[0].dtype, got[2].dtype) == (torch.bfloat16, torch.float32)


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


def test_views_that_are_negative_by_a_bit_keep_their_sign() -> None:
    x = made(4)
    expected = torch.complex(x, x).conj().imag.clone()
    with dt.eager():
        view = torch.complex(x, x).conj().imag
        assert view.is_neg()
        results = [view.clone(), torch.empty_like(x).copy_(view), view + 0.0, view.relu() - view.abs()]
    for result in results:
        assert torch.equal(result, expected)
    with dt.eager():
        view = torch.complex(x, x).conj().imag
        view.copy_(x)
        view.neg_()
    assert torch.equal(view, -x)
