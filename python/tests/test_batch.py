"""dwell.Batch: each operation against NumPy, types and lifetimes of operands, errors."""

import gc
import threading
import weakref

import dwell
import numpy as np
import pytest


@pytest.fixture
def batch(rt):
    return rt.batch()


def ran(batch, to):
    batch.flush().wait()
    return to.read()


def test_operations_by_name(rt, batch):
    x = np.linspace(-2, 2, 12, dtype="f4").reshape(3, 4)
    a, y, truth = rt.array(x), rt.allocate((3, 4)), rt.allocate((3, 4), "bool")
    batch.apply("mul", y, a, 2.0)
    batch.apply("add", y, y, 1)
    batch.apply("relu", y, y)
    batch.apply("lt", truth, y, a)
    assert np.array_equal(ran(batch, y), np.maximum(x * 2 + 1, 0))
    assert np.array_equal(truth.read(), np.maximum(x * 2 + 1, 0) < x)
    assert (batch.stats.operations, batch.stats.tasks, batch.stats.programs) == (4, 1, 1)
    batch.apply("where", y, 1.0, a, truth)
    batch.apply("clamp", y, y, -1, True)
    assert np.array_equal(ran(batch, y), np.clip(np.where(truth.read(), 1, x), -1, 1))
    batch.assign(y, 7)
    batch.assign(y[1:2], rt.array([1.0, 2.0, 3.0, 4.0]))  # converted and broadcast
    assert ran(batch, y).tolist() == [[7] * 4, [1, 2, 3, 4], [7] * 4]
    for dtype, start, step in (("int64", 5, -2), ("float32", 0.5, 0.25), ("float64", 1, 1e-9), ("int8", 0, 1)):
        to = rt.allocate((2, 5), dtype)
        batch.arange(to, start, step)
        np.testing.assert_allclose(ran(batch, to), (start + step * np.arange(10)).reshape(2, 5), rtol=1e-7)


def test_reductions_and_normalisations(rt, batch):
    x = np.random.default_rng(1).normal(size=(4, 6)).astype("f4")
    a = rt.array(x)
    expected = {
        "sum": x.sum(1), "mean": x.mean(1), "prod": x.prod(1), "amax": x.max(1), "amin": x.min(1), "var": x.var(1, ddof=1),
        "std": x.std(1, ddof=1), "norm": np.sqrt((x**2).sum(1)), "logsumexp": np.log(np.exp(x).sum(1)),
    }  # fmt: skip
    results = {name: rt.allocate(4) for name in expected}
    for name, to in results.items():
        getattr(batch, name)(to, a, 1)
    places, values, bools, rows = rt.allocate(4, "int64"), rt.allocate(4), rt.allocate(4, "bool"), rt.allocate((4, 6))
    batch.max(values, places, a, -1)
    batch.any(bools, a, axes=(1,))
    batch.softmax(rows, a, 1)
    batch.flush().wait()
    for name, to in results.items():
        np.testing.assert_allclose(to.read(), expected[name], rtol=2e-5, atol=1e-5)
    assert np.array_equal(values.read(), x.max(1)) and np.array_equal(places.read(), x.argmax(1)) and bools.read().all()
    e = np.exp(x)
    np.testing.assert_allclose(rows.read(), e / e.sum(1, keepdims=True), rtol=1e-5)
    batch.min(values, places, a, 1)
    batch.argmin(places, a, 1)
    batch.all(bools, a, 1)
    batch.log_softmax(rows, a)
    assert np.array_equal(ran(batch, places), x.argmin(1)) and np.array_equal(values.read(), x.min(1))
    np.testing.assert_allclose(rows.read(), x - np.log(e.sum(1, keepdims=True)), rtol=1e-4, atol=1e-5)
    batch.argmax(places, a, 1)
    batch.cumsum(rows, a, 0)
    np.testing.assert_allclose(ran(batch, rows), x.cumsum(0), rtol=1e-4, atol=1e-5)
    weights = np.arange(6, dtype="f4")
    batch.layer_norm(rows, a, 6, rt.array(weights), rt.array(weights))
    normal = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(ran(batch, rows), normal * weights + weights, rtol=1e-4, atol=1e-5)
    batch.rms_norm(rows, a, (6,), epsilon=0.5)
    np.testing.assert_allclose(ran(batch, rows), x / np.sqrt((x**2).mean(1, keepdims=True) + 0.5), rtol=1e-5)


