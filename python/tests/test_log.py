"""The log: operators' lines at loggers, callables and files, and read from the runtime."""

import gc
import logging
import sys
import threading
import time
import weakref
from pathlib import Path

import dwell
import pytest
from conftest import device, run_python

SAY = """
DWELL_OPERATOR(say)(dwell::Group g, dwell::u32 number) {
  if (g.rank() != 0) return;
  dwell::log(g, dwell::level::trace, "trace {}", number);
  dwell::log(g, dwell::level::debug, "debug {}", number);
  dwell::log(g, dwell::level::info, "100% {}", number);
  dwell::log(g, dwell::level::warning, "warning {}", number);
  dwell::log(g, dwell::level::error, "error {}", number);
}"""


def opened(log: object, **options: object) -> dwell.Runtime:
    return dwell.Runtime(device(), log=log, **options)


def hand_over(rt: dwell.Runtime) -> list[dwell.LogRecord]:
    """Returns all lines so far. Parks the loop first: the lines of complete tasks are then there."""
    rt.park()
    lines = list(rt.logs())
    rt.resume()
    return lines


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(0)
        self.all: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.all.append(record)

    def texts(self) -> list[str]:
        return [record.getMessage() for record in self.all]


@pytest.fixture
def logger():
    made = logging.getLogger("dwell.test.log")
    made.propagate = False
    made.setLevel(1)
    made.records = Records()
    made.addHandler(made.records)
    yield made
    made.removeHandler(made.records)
    made.setLevel(logging.NOTSET)


@pytest.fixture
def unraisable(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: seen.append((what.exc_type, str(what.exc_value))))
    return seen


def test_lines_become_records_of_a_logger(logger) -> None:
    before = time.time()
    with opened(dwell.Logging(logger, level="trace")) as rt:
        say = rt.define("say", SAY)
        say.redefine(SAY)
        ticket = say(7)
        ticket.wait()
    made = logger.records.all
    assert [(one.levelno, one.levelname) for one in made] == [
        (5, "TRACE"),
        (logging.DEBUG, "DEBUG"),
        (logging.INFO, "INFO"),
        (logging.WARNING, "WARNING"),
        (logging.ERROR, "ERROR"),
    ]
    assert logger.records.texts() == ["trace 7", "debug 7", "100% 7", "warning 7", "error 7"]
    one = made[0]
    assert (one.name, one.funcName, one.operator, one.version, one.ticket) == (logger.name, "say", "say", 2, ticket.position)
    assert 0 <= one.worker < 10_000
    assert before - 0.1 <= one.created <= time.time() + 0.1
    assert one.msecs == pytest.approx(one.created % 1 * 1000, abs=1)
    first, now, last = time.monotonic(), time.time(), time.monotonic()
    assert first - 0.1 < one.device_time + (now - one.created) < last + 0.1


def test_a_record_has_the_time_at_which_the_line_was_logged(logger) -> None:
    go = threading.Event()

    def wait(record: logging.LogRecord) -> bool:
        return go.wait(20)

    logger.addFilter(wait)
    try:
        with opened(logger) as rt:
            rt.define("say", SAY)(1).wait()
            done = time.time()
            time.sleep(0.3)
            go.set()
    finally:
        logger.removeFilter(wait)
    assert len(logger.records.all) == 3
    assert all(record.created < done + 0.1 for record in logger.records.all)


def test_a_name_selects_a_logger(logger) -> None:
    with opened(logger.name) as rt:
        rt.define("say", SAY)(3).wait()
    assert logger.records.texts() == ["100% 3", "warning 3", "error 3"]


def test_the_level_of_a_logger_filters_lines(logger) -> None:
    with opened(dwell.Logging(logger, level="debug")) as rt:
        say = rt.define("say", SAY)
        logger.setLevel(logging.ERROR)
        say(1).wait()
        hand_over(rt)
        logger.setLevel(logging.INFO)
        say(2).wait()
    assert logger.records.texts() == ["error 1", "100% 2", "warning 2", "error 2"]


def test_a_threshold_changes_while_the_runtime_works(logger) -> None:
    with opened(dwell.Logging(logger, level="off")) as rt:
        say = rt.define("say", SAY)
        say(1).wait()
        rt.set_log_level("warning")
        say(2).wait()
        with pytest.raises(dwell.InvalidArgument, match=r'"trace".*not "loud"'):
            rt.set_log_level("loud")
    assert logger.records.texts() == ["warning 2", "error 2"]


