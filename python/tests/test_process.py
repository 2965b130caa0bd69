"""A process with dwell: import, interpreter exit, forks, signals, the command line."""

import json
import os
import signal
import subprocess
import sys
import time

import dwell
import numpy as np
import pytest
from conftest import run_python

BEGIN = """
import os, sys, threading, time, warnings
import dwell
rt = dwell.Runtime("cpu", workers=2, task_timeout=0)
nothing = rt.define("nothing", "DWELL_OPERATOR(nothing)(dwell::Group) {}")
spin = rt.define("spin", '''DWELL_OPERATOR(spin)(dwell::Group g, dwell::u64 ns) {
  const dwell::u64 start = dwell::device::now_ns();
  for (dwell::u32 round = 0; dwell::device::now_ns() - start < ns; ++round) dwell::device::relax(round);
}''')
x = rt.allocate(2, "uint32")
"""


def run(code, **how):
    return run_python(BEGIN + code, **how)


def test_import_is_light():
    done = run_python(
        """
        import sys
        before = set(sys.modules)
        import dwell
        heavy = {"numpy", "asyncio", "concurrent.futures", "ctypes", "logging", "typing", "dataclasses", "importlib.metadata"}
        print(sorted(heavy & (set(sys.modules) - before)))
        """
    )
    assert done.stdout == "[]\n"

    def processor_time(code):
        process = subprocess.Popen([sys.executable, "-c", code])
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return usage.ru_utime + usage.ru_stime

    def best(code):
        return min(processor_time(code) for _ in range(5))

    assert best("import dwell") - best("pass") < 0.060


@pytest.mark.parametrize(
    "code",
    [
        "",
        "spin(100_000_000)",  # in flight at exit
        "t = [nothing() for _ in range(1000)]",
        "rt.close()",
        "del rt",
        "cycle = [rt, x]; cycle.append(cycle)",
        "f = spin(50_000_000).as_future()",
        "spin(50_000_000).add_done_callback(lambda ticket: print('heard', flush=True))",
        "rt.define_async('late', 'DWELL_OPERATOR(late)(dwell::Group) {}')",
        "g = dwell.Graph(); g.add_host('h', lambda: time.sleep(0.05)); e = rt.instantiate(g); rt.launch(e)",
        "rt.park(); nothing(); rt.resume()",
        "import asyncio\nasync def main():\n  await spin(10_000_000)\nasyncio.run(main())",
        "import atexit; atexit.register(lambda: nothing().wait())",
        "threading.Thread(target=lambda: spin(100_000_000).wait()).start()",
        "threading.Thread(target=lambda: [nothing().wait() for _ in range(10**9)], daemon=True).start(); time.sleep(0.05)",
        "import builtins; builtins.kept = [rt, nothing, x, nothing()]",
        "sys.modules['dwell'].kept = rt",
    ],
)
def test_the_interpreter_ends(code):
    done = run(code, timeout=30, **({} if "daemon" in code else {"DWELL_PYTHON_LEAKS": "1"}))
    if "daemon" not in code:  # a thread frozen at exit leaks its objects, and may see the runtime closed
        assert "Traceback" not in done.stderr, done.stderr
        if "builtins" not in code:
            assert "nanobind" not in done.stderr, done.stderr
    if "heard" in code:
        assert done.stdout == "heard\n"


def test_an_exception_ends_it_at_once():
    done = run(
        "held = spin(300_000_000)\nwaiting = [spin(3_000_000_000, after=held) for _ in range(10)]\nraise ValueError('mine')",
        check=False,
        timeout=20,
    )
    assert done.returncode == 1
    assert "ValueError: mine" in done.stderr and "nanobind" not in done.stderr


@pytest.mark.parametrize("how", ["os._exit(0)", "sys.exit(0)", "return"])
def test_forks(how):
    end = {"return": ""}.get(how, how)
    done = run(
        f"""
nothing().wait()
ticket = spin(20_000_000)
child = os.fork()
if child == 0:
    for call in (lambda: nothing(), lambda: rt.info(), lambda: ticket.wait(), lambda: x.tobytes(), lambda: rt.close(), lambda: ticket.done):
        try:
            call()
        except dwell.Closed as error:
            assert "forked" in str(error), error
        else:
            os._exit(7)
    assert "Ticket" in repr(ticket) and "Operator" in repr(nothing) and "Buffer" in repr(x)
    with dwell.Runtime("cpu", workers=1) as own:
        own.define("nothing", "DWELL_OPERATOR(nothing)(dwell::Group) {{}}")().wait()
    del rt, nothing, x
    {end}
else:
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
    assert ticket.wait(20)
    nothing().wait()
    print("parent")
""",
        timeout=40,
    )
    assert done.stdout == "parent\n", done.stderr
    assert done.stderr == "" or "fork" in done.stderr


