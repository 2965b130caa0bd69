"""Arrays shared with PyTorch and CuPy on the CPU and on a GPU: shared memory both ways, errors, and order of a GPU's streams."""

import contextlib
import gc
import os
import re
import threading

import dwell
import numpy as np
import pytest
from conftest import Latch, Operators
from dlpack_support import Managed, ManagedVersioned, Producer, held_by

torch = pytest.importorskip("torch")

TYPES = ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]


def why_no_gpu():
    if os.environ.get("DWELL_TEST_DEVICE") == "cpu":
        return "DWELL_TEST_DEVICE is cpu"
    return "" if torch.cuda.is_available() else "PyTorch finds no GPU"


class Side:
    """A runtime and PyTorch on the same device."""

    def __init__(self, device):
        self.device = device
        self.on_gpu = device != "cpu"
        # All parts: otherwise the first use of one waits for running tasks, such as the latch of that test.
        self.rt = dwell.Runtime(device, workers=0 if self.on_gpu else 2, task_timeout=0, parts="all")
        self.ops = Operators(self.rt)

    def tensor(self, *shape, dtype="float32"):
        """Returns 0, 1, 2 ...; for bool, false and true in turn."""
        count = int(np.prod(shape))
        values = torch.arange(count) % 2 if dtype == "bool" else torch.arange(count)
        made = values.to(getattr(torch, dtype)).reshape(shape).to(self.device)
        self.finish()
        return made

    def finish(self):
        """Waits for PyTorch."""
        if self.on_gpu:
            torch.cuda.synchronize()

    def dlpack_device(self):
        return (2, 0) if self.on_gpu else (1, 0)


@pytest.fixture(scope="module", params=["cpu", "cuda:0"])
def side(request):
    if request.param != "cpu" and why_no_gpu():
        pytest.skip(why_no_gpu())
    made = Side(request.param)
    yield made
    gc.collect()
    made.rt.close()


@pytest.fixture
def gpu(side):
    if not side.on_gpu:
        pytest.skip("only on a GPU")
    return side


@contextlib.contextmanager
def held_up(side, y, value):
    """Yields the ticket of a task that sets y after a latch, released in 0.1 s. Allocate nothing meanwhile."""
    x = side.rt.array(np.full(y.size, value, "f4"))
    latch = Latch(side.rt, side.ops)
    latch.await_start()
    ticket = side.ops.axpy(1, x, y, after=latch.ticket)
    assert not ticket.done
    timer = threading.Timer(0.1, latch.release)
    timer.start()
    try:
        yield ticket
    finally:
        timer.join()
        ticket.wait()


def same(seen, expected):
    """Whether a dwell.Array or dwell.Buffer equals a tensor."""
    array = seen.astype("float64").numpy() if isinstance(seen, dwell.Array) else seen.read()
    return array.tolist() == expected.double().cpu().tolist()


class Interface:
    """Shares a tensor's memory by __cuda_array_interface__ alone, as CuPy and Numba do."""

    def __init__(self, tensor, *, typestr="<f4", readonly=False, **other):
        strides = tuple(stride * tensor.element_size() for stride in tensor.stride())
        self.tensor = tensor
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": tuple(tensor.shape),
            "typestr": typestr,
            "data": (tensor.data_ptr(), readonly),
            "strides": None if tensor.is_contiguous() else strides,
            **other,
        }


# ---- The same memory ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
def test_tensors_come_in_without_a_copy(side, dtype):
    x = side.tensor(4, 6, dtype=dtype)
    buffer = side.rt.wrap(x)
    assert (buffer.address, buffer.shape, buffer.nbytes) == (x.data_ptr(), (4, 6), x.nbytes)
    array = dwell.asarray(x, runtime=side.rt)
    assert array.__dlpack_device__() == side.dlpack_device()
    assert same(array, x)
    seen = torch.from_dlpack(array)
    assert (seen.data_ptr(), seen.dtype) == (x.data_ptr(), x.dtype)
    if dtype != "bool":
        expected = x * 3
        side.finish()
        array *= 3
        array.flush().wait()
        assert torch.equal(x, expected)


