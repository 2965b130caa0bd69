#!/usr/bin/env python3
"""End-to-end tests of `dwell run`: the critical path of a job with `after`.

    tests/tool/run_critical_path_test.py TOOL [ARGUMENT OF unittest...]
"""

import json

from job_case import StepCase, main, npy, read_npy


class CriticalPath(StepCase):
    def test_prints_the_critical_path(self):
        self.steps(
            ("load", 1, 3),
            ("short", 2, 4, 'after = ["load"]'),
            ("long", 3, 10, 'after = ["load"]', "repeat = 2", "link = true"),
            ("last", 4, 1, 'after = ["short", "long"]'),
            ("off_path", 5, 8),
        )
        def told(of, *options):
            """What the tool says; again when a worker has lost its processor in `short`, which then took longest."""
            for _ in range(10):
                said = self.succeed(*options)
                if "short" not in of(said):
                    break
            return said

        text = told(lambda said: said[said.index("\ntask ") :])
        self.assertIn(", 4 workers\n", text)
        self.assertRegex(text, r"critical path: [0-9.]+ ms, [0-9.]+ % of the [0-9.]+ ms that the job took\ntime: each task alone")
        self.assertRegex(text, r"\ntask +operator +tasks +time\nload +step +1 +\S+ ms\nlong +step +2 +\S+ ms\nlast +step +1 +\S+ ms\nwrote")

        def names(said):
            return [task["task"] for task in json.loads(said)["critical_path"]["tasks"]]

        path = json.loads(told(names, "--json"))["critical_path"]
        self.assertEqual([task["task"] for task in path["tasks"]], ["load", "long", "last"])
        self.assertEqual([task["repeat"] for task in path["tasks"]], [1, 2, 1])
        times = [task["time_ns"] for task in path["tasks"]]
        for time, least in zip(times, (3e6, 20e6, 1e6), strict=True):
            self.assertGreaterEqual(time, least)
        self.assertEqual(path["time_ns"], sum(times))
        self.assertGreaterEqual(path["job_took_ns"], 24e6)
        self.assertAlmostEqual(path["share"], path["time_ns"] / path["job_took_ns"])

    def test_times_tasks_over_the_first_values_and_keeps_the_outputs(self):
        self.put("wait.hpp", """DWELL_OPERATOR(wait)(dwell::Group g, dwell::Span<float> x) {
  const dwell::u64 start = dwell::device::now_ns();
  while (dwell::device::now_ns() - start < 1e6 * x[0]) {}
  if (g.rank() == 0) x[0] -= 10;
}""")
        self.put("x.npy", npy("f32", [10.0]))
        self.put("job.toml", """[operators]
wait = { source = "wait.hpp" }
[arrays]
x = { file = "x.npy" }
[[tasks]]
after = []
operator = "wait"
args = ["x"]
[outputs]
x = "x.npy"
""")
        (task,) = json.loads(self.succeed("--json"))["critical_path"]["tasks"]
        self.assertEqual(task["task"], "task 1")
        self.assertGreaterEqual(task["time_ns"], 10e6)
        self.assertEqual(read_npy(self.folder / "x.npy")[2], [0.0])

    def test_the_critical_path_can_be_left_out(self):
        self.steps(("load", 1, 0), ("last", 2, 0, 'after = ["load"]'))
        self.assertNotIn("critical path", self.succeed("--no-critical-path"))
        self.assertNotIn("critical_path", json.loads(self.succeed("--json", "--no-critical-path")))
        self.steps(("load", 1, 0), ("last", 2, 0))
        self.assertNotIn("critical path", self.succeed())


if __name__ == "__main__":
    main(__doc__)
