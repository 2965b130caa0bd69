"""Arguments that operators take, and the messages for those they refuse."""

import array
import ctypes
import struct
import sys
import weakref

import dwell
import numpy as np
import pytest

SCALARS = """
DWELL_OPERATOR(scalars)(dwell::Group g, bool yes, bool no, dwell::i8 i8, dwell::u8 u8, dwell::i16 i16, dwell::u16 u16, dwell::i32 i32,
                        dwell::u32 u32, dwell::i64 i64, dwell::u64 u64, dwell::half h, dwell::bfloat16 b, float f, double d,
                        dwell::complex<float> c, dwell::complex<double> z, dwell::Span<double> out) {
  if (g.rank() != 0) return;
  const double all[] = {yes ? 1.0 : 0.0, no ? 1.0 : 0.0, double(i8), double(u8), double(i16), double(u16), double(i32), double(u32),
                        double(i64 >> 20), double(u64 >> 20), double(float(h)), double(float(b)), double(f), d, double(c.real),
                        double(c.imag), z.real, z.imag};
  for (int i = 0; i < 18; ++i) out[i] = all[i];
}"""


@pytest.fixture(scope="module")
def scalars(rt):
    return rt.define("scalars", SCALARS)


LIMITS = [True, False, -128, 255, -32768, 65535, -(2**31), 2**32 - 1, -(2**63), 2**64 - 1, 0.1, 0.1, 0.1, 0.1, 1 + 2j, 3 - 4j]


def test_every_kind_of_number_arrives(rt, scalars):
    out = rt.allocate(18, "float64")
    scalars(*LIMITS, out).wait()
    half, brain, single = float(np.float16(0.1)), 0.10009765625, float(np.float32(0.1))
    expected = [1, 0, -128, 255, -32768, 65535, -(2**31), 2**32 - 1, -(2**43), 2**44 - 1, half, brain, single, 0.1, 1, 2, 3, -4]
    assert out.read().tolist() == expected


def test_numbers_of_numpy_arrive(rt, scalars):
    out = rt.allocate(18, "float64")
    numbers = [np.True_, np.False_, np.int8(1), np.uint8(2), np.int16(3), np.uint16(4), np.int32(5), np.uint32(6), np.int64(7 << 20)]
    numbers += [np.uint64(8 << 20), np.float16(9), np.float32(10), np.float32(11), np.float64(12), np.complex64(13 + 14j), 15]
    scalars(*numbers, out).wait()
    assert out.read().tolist() == [1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0]


@pytest.mark.parametrize(
    ("at", "value", "error", "words"),
    [
        (0, 1, dwell.SignatureMismatch, "argument 1 of operator 'scalars' is bool: int does not fit"),
        (2, 128, dwell.InvalidArgument, "argument 3 of operator 'scalars' is i8, and cannot hold 128"),
        (2, -129, dwell.InvalidArgument, "cannot hold -129"),
        (3, -1, dwell.InvalidArgument, "argument 4 of operator 'scalars' is u8, and cannot hold -1"),
        (3, 256, dwell.InvalidArgument, "cannot hold 256"),
        (8, 2**63, dwell.InvalidArgument, "cannot hold 9223372036854775808"),
        (9, 2**64, dwell.InvalidArgument, "is u64, and cannot hold"),
        (6, 1.0, dwell.SignatureMismatch, "is i32: float does not fit; an int fits"),
        (12, "1", dwell.SignatureMismatch, "is float: str does not fit"),
        (12, np.ones(1), dwell.SignatureMismatch, "is float: ndarray does not fit"),
        (12, 1j, dwell.SignatureMismatch, "is float: complex does not fit"),
        (14, None, dwell.SignatureMismatch, "is complex64: NoneType does not fit|complex<float>: NoneType does not fit"),
    ],
)
def test_numbers_that_do_not_fit_are_named(rt, scalars, at, value, error, words):
    out = rt.allocate(18, "float64")
    arguments = [*LIMITS, out]
    arguments[at] = value
    with pytest.raises(error, match=words):
        scalars(*arguments)


