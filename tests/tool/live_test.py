#!/usr/bin/env python3
"""End-to-end tests of the commands that look at a process: at one that runs, with a runtime that works, and at one that was killed.

    tests/tool/live_test.py TOOL LIVE_PROCESS [ARGUMENT OF unittest...]
"""

import json
import os
import pty
import re
import select
import stat
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOOL = ""
LIVE_PROCESS = ""


def environment_of(folder: Path) -> dict[str, str]:
    """In which processes publish in this folder."""
    return {name: value for name, value in os.environ.items() if name != "DWELL_LIVE"} | {"DWELL_LIVE_DIR": str(folder)}


class LiveProcess:
    """LIVE_PROCESS, which has run its first ten tasks. Nobody else publishes in `folder`."""

    def __init__(self, operator: str, does: str, folder: Path, **variables: str):
        self.operator = operator
        environment = environment_of(folder) | variables
        self.process = subprocess.Popen(
            [LIVE_PROCESS, operator, does], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.pid = str(self.process.pid)
        self.tenth = self.process.stdout.readline().strip()  # its position
        assert self.tenth.isdigit(), "the process has not begun to work"

    def end(self) -> int:
        self.process.stdin.close()
        return self.process.wait(timeout=60)

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=60)
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)  # of mode 0700

    def start(self, operator: str, does: str, **variables: str) -> LiveProcess:
        process = LiveProcess(operator, does, self.folder, **variables)
        self.addCleanup(process.kill)
        return process

    def dwell(self, *arguments: str) -> subprocess.CompletedProcess:
        environment = environment_of(self.folder)
        return subprocess.run([TOOL, *arguments], capture_output=True, text=True, timeout=120, check=False, env=environment)

    def succeed(self, *arguments: str) -> str:
        result = self.dwell(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
        return result.stdout

    def fail_with(self, code: int, message: str, *arguments: str):
        result = self.dwell(*arguments)
        self.assertEqual((result.returncode, result.stdout), (code, ""), arguments)
        self.assertRegex(result.stderr, "^dwell: error: ")
        self.assertIn(message, result.stderr)

    def until(self, answer: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
        """The first answer that is wanted."""
        deadline = time.monotonic() + 60
        while not wanted(last := answer()):
            self.assertLess(time.monotonic(), deadline, last)
            time.sleep(0.01)
        return last


class Live(Case):
    """Two processes at once: each answers for itself."""

    def setUp(self):
        super().setUp()
        self.left = self.start("left", "works")
        self.right = self.start("right", "works")

    def at_both(self, look: Callable[[str, str], None]):
        """Calls it with the number of each process, and the name of its operator."""
        for process in (self.left, self.right):
            with self.subTest(process.operator):
                look(process.pid, process.operator)

    def test_top(self):
        def look(pid: str, operator: str):
            picture = self.until(
                lambda: json.loads(self.succeed("top", pid, "--once", "--json", "-d", "0.2")), lambda picture: picture["tasks_per_s"] > 0
            )
            self.assertEqual((picture["pid"], picture["device"], len(picture["workers"])), (int(pid), "cpu", 1))
            (row,) = picture["operators"]
            self.assertEqual((row["name"], row["version"], row["failures"]), (operator, 1, 0))
            self.assertGreaterEqual(row["tasks"], 10)

        self.at_both(look)

    def test_top_lists_processes(self):
        listed = self.succeed("top")
        self.at_both(lambda pid, operator: self.assertRegex(listed, rf"(?m)^ *{pid}  .*live_process {operator} works$"))

    def test_metrics(self):
        def look(pid: str, operator: str):
            text = self.succeed("metrics", pid)
            self.assertTrue(text.endswith("\n# EOF\n"))
            ((name, tasks),) = re.findall(r'(?m)^dwell_operator_tasks_total{[^}]*operator="(\w+)"} (\d+)$', text)
            self.assertEqual(name, operator)
            self.assertGreaterEqual(int(tasks), 10)
            # The process works on meanwhile.
            later = self.until(
                lambda: json.loads(self.succeed("metrics", pid, "--runtime", "1", "--format", "json")),
                lambda snapshot: snapshot["operators"][0]["tasks"] > int(tasks),
            )
            self.assertEqual([op["name"] for op in later["operators"]], [operator])
            self.assertEqual((later["runtime"], later["metering"], len(later["workers"])), (1, "counts", 1))
            self.assertEqual(later["graph_launches"], 1)

        self.at_both(look)

    def test_inspect(self):
        def look(pid: str, operator: str):
            def calls() -> int:
                return int(re.search(r"\d+\s*$", self.succeed("inspect", pid, f"calls_of_{operator}"))[0])

            first = calls()
            self.assertGreaterEqual(first, 10)
            self.until(calls, lambda count: count > first)
            self.assertRegex(self.succeed("inspect", pid, operator), r"^tasks: \d+\nfailures: 0\n$")
            self.assertRegex(self.succeed("inspect", pid, "workers"), r"^0: tasks \d+, fetched \d+,[^\n]*\n$")

        self.at_both(look)
        self.fail_with(1, "calls_of_right", "inspect", self.left.pid, "calls_of_right")

    def test_logs(self):
        def look(pid: str, operator: str):
            lines = self.until(lambda: self.succeed("logs", pid).splitlines(), lambda lines: len(lines) >= 3)
            self.assertEqual(len(lines), 3)
            for call, line in enumerate(lines, 1):
                self.assertRegex(line, rf" info {operator} \(version 1\) worker 0 ticket \d+: call {call}$")
            (last,) = self.succeed("logs", pid, "-n", "1").splitlines()
            # Each process that prints a line puts its time on the calendar anew, and may be off by a microsecond.
            self.assertEqual(last.split(" ", 1)[1], lines[2].split(" ", 1)[1])
            self.assertEqual(self.succeed("logs", pid, "--level", "warning"), "")

        self.at_both(look)

    def test_logs_follow_until_the_process_ends(self):
        log = self.folder / "log"
        with log.open("w") as output:
            command = [TOOL, "logs", "-f", self.left.pid]
            follows = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment_of(self.folder))
        self.addCleanup(follows.wait)
        self.addCleanup(follows.kill)
        lines = self.until(lambda: log.read_text().splitlines(), lambda lines: len(lines) >= 3)
        self.assertEqual(self.left.end(), 0)
        self.assertEqual(follows.wait(timeout=60), 0)
        self.assertEqual(log.read_text().splitlines(), lines)
        self.assertEqual([line[-6:] for line in lines], ["call 1", "call 2", "call 3"])
        self.fail_with(2, f"there is no process {self.left.pid}", "logs", self.left.pid)

    def test_stuck(self):
        # Each waits for something, and knows what: nothing of that is stuck.
        self.at_both(lambda pid, _: self.assertIn("the_end_of_input", self.succeed("stuck", pid)))

    def test_trace(self):
        def look(pid: str, operator: str):
            path = self.folder / f"{operator}.json"

            def calls() -> list[str]:
                written = self.succeed("trace", pid, "-t", "0.2", "--format", "chrome", "-o", str(path))
                self.assertRegex(written, rf"^{re.escape(str(path))}: [0-9,]+ bytes, for chrome://tracing")
                events = json.loads(path.read_text())["traceEvents"]
                return [event["name"] for event in events if event["ph"] == "X" and "(version" in event["name"]]

            self.assertEqual(set(self.until(calls, lambda names: len(names) >= 2)), {f"{operator} (version 1)"})

        self.at_both(look)

    def test_a_trace_that_is_not_written_leaves_what_is_there(self):
        process = self.start("solve", "works")
        kept = self.folder / "kept.json"
        kept.write_text("precious")
        full = self.folder / "full"
        full.symlink_to("/dev/full")
        result = self.dwell("trace", process.pid, "-t", "0.2", "-o", str(full))
        self.assertEqual(result.returncode, 1)
        self.assertIn("No space left", result.stderr)
        self.assertTrue(full.is_symlink())
        command = [TOOL, "trace", process.pid, "-t", "60", "-o", "-"]
        long = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment_of(self.folder))
        self.addCleanup(long.wait)
        self.addCleanup(long.kill)
        time.sleep(1)
        result = self.dwell("trace", process.pid, "-t", "0.2", "-o", str(kept))
        self.assertEqual(result.returncode, 1)
        self.assertIn("is being taken already", result.stderr)
        self.assertEqual(kept.read_text(), "precious")
        self.assertEqual([path.name for path in self.folder.glob("*.unfinished")], [])
        self.assertEqual(process.end(), 0)

    def test_one_of_several_processes_is_to_be_named(self):
        for command in ("metrics", "logs", "stuck", "trace"):
            self.fail_with(2, "several processes of yours run dwell", command)
            self.fail_with(2, f"{self.left.pid} (live_process)", command)
        self.right.kill()
        self.assertIn('operator="left"', self.succeed("metrics"))
        self.fail_with(2, "has the runtimes 1", "metrics", "--runtime", "2")


