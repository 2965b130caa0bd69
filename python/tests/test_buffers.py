"""Memory: buffers, and memory shared with other libraries."""

import gc
import struct
import sys
import weakref

import dwell
import numpy as np
import pytest
from dlpack_support import Managed, ManagedVersioned, Producer, held_by

TYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "complex64"]
TYPES += ["complex128"]


@pytest.mark.parametrize("dtype", TYPES)
def test_round_trips(rt, dtype):
    before = (np.arange(24) % 3).astype(dtype).reshape(2, 3, 4)
    buffer = rt.array(before)
    assert (buffer.shape, buffer.size, buffer.nbytes, len(buffer)) == ((2, 3, 4), 24, before.nbytes, 2)
    after = buffer.read()
    assert after.dtype == before.dtype
    assert np.array_equal(before, after)
    assert buffer.tobytes() == before.tobytes()
    into = np.zeros_like(before)
    buffer.readinto(into)
    assert np.array_equal(before, into)
    assert dtype in repr(buffer) and "(2, 3, 4)" in repr(buffer)
    host = rt.array(before, memory="host")
    assert host.memory == "host"
    assert np.array_equal(host.numpy(), before)


def test_what_array_takes(rt):
    assert rt.array([1, 2.5]).read().tolist() == [1, 2.5]
    assert rt.array([[1, 2], [3, 4]], "float32").dtype == dwell.ElementType.f32
    assert rt.array(7, "int32").shape in ((), (1,))
    strided = np.arange(12)[::3]
    assert rt.array(strided).read().tolist() == [0, 3, 6, 9]
    assert rt.array(np.arange(3, dtype=">i4")).read().tolist() == [0, 1, 2]
    assert rt.array(np.arange(3), "float64").read().tolist() == [0, 1, 2]
    with pytest.raises(dwell.SignatureMismatch, match=r"no such element type"):
        rt.array(["a"])
    with pytest.raises(dwell.InvalidArgument, match=r"'i8' is no element type"):
        rt.array([1], "i8")  # eight bytes for NumPy, one for dwell
    for dtype in (np.float32, np.dtype("float32"), dwell.ElementType.f32, "float32"):
        assert rt.allocate(1, dtype).dtype == dwell.ElementType.f32
    assert [rt.allocate(1, t).nbytes for t in (float, int, bool, complex)] == [8, 8, 1, 16]


def test_shapes(rt):
    buffer = rt.allocate((3, 4), "int32")
    buffer.write(np.arange(12, dtype="i4"))
    assert buffer[1:].shape == (2, 4)
    assert buffer[1:3].read().tolist() == [[4, 5, 6, 7], [8, 9, 10, 11]]
    assert buffer[-1:].read().tolist() == [[8, 9, 10, 11]]
    assert buffer[5:].size == 0
    assert buffer.reshape(12).read().tolist() == list(range(12))
    assert buffer.view("uint8").size == 48
    buffer[1:2].write([[9, 9, 9, 9]])
    assert buffer.read().tolist() == [[0, 1, 2, 3], [9, 9, 9, 9], [8, 9, 10, 11]]
    with pytest.raises(dwell.InvalidArgument, match=r"step of 1"):
        buffer[::2]
    with pytest.raises(dwell.InvalidArgument, match=r"shape \(5,\)"):
        buffer.reshape(5)
    with pytest.raises(dwell.InvalidArgument, match=r"whole number"):
        rt.allocate(3, "uint8").view("float32")
    with pytest.raises(dwell.InvalidArgument, match=r"negative"):
        rt.allocate(-1)
    with pytest.raises(MemoryError):
        rt.allocate((2**40, 2**40))


def test_writes_are_checked(rt):
    buffer = rt.allocate(3)
    with pytest.raises(dwell.InvalidArgument, match=r"float64.*elements of float32 are needed"):
        buffer.write(np.zeros(3))
    with pytest.raises(dwell.InvalidArgument, match=r"3 elements are needed"):
        buffer.write(np.zeros(4, "f4"))
    with pytest.raises(dwell.InvalidArgument, match=r"read-only"):
        x = np.zeros(3, "f4")
        x.flags.writeable = False
        buffer.readinto(x)
    buffer.write(struct.pack("3f", 1, 2, 3))
    assert buffer.read().tolist() == [1, 2, 3]