def test_the_number_of_arguments_is_checked(ops):
    with pytest.raises(dwell.SignatureMismatch, match=r"'axpy' takes 3 arguments, \(float, .*\); 1 was given") as caught:
        ops.axpy(1.0)
    assert isinstance(caught.value, TypeError)
    assert (caught.value.what, caught.value.which, caught.value.value, caught.value.limit) == ("operator", "axpy", 1, 3)


def test_structs_are_bytes_of_their_size(rt):
    op = rt.define(
        "mixed",
        """
struct Mixed { char a; double b; dwell::u16 c[3]; bool d; };
DWELL_OPERATOR(mixed)(dwell::Group g, Mixed m, dwell::Span<double> out) {
  if (g.rank() == 0) out[0] = m.a + m.b + m.c[0] + m.c[1] + m.c[2] + (m.d ? 200 : 0);
}""",
    )

    class Mixed(ctypes.Structure):
        _fields_ = [("a", ctypes.c_char), ("b", ctypes.c_double), ("c", ctypes.c_uint16 * 3), ("d", ctypes.c_bool)]

    out = rt.allocate(1, "float64")
    packed = struct.pack("@cd3H?0d", b"a", 0.5, 1, 20, 300, True)
    of_numpy = np.zeros((), np.dtype([("a", "S1"), ("b", "f8"), ("c", "u2", 3), ("d", "?")], align=True))
    of_numpy[()] = (b"a", 0.5, (1, 20, 300), True)
    for value in (packed, bytearray(packed), Mixed(b"a", 0.5, (1, 20, 300), True), of_numpy):
        out.write([0])
        op(value, out).wait()
        assert out.read()[0] == 97 + 0.5 + 321 + 200
    with pytest.raises(dwell.SignatureMismatch, match=r"it has 3 bytes, 24 are needed"):
        op(b"abc", out)
    with pytest.raises(dwell.SignatureMismatch, match=r"float does not fit"):
        op(1.0, out)


def test_spans_of_structs_take_structured_arrays_and_bytes(rt, cpu):
    op = rt.define(
        "triples",
        """
struct Triple { dwell::u32 a, b, c; };
DWELL_OPERATOR(triples)(dwell::Group g, dwell::Span<Triple> x) { for (auto i : g.range(x.size())) x[i].b += x[i].a * x[i].c; }""",
    )
    triples = np.array([(1, 2, 3), (4, 5, 6)], [("a", "u4"), ("b", "u4"), ("c", "u4")])
    op(triples).wait()
    assert triples["b"].tolist() == [5, 29]
    flat = rt.array(triples.view("u4").view("u1"))
    op(flat).wait()
    assert flat.view("uint32").read()[1::3].tolist() == [8, 53]
    with pytest.raises(dwell.SignatureMismatch, match=r"uint8"):
        op(rt.allocate(13, "uint8"))


TYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "complex64"]
TYPES += ["complex128"]
IN_CPP = {"float16": "dwell::half", "float32": "float", "float64": "double", "bool": "bool", "complex64": "dwell::complex<float>"}
IN_CPP["complex128"] = "dwell::complex<double>"
IN_CPP |= {f"{u}int{n}": f"dwell::{u or 'i'}{n}" for u in ("", "u") for n in (8, 16, 32, 64)}