def test_views_come_in_without_a_copy(side):
    x = side.tensor(6, 8)
    for view in (x.T, x[::2, 1:7:2], x[1].expand(3, 8), x[2, 3], x[:0], x.as_strided((5, 6), (3, 1), 2)):
        array = dwell.asarray(view, runtime=side.rt)
        assert array.shape == tuple(view.shape)
        assert same(array * 2, view * 2)
    part = dwell.asarray(x.T[2:4], runtime=side.rt)
    part += 100
    part.flush().wait()
    assert x[:, 2:4].min() >= 102 and x[:, :2].max() < 50


def test_operators_take_tensors(side):
    x, y = side.tensor(1000), torch.ones(1000, device=side.device)
    side.ops.axpy(2, x, y).wait()
    assert torch.equal(y, side.tensor(1000) * 2 + 1)


@pytest.mark.parametrize("dtype", TYPES)
def test_buffers_go_out_without_a_copy(side, dtype):
    kind = "uint16" if dtype == "bfloat16" else dtype
    buffer = side.rt.array((np.arange(6) % 2).astype(kind).reshape(2, 3)).view(dtype)
    seen = torch.from_dlpack(buffer)
    assert (seen.data_ptr(), seen.dtype, str(seen.device)) == (buffer.address, getattr(torch, dtype), side.device)
    assert seen.shape == (2, 3) and seen.is_contiguous()
    seen.fill_(1)
    side.finish()
    assert same(dwell.asarray(buffer, runtime=side.rt), torch.ones(2, 3))


def test_arrays_go_out_with_their_strides(side):
    array = dwell.arange(24, dtype="float32", runtime=side.rt).reshape((4, 6)) * 2
    assert array.lazy
    whole = torch.from_dlpack(array)
    assert torch.equal(whole, side.tensor(4, 6) * 2)
    part = torch.from_dlpack(array.T[1::2, 1:])
    assert part.stride() == (2, 6) and part.data_ptr() == whole.data_ptr() + 4 * 7
    assert torch.equal(part, whole.T[1::2, 1:])


def test_memory_lives_as_long_as_its_last_user(side):
    x = side.tensor(5000)
    lent, address = side.rt.wrap(x), x.data_ptr()
    del x
    gc.collect()
    others = [torch.full((5000,), -1.0, device=side.device) for _ in range(4)]
    assert address not in [other.data_ptr() for other in others]
    assert same(lent, side.tensor(5000))
    seen = torch.from_dlpack(side.rt.array(np.arange(5000, dtype="f4")))
    gc.collect()
    others = [side.rt.array(np.full(5000, -1, "f4")) for _ in range(4)]
    assert seen.data_ptr() not in [other.address for other in others]
    assert torch.equal(seen, side.tensor(5000))


# ---- Capsules ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [None, (1, 0), (1, 1)])
def test_capsules_of_each_version_come_in(side, version):
    x = side.tensor(6)
    producer = Producer(x, version=version, device=side.dlpack_device(), shape=(2, 2), strides=(2, 1), offset=8)
    buffer = side.rt.wrap(producer)
    expected = {"stream": 1} if side.on_gpu else {}
    assert producer.asked[-1] == (expected if version is None else {**expected, "max_version": (1, 1)})
    assert buffer.address == x.data_ptr() + 8
    assert buffer.read().tolist() == [[2, 3], [4, 5]]


def test_capsules_of_each_version_go_out(side):
    buffer = side.rt.array(np.arange(6, dtype="i2").reshape(2, 3))
    for given, kind in (({}, Managed), ({"max_version": (0, 8)}, Managed), ({"max_version": (1, 0)}, ManagedVersioned)):
        capsule = buffer.__dlpack__(**given)
        held = held_by(capsule)
        assert isinstance(held, kind)
        tensor = held.tensor
        assert (tensor.device.type, tensor.device.id) == side.dlpack_device() == buffer.__dlpack_device__()
        assert (tensor.data, tensor.code, tensor.bits, tensor.lanes) == (buffer.address, 0, 16, 1)
        assert (tensor.ndim, tensor.shape[:2], tensor.strides[:2]) == (2, [2, 3], [3, 1])
        assert kind is Managed or (held.major, held.flags) == (1, 0)
        del capsule
    assert torch.from_dlpack(buffer.__dlpack__()).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_read_only_memory_stays_read_only(side):
    x = side.tensor(6)
    producer = Producer(x, device=side.dlpack_device(), flags=1)
    with pytest.raises(dwell.InvalidArgument, match=r"read-only"):
        side.rt.wrap(producer)
    with pytest.raises(dwell.InvalidArgument, match=r"argument 3 of operator 'axpy'.*read-only"):
        side.ops.axpy(1, x, producer)
    array = dwell.asarray(producer, runtime=side.rt)
    assert same(array + 1, x + 1)
    assert held_by(array.__dlpack__(max_version=(1, 0))).flags == 1
    with pytest.raises(BufferError, match=r"max_version"):
        array.__dlpack__()