def test_reads_come_after_tasks(rt, ops):
    x, y = rt.array(np.ones(100_000, "f4")), rt.array(np.zeros(100_000, "f4"))
    for _ in range(50):
        ops.axpy(1, x, y, link=True)
    assert set(y.read()) == {50}
    for _ in range(50):
        ops.axpy(1, x, y, link=True)
    y.wait()
    if rt.device == "cpu":
        assert set(y.numpy()) == {100}


def test_views_outlive_buffer_and_runtime():
    with dwell.Runtime("cpu", workers=1) as rt:
        own = rt.array(np.arange(1000, dtype="f4")).numpy()
        parts = np.from_dlpack(rt.array(np.arange(1000, dtype="f4"))[10:20])
        view = memoryview(rt.array(np.arange(1000, dtype="f4")))
        lent = np.arange(1000, dtype="f4")
        wrapped = rt.wrap(lent).numpy()
        del lent
        kept = rt.array([1.0])
    del rt
    gc.collect()
    noise = [np.full(1000, -1, "f4") for _ in range(100)]
    assert own.sum() == 499500 and wrapped.sum() == 499500 and parts.tolist() == list(range(10, 20)) and view[999] == 999
    with pytest.raises(dwell.StaleHandle):
        kept.read()
    with pytest.raises(dwell.StaleHandle):
        kept.numpy()
    del noise


def test_wrap(rt, ops, cpu):
    x = np.zeros((2, 2), "f4")
    gone = weakref.ref(x)
    buffer = rt.wrap(x)
    assert buffer.address == x.ctypes.data and buffer.shape == (2, 2)
    ops.axpy(3, rt.array(np.ones(4, "f4")), buffer).wait()
    assert x.tolist() == [[3, 3], [3, 3]]
    del x
    assert gone() is not None
    assert buffer.read().tolist() == [[3, 3], [3, 3]]
    del buffer
    for _ in range(1000):
        if gone() is None:
            break
        rt.allocate(1)
        __import__("time").sleep(0.001)
    assert gone() is None
    with pytest.raises(dwell.SignatureMismatch, match=r"an array is needed"):
        rt.wrap(5)
    with pytest.raises(dwell.InvalidArgument, match=r"strided"):
        rt.wrap(np.zeros(4)[::2])


def test_the_buffer_protocol(rt, cpu):
    buffer = rt.array(np.arange(6, dtype="i2").reshape(2, 3))
    view = memoryview(buffer)
    assert (view.shape, view.format, view.itemsize, view.readonly) == ((2, 3), "h", 2, False)
    assert view.tolist() == [[0, 1, 2], [3, 4, 5]]
    view[1, 2] = 50
    assert np.asarray(buffer)[1, 2] == 50
    assert np.array(buffer, dtype="f8").dtype == np.float64
    assert bytes(buffer) == buffer.tobytes()


def test_bfloat16(rt, cpu):
    buffer = rt.allocate(2, "bfloat16")
    buffer.write(np.array([0x3F80, 0x4000], "u2"))
    op = rt.define(
        "double_it",
        "DWELL_OPERATOR(double_it)(dwell::Group g, dwell::Span<dwell::bfloat16> x) { for (auto i : g.range(x.size())) x[i] = x[i] * 2; }",
    )
    op(buffer).wait()
    ml_dtypes = sys.modules.get("ml_dtypes")
    assert buffer.read().view("u2").tolist() == [0x4000, 0x4080]
    if ml_dtypes is None:
        ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([1, 2], ml_dtypes.bfloat16)
    op(x).wait()
    assert x.astype("f4").tolist() == [2, 4]