class Heap(Case):
    """What `dwell heap` tells of a process that keeps more and more."""

    def setUp(self):
        super().setUp()
        self.keeper = self.start("keeper", "keeps")
        self.assertEqual(self.keeper.process.stdout.readline(), "kept\n")

    def json(self, *arguments: str) -> dict[str, Any]:
        return json.loads(self.succeed("heap", self.keeper.pid, "--json", *arguments))

    def test_counts_what_lives(self):
        heap = self.json()
        self.assertEqual((heap["pid"], heap["runtime"], heap["failures"], heap["collections"]), (int(self.keeper.pid), 1, 0, 0))
        sizes = {row["size"]: row["live"] for row in heap["classes"]}
        self.assertGreaterEqual(sizes[112], 10)
        self.assertGreaterEqual(heap["live_bytes"], 10 * 112 + 100 * 16)
        self.assertRegex(self.succeed("heap", self.keeper.pid), r"(?m)^ *112 +\d+ .*\n(.*\n)*collections 0$")
        types = self.json("--types")
        objects = {row["name"]: row["objects"] for row in types["types"]}
        self.assertEqual((set(objects), objects["cell"], objects["Entry"] % 10), ({"Entry", "cell"}, 1, 0))
        self.assertEqual([(row["size"], row["allocations"] * 10) for row in types["sizes"]], [(112, objects["Entry"])])

    def test_shows_what_grows(self):
        growth = self.until(lambda: self.json("--watch", "0.1"), lambda report: report["growth"])
        rows = {row["what"]: row["more"] for row in growth["growth"]}
        self.assertEqual(set(rows), {"Entry", "112 bytes"})
        self.assertEqual(rows["Entry"], 10 * rows["112 bytes"])
        self.assertRegex(self.succeed("heap", self.keeper.pid, "--watch", "0.1"), r"^growth of the heap of process \d+, runtime 1: in ")

    def test_verifies(self):
        self.assertRegex(self.succeed("heap", self.keeper.pid, "--verify"), r": [\d,]+ live allocations, 0 mistakes in the tables\n$")
        self.fail_with(2, "one at a time", "heap", self.keeper.pid, "--verify", "--types")
        self.assertRegex(self.succeed("inspect", self.keeper.pid, "memory"), r"(?m)^heap_failures: 0$")
        process = self.start("solve", "rests")
        self.assertIn("no heap", self.succeed("heap", process.pid))


