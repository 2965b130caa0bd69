"""Lazy arrays: order of evaluation, shared memory, errors, threads, lifetimes."""

import gc
import threading
import weakref

import dwell
import numpy as np
import pytest
from arrays_support import check, of
from conftest import run_python

# ---- Laziness ----------------------------------------------------------------------------------------------------------------------


def tasks(rt):
    return dwell._dwell.array_stats(rt).tasks


def test_nothing_runs_before_it_is_asked_for(rt):
    a = of(rt, np.arange(8, dtype="f4"))
    rt.flush().wait()
    before = tasks(rt)
    y = (a * 2 + 1).relu()
    assert y.lazy and "lazy" in repr(y) and "float32" in repr(y) and "(8,)" in repr(y) and rt.device in repr(y)
    z = dwell.sum(y * y)
    assert z.lazy and tasks(rt) == before
    y.numpy()
    assert not y.lazy and "lazy" not in repr(y)
    assert tasks(rt) == before + 1  # three operations, one program
    z.flush().wait()
    assert not z.lazy
    dropped = a * 3
    del dropped
    rt.flush().wait()
    assert tasks(rt) <= before + 3  # a product and a sum; the dropped result is not computed


def test_shared_results_are_computed_once(rt):
    a = of(rt, np.arange(8, dtype="f4"))
    rt.flush().wait()
    shared = a.exp()
    results = [shared + i for i in range(5)]
    operations = dwell._dwell.array_stats(rt).operations
    for i, one in enumerate(results):
        check(one, np.exp(np.arange(8)) + i, 1e-6)
    assert not shared.lazy
    assert dwell._dwell.array_stats(rt).operations == operations + 6
    doubled = a
    for _ in range(100):  # doubles the work at each step if a result is computed twice
        doubled = (doubled + doubled) * 0.5
    check(doubled, np.arange(8))