def test_dense_work(rt, batch):
    rng = np.random.default_rng(2)
    x, y, z = (rng.integers(-4, 4, shape).astype("f4") for shape in ((3, 4), (4, 5), (2, 3, 4)))
    v = y[:, 0].copy()
    a, b, c, d = rt.array(x), rt.array(y), rt.array(z), rt.array(v)
    cases = {
        "mm": ((a, b), x @ y), "matmul": ((c, b), z @ y), "mv": ((a, d), x @ v), "dot": ((d, d), v @ v), "outer": ((d, d), np.outer(v, v)),
        "bmm": ((c, rt.array(np.stack([y, y]))), z @ y),
    }  # fmt: skip
    for name, (operands, expected) in cases.items():
        to = rt.allocate(np.shape(expected))
        getattr(batch, name)(to, *operands)
        assert np.array_equal(ran(batch, to), expected), name
    to = rt.array(np.ones((3, 5), "f4"))
    batch.addmm(to, to, a, b, beta=2.0, alpha=-1.0)
    assert np.array_equal(ran(batch, to), 2 - x @ y)
    to = rt.allocate(3)
    batch.addmv(to, to, a, d, beta=0)
    assert np.array_equal(ran(batch, to), x @ v)
    to = rt.allocate((2, 3, 5))
    batch.baddbmm(to, rt.array(np.ones(5, "f4")), c, rt.array(np.stack([y, y])))
    assert np.array_equal(ran(batch, to), z @ y + 1)


def test_selections(rt, batch):
    x = np.arange(12, dtype="i4").reshape(3, 4)
    a, index = rt.array(x), rt.array(np.array([2, 0]))
    to = rt.allocate((2, 4), "int32")
    batch.index_select(to, a, 0, index)
    assert np.array_equal(ran(batch, to), x[[2, 0]])
    batch.embedding(to, a, index)
    assert np.array_equal(ran(batch, to), x[[2, 0]])
    along = rt.array(np.array([[3], [0], [1]]))
    column = rt.allocate((3, 1), "int32")
    batch.gather(column, a, -1, along)
    assert ran(batch, column).tolist() == [[3], [4], [9]]
    batch.scatter_add(a, 1, along, column)
    assert ran(batch, a).tolist() == [[0, 1, 2, 6], [8, 5, 6, 7], [8, 18, 10, 11]]
    both = rt.allocate((6, 4), "int32")
    batch.cat(both, [a, a])
    triangle = rt.allocate((3, 4), "int32")
    batch.triu(triangle, a, 1)
    stacked = rt.allocate((3, 2, 4), "int32")
    batch.stack(stacked, [a, triangle], axis=1)
    now = a.read()
    assert np.array_equal(ran(batch, both), np.concatenate([now, now]))
    assert np.array_equal(stacked.read(), np.stack([now, np.triu(now, 1)], 1))
    batch.tril(triangle, a)
    assert np.array_equal(ran(batch, triangle), np.tril(now))
    with pytest.raises(dwell.TaskFailed):
        batch.embedding(to, a, rt.array(np.array([2, 3])))
        batch.flush().wait()


def test_arrays_of_others(rt, batch, cpu):
    x = np.arange(24, dtype="f8").reshape(4, 6)
    to = np.zeros((2, 3))
    batch.apply("add", to, x[::2, ::-2], x[0, :3])
    batch.apply("mul", to.T, to.T, np.float64(2))
    batch.flush().wait()
    assert np.array_equal(to, (x[::2, ::-2] + x[0, :3]) * 2)
    a = dwell.asarray(x, runtime=rt) * 3
    batch.assign(to, a[:2, :3])  # a lazy array: its current value
    batch.flush().wait()
    assert np.array_equal(to, x[:2, :3] * 3)


def test_operands_live_until_they_are_read(rt, batch, cpu):
    x = np.ones(5000, "f4")
    gone = weakref.ref(x)
    y = rt.allocate(5000)
    batch.apply("add", y, x, 1.0)
    del x
    noise = [np.full(5000, -1, "f4") for _ in range(50)]
    assert gone() is not None
    batch.apply("add", y, y, np.full(5000, 2, "f4"))
    ticket = batch.flush()
    noise += [np.full(5000, -1, "f4") for _ in range(50)]
    ticket.wait()
    assert set(y.read()) == {4}
    del noise
    for _ in range(1000):
        if gone() is None:
            break
        rt.allocate(1)
        gc.collect()
        threading.Event().wait(0.001)
    assert gone() is None