def test_every_element_type_arrives_and_no_other_fits(rt):
    names = ", ".join(f"dwell::Span<{IN_CPP[t]}> a{i}" for i, t in enumerate(TYPES))
    body = "".join(f"for (auto i : g.range(a{i}.size() / 2)) a{i}[i] = a{i}[a{i}.size() - 1 - i];" for i in range(len(TYPES)))
    op = rt.define("mirror", f"DWELL_OPERATOR(mirror)(dwell::Group g, {names}) {{ {body} }}")
    arrays = [np.arange(6).astype(t) for t in TYPES]
    buffers = [rt.array(one) for one in arrays]
    op(*buffers).wait()
    for before, after in zip(arrays, buffers, strict=True):
        assert after.read().dtype == before.dtype
        assert after.read().tolist() == [*before[3:][::-1], *before[3:]]
    for i, t in enumerate(TYPES):
        for j, other in enumerate(TYPES):
            if i != j and not (t == "uint16" and other == "float16"):
                with pytest.raises(dwell.SignatureMismatch, match=f"argument {i + 1} of operator 'mirror'"):
                    op(*buffers[:i], buffers[j], *buffers[i + 1 :])


def test_arrays_are_used_in_place(ops, cpu):
    x, y = np.arange(6, dtype="f4").reshape(2, 3), np.ones((2, 3), "f4")
    ops.axpy(2, x, y).wait()
    assert y.tolist() == [[1, 3, 5], [7, 9, 11]]
    plain = array.array("f", [1, 2, 3])
    ops.axpy(1, plain, plain).wait()
    assert plain.tolist() == [2, 4, 6]
    raw = memoryview(bytearray(struct.pack("3f", 1, 2, 3))).cast("f")
    ops.axpy(1, raw, raw).wait()
    assert raw.tolist() == [2, 4, 6]


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (np.arange(6, dtype="f4")[::2], dwell.InvalidArgument, r"numpy.ndarray of float32, shape \(3,\), strided.*ascontiguousarray"),
        (np.arange(6, dtype="f4").reshape(2, 3).T, dwell.InvalidArgument, r"shape \(3, 2\), strided"),
        (np.arange(3, dtype=">f4"), dwell.InvalidArgument, "other (byte )?order.*pass a copy"),
        (np.frombuffer(bytes(13), "u1")[1:].view("f4"), dwell.InvalidArgument, "not aligned to 4 bytes"),
        (np.arange(3), dwell.SignatureMismatch, "int64"),
        (np.array(["a"]), dwell.SignatureMismatch, "does not fit"),
        (np.array([None]), dwell.SignatureMismatch, "does not fit"),
        ([1.0, 2.0], dwell.SignatureMismatch, "is Span<const float>: list does not fit; a dwell.Buffer"),
        (2.0, dwell.SignatureMismatch, "float does not fit"),
        (None, dwell.SignatureMismatch, "NoneType does not fit"),
    ],
)
def test_arrays_that_do_not_fit_are_named(rt, ops, cpu, given, error, words):
    with pytest.raises(error, match=r"argument 2 of operator 'axpy'.*" + words):
        ops.axpy(1.0, given, rt.allocate(3))


def test_errors_list_what_fits_a_span(rt, ops, cpu):
    pairs = rt.define(
        "pairs",
        """
struct Pair { double value; dwell::u32 index; };
DWELL_OPERATOR(pairs)(dwell::Group g, dwell::Span<Pair> x) { if (g.rank() == 0) x[0].value += x[0].index; }""",
    )
    words = (
        "argument 1 of operator 'pairs' is Span<struct of 16 bytes>: .* does not fit; a dwell.Buffer or an array of uint8 with 16 bytes "
        "for each element fits, or an array whose structured dtype has 16 bytes"
    )
    for given in (rt.allocate(4), rt.allocate(17, "uint8"), np.zeros(4, "f4"), np.zeros(15, "u1"), np.zeros(2, [("value", "f4")])):
        with pytest.raises(dwell.SignatureMismatch, match=words):
            pairs(given)
    structured = np.array([(1.5, 2)], np.dtype([("value", "f8"), ("index", "u4")], align=True))
    pairs(structured).wait()
    assert structured["value"].tolist() == [3.5]
    raw = rt.array(structured.view("u1"))
    pairs(raw).wait()
    assert raw.read().view(structured.dtype)["value"].tolist() == [5.5]
    x = rt.allocate(4)
    with pytest.raises(dwell.SignatureMismatch, match=r"a dwell.Buffer of float64, size 4, does not fit; an array of float32 fits"):
        ops.axpy(1.0, rt.allocate(4, "float64"), x)
    taken = np.zeros(4, "f4")
    two = rt.define("two", "DWELL_OPERATOR(two)(dwell::Group, dwell::Span<float>, dwell::Span<dwell::i64>) {}")
    with pytest.raises(dwell.SignatureMismatch, match=r"argument 2 .* does not fit; an array of int64 fits"):
        two(taken, taken)


