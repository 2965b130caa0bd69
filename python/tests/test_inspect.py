"""Inspects variables of operators and structures of a running runtime."""

import gc
import threading
import time

import dwell
import pytest
from conftest import device

SOURCE = """
struct Sums { dwell::u64 count; float last; dwell::u32 spare; };
float residual = 0.5F;
dwell::i32 table[3] = {1, 2, 3};
dwell::half small;
dwell::Seqlock<Sums> sums;
Sums plain;
DWELL_INSPECT(residual)
DWELL_INSPECT(table)
DWELL_INSPECT(small)
DWELL_INSPECT_MEMBERS(sums, count, last)
DWELL_INSPECT(plain)

DWELL_OPERATOR(note)(dwell::Group g, float x) {
  if (g.rank() != 0) return;
  residual = x;
  small = dwell::half(x);
  sums.store({7, x, 0});
}
"""


@pytest.fixture
def runtime():
    with dwell.Runtime(device(), inspect_writes=True) as made:
        yield made


def test_variables_are_read_with_their_types(runtime):
    note = runtime.define("note", SOURCE)
    assert runtime.inspect("residual").value == 0.5
    note(2.5).wait()
    found = runtime.inspect("note.residual")
    assert (found.name, found.operator, found.version, found.value, found.whole) == ("note.residual", "note", 1, 2.5, True)
    assert runtime.inspect("table").value == [1, 2, 3]
    assert runtime.inspect("small").value == 2.5
    sums = runtime.inspect("sums")
    assert sums.values == {"sums.count": 7, "sums.last": 2.5}
    assert sums["count"] == 7
    assert sums.whole
    assert str(sums) == "sums: count 7, last 2.5\n"
    assert repr(sums) == "<dwell.Inspection sums: count 7, last 2.5>"
    assert runtime.inspect("plain").value == bytes(16)
    with pytest.raises(dwell.InvalidArgument, match="name one"):
        _ = sums.value


def test_operators_and_structures_have_fields(runtime):
    note = runtime.define("note", SOURCE.replace("DWELL_INSPECT(residual)", ""))
    for i in range(3):
        note(float(i)).wait()
    assert runtime.inspect("note")["tasks"] == 3
    assert runtime.inspect("ring")["submitted"] >= 3
    with pytest.raises(dwell.InvalidArgument, match=r"ring, queue.*note\.table"):
        runtime.inspect("residual")


def test_variables_are_written_with_their_types(runtime):
    runtime.define("note", SOURCE)
    runtime.assign("residual", 4)
    assert runtime.inspect("residual").value == 4.0
    runtime.assign("table", [4, 5, 6])
    assert runtime.inspect("table").value == [4, 5, 6]
    runtime.assign("small", 0.25)
    assert runtime.inspect("small").value == 0.25
    with pytest.raises(dwell.SignatureMismatch, match="f32, which 'much' is not"):
        runtime.assign("residual", "much")
    with pytest.raises(dwell.SignatureMismatch, match="3 elements, not 2"):
        runtime.assign("table", [1, 2])
    with pytest.raises(dwell.Unsupported, match="DWELL_INSPECT_MEMBERS"):
        runtime.assign("plain", 1)
    with pytest.raises(dwell.Unsupported, match="Seqlock"):
        runtime.assign("sums.count", 1)
    with dwell.Runtime(device()) as other:
        other.define("note", SOURCE)
        with pytest.raises(dwell.Unsupported, match="inspect_writes"):
            other.assign("residual", 1.0)


def test_a_watch_looks_again_and_again(runtime):
    note = runtime.define("note", SOURCE)
    seen = threading.Event()
    with runtime.watch("residual", 0.001, lambda now: now.value == 3.0 and seen.set()) as watch:
        assert watch.active
        note(3.0).wait()
        assert seen.wait(20)
    assert not watch.active


def test_a_watch_ends_from_its_own_callback_and_with_its_runtime():
    runtime = dwell.Runtime(device())
    runtime.define("note", SOURCE)
    stopped = threading.Event()
    held = []

    def stop(_):
        while not held:
            time.sleep(0.001)
        held[0].stop()
        stopped.set()

    held.append(runtime.watch("residual", 0.001, stop))
    assert stopped.wait(20)
    assert not held[0].active
    other = runtime.watch("residual", 0.001, lambda _: None)
    held.clear()
    gc.collect()
    runtime.close()
    assert not other.active


def test_exceptions_of_a_callback_are_reported(runtime, monkeypatch):
    raised = threading.Event()
    monkeypatch.setattr("sys.unraisablehook", lambda what: raised.set() if "enough" in str(what.exc_value) else None)

    def fail(_):
        raise ValueError("enough")

    with runtime.watch("ring", 0.001, fail):
        assert raised.wait(20)
    with pytest.raises(dwell.InvalidArgument, match="not callable"):
        runtime.watch("ring", 0.001, 7)