def test_long_expressions_are_split(rt):
    x = np.linspace(0, 1, 10, dtype="f8")
    a = of(rt, x)
    y, expected = a, x
    for i in range(500):
        y, expected = (y + i) * 0.5, (expected + i) * 0.5
    check(y, expected, 1e-12)
    for _ in range(20000):  # would overflow the stack as one expression
        y = y - 1
    check(y, expected - 20000, 1e-9)
    many = [of(rt, x + i) for i in range(60)]
    total = many[0]
    for one in many[1:]:
        total = total + one
    check(total, sum(x + i for i in range(60)), 1e-12)

    def tree(low, high):
        return many[low].sin() * 2 if high - low == 1 else tree(low, (low + high) // 2) + tree((low + high) // 2, high)

    check(tree(0, 38), sum(np.sin(x + i) * 2 for i in range(38)), 1e-12)


def test_writes_come_behind_reads(rt):
    x = np.arange(6, dtype="f4")
    a = of(rt, x, copy=True)
    plus, product, far = a + 1, a * a, (a + 2).exp()
    a[...] = 0
    again = a + 5
    a[::2] = 7
    check(plus, x + 1)
    check(product, x * x)
    check(far, np.exp(x + 2), 1e-6)
    check(again, np.full(6, 5))
    check(a, [7, 0, 7, 0, 7, 0])
    b = of(rt, x, copy=True)
    b[1:] = b[:-1]  # reads all before it writes
    check(b, [0, 0, 1, 2, 3, 4])
    b[:] = b[::-1] + b
    check(b, [4, 3, 3, 3, 3, 4])
    total = dwell.sum(b)
    b += total
    check(b, np.array([4, 3, 3, 3, 3, 4]) + 20)
    child = b * 2
    parent = child + 1
    child.numpy()
    child += 100  # the parent keeps the earlier value
    check(parent, (np.array([4, 3, 3, 3, 3, 4]) + 20) * 2 + 1)


def test_memory_of_others(rt, cpu):
    x = np.arange(6, dtype="f4")
    a, part = of(rt, x), of(rt, x[2:])  # two aliases of one memory
    lazy = part * 2
    a += 10
    check(lazy, np.arange(2, 6) * 2)
    rt.sync()
    assert x.tolist() == list(range(10, 16))
    given = np.ones(6, "f4")
    y = a + given
    given[:] = 1000  # an operand is copied
    check(y, np.arange(11, 17))
    frozen = np.arange(3, dtype="f4")
    frozen.flags.writeable = False
    b = of(rt, frozen)
    check(b + 1, [1, 2, 3])
    with pytest.raises(dwell.InvalidArgument, match=r"read-only"):
        b += 1
    strided = np.zeros((4, 4), "i4")[::2, ::-2]
    c = of(rt, strided)
    c += 1
    rt.sync()
    assert strided.tolist() == [[1, 1], [1, 1]]
    buffer = rt.array(x)
    d = of(rt, buffer)
    d *= 0
    rt.sync()
    assert buffer.read().tolist() == [0] * 6
    shared = np.from_dlpack(d[::-2])
    d += 3
    rt.sync()
    assert shared.tolist() == [3, 3, 3]
    assert np.asarray(d).tolist() == [3] * 6
    kept = np.from_dlpack(of(rt, np.ones(64, "f4")) * 3)
    others = [of(rt, np.ones(64, "f4")) * i for i in range(3)]
    assert [float(one[0]) for one in others] == [0, 1, 2] and set(kept) == {3}
    gone = weakref.ref(x)
    del x, a, part, buffer
    gc.collect()
    rt.sync()
    of(rt, [1.0]).numpy()
    assert gone() is None or [rt.allocate(1) for _ in range(100)]


def test_memory_is_used_again(rt):
    a = of(rt, np.arange(1000, dtype="f4"))
    for i in range(3000):
        a = a + 1
        if i % 100 == 0:
            a.flush()
    check(a, np.arange(1000) + 3000)
    held = [a * i for i in range(50)]
    del held[::2]
    more = [a * -i for i in range(50)]
    for i, one in zip(range(1, 50, 2), held, strict=True):
        check(one, (np.arange(1000) + 3000) * float(i))
    for i, one in enumerate(more):
        check(one, (np.arange(1000) + 3000) * -float(i))


def test_large_memory_is_released_early(cpu):
    def taken():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * 4096

    with dwell.Runtime("cpu", workers=1) as rt:
        total = of(rt, 0.0)
        before = most = taken()
        for i in range(180):  # 1.3 GB in total, each of another size
            a = dwell.full((1 << 18) + (i << 14), 1, dtype="float32", runtime=rt)
            total += a[-1]
            del a
            most = max(most, taken())
        assert total.item() == 180
    assert most - before < 950e6


def test_no_elements_and_no_dimensions(rt):
    none = of(rt, np.ones((0, 3), "f4"))
    check(none + 1, np.ones((0, 3)))
    check(none.sum(0) + none.sum(), np.zeros(3))
    check(dwell.concat([none, of(rt, np.ones((1, 3), "f4")), none[:, ::-1]]), np.ones((1, 3)))
    check(none @ dwell.ones((3, 2), runtime=rt), np.ones((0, 2)))
    check(dwell.arange(0, runtime=rt), np.arange(0))
    none += 1
    none[...] = 5
    single = of(rt, np.float64(2.0), copy=True)
    assert (single * dwell.ones(3, runtime=rt)).dtype == dwell.ElementType.f32  # a tensor without dimensions promotes like a number
    single += 1
    single[...] = single * single
    assert single.item() == 9 and single.sum().item() == 9 and single.reshape((1, 1)).tolist() == [[9]]


SPIN = """
DWELL_OPERATOR(spin)(dwell::Group g) {
  const dwell::u64 start = dwell::device::now_ns();
  while (dwell::device::now_ns() - start < 200000000ull) dwell::device::relax(0);
}"""


def test_a_runtime_that_is_rebuilt(cpu):
    with dwell.Runtime("cpu", workers=1, task_timeout=0.05) as rt:
        a = of(rt, np.ones(64, "f4"), copy=True)
        before = a + 1
        check(before * 2, np.full(64, 4))
        spin = rt.define("spin", SPIN)
        with pytest.raises(dwell.TaskTimeout):
            spin().wait()
        rt.rebuild()
        with pytest.raises(dwell.StaleHandle):
            before.numpy()
        check(of(rt, np.ones(64, "f4")) * 3, np.full(64, 3))


def test_graphs(rt):
    x, y = rt.array(np.arange(6, dtype="f4")), rt.allocate(6)
    a = of(rt, x)
    batch = rt.batch()

    @rt.capture
    def graph():
        batch.apply("mul", y, x, 2.0)
        batch.apply("add", y, y, rt.array(np.ones(6, "f4")))
        batch.flush()
        with pytest.raises(dwell.Unsupported, match=r"use Runtime.batch"):
            a + 1

    gc.collect()
    rt.launch(rt.instantiate(graph)).wait()
    assert np.array_equal(y.read(), np.arange(6) * 2 + 1)


# ---- Python numbers, errors --------------------------------------------------------------------------------------------------------


def test_numbers_of_python(rt):
    a = of(rt, [2.5])
    assert (float(a), int(a), bool(a), a.item()) == (2.5, 2, True, 2.5)
    assert not bool(of(rt, 0)) and isinstance(of(rt, 3).item(), int)
    assert np.asarray(a, dtype="f8").dtype == np.float64
    with pytest.raises(dwell.InvalidArgument, match=r"shape \(2,\) has no single element"):
        bool(of(rt, [1, 2]))
    with pytest.raises(TypeError, match="no length"):
        len(of(rt, 1))
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)
    assert a.__array_namespace__() is dwell