# ---- Errors --------------------------------------------------------------------------------------------------------------------------


def refused(side, array, words):
    for take in (side.rt.wrap, lambda x: dwell.asarray(x, runtime=side.rt)):
        with pytest.raises(dwell.Error, match=words):
            take(array)


def test_arrays_elsewhere_are_refused(side):
    x = side.tensor(6)
    works = "the runtime works on cuda:0" if side.on_gpu else "the runtime works on the CPU"
    refused(side, Producer(x, device=(2, 7)), "on cuda:7.*" + works)
    refused(side, Producer(x, device=(8, 0)), "a device of DLPack's type 8.*" + works)
    if side.on_gpu:
        with pytest.raises(dwell.InvalidArgument, match=r"numpy.ndarray of float32.*on the CPU.*does not reach it"):
            side.rt.wrap(np.zeros(3, "f4"))
        with pytest.raises(dwell.InvalidArgument, match=r"argument 2 of operator 'axpy'.*torch.Tensor of .*on the CPU.*does not reach it"):
            side.ops.axpy(1, torch.zeros(6), x)
    else:
        refused(side, Interface(x), "Interface of float32.*on a CUDA device.*" + works)


def test_other_types_and_layouts_are_refused(side):
    x = side.tensor(4, 6)
    where = side.dlpack_device()
    refused(side, Producer(x, device=where, bits=8), r"DLPack type 2 of 8 bits.*no such element type")
    refused(side, Producer(x, device=where, version=(2, 0)), r"speaks DLPack 2, dwell speaks 1")
    refused(side, Producer(x, device=where, shape=(5,), offset=2), r"not aligned")
    with pytest.raises(dwell.InvalidArgument, match=r"does not let its memory be shared by DLPack: .*grad"):
        side.rt.wrap(x.clone().requires_grad_())
    with pytest.raises(dwell.InvalidArgument, match=r"float32, shape \(6, 4\), strided.*pass a copy"):
        side.rt.wrap(x.T)
    with pytest.raises(dwell.Error, match=r"argument 2 of operator 'axpy'.*float64"):
        side.ops.axpy(1, x.double(), x)


def test_exports_elsewhere_are_refused(side):
    buffer = side.rt.allocate(3)
    for given in ({"dl_device": (2, 5)}, {"copy": True}):
        with pytest.raises(BufferError):
            buffer.__dlpack__(**given)
    assert held_by(buffer.__dlpack__(dl_device=side.dlpack_device(), copy=False)).tensor.data == buffer.address


# ---- Order -------------------------------------------------------------------------------------------------------------------------


def test_consumers_see_what_tasks_have_computed(side):
    y = side.rt.array(np.zeros(1000, "f4"))
    with held_up(side, y, 2) as ticket:
        y.__dlpack__(stream=-1)  # -1: no synchronization
        assert not ticket.done
        seen = torch.from_dlpack(y)
        assert ticket.done
    assert (seen + 1).tolist() == [3] * 1000


CYCLES = 200_000_000  # of an idle kernel: some 100 ms


def late(stream, count=4096):
    """Returns a tensor of 0 that the stream sets to 3 after `CYCLES`, and the event that follows."""
    x = torch.zeros(count, device="cuda:0")
    torch.cuda.synchronize()
    done = torch.cuda.Event()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(CYCLES)
        x.fill_(3)
        done.record()
    return x, done


@pytest.mark.parametrize("take", ["wrap", "asarray", "argument"])
def test_tasks_come_behind_the_stream_that_a_tensor_is_lent_on(gpu, take):
    stream = torch.cuda.Stream()
    result = gpu.rt.array(np.zeros(4096, "f4"))
    x, done = late(stream)
    assert not done.query(), "the kernel is over too soon to tell an order"
    with torch.cuda.stream(stream):
        if take == "wrap":
            gpu.ops.axpy(1, gpu.rt.wrap(x), result).wait()
        elif take == "asarray":
            result.write((dwell.asarray(x, runtime=gpu.rt) * 1).numpy())
        else:
            gpu.ops.axpy(1, x, result).wait()
    assert set(result.read()) == {3}


