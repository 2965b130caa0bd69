"""Runtimes: options, operators and their versions, errors, graphs."""

import asyncio
import concurrent.futures
import importlib.metadata
import importlib.util
import logging
import re
import subprocess
import sys
import threading
from pathlib import Path

import dwell
import numpy as np
import pytest
from conftest import SOURCES, Latch, appended, device
from dwell import _dwell, _errors


def test_info_and_reprs(rt, ops):
    info = rt.info()
    assert info.device == rt.device == device()
    assert info.workers >= 1 and info.tier in ("relocatable", "lto")
    assert re.match(r"dwell\.RuntimeInfo\(runtime=\d+, generation=1, device='", repr(info))
    assert info.asdict()["device_name"] == info.device_name
    metrics = rt.metrics()
    assert metrics.images >= 1 and isinstance(metrics.last_hand_over, float) and 0 < metrics.last_hand_over < 100
    assert repr(rt).startswith(f"<dwell.Runtime {rt.device} (")
    assert repr(ops.axpy) == "<dwell.Operator axpy(float, Span<const float>, Span<float>), version 1 of 1>"
    assert (ops.axpy.name, ops.axpy.signature) == ("axpy", "(float, Span<const float>, Span<float>)")
    devices = dwell.devices()
    assert devices[0].driver == "" and devices[0].device == "cpu" and "DeviceSummary(device='cpu'" in repr(devices[0])
    with pytest.raises(AttributeError):
        info.device = "other"


def test_version_is_the_projects():
    text = (Path(__file__).parents[2] / "CMakeLists.txt").read_text()
    assert f"project(dwell VERSION {dwell.__version__} " in text


def test_options_reach_the_runtime():
    with dwell.Runtime("cpu", workers=3, lease=0.05, idle=0.001, ring_slots=256, scratch_bytes=1024, tier="relocatable") as rt:
        nothing = rt.define("nothing", SOURCES["nothing"])
        nothing().wait()
        assert rt.info().workers == 3
    for how, words in (
        ({"device": "gpu:7"}, "gpu:7"),
        ({"ring_slots": 100}, "ring_slots"),
        ({"lease": -1.0}, "lease is a number of seconds, 0 or more"),
        ({"idle": float("nan")}, "idle"),
        ({"tier": "fast"}, "tier is"),
        ({"parts": "some"}, "parts is .used., .all., or a list of some of links, .*, not 'some'"),
        ({"parts": ["links", "loops"]}, "not 'loops'"),
        ({"parts": 3}, "not 3"),
        ({"priorities": "best"}, "fifo"),
        ({"priorities": ["fifo"]}, "eight"),
    ):
        with pytest.raises(dwell.Error, match=words):
            dwell.Runtime(**{"device": "cpu", **how})
    with pytest.raises(dwell.Unsupported):
        dwell.Runtime("cpu", tier="lto")
    with pytest.raises(TypeError):
        dwell.Runtime("cpu", 3)


def test_timeouts_are_in_seconds():
    with pytest.raises(dwell.TaskTimeout, match=r"hold"), dwell.Runtime("cpu", workers=1, task_timeout=0.2) as rt:
        hold = rt.define("hold", SOURCES["hold"])
        latch = rt.allocate(2, "uint32")
        latch.write([0, 0])
        view = latch.numpy()
        threading.Timer(1.0, view.__setitem__, (1, 1)).start()
        hold(latch).wait()


def test_compile_options():
    options = dwell.CompileOptions(defines={"FACTOR": "3"}, headers={"mine.h": "inline float twice(float x) { return 2 * x; }"})
    assert repr(options) == (
        "dwell.CompileOptions(defines={'FACTOR': '3'}, headers={'mine.h': 'inline float twice(float x) { return 2 * x; }'})"
    )
    assert options == dwell.CompileOptions(defines=options.defines, headers=options.headers)
    source = '#include "mine.h"\nDWELL_OPERATOR(f)(dwell::Group g, dwell::Span<float> x) { x[0] = FACTOR * twice(x[0]); }'
    with dwell.Runtime(device(), workers=1, compile=options) as rt:
        x = rt.array([1.0], "float32")
        f = rt.define("f", source)
        f(x).wait()
        assert x.read()[0] == 6
        f.redefine(source, dwell.CompileOptions(defines={"FACTOR": "10"}, headers=options.headers))
        f(x).wait()
        assert x.read()[0] == 120
        with pytest.raises(dwell.InvalidArgument, match=r"standard"):
            rt.define("g", source, options=dwell.CompileOptions(standard=98))