def test_a_callable_takes_lines() -> None:
    lines: list[dwell.LogRecord] = []
    threads = set()

    def take(line: dwell.LogRecord) -> None:
        threads.add(threading.get_native_id())
        lines.append(line)

    with opened(take) as rt:
        say = rt.define("say", SAY)
        ticket = say(4)
        ticket.wait()
    assert [line.severity for line in lines] == ["info", "warning", "error"]
    line = lines[0]
    assert (line.text, line.operator, line.version, line.ticket) == ("100% 4", "say", 1, ticket.position)
    assert abs(line.time - time.monotonic()) < 60
    assert str(line).endswith(f" info say (version 1) worker {line.worker} ticket {line.ticket}: 100% 4")
    assert repr(line).startswith("dwell.LogRecord(severity='info', text='100% 4'")
    assert line.asdict()["worker"] == line.worker
    assert len(threads) == 1 and threading.get_native_id() not in threads


def test_nodes_of_graphs_have_a_name_and_the_ticket_of_their_launch() -> None:
    lines: list[dwell.LogRecord] = []
    with opened(lines.append) as rt:
        say = rt.define("say", SAY)
        graph = dwell.Graph().name("step")
        graph.add("left", say, 1)
        ticket = rt.launch(rt.instantiate(graph))
        ticket.wait()
    assert {(line.ticket, line.node, line.graph) for line in lines} == {(ticket.position, "left", "step")}
    assert f" info say (version 1) node 'left' of graph 'step' worker {lines[0].worker} ticket {ticket.position}: " in str(lines[0])


def test_a_path_is_a_rotated_file(tmp_path: Path) -> None:
    with opened(dwell.Logging(tmp_path / "log", file_bytes=400, files=3)) as rt:
        say = rt.define("say", SAY)
        for number in range(30):
            say(number).wait()
            hand_over(rt)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
    assert (tmp_path / "log").read_text().endswith("error 29\n")


def test_lines_go_to_stderr_unless_told_otherwise() -> None:
    def errors(more: str) -> str:
        program = f"import dwell\nwith dwell.Runtime('{device()}'{more}) as rt: rt.define('say', {SAY!r})(1).wait()"
        return run_python(program).stderr

    assert [line.split(": ")[-1] for line in errors("").splitlines()] == ["100% 1", "warning 1", "error 1"]
    assert errors(", log=dwell.Logging(level='error')").count("\n") == 1
    assert errors(", log=[].append") == ""


def test_exceptions_of_a_callable_go_to_the_hook(unraisable) -> None:
    lines = []

    def take(line: dwell.LogRecord) -> None:
        lines.append(line.text)
        raise ValueError(line.text)

    with opened(take) as rt:
        rt.define("say", SAY)(1).wait()
    assert lines == ["100% 1", "warning 1", "error 1"]
    assert unraisable == [(ValueError, text) for text in lines]


def test_exceptions_of_a_logger_go_to_the_hook(logger, unraisable) -> None:
    def refuse(record: logging.LogRecord) -> bool:
        raise KeyError(record.getMessage())

    logger.addFilter(refuse)
    try:
        with opened(logger) as rt:
            rt.define("say", SAY)(1).wait()
    finally:
        logger.removeFilter(refuse)
    assert [kind for kind, _ in unraisable] == [KeyError] * 3


def test_a_callable_may_use_the_runtime_but_not_close_it(unraisable) -> None:
    seen = []
    ops = {}
    over = threading.Event()

    def take(line: dwell.LogRecord) -> None:
        if line.text == "error 1":
            ops["say"](2).wait()
            seen.extend(one.text for one in ops["rt"].logs())
        if line.text == "error 2":
            over.set()
            ops["rt"].close()

    with opened(take) as rt:
        ops["rt"] = rt
        ops["say"] = rt.define("say", SAY)
        ops["say"](1).wait()
        assert over.wait(20)
        ops["say"](3).wait()
    assert "100% 1" in seen
    assert [kind for kind, _ in unraisable] == [dwell.InvalidArgument]
    assert "callback of the log" in unraisable[0][1]


def test_closing_hands_over_what_a_slow_callable_has_left() -> None:
    """The closing thread releases the GIL: the callable waits for it."""
    lines = []

    def take(line: dwell.LogRecord) -> None:
        time.sleep(0.02)
        lines.append(line.text)

    rt = opened(take)
    say = rt.define("say", SAY)
    for number in range(20):
        say(number)
    rt.close()
    assert len(lines) == 60
    assert {f"error {number}" for number in range(20)} <= set(lines)


@pytest.mark.parametrize("end", ["rt.close()", "del rt, say", "del rt, say; gc.collect()", "rt.logs()", "pass", "rt.close(now=True)"])
def test_ends_do_not_deadlock_on_the_gil(end: str) -> None:
    done = run_python(
        f"""
        import gc, logging, sys, time
        import dwell
        logging.basicConfig(stream=sys.stdout, format="%(operator)s %(message)s", level=logging.INFO)
        class Slow(logging.Filter):
            def filter(self, record):
                time.sleep(0.005)
                return True
        log = logging.getLogger("slow")
        log.addFilter(Slow())
        rt = dwell.Runtime("{device()}", log=log)
        say = rt.define("say", {SAY!r})
        for number in range(10):
            say(number).wait()
        {end}
        """,
        timeout=40,
        DWELL_PYTHON_LEAKS="1",
    )
    assert done.stdout.splitlines()[-1] == "say error 9", done.stdout
    assert done.stderr == ""


