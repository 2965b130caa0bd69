// The parts of the module, each in a source of its own.
#pragma once

#include "pack.hpp"

namespace dwell::python {

void bind_options(nb::module_& module);
void bind_ticket(nb::module_& module);
void bind_operator(nb::module_& module);
void bind_graph(nb::module_& module);
void bind_kernel(nb::module_& module);
void bind_batch(nb::module_& module);
void bind_array(nb::module_& module);
void bind_runtime(nb::module_& module);
void bind_observe(nb::module_& module);
void bind_inspection(nb::module_& module);

// Seconds as durations of the library. Throws errc::invalid_argument, naming `name`, for negative ones.
std::chrono::nanoseconds nanoseconds_from(double seconds, const char* name);
inline double seconds_of(std::chrono::nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

// dwell.Graph. Nodes keep it alive.
struct GraphState {
  Graph graph;
  std::shared_ptr<Kept> kept = std::make_shared<Kept>();
};
struct PyGraph {
  std::shared_ptr<GraphState> state = std::make_shared<GraphState>();
};

// "off", "counts", "times". Throws errc::invalid_argument.
Metering metering_from(std::string_view text);

nb::object module_object(Module module, State runtime);

// Waits for a ticket, without the GIL and with signals handled: false when `timeout`, in seconds, is over first. Raises what became of a
// task that failed.
bool wait(const Receipt& self, std::optional<double> timeout);

// Where a text of source comes from.
inline Source source_from(std::string text, const std::optional<std::string>& file, int line) {
  return {std::move(text), file.value_or(""), line};
}

// The order in which a launch stands among tasks, by name; see Modifiers.
Receipt launch(const State& runtime, const Exec& exec, const Modifiers& modifiers);
Receipt submit(const State& runtime, const Handle& op, const nb::args& arguments, const Modifiers& modifiers);
// A task for each row. Throws as Packer, naming the row, before the first is submitted.
Receipt submit_many(const State& runtime, const Handle& op, const nb::iterable& rows, const Modifiers& modifiers);

// The arguments of a call that takes modifiers by name, behind what else it takes.
#define DWELL_MODIFIERS                                                                                                \
  nb::arg("groups") = 1, nb::arg("gang") = 0, nb::arg("after") = nb::none(), nb::arg("after_any_result") = nb::none(), \
  nb::arg("link") = false, nb::arg("hard_link") = false, nb::arg("drain") = false, nb::arg("priority") = nb::none(), nb::arg("repeat") = 1

}  // namespace dwell::python