def test_errors(rt):
    a = of(rt, np.ones((2, 3), "f4"))
    with pytest.raises(dwell.InvalidArgument, match=r"add: shapes \(2, 3\), \(2,\) do not broadcast"):
        a + of(rt, np.ones(2, "f4"))
    with pytest.raises(dwell.InvalidArgument, match=r"bitwise_and is not defined for f32"):
        a & 1
    with pytest.raises(TypeError):
        a + "text"
    with pytest.raises(dwell.SignatureMismatch, match=r"argument x of dwell.add: str: a dwell.Array.*is needed"):
        dwell.add(a, "text")
    with pytest.raises(dwell.SignatureMismatch, match=r"dwell.add: no argument is a dwell.Array"):
        dwell.add(1, 2)
    with pytest.raises(dwell.Unsupported, match=r"uint32.*(tensors hold float16|cannot hold)"):
        a + np.ones(3, "u4")
    with pytest.raises(dwell.InvalidArgument, match=r"shapes \(2, 3\) and \(2, 3\) are of no product"):
        a @ a
    with pytest.raises(dwell.InvalidArgument, match=r"argument axis of dwell.softmax: 2 is no dimension of 2"):
        dwell.softmax(a, 2)
    with pytest.raises(dwell.InvalidArgument, match=r"dimension"):
        dwell.sum(a, 5)
    with pytest.raises(dwell.InvalidArgument, match=r"no result of no elements"):
        dwell.max(of(rt, np.ones((0, 3), "f4")), 0)
    with pytest.raises(dwell.InvalidArgument, match=r"argument indices of dwell.take: it holds float32"):
        dwell.take(a, of(rt, [1.0]))
    with pytest.raises(IndexError, match=r"index 2 is out of bounds for dimension 0 of size 2"):
        a[2]
    with pytest.raises(IndexError, match=r"too many indices"):
        a[0, 0, 0]
    with pytest.raises(dwell.Unsupported, match=r"dwell.where"):
        a[a > 0]
    with pytest.raises(dwell.InvalidArgument, match=r"shape \(3, 2\) .*\(2, 3\)|do not broadcast"):
        a[...] = np.ones((3, 2), "f4")
    with pytest.raises(dwell.InvalidArgument, match=r"cannot be expanded"):
        dwell.broadcast_to(a, (2, 4))
    with pytest.raises(dwell.InvalidArgument, match=r"-1 more than once"):
        a.reshape((-1, -1))
    with pytest.raises(dwell.InvalidArgument, match=r"up to 8 dimensions"):
        dwell.zeros([1] * 9, runtime=rt)
    with pytest.raises(dwell.OutOfMemory):
        dwell.zeros((2**40, 2**40), runtime=rt).flush()
    check(a + 1, np.full((2, 3), 2))  # the runtime still works


# ---- Threads, lifetimes ------------------------------------------------------------------------------------------------------------


def test_threads(rt):
    shared = of(rt, np.arange(100, dtype="f8"))
    failures = []

    def work(seed):
        try:
            for i in range(40):
                y = (shared * seed + i).sqrt()
                z = y * y - i
                if i % 3 == 0:
                    z += 0
                assert np.allclose(z.numpy(), np.arange(100) * seed), (seed, i)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_arrays_keep_their_runtime(cpu):
    rt = dwell.Runtime("cpu", workers=1)
    x = np.arange(4, dtype="f4")
    y = of(rt, x) + 1
    z = of(rt, x)
    z += 1
    del rt
    gc.collect()
    check(y, [1, 2, 3, 4])  # collected before the memory changed
    z += 1
    del z, y
    gc.collect()
    assert x.tolist() == [2, 3, 4, 5]  # written, although nothing read it


def test_a_closed_runtime(cpu):
    with dwell.Runtime("cpu", workers=1) as rt:
        x = np.arange(4, dtype="f4")
        a = of(rt, x)
        lazy = a + 1
        a += 5
        late = a * 2
        del rt
    assert x.tolist() == [5, 6, 7, 8]
    with pytest.raises((dwell.Closed, dwell.StaleHandle)):
        late.numpy()
    del lazy, late, a
    gc.collect()


def test_the_end_of_the_interpreter(cpu):
    done = run_python(
        """
        import dwell, numpy as np, threading, os
        a = dwell.asarray(np.arange(5, dtype="f4"), runtime=dwell.Runtime("cpu", workers=1))
        kept = [a * i for i in range(10)]
        kept[3].flush()
        print(float(kept[2].sum()))
    """,
        DWELL_PYTHON_LEAKS="1",
    )
    assert done.stdout.strip() == "20.0" and "leak" not in done.stderr
    run_python(
        """
        import dwell, numpy as np, os
        a = dwell.asarray(np.arange(5, dtype="f4"), runtime=dwell.Runtime("cpu", workers=1)) + 1
        child = os.fork()
        if child == 0:
            try:
                a.numpy()
            except dwell.Closed:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert a.tolist() == [1, 2, 3, 4, 5]
    """
    )


def test_the_default_runtime(cpu):
    run_python(
        """
        import dwell
        a = dwell.arange(5)
        assert dwell.default_runtime() is dwell.default_runtime() and a.device == dwell.default_runtime().device
        assert (a + dwell.ones(5, dtype="int64")).tolist() == [1, 2, 3, 4, 5]
    """
    )