def test_nothing_is_called_once_the_interpreter_has_ended() -> None:
    """A runtime opened after the interpreter's end must not call its callable."""
    done = run_python(
        f"""
        import atexit
        late = []
        def open_late():
            late.append(dwell.Runtime("{device()}", log=lambda line: print("called", line.text, flush=True)))
            late[0].define("say", {SAY!r})(1).wait()
            late[0].close()
            print("closed", flush=True)
        atexit.register(open_late)
        import dwell
        """,
        timeout=40,
    )
    assert done.stdout == "closed\n"


class Holder:
    """Owns a runtime that calls `take`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.rt = opened(self.take, workers=1 if device() == "cpu" else 0)

    def take(self, line: dwell.LogRecord) -> None:
        self.lines.append(line.text)


def test_a_callable_that_holds_its_runtime_is_collected() -> None:
    held = weakref.ref(Holder())
    gc.collect()
    assert held() is None


def test_a_callable_that_is_in_use_is_not_collected() -> None:
    rt = Holder().rt
    say = rt.define("say", SAY)
    gc.collect()
    say(1).wait()
    hand_over(rt)
    del rt
    gc.collect()  # the operator keeps the runtime alive
    taken = [one for one in gc.get_objects() if type(one) is Holder]
    say(2).wait()
    assert len(taken) == 1
    taken[0].rt.close()
    assert taken[0].lines == [f"{what} {number}" for number in (1, 2) for what in ("100%", "warning", "error")]


def test_closing_lets_go_of_a_callable() -> None:
    holder = Holder()
    holder.say = holder.rt.define("say", SAY)
    held = weakref.ref(holder)
    holder.rt.close()
    del holder
    gc.collect()
    assert held() is None


def test_lines_are_read_as_they_come() -> None:
    with opened([].append) as rt:
        say = rt.define("say", SAY)
        reader = rt.logs(20)
        other = threading.Timer(0.1, lambda: say(1))
        other.start()
        assert [next(reader).text for _ in range(3)] == ["100% 1", "warning 1", "error 1"]
        other.join()
        assert [line.text for line in rt.logs()] == ["100% 1", "warning 1", "error 1"]
        assert next(rt.logs(0.05)).ticket is not None
        with pytest.raises(dwell.InvalidArgument, match="wait"):
            rt.logs(-1)
        start = time.monotonic()
    assert list(reader) == []  # at once: the runtime has ended
    assert time.monotonic() - start < 10


def test_lines_that_are_not_kept_are_counted() -> None:
    with opened(dwell.Logging([].append, kept=2)) as rt:
        say = rt.define("say", SAY)
        say(1).wait()
        hand_over(rt)
        reader = rt.logs()
        assert [line.text for line in reader] == ["warning 1", "error 1"]
        assert reader.missed == 1


def test_metrics_count_lines() -> None:
    with opened(dwell.Logging([].append, per_site_per_second=1)) as rt:
        say = rt.define("say", SAY)
        for number in range(10):
            say(number).wait()
        hand_over(rt)
        metrics = rt.metrics()
        assert metrics.log_lines + metrics.log_limited == 30
        assert metrics.log_limited >= 1
        assert metrics.log_dropped == {"trace": 0, "debug": 0, "info": 0, "warning": 0, "error": 0}


@pytest.mark.parametrize(
    ("log", "error", "says"),
    [
        (3, dwell.SignatureMismatch, "takes a logging.Logger .* not int"),
        ("out/run.log", dwell.InvalidArgument, r"a file is pathlib.Path\('out/run.log'\)"),
        (dwell.Logging(level="DEBUG"), dwell.InvalidArgument, '"debug".*not "DEBUG"'),
        (dwell.Logging(kept=-1), dwell.InvalidArgument, "kept of dwell.Logging is -1"),
        (dwell.Logging(files="4"), dwell.SignatureMismatch, "files of dwell.Logging is an int, not str"),
        (dwell.Logging(ring_lines=100), dwell.InvalidArgument, "ring_lines is 100: .* power of two"),
        (Path("/nowhere/log"), dwell.InvalidArgument, "/nowhere/log"),
    ],
)
def test_invalid_options_are_refused(log: object, error: type[dwell.Error], says: str) -> None:
    with pytest.raises(error, match=says):
        opened(log)


def test_logging_shows_what_was_given() -> None:
    assert repr(dwell.Logging("app", level="debug", files=2)) == "dwell.Logging(to='app', level='debug', files=2)"
    assert repr(dwell.Logging()) == "dwell.Logging()"
