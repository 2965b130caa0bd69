"""Shared by the tests: the device under test, and operators for every device."""

import functools
import os
import subprocess
import sys
import textwrap
import threading

# Before dwell.torch is imported: its contexts collect, however slow that is, in processes that tests start too. test_torch_choice.py tests
# those that choose.
os.environ.setdefault("DWELL_TORCH", "always")

import dwell
import pytest

SOURCES = {
    "nothing": "DWELL_OPERATOR(nothing)(dwell::Group) {}",
    "axpy": """
DWELL_OPERATOR(axpy)(dwell::Group g, float a, dwell::Span<const float> x, dwell::Span<float> y) {
  g.transform(y, [=](float b, float c) { return a * b + c; }, x, y);
}""",
    # Only the right order gives the right result.
    "append": """
DWELL_OPERATOR(append)(dwell::Group g, dwell::Span<dwell::u32> number, dwell::u32 digit) {
  if (g.rank() == 0) number[0] = number[0] * 31 + digit;
  g.sync();
}""",
    "fail": """
DWELL_OPERATOR(fail)(dwell::Group g, dwell::i32 code) {
  if (g.rank() == 0) g.fail(code);
}""",
    # Reports its start; runs until the host releases it, at most twenty seconds.
    "hold": """
DWELL_OPERATOR(hold)(dwell::Group g, dwell::Span<dwell::u32> latch) {
  using namespace dwell::device;
  if (g.rank() == 0) {
    const dwell::u64 start = now_ns();
    store<Order::release, Scope::system>(&latch[0], 1u);
    for (dwell::u32 round = 0; load<Order::acquire, Scope::system>(&latch[1]) == 0; ++round) {
      if (now_ns() - start > 20000000000ull) { g.fail(99); break; }
      relax(round);
    }
  }
  g.sync();
}""",
}


def appended(count: int) -> int:
    number = 0
    for digit in range(count):
        number = (number * 31 + digit) % 2**32
    return number


@functools.cache
def device() -> str:
    """Returns DWELL_TEST_DEVICE; by default the first GPU, or the CPU if there is none."""
    gpus = (one.device for one in dwell.devices() if one.device != "cpu")
    return os.environ.get("DWELL_TEST_DEVICE") or next(gpus, "cpu")


class Operators:
    """Defines all operators above in a runtime at once: a definition waits for running tasks."""

    def __init__(self, runtime: dwell.Runtime) -> None:
        for future in [runtime.define_async(name, source) for name, source in SOURCES.items()]:
            operator = future.result(60)
            setattr(self, operator.name, operator)


class Latch:
    """A task that runs until the test releases it."""

    def __init__(self, runtime: dwell.Runtime, ops: Operators) -> None:
        self.words = runtime.allocate(2, "uint32", memory="host")
        self.view = self.words.numpy()
        self.view[:] = 0
        self.ticket = ops.hold(self.words)

    def await_start(self) -> None:
        deadline = threading.Event()
        for _ in range(20000):
            if self.view[0]:
                return
            deadline.wait(0.0005)
        raise AssertionError("the task does not start")

    def release(self) -> None:
        self.view[1] = 1


@pytest.fixture(scope="session")
def rt():
    # All parts: otherwise the first use of one waits for running tasks, such as the latch of that test.
    with dwell.Runtime(device(), workers=2 if device() == "cpu" else 0, task_timeout=0, parts="all") as runtime:
        yield runtime


@pytest.fixture(scope="session")
def ops(rt):
    return Operators(rt)


@pytest.fixture
def latch(rt, ops):
    made = Latch(rt, ops)
    yield made
    made.release()


@pytest.fixture(scope="session")
def cpu(rt):
    if rt.device != "cpu":
        pytest.skip("only on the CPU")


def run_python(code: str, *, timeout: float = 300, check: bool = True, **environment: str) -> subprocess.CompletedProcess:
    """Runs a program in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **environment},
    )
    if check:
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done