def test_tasks_come_behind_the_stream_that_an_interface_names(gpu):
    stream = torch.cuda.Stream()
    result = gpu.rt.array(np.zeros(4096, "f4"))
    x, done = late(stream)
    assert not done.query(), "the kernel is over too soon to tell an order"
    gpu.rt.wrap(Interface(x, stream=None))
    assert not done.query(), "nobody has asked for an order"
    gpu.ops.axpy(1, Interface(x, stream=stream.cuda_stream), result).wait()
    assert done.query()
    assert set(result.read()) == {3}
    x, _ = late(torch.cuda.default_stream())
    gpu.ops.axpy(1, Interface(x, stream=1), result).wait()
    assert set(result.read()) == {6}


def test_streams_see_what_tasks_have_computed(gpu):
    y = gpu.rt.array(np.zeros(4096, "f4"))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # warm up: PyTorch's allocations and kernels would wait for the running task
        torch.equal(torch.ones(4096, device="cuda") * 2, torch.full((4096,), 4.0, device="cuda"))
    torch.cuda.synchronize()
    with held_up(gpu, y, 2) as ticket, torch.cuda.stream(stream):
        seen = torch.from_dlpack(y)
        assert ticket.done
        doubled = seen * 2
    torch.cuda.synchronize()
    assert torch.equal(doubled, torch.full_like(doubled, 4))


# ---- __cuda_array_interface__, CuPy ----------------------------------------------------------------------------------------------


def test_interfaces_come_in_without_a_copy(gpu):
    x = gpu.tensor(4, 6)
    buffer = gpu.rt.wrap(Interface(x))
    assert (buffer.address, buffer.shape) == (x.data_ptr(), (4, 6))
    assert same(buffer, x)
    assert same(dwell.asarray(Interface(x.T[::2]), runtime=gpu.rt) + 1, x.T[::2] + 1)
    read_only = dwell.asarray(Interface(x, readonly=True), runtime=gpu.rt)
    assert same(read_only, x)
    assert held_by(read_only.__dlpack__(max_version=(1, 0))).flags == 1
    refused(gpu, Interface(x, typestr="|V4"), r"no such element type")
    with pytest.raises(dwell.InvalidArgument, match=r"read-only"):
        gpu.rt.wrap(Interface(x, readonly=True))
    with pytest.raises(dwell.InvalidArgument, match=re.escape("shape (6, 4), strided")):
        gpu.rt.wrap(Interface(x.T))


@pytest.mark.parametrize("dtype", TYPES)
def test_interfaces_go_out_without_a_copy(gpu, dtype):
    buffer = gpu.rt.allocate((2, 3), dtype)
    if dtype == "bfloat16":
        assert not hasattr(buffer, "__cuda_array_interface__")
        return
    interface = buffer.__cuda_array_interface__
    assert interface["data"] == (buffer.address, False)
    assert (interface["version"], interface["shape"], interface["strides"], interface["stream"]) == (3, (2, 3), None, None)

    class Bare:  # without DLPack, which PyTorch might prefer
        __cuda_array_interface__ = interface

    seen = torch.as_tensor(Bare(), device="cuda:0")
    assert (seen.data_ptr(), seen.dtype, seen.shape) == (buffer.address, getattr(torch, dtype), (2, 3))


def test_interfaces_wait_for_tasks(gpu):
    y = gpu.rt.array(np.zeros(1000, "f4"))
    with held_up(gpu, y, 2) as ticket:
        assert y.__cuda_array_interface__["data"][0] == y.address
        assert ticket.done


def test_cupy(gpu):
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    x = cupy.arange(24, dtype="f4").reshape(4, 6)
    buffer = gpu.rt.wrap(x)
    assert buffer.address == x.data.ptr
    assert buffer.read().tolist() == x.get().tolist()
    assert (dwell.asarray(x.T, runtime=gpu.rt) * 2).numpy().tolist() == (x.get().T * 2).tolist()
    for seen in (cupy.asarray(buffer), cupy.from_dlpack(buffer)):
        assert seen.data.ptr == buffer.address
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    result = gpu.rt.array(np.zeros((4, 6), "f4"))
    with stream:
        y = x * 0
        for _ in range(200):
            y += 1
        gpu.ops.axpy(1, y, result).wait()
    assert set(result.read().ravel()) == {200}
