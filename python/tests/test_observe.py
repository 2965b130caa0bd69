"""Metrics and traces."""

import json
import threading
from pathlib import Path

import dwell
import pytest

NOTHING = "DWELL_OPERATOR(nothing)(dwell::Group) {}"
SPIN = """DWELL_OPERATOR(spin)(dwell::Group g, dwell::u64 ns) {
  const dwell::u64 start = dwell::device::now_ns();
  for (dwell::u32 round = 0; dwell::device::now_ns() - start < ns; ++round) dwell::device::relax(round);
}"""


def row(metrics: dwell.Metrics, name: str) -> dwell.OperatorMetrics:
    return next(op for op in metrics.operators if op.name == name)


def test_metrics_count_tasks() -> None:
    with dwell.Runtime("cpu", workers=2) as rt:
        nothing = rt.define("nothing", NOTHING)
        for _ in range(50):
            rt.submit(nothing)
        rt.submit(nothing, drain=True).wait()
        first = rt.metrics()
        assert row(first, "nothing").tasks == 51
        assert row(first, "nothing").timed == 0
        assert sum(worker.tasks for worker in first.workers) == 51
        rt.set_metrics("times")
        for _ in range(10):
            nothing().wait()
        later = rt.metrics()
        assert later.metering == "times"
        interval = later - first
        assert row(interval, "nothing").tasks == 10
        assert row(interval, "nothing").timed == 10
        assert 0 < row(later, "nothing").mean < 1
        assert row(later, "nothing").min <= row(later, "nothing").quantile(0.5) * 1.3
        assert "nothing" in repr(row(later, "nothing"))
        assert json.loads(later.to_json())["submitted"] == later.submitted
        assert later.to_openmetrics().endswith("# EOF\n")
        with pytest.raises(dwell.InvalidArgument, match="metrics"):
            rt.set_metrics("all")


def test_totals_are_of_all_versions() -> None:
    with dwell.Runtime("cpu", workers=1) as rt:
        nothing = rt.define("nothing", NOTHING)
        nothing().wait()
        nothing.redefine(NOTHING + " // again")
        for _ in range(2):
            nothing().wait()
        metrics = rt.metrics()
        assert [(op.version, op.tasks) for op in metrics.operators] == [(1, 1), (2, 2)]
        (total,) = metrics.totals
        assert (total.name, total.version, total.tasks) == ("nothing", 0, 3)
        assert repr(total) == "<dwell.OperatorMetrics nothing, 3 tasks>"
        assert [op["tasks"] for op in json.loads(metrics.to_json())["totals"]] == [3]
        assert 'operator="nothing"} 3\n' in metrics.to_openmetrics()


def test_waits_are_sampled_from_the_start() -> None:
    with dwell.Runtime("cpu", workers=1, metrics="times") as rt:
        nothing = rt.define("nothing", NOTHING)
        rt.submit_many(nothing, [()] * 2000).wait()
        assert row(rt.metrics(), "nothing").waits > 0


def test_workers_tell_how_they_spend_their_time() -> None:
    with dwell.Runtime("cpu", workers=1, metrics="times", idle=10.0) as rt:
        spin = rt.define("spin", SPIN)
        for rounds in range(1, 4):
            spin(10_000_000).wait()
            rt.park()
            metrics = rt.metrics()
            (worker,) = metrics.workers
            assert metrics.pauses == rounds
            assert worker.parks == rounds <= worker.leases
            assert worker.stolen == 0
            assert worker.idle + worker.busy == pytest.approx(worker.present, rel=0.01)
            assert worker.busy > rounds * 0.01
            assert worker.idle > 0
            rt.resume()


def test_structures_list_tasks_in_words() -> None:
    with dwell.Runtime("cpu", workers=1) as rt:
        nothing = rt.define("nothing", NOTHING)
        rt.park()
        ticket = nothing()
        held = rt.inspect("held")
        assert held["doing"] == "parked"
        assert held[f"ticket {ticket.position}.operator"] == "nothing (version 1)"
        assert held["not_complete"] == 1
        rt.resume()
        ticket.wait()


def test_metrics_are_an_option() -> None:
    with dwell.Runtime("cpu", metrics="off", live=False) as rt:
        nothing = rt.define("nothing", NOTHING)
        nothing().wait()
        assert rt.metrics().metering == "off"
        assert row(rt.metrics(), "nothing").tasks == 0
    with pytest.raises(dwell.InvalidArgument, match="metrics"):
        dwell.Runtime("cpu", metrics="much")


@pytest.mark.parametrize("name", ["trace.json", "trace.pftrace"])
def test_traces_are_files(tmp_path: Path, name: str) -> None:
    with dwell.Runtime("cpu", workers=1) as rt:
        nothing = rt.define("nothing", NOTHING)
        with dwell.trace(tmp_path / name, rt):
            rt.mark("begin")
            for _ in range(20):
                nothing().wait()
        content = (tmp_path / name).read_bytes()
        assert b"nothing (version 1)" in content
        assert b"begin" in content
        if name.endswith(".json"):
            events = json.loads(content)
            events = events["traceEvents"] if isinstance(events, dict) else events
            assert sum(1 for event in events if event.get("ph") == "X" and event["name"].startswith("nothing")) == 20
        rt.stop_trace()  # nothing to do


def test_a_trace_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with dwell.Runtime("cpu") as rt, pytest.raises(dwell.IoFailed, match="missing"):
        rt.start_trace(tmp_path / "missing" / "trace.json")


def test_threads_may_look_while_others_submit() -> None:
    with dwell.Runtime("cpu", workers=1) as rt:
        nothing = rt.define("nothing", NOTHING)
        over = threading.Event()
        seen: list[int] = []

        def look() -> None:
            while not over.is_set():
                seen.append(row(rt.metrics(), "nothing").tasks)

        thread = threading.Thread(target=look)
        thread.start()
        for _ in range(300):
            nothing().wait()
        over.set()
        thread.join()
        assert seen == sorted(seen)
        assert row(rt.metrics(), "nothing").tasks == 300