def test_multiprocessing():
    run(
        """
import multiprocessing
def work(queue):
    with dwell.Runtime("cpu", workers=1) as own:
        own.define("nothing", "DWELL_OPERATOR(nothing)(dwell::Group) {}")().wait()
    queue.put("done")
context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=work, args=(queue,))
process.start()
assert queue.get(timeout=30) == "done"
process.join(30)
assert process.exitcode == 0
""",
        timeout=60,
    )


def test_waiting_is_interrupted():
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + "t = spin(4_000_000_000)\nprint('now', flush=True)\ntry:\n  t.wait()\nfinally:\n  print(t.done)\n"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "now\n"
    time.sleep(0.2)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=20)
    assert output == "False\n"  # before the task has ended
    assert "KeyboardInterrupt" in errors
    assert time.monotonic() - start < 10
    assert process.returncode != 0


def test_without_a_compiler():
    done = run_python(
        """
        import dwell
        try:
            with dwell.Runtime("cpu") as rt:
                rt.define("nothing", "DWELL_OPERATOR(nothing)(dwell::Group) {}")
        except dwell.CompilerUnavailable as error:
            print(error)
        """,
        DWELL_CXX="/nowhere/c++",
    )
    assert "/nowhere/c++" in done.stdout and "C++" in done.stdout


def test_without_numpy():
    run(
        """
sys.modules["numpy"] = None
import array
y = array.array("f", [1, 2, 3])
z = rt.allocate(3)
z.write(y)
assert z.tobytes() == y.tobytes()
target = array.array("f", [0, 0, 0])
z.readinto(target)
assert target == y
assert memoryview(z).tolist() == [1, 2, 3]
try:
    z.read()
except dwell.Unsupported as error:
    assert "pip install numpy" in str(error)
else:
    raise AssertionError
"""
    )


def test_memory_and_descriptors_do_not_grow():
    run(
        """
import gc, resource
def once():
    with dwell.Runtime("cpu", workers=1) as own:
        op = own.define("nothing", "DWELL_OPERATOR(nothing)(dwell::Group) {}")
        buffers = [own.allocate(1000) for _ in range(10)]
        views = [memoryview(b) for b in buffers]
        tickets = [op() for _ in range(100)]
        tickets[-1].as_future().result(10)
        g = dwell.Graph(); g.add(op); g.add_host("h", lambda: None); own.launch(own.instantiate(g)).wait()
    gc.collect()
def size():
    return len(os.listdir("/proc/self/fd")), int(open("/proc/self/statm").read().split()[1]) * 4096
for _ in range(10): once()
before = size()
for _ in range(90): once()
after = size()
assert after[0] <= before[0], (before, after)
assert after[1] < before[1] + 45_000_000, (before, after)  # half a megabyte a runtime, and what one runtime allocates

view = bytearray(4096)
axpy = rt.define("touch", "DWELL_OPERATOR(touch)(dwell::Group g, dwell::Span<dwell::u8> x) { x[0] = 1; }")
def many():
    for _ in range(20000): axpy(view)
    rt.sync(); time.sleep(0.2); rt.allocate(1)
for _ in range(4): many()
before = size()
for _ in range(4): many()
after = size()
for _ in range(100):  # a busy machine frees memory later
    if after[1] < before[1] + 16_000_000: break
    time.sleep(0.1); rt.sync(); rt.allocate(1)
    after = size()
assert after[1] < before[1] + 16_000_000, (before, after)
""",
        timeout=120,
        MALLOC_ARENA_MAX="1",
    )


def tool(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "dwell", *arguments], capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )


def test_the_command_line(tmp_path):
    missing = tool("doctor", PATH=str(tmp_path))
    if missing.returncode == 2:
        assert "neither in this package nor on PATH" in missing.stderr
    fake = tmp_path / "dwell"
    fake.write_text('#!/bin/sh\necho tool "$@"\nexit 3\n')
    fake.chmod(0o755)
    found = tool("run", "job.toml", PATH=f"{tmp_path}:{os.environ['PATH']}")
    if missing.returncode == 2:
        assert (found.stdout, found.returncode) == ("tool run job.toml\n", 3)


def test_the_command_does_not_find_itself(tmp_path):
    """Entry points of other environments come before the tool on PATH."""
    script, fake = tmp_path / "first" / "dwell", tmp_path / "second" / "dwell"
    for file, text in (
        (script, f"#!{sys.executable}\nfrom dwell._tool import main\nmain()\n"),
        (fake, "#!/bin/sh\necho tool\n"),
    ):
        file.parent.mkdir()
        file.write_text(text)
        file.chmod(0o755)
    program = "import dwell._tool as tool; tool.BIN = '/none'; print(tool.find())"
    for path, found in ((f"{script.parent}:{fake.parent}", str(fake)), (str(script.parent), "None")):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PATH": path})
        assert (done.stdout, done.stderr) == (f"{found}\n", "")