def test_versions(rt):
    def source(value):
        return f"DWELL_OPERATOR(version)(dwell::Group g, dwell::Span<dwell::u32> x) {{ if (g.rank() == 0) x[0] = {value}; }}"

    x = rt.array([0], "uint32")
    op = rt.define("version", source(1))
    same = op
    op.redefine(source(2))
    assert (op.versions, op.version, same.version) == (2, 2, 2)
    op(x).wait()
    assert x.read()[0] == 2
    op.rollback()
    assert (op.versions, op.version) == (2, 1)
    op(x).wait()
    assert x.read()[0] == 1
    with pytest.raises(dwell.NoPreviousVersion):
        op.rollback()
    op.redefine_async(source(3)).result(60)
    op(x).wait()
    assert x.read()[0] == 3
    with pytest.raises(dwell.CompileError) as caught:
        op.redefine("DWELL_OPERATOR(version)(dwell::Group g, dwell::Span<dwell::u32> x) {\n  oops;\n}", file="mine.py", line=100)
    assert re.search(r"mine\.py[:(]101", caught.value.log) and "oops" in caught.value.log
    assert caught.value.what == "operator" or caught.value.which in ("version", "")
    assert op.version == 3


def test_instances(rt):
    fill = rt.define(
        "fill",
        """
template <class T> DWELL_OPERATOR(fill)(dwell::Group g, dwell::Span<T> x, T value) { for (auto i : g.range(x.size())) x[i] = value; }""",
        instances=["fill<float>", "fill<dwell::i32>"],
    )
    assert (fill.name, fill.instances) == ("fill<float>", ["fill<float>", "fill<dwell::i32>"])
    whole = fill.instance("fill<dwell::i32>")
    x = rt.allocate(3, "int32")
    whole(x, 7).wait()
    assert x.read().tolist() == [7, 7, 7]
    with pytest.raises(dwell.OperatorNotFound, match=r"fill<double>"):
        fill.instance("fill<double>")


def test_definitions_in_the_background(rt):
    async def main():
        both = await asyncio.gather(
            rt.define_async("first_of_two", "DWELL_OPERATOR(first_of_two)(dwell::Group) {}"),
            rt.define_async("second_of_two", "DWELL_OPERATOR(second_of_two)(dwell::Group) {}"),
        )
        assert [op.name for op in both] == ["first_of_two", "second_of_two"]
        for op in both:
            await op()
        with pytest.raises(dwell.CompileError, match=r"oops"):
            await rt.define_async("third", "DWELL_OPERATOR(third)(dwell::Group) { oops; }")

    asyncio.run(main())
    future = rt.define_async("called_off", "DWELL_OPERATOR(called_off)(dwell::Group) { /* " + "x" * 1000 + " */ }")
    called_off = future.cancel()
    try:
        future.result(60)
        assert not called_off
    except concurrent.futures.CancelledError:
        pass  # also if another thread ended it during cancel()
    with pytest.raises(dwell.InvalidArgument, match=r"identifier|name"):
        rt.define_async("no name", "")


def test_a_definition_is_called_off_before_cancel_returns():
    from dwell._futures import Pending

    class Stop:
        def request(self):
            future._done(None, dwell.Cancelled("called off"))

    future = Pending(Stop())
    assert future.cancel()
    assert future.cancelled()
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(0)