class Hidden(Case):
    def test_a_process_that_hides_is_not_answered_for(self):
        for does, variables in (("hides", {}), ("works", {"DWELL_LIVE": "off"})):
            process = self.start("hidden", does, **variables)
            with self.subTest(does):
                for command in (("top", "--once", "--json"), ("metrics",), ("logs",), ("stuck",), ("trace", "-t", "0.2")):
                    self.fail_with(2, f"process {process.pid} publishes nothing", *command, process.pid)
                    self.fail_with(2, "no process of yours runs dwell", *command)
                self.fail_with(2, f"process {process.pid} publishes nothing", "inspect", process.pid, "hidden")
                self.assertEqual(list(self.folder.glob("*.sock")), [])
            self.assertEqual(process.end(), 0)


class Screen(Case):
    """What `dwell top` draws on a terminal."""

    COLOUR = re.compile(rb"\x1b\[(?:\d+;)*(?:3\d|4\d|9\d|10\d)[;m]")

    def drawn(self, until: bytes, **variables: str) -> tuple[int, bytes]:
        """The exit status, and all that was written; `q` is pressed when that has `until` in it."""
        process = self.start("solve", "works")
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        environment = {name: value for name, value in environment_of(self.folder).items() if name not in ("NO_COLOR", "TERM")} | variables
        before = termios.tcgetattr(theirs)
        top = subprocess.Popen(
            [TOOL, "top", process.pid, "-d", "0.1"], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environment
        )
        written, pressed = b"", False
        deadline = time.monotonic() + 60
        while top.poll() is None and time.monotonic() < deadline:
            if select.select([ours], [], [], 0.05)[0]:
                written += os.read(ours, 65536)
            if until in written and not pressed:
                os.write(ours, b"\x1b")  # a key of its own, as nothing follows at once
                time.sleep(0.3)
                os.write(ours, b"q")
                pressed = True
        while select.select([ours], [], [], 0)[0]:
            written += os.read(ours, 65536)
        _, said = top.communicate(timeout=60)
        self.assertEqual(termios.tcgetattr(theirs), before)
        os.close(theirs)
        self.assertEqual(process.end(), 0)
        return top.returncode, written + said

    def test_has_colours_and_leaves_the_terminal_as_it_was(self):
        status, drawn = self.drawn(b" solve", TERM="xterm-256color")
        self.assertEqual(status, 0, drawn)
        self.assertRegex(drawn, self.COLOUR)
        self.assertIn(b"ring  [", re.sub(rb"\x1b\[[\d;]*m", b"", drawn))
        self.assertTrue(drawn.startswith(b"\x1b[?1049h"), drawn[:20])
        self.assertTrue(drawn.endswith(b"\x1b[?1049l"), drawn[-20:])

    def test_has_none_where_nobody_wants_them(self):
        status, drawn = self.drawn(b" solve", TERM="xterm-256color", NO_COLOR="1")
        self.assertEqual(status, 0, drawn)
        self.assertNotRegex(drawn, self.COLOUR)
        self.assertIn(b"\x1b[1m", drawn)  # bold is no colour
        status, drawn = self.drawn(b" solve", TERM="xterm-256color", NO_COLOR="")  # as if it were not there
        self.assertEqual(status, 0, drawn)
        self.assertRegex(drawn, self.COLOUR)

    def test_is_refused_where_nothing_can_be_drawn(self):
        status, drawn = self.drawn(b" solve", TERM="dumb")
        self.assertEqual(status, 2)
        self.assertEqual(drawn, b"dwell: error: this terminal draws no screen (TERM=dumb): --once prints one picture as lines\n")
        process = self.start("solve", "works")
        self.fail_with(2, "this needs a terminal: --once", "top", process.pid)
        self.assertNotIn("\x1b", self.succeed("top", process.pid, "--once"))
        self.assertEqual(process.end(), 0)