def test_read_only_arrays_are_not_written(rt, ops, cpu):
    x = np.ones(3, "f4")
    x.flags.writeable = False
    y = rt.array(np.ones(3, "f4"))
    ops.axpy(1, x, y).wait()  # Span<const float>
    with pytest.raises(dwell.InvalidArgument, match=r"argument 3 .* which is written to: .* read-only"):
        ops.axpy(1, y, x)
    with pytest.raises(ValueError, match=r"read-only"):
        rt.wrap(x)


def test_a_temporary_lives_until_its_task_has_run(rt, ops, latch, cpu):
    latch.await_start()

    class Watched(np.ndarray):
        pass

    before = np.ones(100_000, "f4").view(Watched)
    gone = weakref.ref(before)
    result = rt.array(np.zeros(100_000, "f4"))
    ticket = ops.axpy(2, before, result, after=latch.ticket)
    del before
    assert gone() is not None
    noise = [np.full(100_000, 7, "f4") for _ in range(20)]  # would reuse the memory if it were free
    latch.release()
    ticket.wait()
    assert set(result.read()) == {2}
    del noise
    for _ in range(2000):
        if gone() is None:
            break
        rt.allocate(1)
        ticket.wait(0.001)
        latch.ticket.wait()
        __import__("time").sleep(0.001)
    assert gone() is None


def test_an_array_that_tasks_use_cannot_be_resized(rt, ops, latch, cpu):
    latch.await_start()
    data = bytearray(12)
    ticket = ops.axpy(1, memoryview(data).cast("f"), rt.array([0.0] * 3, "float32"), after=latch.ticket)
    with pytest.raises(BufferError):
        data.extend(b"more")
    latch.release()
    ticket.wait()


def test_references_are_released(rt, ops, cpu):
    x, y = np.ones(4, "f4"), np.ones(4, "f4")
    counts = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(1000):
        ops.axpy(0, x, y)
    rt.submit_many(ops.axpy, [(0, x, y)] * 1000)
    rt.sync()
    for _ in range(5000):
        if (sys.getrefcount(x), sys.getrefcount(y)) == counts:
            break
        rt.allocate(1)
        __import__("time").sleep(0.001)
    assert (sys.getrefcount(x), sys.getrefcount(y)) == counts


def test_empty_arrays_fit(rt, ops, cpu):
    ops.axpy(1, np.zeros(0, "f4"), rt.allocate(0)).wait()