def test_bulk(rt, ops):
    number = rt.array([0], "uint32")
    rt.submit_many(ops.append, ([number, digit] for digit in range(300)), link=True).wait()
    assert number.read()[0] == appended(300)
    assert rt.submit_many(ops.append, []).done
    latch = Latch(rt, ops)
    latch.await_start()
    behind = rt.submit_many(ops.append, [(number, 1)] * 3, after=latch.ticket)
    assert not behind.wait(0.1)
    latch.release()
    behind.wait()
    rt.sync()
    before = rt.metrics().submitted
    with pytest.raises(dwell.SignatureMismatch, match=r"row 2: argument 2 of operator 'append' is u32: str does not fit"):
        rt.submit_many(ops.append, [(number, 1), (number, 2), (number, "3")])
    with pytest.raises(TypeError, match=r"rows"):
        rt.submit_many(ops.append, [1])
    with pytest.raises(ZeroDivisionError):
        rt.submit_many(ops.append, ((number, 1 // (1 - i)) for i in range(3)))
    assert rt.metrics().submitted == before


def test_parking(rt, ops):
    rt.park()
    ticket = ops.nothing()
    assert not ticket.wait(0.05)
    diagnosis = rt.diagnose()
    assert diagnosis.parked and diagnosis.total == 1
    assert diagnosis.tasks[0].name.startswith("nothing") and diagnosis.tasks[0].doing == "parked"
    assert "nothing" in str(diagnosis)
    rt.resume()
    assert ticket.wait(20)
    assert rt.diagnose().total == 0


def test_closing():
    rt = dwell.Runtime("cpu", workers=1, task_timeout=0)
    nothing = rt.define("nothing", SOURCES["nothing"])
    hold = rt.define("hold", SOURCES["hold"])
    x = rt.array([0, 0], "uint32")
    view = x.numpy()
    held = hold(x)
    waiting = nothing(after=held)
    while not view[0]:
        held.wait(0.001)
    threading.Timer(0.2, view.__setitem__, (1, 1)).start()
    rt.close(now=True)
    rt.close()
    assert held.status() == 0
    with pytest.raises(dwell.Cancelled):
        waiting.wait()
    assert repr(rt) == "<dwell.Runtime cpu, closed>"
    for call in (lambda: rt.info(), lambda: rt.define("a", ""), lambda: rt.allocate(1), lambda: rt.sync()):
        with pytest.raises(dwell.Closed):
            call()
    for call in (lambda: nothing(), lambda: nothing.redefine(""), lambda: x.read()):
        with pytest.raises((dwell.Closed, dwell.StaleHandle)):
            call()
    assert "closed" in repr(nothing) or "version" in repr(nothing)


def test_leaving_with_an_exception_closes_at_once():
    with pytest.raises(ZeroDivisionError), dwell.Runtime("cpu", workers=1, task_timeout=0) as rt:
        hold, nothing = rt.define("hold", SOURCES["hold"]), rt.define("nothing", SOURCES["nothing"])
        x = rt.array([0, 0], "uint32")
        view = x.numpy()
        held = hold(x)
        while not view[0]:
            held.wait(0.001)
        waiting = nothing(after=held)
        threading.Timer(0.1, view.__setitem__, (1, 1)).start()
        _ = 1 // 0
    assert waiting.status() < 0


def test_handles_keep_the_runtime_open():
    def make():
        rt = dwell.Runtime("cpu", workers=1)
        return rt.define("nothing", SOURCES["nothing"]), rt.array([5.0])

    nothing, x = make()
    nothing().wait()
    assert x.read()[0] == 5


def test_warnings_reach_the_logger(tmp_path, caplog, monkeypatch):
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    monkeypatch.setenv("DWELL_CACHE_DIR", str(nowhere / "below"))
    heard = []
    with dwell.Runtime("cpu", workers=1, warn=heard.append) as rt:
        rt.define("nothing", SOURCES["nothing"])
    with caplog.at_level(logging.WARNING, "dwell"), dwell.Runtime("cpu", workers=1) as rt:
        rt.define("nothing", SOURCES["nothing"])
    assert heard and all(isinstance(line, str) for line in heard)
    assert [r.name for r in caplog.records] and all(r.name == "dwell" for r in caplog.records)


# ---- Errors --------------------------------------------------------------------------------------------------------------------


def test_each_code_has_a_class():
    header = (Path(__file__).parents[2] / "include/dwell/error.hpp").read_text()
    body = header[header.index("enum class errc {") : header.index("};", header.index("enum class errc {"))]
    codes = re.findall(r"^  (\w+)(?: = 0)?,$", body, re.M)
    assert len(codes) > 15
    assert set(codes) - {"ok"} == set(_errors.BY_KIND)
    for kind, one in _errors.BY_KIND.items():
        assert issubclass(one, dwell.Error) and issubclass(one, RuntimeError)
        assert getattr(dwell, one.__name__) is one and one.__name__ in dwell.__all__
        assert one.kind == kind and one.__doc__ and one.__module__ == "dwell"


def test_info_tells_the_workers_before_the_first_definition():
    with dwell.Runtime("cpu", workers=3) as runtime:
        assert (runtime.info().workers, runtime.info().crew) == (3, 0)


def test_errors_name_options_as_python_does():
    with pytest.raises(dwell.InvalidArgument, match=r"^the option ring_slots is 100: it must be a power of two"):
        dwell.Runtime("cpu", ring_slots=100)
    with pytest.raises(dwell.InvalidArgument, match=r"^the option workers is 9000: at most 8192") as caught:
        dwell.Runtime("cpu", workers=9000)
    assert caught.value.which == "Options::workers"


def test_errors_have_fields(rt, ops):
    import pickle

    with pytest.raises(dwell.InvalidArgument) as caught:
        ops.nothing(groups=65536)
    error = caught.value
    assert (error.kind, error.what, error.which, error.value, error.limit) == ("invalid_argument", "argument", "groups", 65536, 65535)
    assert isinstance(error, ValueError) and error.message == str(error)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and again.which == "groups" and str(again) == str(error)
    with pytest.raises(dwell.OperatorNotFound):
        rt.define("missing", "DWELL_OPERATOR(other)(dwell::Group) {}")
    with pytest.raises(dwell.InvalidArgument, match=r"taken|already"):
        rt.define("nothing", "DWELL_OPERATOR(nothing)(dwell::Group, int) {}")


def test_kernels_are_refused_on_the_cpu(rt, cpu):
    with pytest.raises(dwell.Unsupported, match=r"CUDA C") as caught:
        rt.compile("__global__ void f() {}")
    assert isinstance(caught.value, NotImplementedError)


def test_kernels(rt):
    if rt.device == "cpu":
        pytest.skip("the CPU runs no kernels")
    module = rt.compile(
        """
extern "C" __global__ void axpy(float a, const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
template <class T> __global__ void shift(T* to, T by) { to[threadIdx.x] += by; }""",
        expressions=["shift<double>"],
    )
    assert len(module.kernels) == 2 and module.cubin[:4] == b"\x7fELF" and ".target" in module.ptx
    x, y = rt.array(np.full(100, 2, "f4")), rt.array(np.ones(100, "f4"))
    module.kernel("axpy")(3.0, x, y, 100, grid=1, block=128).wait()
    assert set(y.read()) == {7}
    to = rt.array(np.ones(4))
    module.kernel("shift<double>").launch(to, 0.5, grid=1, block=(4, 1, 1)).wait()
    assert set(to.read()) == {1.5}
    module.kernel("shift<double>")(to, 0.5, grid=1, block=4, cooperative=True).wait()
    assert set(to.read()) == {2}
    with pytest.raises(dwell.InvalidArgument, match="run at once"):
        module.kernel("shift<double>")(to, 0.5, grid=1 << 20, block=4, cooperative=True)
    with pytest.raises(dwell.SignatureMismatch):
        module.kernel("shift<double>")(x, 0.5, grid=1, block=4)


# ---- Graphs --------------------------------------------------------------------------------------------------------------------


def test_graphs(rt, ops):
    number = rt.array([0], "uint32")
    graph = dwell.Graph("digits")
    first = graph.add("first", ops.append, number, 0)
    second = graph.add(ops.append, number, 1).after(first).name("second")
    graph.add(ops.append, number, 2, groups=1).after([second], first)
    assert len(graph) == 3 and "first" in graph.dot() and repr(graph) == "<dwell.Graph 'digits' of 3 nodes>"
    exec = rt.instantiate(graph)
    assert repr(exec) == "<dwell.GraphExec 'digits' of 3 nodes>" and 'digraph "digits"' in exec.dot()
    assert repr(dwell.Graph(name="x").name("y")) == "<dwell.Graph 'y' of 0 nodes>"
    rt.launch(exec).wait()
    assert number.read()[0] == appended(3)
    number.write([0])
    exec.set(second, 1, 9)
    for _ in range(3):
        ticket = rt.launch(exec, link=True)
    rt.launch(exec, after=ticket, drain=True).wait()
    expected = 0
    for digit in (0, 9, 2) * 4:
        expected = (expected * 31 + digit) % 2**32
    assert number.read()[0] == expected
    exec.measure()
    assert exec.time(first).runs == 1 and exec.time(first).total > 0
    assert exec.nbytes > 0 and len(exec) == 3
    with pytest.raises(dwell.SignatureMismatch, match=r"u32"):
        exec.set(second, 1, "nine")
    with pytest.raises(dwell.InvalidArgument, match=r"does not exist"):
        exec.set(second, 2, 1)
    with pytest.raises(TypeError):
        graph.add("alone")
    second.after(graph.add(ops.append, number, 3).after(second))
    with pytest.raises(dwell.InvalidArgument, match=r"cycle"):
        rt.instantiate(graph)


def test_graphs_keep_their_memory(rt, ops, cpu):
    import gc

    result = rt.array(np.zeros(10_000, "f4"))

    def build():
        graph = dwell.Graph()
        node = graph.add(ops.axpy, 1, np.ones(10_000, "f4"), result)
        graph.add(ops.axpy, 1, rt.array(np.full(10_000, 2, "f4")), result).after(node)
        return rt.instantiate(graph), node

    exec, node = build()
    gc.collect()
    noise = [np.full(10_000, 100, "f4") for _ in range(20)]
    rt.launch(exec).wait()
    assert set(result.read()) == {3}
    for i in range(10):
        exec.set(node, 1, np.full(10_000, i, "f4"))
        gc.collect()
        noise.append(np.full(10_000, 200, "f4"))
        rt.launch(exec).wait()
    assert set(result.read()) == {3 + sum(i + 2 for i in range(10))}


def test_updates(rt, ops):
    number = rt.array([0], "uint32")

    def build(digit):
        graph = dwell.Graph()
        graph.add(ops.append, number, digit)
        return graph

    exec = rt.instantiate(build(1))
    rt.launch(exec).wait()
    exec.update(build(5))
    rt.launch(exec).wait()
    assert number.read()[0] == 36
    with pytest.raises(dwell.InvalidArgument, match=r"nodes"):
        exec.update(dwell.Graph())


def test_sub_graphs_and_conditions(rt, ops):
    number = rt.array([0], "uint32")
    step = dwell.Graph()
    inner = step.add("inner", ops.append, number, 1)
    graph = dwell.Graph()
    one = graph.add("one", step)
    two = graph.add(step).after(one)
    exec = rt.instantiate(graph)
    exec.set(two.inside(inner), 1, 2)
    rt.launch(exec).wait()
    assert number.read()[0] == 33

    count_down = rt.define(
        "count_down",
        "DWELL_OPERATOR(count_down)(dwell::Group g, dwell::Span<dwell::u32> left) { if (g.rank() == 0) left[0] -= 1; g.sync(); }",
    )
    left = rt.array([5], "uint32")
    body = dwell.Graph()
    body.add(ops.append, number, 7).after(body.add(count_down, left))
    loop = dwell.Graph()
    loop.add_while("loop", left, body)
    number.write([0])
    rt.launch(rt.instantiate(loop)).wait()
    expected = 0
    for _ in range(5):
        expected = (expected * 31 + 7) % 2**32
    assert number.read()[0] == expected

    choice = rt.array([1], "uint32")
    bodies = []
    for digit in range(3):
        bodies.append(dwell.Graph())
        bodies[-1].add(ops.append, number, digit)
    chosen = dwell.Graph()
    switch = chosen.add_switch("switch", choice, bodies)
    either = chosen.add_if("if", choice, bodies[2], bodies[0])
    either.after(switch)
    exec = rt.instantiate(chosen)
    number.write([0])
    rt.launch(exec).wait()
    assert number.read()[0] == 1 * 31 + 2
    choice.write([0])
    number.write([1])
    rt.launch(exec).wait()
    assert number.read()[0] == (31 + 0) * 31 + 0
    with pytest.raises(dwell.SignatureMismatch, match=r"uint32"):
        chosen.add_while("loop", rt.array([1.0]), body)


def test_host_nodes(rt, ops):
    number = rt.array([0], "uint32", memory="host")
    seen = []

    def look():
        seen.append((int(number.read()[0]), threading.current_thread() is threading.main_thread()))
        number.write([5])

    graph = dwell.Graph()
    first = graph.add(ops.append, number, 1)
    host = graph.add_host("look", look).after(first)
    graph.add(ops.append, number, 2).after(host)
    exec = rt.instantiate(graph)
    del graph, look
    rt.launch(exec).wait()
    assert seen == [(1, False)]
    assert number.read()[0] == 5 * 31 + 2

    def broken():
        raise KeyError("nothing there")

    graph = dwell.Graph()
    graph.add_host("broken", broken)
    with pytest.raises(dwell.TaskFailed, match=r"'broken'.*KeyError: 'nothing there'"):
        rt.launch(rt.instantiate(graph)).wait()


def test_capture(rt, ops, cpu):
    x, y = np.ones(4, "f4"), rt.array(np.zeros(4, "f4"))

    @rt.capture
    def graph():
        ops.axpy(2, x, y)
        rt.submit_many(ops.axpy, [(1, np.full(4, 10, "f4"), y)] * 2)

    assert isinstance(graph, dwell.Graph) and len(graph) == 3
    assert y.read().tolist() == [0] * 4
    exec = rt.instantiate(graph)
    for _ in range(2):
        rt.launch(exec).wait()
    assert y.read().tolist() == [44] * 4
    with pytest.raises(ZeroDivisionError):
        rt.capture(lambda: 1 // 0)
    ops.axpy(1, x, y).wait()
    assert y.read().tolist() == [45] * 4


def test_operators_launch_graphs(rt, ops):
    number = rt.array([0], "uint32")
    graph = dwell.Graph()
    graph.add(ops.append, number, 3)
    again = rt.define(
        "again",
        "DWELL_OPERATOR(again)(dwell::Group g, dwell::Exec graph) { g.launch(graph); }",
    )
    exec = rt.instantiate(graph)
    again(exec).wait()
    assert number.read()[0] == 3
    with pytest.raises(dwell.SignatureMismatch, match=r"dwell.GraphExec fits"):
        again(graph)


def test_the_stubs_are_those_of_the_extension(tmp_path):
    root = Path(__file__).parents[2]
    made = tmp_path / "_dwell.pyi"
    stubgen = [sys.executable, "-m", "nanobind.stubgen", "--quiet", "--module", "dwell._dwell"]
    stubgen += ["--pattern-file", str(root / "python/stubs.patterns"), "--output-file", str(made)]
    if importlib.util.find_spec("nanobind") is None or importlib.metadata.version("nanobind") != "3.1.0":
        pytest.skip("the stubs are made by nanobind 3.1.0")
    subprocess.run(stubgen, check=True)
    assert made.read_text() == (root / "python/dwell/_dwell.pyi").read_text(), "script/stubs writes them anew"


def test_the_package_has_the_functions_of_the_extension():
    assert sorted(dwell._functions.__all__) == sorted(_dwell._array_functions), "script/stubs writes _functions.py anew"
    assert set(dwell._functions.__all__) < set(dwell.__all__)