def test_the_block_flushes(rt):
    y = rt.allocate(3)
    with rt.batch() as batch:
        batch.assign(y, 5.0)
        assert batch.stats.tasks == 0
    assert y.read().tolist() == [5, 5, 5]
    assert "1 operations" in repr(batch) and "tasks=1" in repr(batch.stats)


def test_threads(rt, batch):
    results = [rt.allocate(100) for _ in range(4)]

    def work(to):
        for i in range(200):
            batch.assign(to, float(i))
            if i % 50 == 0:
                batch.flush()

    threads = [threading.Thread(target=work, args=(one,)) for one in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    batch.flush().wait()
    assert all(set(one.read()) == {199} for one in results)


def test_errors(rt, batch):
    y = rt.allocate((2, 3))
    with pytest.raises(dwell.InvalidArgument, match=r"'plus' is no operation: there are abs, acos, acosh, add"):
        batch.apply("plus", y, 1, 2)
    with pytest.raises(dwell.InvalidArgument, match=r"add takes 2 operands, not 1"):
        batch.apply("add", y, y)
    with pytest.raises(dwell.InvalidArgument, match=r"no operation takes 4"):
        batch.apply("add", y, y, y, y, y)
    with pytest.raises(dwell.InvalidArgument, match=r"shape"):
        batch.apply("add", y, y, rt.allocate((3, 2)))
    with pytest.raises(dwell.SignatureMismatch, match=r"argument to of Batch.apply: str: a dwell.Buffer or an array on"):
        batch.apply("neg", "y", y)
    with pytest.raises(dwell.SignatureMismatch, match=r"argument operand 2 of Batch.apply: list"):
        batch.apply("add", y, y, [1.0])
    with pytest.raises(dwell.SignatureMismatch, match=r"argument x of Batch.sum: float: .*no number"):
        batch.sum(y, 1.0)
    with pytest.raises(dwell.Unsupported, match=r"argument to of Batch.assign: .*uint32.*tensors hold float16"):
        batch.assign(rt.allocate(3, "uint32"), 1)
    with pytest.raises(dwell.InvalidArgument, match=r"mm: argument b, f32 of shape \(2, 3\)"):
        batch.mm(y, y, y)
    with pytest.raises(dwell.InvalidArgument, match=r"argument axis of Batch.gather: 2 is no dimension"):
        batch.gather(y, y, 2, y)
    with pytest.raises(dwell.InvalidArgument, match=r"10000000000000000000 does not fit into 64 bits"):
        batch.assign(y, 10**19)
    if rt.device == "cpu":
        frozen = np.zeros(3, "f4")
        frozen.flags.writeable = False
        with pytest.raises(dwell.InvalidArgument, match=r"argument to of Batch.assign: numpy.ndarray.*read-only"):
            batch.assign(frozen, 1)
        other = dwell.Runtime("cpu", workers=1)
        with pytest.raises(dwell.InvalidArgument, match=r"of another runtime"):
            batch.assign(y, other.allocate(3))
        other.close()
        with pytest.raises(dwell.Closed):
            other.batch()
    assert batch.stats.operations == 0


def test_programs_are_compiled(cpu):
    with dwell.Runtime("cpu", workers=1, compile_programs_after=20) as rt:
        x, y = rt.array(np.arange(10, dtype="f4")), rt.allocate(10)
        batch = rt.batch()
        for _ in range(5000):
            batch.apply("mul", y, x, 3.0)
            batch.apply("add", y, y, 1.0)
            batch.flush().wait()
            if batch.stats.compiled:
                break
            threading.Event().wait(0.001)
        assert batch.stats.compiled
        assert np.array_equal(y.read(), np.arange(10) * 3 + 1)
    with dwell.Runtime("cpu", workers=1, compile_programs_after=0) as rt:
        y = rt.allocate(10)
        batch = rt.batch()
        for _ in range(2000):
            batch.assign(y, 1.0)
            batch.flush()
        assert batch.stats.compiled == 0