def test_modifiers(rt, ops):
    wide = rt.define(
        "wide",
        """
DWELL_OPERATOR(wide)(dwell::Group g, dwell::Span<dwell::u32> seen) { if (g.rank() == 0) seen[g.index()] = g.count(); }""",
    )
    seen = rt.array(np.zeros(8, "u4"))
    wide(seen, groups=5).wait()
    assert seen.read().tolist() == [5] * 5 + [0] * 3
    wide(seen, gang=2).wait()
    assert seen.read().tolist()[:3] == [2, 2, 5]
    graph = dwell.Graph()
    graph.add("wide", wide, seen, groups=4).after(graph.add(wide, seen, gang=2))
    rt.launch(rt.instantiate(graph)).wait()
    assert seen.read().tolist() == [4] * 4 + [5] + [0] * 3
    graph = dwell.Graph()
    graph.add("pair", wide, seen, gang=2)
    rt.launch(rt.instantiate(graph)).wait()
    assert seen.read().tolist() == [2, 2, 4, 4, 5, 0, 0, 0]
    with pytest.raises(dwell.InvalidArgument, match=r"not both"):
        graph.add(wide, seen, gang=2, groups=2)
    count = rt.define(
        "count",
        """
DWELL_OPERATOR(count)(dwell::Group g, dwell::Span<dwell::u32> runs) { if (g.rank() == 0) ++runs[0]; }""",
    )
    runs = rt.array(np.zeros(1, "u4"))
    count(runs, repeat=1000).wait()
    rt.submit(count, runs, repeat=7).wait()
    rt.submit_many(count, [(runs,)] * 3, repeat=5, link=True).wait()
    assert runs.read().tolist() == [1022]
    with pytest.raises(dwell.InvalidArgument, match=r"one group"):
        wide(seen, gang=2, repeat=2)
    with pytest.raises(dwell.InvalidArgument, match="repeat is 0"):
        wide(seen, repeat=0)
    with pytest.raises(dwell.InvalidArgument, match=r"not both"):
        wide(seen, gang=2, groups=2)
    with pytest.raises(dwell.InvalidArgument, match=r"0"):
        wide(seen, groups=0)
    with pytest.raises(dwell.SignatureMismatch, match=r"after takes a dwell.Ticket or a sequence of them, not int"):
        wide(seen, after=[1])
    with pytest.raises(dwell.Unsupported, match=r"no priorities"):
        wide(seen, priority=1)
    with pytest.raises(TypeError):
        wide(seen, nonsense=1)
    with dwell.Runtime(rt.device, workers=1, priorities="lifo") as urgent:
        nothing = urgent.define("nothing", "DWELL_OPERATOR(nothing)(dwell::Group) {}")
        nothing(priority=7).wait()
        with pytest.raises(dwell.InvalidArgument, match=r"7"):
            nothing(priority=8)


def test_a_task_without_link_begins_a_new_chain(rt, ops):
    from conftest import Latch

    ops.nothing(link=True).wait()  # the first link of a runtime holds back all later tasks
    latch = Latch(rt, ops)
    latch.await_start()
    number = rt.array([0], "uint32")
    behind = ops.append(rt.array([0], "uint32"), 9, link=True)  # follows the running latch
    ops.append(number, 1)
    ops.append(number, 2, link=True).wait(60)
    assert number.read().tolist() == [33]
    assert not behind.done
    latch.release()
    behind.wait()


def test_order(rt, ops):
    from conftest import Latch, appended

    number = rt.array([0], "uint32")
    for digit in range(50):
        ticket = ops.append(number, digit, link=digit > 0)
    ticket.wait()
    assert number.read()[0] == appended(50)

    # After the first link of the runtime, which waits for all earlier tasks.
    latch = Latch(rt, ops)
    latch.await_start()
    number.write([0])
    first = ops.append(number, 0, after=latch.ticket)
    second = ops.append(number, 1, after=[first, latch.ticket])
    third = ops.append(number, 2, after_any_result=(second,))
    drained = ops.append(number, 3, drain=True)
    assert not first.done
    latch.release()
    for ticket in (latch.ticket, first, second, third, drained):
        ticket.wait()
    assert number.read()[0] == appended(4)


def test_failures_cancel_what_is_linked(rt, ops):
    failed = ops.fail(7)
    behind = ops.nothing(link=True)
    hard = ops.nothing(hard_link=True)
    with pytest.raises(dwell.Cancelled, match=r"fail"):
        behind.wait()
    hard.wait()
    with pytest.raises(dwell.TaskFailed) as caught:
        failed.wait()
    assert (caught.value.code, caught.value.position) == (7, failed.position)
    assert caught.value.operator.startswith("fail")
