#!/usr/bin/env python3
"""End-to-end tests of `dwell run`: tasks with `after`, which run in the order of a graph.

    tests/tool/run_after_test.py TOOL [ARGUMENT OF unittest...]
"""

from job_case import StepCase, main, read_npy


class After(StepCase):
    def test_orders_tasks_wherever_they_stand(self):
        # 1, then 2 and 3 in this order by way of 3's own `after`, then 4; the slowest come first in the file's order of what is ready.
        self.steps(
            ("last", 4, 0, 'after = ["left", "right"]'),
            ("right", 3, 0, 'after = ["load", "left"]'),
            ("left", 2, 5, 'after = ["load"]'),
            ("load", 1, 10),
        )
        self.succeed()
        self.assertEqual(self.result(), 1234)

    def test_waits_for_all_repetitions_and_orders_all(self):
        self.put("count.hpp", """DWELL_OPERATOR(count)(dwell::Group g, double ms, dwell::Span<dwell::u64> y) {
  const dwell::u64 start = dwell::device::now_ns();
  while (dwell::device::now_ns() - start < 1e6 * ms) {}
  if (g.rank() == 0) y.atomic_add(0, 1);
}
DWELL_OPERATOR(add)(dwell::Group g, dwell::Span<const dwell::u64> y, dwell::Span<dwell::u64> z) {
  if (g.rank() == 0) z.atomic_add(0, y[0]);
}""")
        self.put("job.toml", """[operators]
count = { source = "count.hpp" }
add = { source = "count.hpp" }
[arrays]
y = { shape = [1], dtype = "u64" }
z = { like = "y" }
[[tasks]]
name = "b"
operator = "count"
args = [0.5, "y"]
repeat = 50
link = true
after = []
[[tasks]]
name = "a"
operator = "count"
args = [0.5, "y"]
repeat = 50
[[tasks]]
operator = "add"
args = ["y", "z"]
repeat = 3
after = ["a", "b"]
[outputs]
z = "z.npy"
""")
        self.succeed()
        self.assertEqual(read_npy(self.folder / "z.npy")[2], [300])

    def test_overlaps_what_no_order_joins(self):
        # Each of the two waits until the other has begun, for ten seconds.
        self.put("step.hpp", """DWELL_OPERATOR(step)(dwell::Group g, dwell::u32 waits, double, dwell::Span<dwell::u64> y) {
  const dwell::u64 start = dwell::device::now_ns();
  y.atomic_add(0, 1);
  while (waits == 1 && y.atomic_load(0) < 3) {
    if (dwell::device::now_ns() - start > 10000000000ull) return g.fail(7);
  }
}""")
        self.steps(("load", 0, 0), ("left", 1, 0, 'after = ["load"]'), ("right", 1, 0, 'after = ["load"]'))
        self.succeed("--no-critical-path")

    def test_cancels_what_is_behind_a_failure_and_runs_the_rest(self):
        # Other waits for slow, which ends long after bad has failed: it is still run, and fails by itself.
        self.steps(
            ("good", 1, 0),
            ("bad", 9, 0, 'after = ["good"]'),
            ("behind", 2, 0, 'after = ["bad"]', "repeat = 3", "link = true"),
            ("far", 3, 0, 'after = ["good", "behind"]'),
            ("slow", 4, 50, 'after = ["good"]'),
            ("other", 9, 0, 'after = ["slow"]'),
        )
        self.fail_with("task 'bad' (step): ", 3, code=1)
        self.fail_with("failed with code 42", 3, code=1)
        self.fail_with("; failed too: task 'other'; cancelled: task 'behind' and task 'far'", 3, code=1)

    def test_a_failure_of_long_ago_cancels_too(self):
        self.steps(
            ("bad", 9, 0, "repeat = 20"),
            ("own", 3, 0, "after = []", "repeat = 2", "link = true"),  # a chain of its own, not linked to bad
            ("slow", 1, 50),
            ("late", 2, 0, 'after = ["slow", "bad"]', "repeat = 30", "hard_link = true"),
        )
        self.fail_with("task 'bad' (step, repetition 1 of 20): ", 2, code=1)
        self.fail_with("failed with code 42; cancelled: task 'late'\n", 2, code=1)

    def test_mistakes_name_the_task_and_the_fix(self):
        for steps, line, message in (
            (
                (("a", 1, 0), ("b", 1, 0, 'after = ["c"]')),
                3,
                "task 'b' is after 'c', and no task has that name; names in this job: a and b",
            ),
            ((("a", 1, 0), ("a", 1, 0)), 3, "task 2 has the name of task 1, 'a': give it another one"),
            ((("a", 1, 0, 'after = ["a"]'),), 2, "task 'a' is after itself: take 'a' out of its 'after'"),
            ((("a", 1, 0), ("b", 1, 0, 'after = ["a", "a"]')), 3, "'after' in task 'b' has 'a' twice"),
            (
                (("x", 1, 0, 'after = ["c"]'), ("a", 1, 0, 'after = ["b"]'), ("b", 1, 0, 'after = ["c"]'), ("c", 1, 0, 'after = ["a"]')),
                3,
                "task 'a' would wait for itself: 'a' is after 'b' is after 'c' is after 'a': take one of them out",
            ),
            ((("a", 1, 0, 'after = "b"'),), 2, "'after' in task 'a' must be an array"),
            ((("a", 1, 0, "after = [1]"),), 2, "'after' in task 'a' must hold names of tasks, as strings"),
            ((("", 1, 0),), 2, "'name' in task 1 is empty"),
            (
                (("a", 1, 0, 'after = ["b"]'), ("b", 1, 0), ("c", 1, 0, "drain = true")),
                2,
                "task 'a' is after 'b', which stands below it, while task 'c' has 'drain', which goes by the order of the file: move",
            ),
            ((("a", 1, 0, 'after = ["b"]'), ("b", 1, 0, "hard_link = true")), 2, "while task 'b' has 'hard_link'"),
        ):
            with self.subTest(message):
                self.steps(*steps)
                self.fail_with(message, line)


if __name__ == "__main__":
    main(__doc__)
