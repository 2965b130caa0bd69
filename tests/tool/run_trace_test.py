#!/usr/bin/env python3
"""End-to-end tests of `dwell run --trace`: a timeline of the job's tasks.

    tests/tool/run_trace_test.py TOOL [ARGUMENT OF unittest...]
"""

import itertools
import json

from job_case import AXPY, Case, main, read_npy


class Traces(Case):
    def calls(self, name: str) -> list[dict]:
        """Of operators, by workers."""
        events = json.loads((self.folder / name).read_text())["traceEvents"]
        workers = {event["tid"] for event in events if event["name"] == "thread_name" and event["args"]["name"].startswith("worker ")}
        return [event for event in events if event["ph"] == "X" and event["tid"] in workers and "(version " in event["name"]]

    def test_have_all_tasks(self):
        self.succeed("--trace", "t.json")
        calls = self.calls("t.json")
        self.assertEqual([call["name"] for call in calls], ["axpy (version 1)"] * 10)
        self.assertEqual(read_npy(self.folder / "y.npy")[2][0], 20.0)
        # They are linked: each begins when the one before has ended.
        calls.sort(key=lambda call: call["ts"])
        for before, after in itertools.pairwise(calls):
            self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 0.001)  # microseconds, in decimal digits

    def test_have_both_versions_of_an_operator_that_is_replaced(self):
        self.put("axpy2.hpp", AXPY.replace("+=", "-="))
        self.edit("[outputs]", '[swap]\noperator = "axpy"\nsource = "axpy2.hpp"\nafter = 9\n\n[outputs]')
        self.succeed("--trace", "t.json")
        self.assertEqual({call["name"] for call in self.calls("t.json")}, {"axpy (version 1)", "axpy (version 2)"})

    def test_are_of_the_job_alone_not_of_its_second_run(self):
        self.edit("link = true", "after = []")
        self.assertIn("critical path", self.succeed("--trace", "t.json"))
        self.assertEqual([call["name"] for call in self.calls("t.json")], ["axpy (version 1)"] * 10)

    def test_are_for_perfetto_unless_the_name_ends_in_json(self):
        self.succeed("--trace", "t.pftrace")
        content = (self.folder / "t.pftrace").read_bytes()
        # A file is a run of packets, field 1 of its message: a tag, a length, and so many bytes.
        place, packets = 0, 0
        while place < len(content):
            self.assertEqual(content[place], 0x0A)
            place, length, shift = place + 1, 0, 0
            while True:
                byte = content[place]
                length |= (byte & 0x7F) << shift
                place, shift = place + 1, shift + 7
                if byte < 0x80:
                    break
            place, packets = place + length, packets + 1
        self.assertEqual(place, len(content))
        self.assertGreaterEqual(packets, 20)  # two for each call
        self.assertIn(b"axpy (version 1)", content)

    def test_a_file_that_cannot_be_written_is_named(self):
        result = self.run_job("--trace", "none/t.json")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("none/t.json", result.stderr)
        self.assertFalse((self.folder / "y.npy").exists())


if __name__ == "__main__":
    main(__doc__)