def test_build_info():
    info = dwell.build_info()
    assert (info.version, info.cuda, info.tool) == (dwell.__version__, "cuda" not in info.left_out, "tool" not in info.left_out)
    if not info.cuda:
        with pytest.raises(dwell.DeviceUnavailable, match="headers were not found when it was built") as caught:
            dwell.Runtime("cuda:0")
        assert caught.value.message == info.left_out["cuda"]


# Ways in which a runtime calls Python code. For log lines, ``call`` is an option of the runtime.
CALLED = {
    "done": "nothing().add_done_callback(call)",
    "host node": "g = dwell.Graph(); g.add_host('h', call); rt.launch(rt.instantiate(g)); del g",
    "watch": "w = rt.watch('queue', 0.001, call)",
    "log": """
rt = dwell.Runtime("cpu", workers=1, log=call)
rt.define("says", 'DWELL_OPERATOR(says)(dwell::Group g) { dwell::log(g, dwell::level::error, "now"); }')()
""",
}


@pytest.mark.parametrize("how", CALLED)
def test_closing_in_a_callback_raises(how):
    done = run(
        f"""
heard = threading.Event()
def call(*_):
    if heard.is_set(): return
    try:
        rt.close()
    except dwell.InvalidArgument as error:
        print("call it outside" in str(error), flush=True)
    heard.set()
{CALLED[how]}
assert heard.wait(20)
rt.close()
print("closed")
"""
    )
    assert (done.stdout, done.stderr) == ("True\nclosed\n", "")


@pytest.mark.parametrize(
    "what", ["sys.exit(3)", "raise KeyboardInterrupt", "os.fork() or os._exit(0)", "rt = nothing = spin = x = w = None"]
)
@pytest.mark.parametrize("how", CALLED)
def test_nothing_in_a_callback_ends_the_process_or_hangs_it(how, what):
    done = run(
        f"""
heard = threading.Event()
w = None
def call(*_):
    global rt, nothing, spin, x, w
    if heard.is_set(): return
    heard.set()
    {what}
sys.unraisablehook = lambda unraisable: None
warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, of a fork beside threads
{CALLED[how]}
assert heard.wait(20)
time.sleep(0.05)
print("goes on")
"""
    )
    assert (done.stdout, done.stderr) == ("goes on\n", "")


@pytest.fixture
def real(tmp_path):
    """Returns a function that runs the built tool with a live directory of its own."""
    file = os.environ.get("DWELL_TEST_TOOL", "")
    if not os.access(file, os.X_OK):
        pytest.skip("DWELL_TEST_TOOL does not name the command line tool")
    path = f"{os.path.dirname(file)}:{os.environ['PATH']}"

    def succeed(*arguments):
        done = tool(*arguments, PATH=path, DWELL_LIVE_DIR=str(tmp_path))
        assert (done.returncode, done.stderr) == (0, ""), (arguments, done.stdout, done.stderr)
        return done.stdout

    return succeed


def test_doctor(real):
    assert "ran a task" in real("doctor")


def test_bench(real, tmp_path):
    assert "key figure" in real("bench", "idle", "--device", "cpu", "--json", str(tmp_path / "figures.json"))
    assert "idle" in json.dumps(json.loads((tmp_path / "figures.json").read_text()))


def test_run_a_job(real, tmp_path):
    (tmp_path / "twice.hpp").write_text(
        "DWELL_OPERATOR(twice)(dwell::Group g, dwell::Span<float> x) { for (auto i : g.range(x.size())) x[i] *= 2; }"
    )
    np.save(tmp_path / "x.npy", np.arange(5, dtype="f4"))
    (tmp_path / "job.toml").write_text(
        """
[operators.twice]
source = "twice.hpp"
[arrays]
x = { file = "x.npy" }
[[tasks]]
operator = "twice"
args = ["x"]
repeat = 3
link = true
[outputs]
x = "y.npy"
"""
    )
    real("run", str(tmp_path / "job.toml"), "--device", "cpu")
    assert np.load(tmp_path / "y.npy").tolist() == [0, 8, 16, 24, 32]


def test_top_of_a_process_of_python(real, tmp_path):
    program = BEGIN + "print(os.getpid(), flush=True)\nwhile True: nothing().wait()"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env={**os.environ, "DWELL_LIVE_DIR": str(tmp_path)}
    )
    try:
        pid = process.stdout.readline().strip()
        picture = json.loads(real("top", pid, "--once", "--json", "-d", "0.5"))
    finally:
        process.kill()
        process.communicate()
    assert (picture["pid"], picture["device"], len(picture["workers"])) == (int(pid), "cpu", 2)
    assert {row["name"] for row in picture["operators"]} >= {"nothing"}
    assert picture["tasks_per_s"] > 0