# ---- DLPack --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [None, (1, 0), (1, 1)])
def test_dlpack_in(rt, ops, cpu, version):
    memory = np.arange(6, dtype="f4")
    x = Producer(memory, version=version, shape=(2, 2), strides=(2, 1), offset=8)
    buffer = rt.wrap(x)
    assert x.asked[-1] == ({} if version is None else {"max_version": (1, 1)})
    assert buffer.shape == (2, 2)
    assert buffer.read().tolist() == [[2, 3], [4, 5]]
    ops.axpy(1, x, buffer).wait()
    assert memory.tolist() == [0, 1, 4, 6, 8, 10]
    assert x.deleted <= 1
    del buffer
    for _ in range(1000):
        if x.deleted == 2:
            break
        rt.allocate(1)
        __import__("time").sleep(0.001)
    assert x.deleted == 2


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"version": (2, 0)}, "speaks DLPack 2"),
        ({"strides": (2,), "shape": (3,)}, "strided"),
        ({"code": 2, "bits": 8}, "DLPack type 2 of 8 bits"),
        ({"device": (2, 0)}, "on cuda:0: the runtime works on the CPU"),
        ({"device": (10, 3)}, "a device of DLPack's type 10"),
        ({"flags": 1}, "read-only"),
        ({"flags": 2}, "read-only"),
        ({"offset": 2, "shape": (2,)}, "not aligned"),
        ({"offset": 2**64 - 4, "shape": (2,)}, "which is no address"),
        ({"shape": (-1,)}, "the size -1"),
        ({"shape": (2**61, 8)}, "more bytes than there are addresses"),
        ({"shape": (0, 2**62, 2**62)}, "more bytes than there are addresses"),
    ],
)
def test_dlpack_that_does_not_fit(rt, cpu, how, words):
    memory = np.arange(6, dtype="f4")
    with pytest.raises(dwell.Error, match=r"argument 1 of Runtime.wrap: .*" + words):
        rt.wrap(Producer(memory, **how))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"typestr": "<f0"}, "has the type '<f0'"),
        ({"typestr": "<f"}, "has the type '<f'"),
        ({"typestr": "<f4x"}, "has the type '<f4x'"),
        ({"typestr": "<f99999999999999999999999"}, "has the type"),
        ({"typestr": "<f18446744073709551612"}, "has the type"),
        ({"shape": (2**62, 4)}, "more bytes than there are addresses"),
        ({"shape": (0, 2**62, 2**62)}, "more bytes than there are addresses"),
        ({"shape": (2, 3), "strides": (4,)}, "1 strides"),
    ],
)
def test_array_interfaces_that_do_not_fit(rt, cpu, how, words):
    class Array:
        memory = np.arange(6, dtype="f4")
        __array_interface__ = {"version": 3, "shape": (6,), "typestr": "<f4", "data": (memory.ctypes.data, False), **how}  # noqa: RUF012

    with pytest.raises(dwell.InvalidArgument, match=words):
        rt.wrap(Array())


def test_strides_that_leave_all_memory(rt, cpu):
    memory = np.arange(6, dtype="f4")
    far = 2**62  # elements of 4 bytes: 2^64 bytes
    for strides in [(far, 1), (-far, 1), (far - 3, 3 - far), (-(2**63), 2**63 - 1)]:
        with pytest.raises(dwell.Error, match=r"beyond|strided|cannot be used"):
            dwell.asarray(Producer(memory, shape=(2, 3), strides=strides), runtime=rt)


def test_shapes_beyond_all_memory(rt):
    for shape in [(2**32, 2**32), (2**62, 4), (0, 2**40, 2**40)]:
        with pytest.raises(dwell.InvalidArgument, match=r"is none of 0 elements"):
            rt.allocate(0).reshape(shape)
        with pytest.raises(dwell.OutOfMemory, match=r"fits into no memory"):
            rt.allocate(shape)
    x = dwell.asarray(rt.allocate(4), runtime=rt)
    for shape in [(2**62, 4, -1), (2**32, 2**32, -1), (-1, -4)]:
        with pytest.raises(dwell.InvalidArgument, match=r"is none of 4 elements"):
            dwell.reshape(x, shape)
    for shape in [(2**62, 2, 4), (2**31, 2**31, 4)]:
        with pytest.raises(dwell.Error, match=r"2\^63 elements|no memory|2\^31"):
            dwell.broadcast_to(x, shape).numpy()
    assert x[:: 2**62].tolist() == x[:1].tolist()


