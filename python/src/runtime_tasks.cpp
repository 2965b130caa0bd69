// What a runtime runs: tasks, graphs, operations on arrays.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/unique_ptr.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "batch.hpp"
#include "bind.hpp"
#include "collector.hpp"
#include "runtime.hpp"

namespace dwell::python {

using namespace nb::literals;

namespace {

PyGraph capture(const PyRuntime& self, nb::callable tasks) {
  Runtime& runtime = runtime_of(self);
  PyGraph made;
  Kept*& now = captured();
  Kept* const before = std::exchange(now, made.state->kept.get());
  try {
    made.state->graph = runtime.capture([&] { tasks(); });
  } catch (...) {
    now = before;
    throw;
  }
  now = before;
  return made;
}

}  // namespace

void bind_runtime_tasks(nb::class_<PyRuntime>& type) {
  type.def(
          "submit",
          [](const PyRuntime& self, const Handle& op, const nb::args& arguments, std::uint32_t groups, std::uint32_t gang, nb::object after,
             nb::object after_any_result, bool link, bool hard_link, bool drain, std::optional<std::uint32_t> priority,
             std::uint32_t repeat) {
            return submit(self.state, op, arguments,
                          {groups, gang, std::move(after), std::move(after_any_result), link, hard_link, drain, priority, repeat});
          },
          "op"_a, "arguments"_a, DWELL_MODIFIERS,
          "Submits a task: numbers for values, dwell.Buffer or arrays of others for spans. Memory lives until the task has run, whatever "
          "is\n"
          "dropped before. Waits while the ring is full.\n\n"
          "groups: so many groups share the task\n"
          "gang: so many groups run at once, with barriers among them\n"
          "after, after_any_result: tickets that it starts after; a failure of one of the first cancels it\n"
          "link, hard_link: it starts after the task that this thread submitted before; a task without waits for none, and begins a\n"
          "    new chain\n"
          "the first of these four in a runtime is a drain too, unless what it names has ended\n"
          "drain: it starts after all before, and holds back all after\n"
          "priority: 0 to 7, the most urgent; needs Runtime(priorities=...)\n"
          "repeat: it runs so many times, one run behind the other",
          nb::sig(
              "def submit(self, op: Operator, *arguments: object, groups: int = 1, gang: int = 0, after: Ticket | typing.Iterable[Ticket] "
              "| "
              "None = None, after_any_result: Ticket | typing.Iterable[Ticket] | None = None, link: bool = False, hard_link: bool = False, "
              "drain: bool = False, priority: int | None = None, repeat: int = 1) -> Ticket"))
      .def(
          "submit_many",
          [](const PyRuntime& self, const Handle& op, const nb::iterable& rows, std::uint32_t groups, std::uint32_t gang, nb::object after,
             nb::object after_any_result, bool link, bool hard_link, bool drain, std::optional<std::uint32_t> priority,
             std::uint32_t repeat) {
            return submit_many(self.state, op, rows,
                               {groups, gang, std::move(after), std::move(after_any_result), link, hard_link, drain, priority, repeat});
          },
          "op"_a, "rows"_a, nb::kw_only(), DWELL_MODIFIERS,
          "Submits a task for each row of arguments, and returns the ticket of the last. All rows are checked before the first task is\n"
          "submitted; the GIL is released while they are. Modifiers hold for every task.",
          nb::sig("def submit_many(self, op: Operator, rows: typing.Iterable[typing.Sequence[object]], *, groups: int = 1, gang: int = 0, "
                  "after: "
                  "Ticket | typing.Iterable[Ticket] | None = None, after_any_result: Ticket | typing.Iterable[Ticket] | None = None, link: "
                  "bool = "
                  "False, hard_link: bool = False, drain: bool = False, priority: int | None = None, repeat: int = 1) -> Ticket"))
      .def(
          "cancel",
          [](const PyRuntime& self, const Receipt& ticket) {
            require_epoch(ticket.epoch, "the ticket");
            return runtime_of(self).cancel(ticket.ticket);
          },
          "ticket"_a, "Cancels a task or launch that has not begun. False when it is known to be complete.")
      .def(
          "sync",
          [](const PyRuntime& self) {
            Runtime& runtime = runtime_of(self);
            submit_arrays(self);
            const Unlocked unlocked;
            runtime.wait_all();
          },
          "Waits until every task submitted so far is complete, without the GIL. Raises nothing for tasks that have failed: their tickets "
          "tell.")
      .def(
          "batch",
          [](const PyRuntime& self) {
            static_cast<void>(runtime_of(self));
            return std::make_unique<PyBatch>(self.state);
          },
          "Collects operations on tensors: a dwell.Batch. The first one of a runtime defines dwell's operators for elements.",
          nb::sig("def batch(self) -> Batch"))
      .def(
          "flush",
          [](const PyRuntime& self) {
            static_cast<void>(runtime_of(self));
            const auto collector = Collector::known(self.state);
            return collector ? collector->flush(true) : Receipt();
          },
          "Computes all lazy arrays that somebody still has: submits their tasks. The ticket stands for all since the flush before.",
          nb::sig("def flush(self) -> Ticket"))
      .def("capture", &capture, "tasks"_a,
           "Calls ``tasks()``. What the calling thread submits meanwhile is not run: it becomes the nodes of the graph that is returned, "
           "ordered\n"
           "by the memory that they read and write. Also a decorator.",
           nb::sig("def capture(self, tasks: typing.Callable[[], object]) -> Graph"))
      .def(
          "instantiate",
          [](const PyRuntime& self, const PyGraph& graph) {
            Runtime& runtime = runtime_of(self);
            return Exec{runtime.instantiate(graph.state->graph), self.state, std::make_shared<ExecKept>(ExecKept{*graph.state->kept, {}})};
          },
          "graph"_a, "Lays a graph out in memory of the device. The graph may change or go afterwards.")
      .def(
          "launch",
          [](const PyRuntime& self, const Exec& exec, nb::object after, nb::object after_any_result, bool link, bool hard_link, bool drain,
             std::optional<std::uint32_t> priority) {
            return launch(self.state, exec, {1, 0, std::move(after), std::move(after_any_result), link, hard_link, drain, priority});
          },
          "exec"_a, nb::kw_only(), "after"_a = nb::none(), "after_any_result"_a = nb::none(), "link"_a = false, "hard_link"_a = false,
          "drain"_a = false, "priority"_a = nb::none(),
          "Runs all nodes of a graph once, in their order, as one task among the others. Launches of one exec follow each other.",
          nb::sig("def launch(self, exec: GraphExec, *, after: Ticket | typing.Iterable[Ticket] | None = None, after_any_result: Ticket | "
                  "typing.Iterable[Ticket] | None = None, link: bool = False, hard_link: bool = False, drain: bool = False, priority: int "
                  "| None "
                  "= None) -> Ticket"));
}

}  // namespace dwell::python