class Dead(Case):
    """What `dwell post-mortem` tells of processes that were killed."""

    def killed(self, operator: str, does: str = "rests") -> tuple[LiveProcess, Path]:
        process = self.start(operator, does)
        (file,) = self.folder.glob(f"{process.pid}.*.1.flight")
        process.kill()
        self.assertTrue(file.exists())
        return process, file

    def test_tell_how_they_have_ended_themselves(self):
        for does, status, how in (
            ("faults", -11, r"it ended itself by SIGSEGV \(memory that is not there\) in worker 0, in or behind solve \(version 1\)"),
            ("aborts", -6, r"it ended itself by SIGABRT \(.*\), in thread \d+, which is no worker"),
            ("exits", 3, r"it has called exit\(\) without closing the runtime"),
        ):
            with self.subTest(does):
                process = self.start("solve", does)
                self.assertEqual(process.process.wait(timeout=60), status)
                (file,) = self.folder.glob(f"{process.pid}.*.1.flight")
                told = self.succeed("post-mortem", str(file)).splitlines()
                self.assertRegex(told[2], f"^{how}$")
        self.assertRegex(self.succeed("post-mortem", "-n", "1", str(file)), r"solve \(version 1\) \(10\), ticket")

    def test_handlers_of_the_program_and_of_others_are_left_alone(self):
        process = self.start("solve", "faults", DWELL_SIGNALS="off")
        self.assertEqual(process.process.wait(timeout=60), -11)
        self.assertIn("it was ended from outside", self.succeed("post-mortem"))

    def test_leave_a_file_for_their_owner_alone(self):
        _, file = self.killed("solve")
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)

    def test_names_operator_arguments_and_ticket_of_the_last_task(self):
        process, file = self.killed("solve")
        told = self.succeed("post-mortem").splitlines()
        self.assertEqual(told[0], str(file))  # the only one
        self.assertRegex(told[1], rf"live_process.* \(process {process.pid}\), runtime 1 on cpu$")
        self.assertIn("it was ended from outside", told[2])
        self.assertEqual(told[3], "worker 0, the last one below")
        self.assertRegex(told[-1], rf"^  solve \(version 1\) \(10\), ticket {process.tenth}, lease \d+$")
        self.assertEqual(len(told), 4 + 8)

    def test_tells_as_many_tasks_as_asked_for(self):
        process, _ = self.killed("solve")
        (last,) = self.succeed("post-mortem", "-n", "1").splitlines()[4:]
        self.assertIn(f"ticket {process.tenth},", last)
        tickets = re.findall(r"(?m)^  solve \(version 1\) \(\d+\), ticket (\d+), lease \d+$", self.succeed("post-mortem", "--last", "64"))
        tenth = int(process.tenth)
        self.assertEqual([int(ticket) for ticket in tickets], list(range(tenth - 9, tenth + 1)))
        for number in ("0", "65", "all"):
            result = self.dwell("post-mortem", "-n", number)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn("--last", result.stderr)

    def test_names_a_graph_that_was_under_way(self):
        process, _ = self.killed("solve")  # its graph waits for the end of the input
        launches = re.findall(r"(?m)^  graph 'all_along', ticket (\d+), lease \d+$", self.succeed("post-mortem", "--last", "64"))
        self.assertEqual(len(launches), 1)
        self.assertEqual(int(launches[0]), int(process.tenth) - 10)

    def test_names_nodes_with_their_arguments_and_the_graph_of_their_launch(self):
        self.killed("solve", "graphs")
        told = self.succeed("post-mortem", "--last", "64")
        node = r"  right: solve \(version 1\) \(97\) as set last, node at 0x[0-9a-f]+, lease \d+"
        self.assertRegex(told, rf"(?m)^  graph 'pair', ticket \d+, lease \d+\n{node}$")

    def test_takes_the_youngest_file_or_the_one_that_is_named(self):
        files = {name: self.killed(name)[1] for name in ("one", "two", "three")}
        now = time.time()
        for name, age in (("one", 200), ("two", 100), ("three", 300)):
            os.utime(files[name], (now - age, now - age))
        self.start("alive", "rests")  # its file is the youngest, but not that of a dead process
        told = self.succeed("post-mortem")
        self.assertTrue(told.startswith(f"{files['two']}, the youngest of 3\n"), told)
        self.assertIn("  two (version 1) (10), ticket", told)
        second = time.time_ns() // 10**9 * 10**9
        for name, part in (("one", 2), ("two", 1), ("three", 3)):
            os.utime(files[name], ns=(second, second + part))
        self.assertIn("  three (version 1) (10), ticket", self.succeed("post-mortem"))  # of those of one second
        for name, file in files.items():
            told = self.succeed("post-mortem", str(file))
            self.assertTrue(told.startswith(f"{file}\n"))
            self.assertEqual(set(re.findall(r"(?m)^  (\w+) \(version", told)), {name})

    def test_says_what_is_no_such_file(self):
        _, file = self.killed("solve")
        (self.folder / "text").write_text("no flight recorder")
        (self.folder / "long").write_bytes(bytes(file.stat().st_size))
        content = file.read_bytes()  # its head: a magic number of 8 bytes, then version and number of workers, of 4 bytes each
        (self.folder / "newer").write_bytes(content[:8] + struct.pack("<I", 255) + content[12:])
        (self.folder / "cut").write_bytes(content[:12] + struct.pack("<I", 1000) + content[16:])
        for name, why in {
            "none": "it cannot be read",
            ".": "it cannot be read",
            "text": "it is no flight recorder's file: it is too short",
            "long": "it is no flight recorder's file",
            "cut": "it is cut off",
            "newer": "it is of version 255",
        }.items():
            with self.subTest(name):
                self.fail_with(1, why, "post-mortem", str(self.folder / name))
                self.fail_with(1, str(self.folder / name), "post-mortem", str(self.folder / name))

    def test_says_when_no_process_has_left_one(self):
        nothing = "no process of yours has left a flight recorder"
        self.fail_with(2, nothing, "post-mortem")
        ends, hides = self.start("ends", "rests"), self.start("hides", "hides")
        self.assertEqual(len(list(self.folder.glob("*.flight"))), 1)
        self.fail_with(2, nothing, "post-mortem")  # it still runs
        self.assertEqual((ends.end(), hides.end()), (0, 0))
        self.assertEqual(list(self.folder.iterdir()), [])
        self.fail_with(2, nothing, "post-mortem")
        self.folder = self.folder / "none"
        self.fail_with(2, nothing, "post-mortem")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    TOOL, LIVE_PROCESS = (str(Path(sys.argv.pop(1)).resolve()) for _ in range(2))
    unittest.main()