def test_dlpack_that_raises(rt, cpu):
    class Refusing:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **how):
            raise BufferError("it requires grad")

    with pytest.raises(dwell.InvalidArgument, match=r"does not let its memory be shared by DLPack: it requires grad"):
        rt.wrap(Refusing())


@pytest.mark.parametrize("dtype", [t for t in TYPES if not t.startswith("bool")])
def test_dlpack_out(rt, cpu, dtype):
    buffer = rt.array(np.arange(6).astype(dtype).reshape(2, 3))
    seen = np.from_dlpack(buffer)
    assert seen.dtype == dtype and seen.shape == (2, 3) and seen.ctypes.data == buffer.address
    assert seen.tolist() == buffer.read().tolist()
    assert buffer.__dlpack_device__() == (1, 0)
    for how, kind in (({}, Managed), ({"max_version": (1, 0)}, ManagedVersioned)):
        capsule = buffer.__dlpack__(**how)
        held = held_by(capsule)
        assert isinstance(held, kind)
        assert (held.tensor.ndim, held.tensor.shape[:2], held.tensor.strides[:2]) == (2, [2, 3], [3, 1])
        assert kind is Managed or (held.major, held.flags) == (1, 0)
        del capsule
    with pytest.raises(BufferError):
        buffer.__dlpack__(copy=True)
    with pytest.raises(BufferError):
        buffer.__dlpack__(dl_device=(2, 0))
    assert not hasattr(buffer, "__cuda_array_interface__")


def test_dlpack_out_waits_for_tasks(rt, ops, latch, cpu):
    latch.await_start()
    x, y = rt.array(np.ones(3, "f4")), rt.array(np.zeros(3, "f4"))
    ticket = ops.axpy(2, x, y, after=latch.ticket)
    y.__dlpack__(stream=-1)  # -1: no synchronization
    assert not ticket.done
    __import__("threading").Timer(0.1, latch.release).start()
    assert np.from_dlpack(y).tolist() == [2, 2, 2]


def test_cuda_arrays_are_refused_on_the_cpu(rt, ops, cpu):
    class OnCuda:
        __cuda_array_interface__ = {"version": 3, "shape": (3,), "typestr": "<f4", "data": (4096, False), "strides": None, "stream": 1}  # noqa: RUF012

    words = r"argument 2 of operator 'axpy'.*OnCuda of float32.*on a CUDA device.*works on the CPU"
    with pytest.raises(dwell.InvalidArgument, match=words):
        ops.axpy(1, OnCuda(), rt.allocate(3))
    with pytest.raises(dwell.InvalidArgument, match=r"on a CUDA device"):
        rt.allocate(3).write(OnCuda())


def test_pytorch(rt, ops, cpu):
    torch = pytest.importorskip("torch")
    x, y = torch.arange(4, dtype=torch.float32), torch.ones(4)
    ops.axpy(2, x, y).wait()
    assert y.tolist() == [1, 3, 5, 7]
    buffer = rt.wrap(y)
    assert torch.from_dlpack(buffer).data_ptr() == y.data_ptr()
    shared = torch.from_dlpack(rt.array(np.arange(3, dtype="f4")))
    shared += 1
    assert shared.tolist() == [1, 2, 3]
    brain = torch.ones(3, dtype=torch.bfloat16)
    assert rt.wrap(brain).dtype == dwell.ElementType.bf16
    assert rt.allocate(2, torch.float16).dtype == dwell.ElementType.f16
    with pytest.raises(dwell.InvalidArgument, match=r"requires? grad"):
        ops.axpy(1, torch.ones(3, requires_grad=True), y)
    with pytest.raises(dwell.InvalidArgument, match=r"strided"):
        ops.axpy(1, torch.ones(4, 4)[:, 0], y)
