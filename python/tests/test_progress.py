"""Progress of a slow compilation: to a callback, on a terminal, elsewhere."""

import os
import pty
import shutil
import subprocess
import sys
import textwrap
import threading
import time

import dwell
import pytest

SOURCE = "DWELL_OPERATOR(slow)(dwell::Group) {}"


@pytest.fixture
def slow_compiler(tmp_path, monkeypatch):
    """Delays each compilation by 2.4 seconds; starts with an empty cache."""
    compiler = shutil.which(os.environ.get("DWELL_CXX") or "c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    wrapper = tmp_path / "slow-c++"
    wrapper.write_text(f'#!/bin/sh\ncase "$*" in *" -o "*) sleep 2.4 ;; esac\nexec {compiler} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("DWELL_CXX", str(wrapper))
    monkeypatch.setenv("DWELL_CACHE_DIR", str(tmp_path / "cache"))


def test_a_callback_reports_long_compilations(slow_compiler):
    heard = []
    main = threading.get_ident()

    def tell(name, seconds, done):
        heard.append((name, seconds, done, threading.get_ident() == main))

    with dwell.Runtime("cpu", workers=1, progress=tell) as rt:
        start = time.monotonic()
        slow = rt.define("slow", SOURCE)
        took = time.monotonic() - start
        assert [name for name, *_ in heard] == ["slow"] * len(heard)
        assert [done for *_, done, _ in heard] == [False] * (len(heard) - 1) + [True] and len(heard) >= 3
        times = [seconds for _, seconds, *_ in heard]
        assert times == sorted(times) and times[0] >= 1 and 2.4 <= times[-1] <= took
        assert [here for *_, here in heard] == [False] * (len(heard) - 1) + [True]
        heard.clear()
        slow.redefine(SOURCE + " // another")
        assert heard[0][0] == "slow" and heard[-1][2]
        heard.clear()
        slow.redefine(SOURCE)  # from the cache
        assert heard == []
        dwell.asarray([1.0], runtime=rt) + 1
        assert heard[0][0] == "operations on tensors" and heard[-1][2]


def test_an_error_of_the_compiler_ends_it(slow_compiler):
    heard = []
    with dwell.Runtime("cpu", workers=1, progress=lambda *told: heard.append(told)) as rt, pytest.raises(dwell.CompileError):
        rt.define("slow", "DWELL_OPERATOR(slow)(dwell::Group) { nonsense }")
    assert heard and heard[-1][2] is True


def test_a_callback_that_raises_is_not_called_again(slow_compiler, monkeypatch):
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", lambda seen: raised.append(repr(seen.exc_value)))

    def tell(*_):
        raise ValueError("mine")

    with dwell.Runtime("cpu", workers=1, progress=tell) as rt:
        rt.define("slow", SOURCE)()
    assert raised == ["ValueError('mine')"]


def test_progress_takes_a_callable_or_a_bool():
    with pytest.raises(dwell.SignatureMismatch, match=r"progress of dwell.Runtime takes a callable.*not int"):
        dwell.Runtime("cpu", progress=1)  # type: ignore[arg-type]


def on_terminal(progress: str, *, terminal: bool = True) -> str:
    """Returns what a program writes to stderr."""
    program = f"import dwell\nwith dwell.Runtime('cpu', workers=1, progress={progress}) as rt: rt.define('slow', '{SOURCE}')\n"
    ours, theirs = pty.openpty() if terminal else os.pipe()
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stderr=theirs)
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 4096):
            written += part
    except OSError:  # Linux's end of file on a terminal that no process has open
        pass
    finally:
        os.close(ours)
    assert process.wait(60) == 0, written
    return written.decode()


def shown(written: str) -> str:
    """Returns the line as a terminal shows it."""
    line: list[str] = []
    at = 0
    for letter in written:
        if letter == "\r":
            at = 0
            continue
        line[at : at + 1] = [letter]
        at += 1
    return "".join(line).rstrip()


def test_a_terminal_shows_a_temporary_line(slow_compiler):
    written = on_terminal("None")
    assert "\rdwell: compiling slow … 1 s\rdwell: compiling slow … 2 s" in written
    assert shown(written[: written.rindex("2 s") + 3]) == "dwell: compiling slow … 2 s"
    assert shown(written) == ""


def test_progress_is_silent_when_off_or_without_a_terminal(slow_compiler, tmp_path):
    assert on_terminal("False") == ""
    shutil.rmtree(tmp_path / "cache")
    assert on_terminal("None", terminal=False) == ""


def test_progress_true_writes_without_a_terminal(slow_compiler):
    assert "dwell: compiling slow … 1 s" in on_terminal("True", terminal=False)
