// dwell.Operator.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include "background.hpp"
#include "bind.hpp"
#include "compiling.hpp"

namespace dwell::python {

using namespace nb::literals;

namespace {

std::string text_of(const Handle& self) {
  std::string text = "<dwell.Operator " + self.op.name() + self.op.signature().text();
  try {
    text += ", version " + std::to_string(self.op.version()) + " of " + std::to_string(self.op.versions());
  } catch (const Error&) {
    text += ", of a runtime that is closed";
  }
  return text + ">";
}

void redefine(const Handle& self, std::string source, const std::optional<CompileOptions>& options, const std::optional<std::string>& file,
              int line) {
  self.runtime->get();
  Operator<> op = self.op;
  const Source from = source_from(std::move(source), file, line);
  const Compiling compiling(*self.runtime, op.name());
  if (options)
    op.redefine(from, *options);
  else
    op.redefine(from);
}

nb::object redefine_async(const Handle& self, std::string source, const std::optional<CompileOptions>& options,
                          const std::optional<std::string>& file, int line) {
  self.runtime->get();
  nb::object held = nb::cast(Stop());
  Stop& stop = nb::cast<Stop&>(held);  // the future has it
  nb::object future = futures().attr("Pending")(held);
  Async<void> async{reporting<void>(future.attr("_done"),
                                    [](const std::shared_future<void>& ended) {
                                      ended.get();
                                      return nb::none();
                                    }),
                    stop.source.get_token()};
  Operator<> op = self.op;
  const Source from = source_from(std::move(source), file, line);
  const Unlocked unlocked;
  stop.is_over = called_off(options ? op.redefine_async(from, *options, std::move(async)) : op.redefine_async(from, std::move(async)));
  return future;
}

}  // namespace

void bind_operator(nb::module_& m) {
  nb::class_<Handle>(m, "Operator", "A piece of device code that tasks run: ``op(x, y, 2.0)`` submits one.")
      .def_prop_ro(
          "name", [](const Handle& self) { return self.op.name(); }, "As it was defined: \"axpy\", or \"axpy<float>\" for an instance.")
      .def_prop_ro(
          "signature", [](const Handle& self) { return self.op.signature().text(); },
          "Its parameters as C++ writes them: \"(float, Span<const float>, Span<float>)\".")
      .def_prop_ro(
          "versions", [](const Handle& self) { return self.op.versions(); }, "Versions defined so far.")
      .def_prop_ro(
          "version", [](const Handle& self) { return self.op.version(); }, "That which a task submitted now would run, from 1.")
      .def_prop_ro(
          "instances", [](const Handle& self) { return self.op.instances(); }, "As `define` was given them; else the name alone.")
      .def(
          "instance",
          [](const Handle& self, const std::string& expression) {
            return Handle{self.op.instance(expression), self.runtime};
          },
          "expression"_a, "Another instance of the same template.")
      .def("redefine", &redefine, "source"_a, "options"_a = nb::none(), "file"_a = nb::none(), "line"_a = 1,
           "Compiles `source` and makes it the current version: tasks submitted before this returns run the old one, later ones the new "
           "one.\n"
           "Without options those of the version before are used. Raises as `define`; then the old version stays.")
      .def(
          "redefine_async", &redefine_async, "source"_a, "options"_a = nb::none(), "file"_a = nb::none(), "line"_a = 1,
          "The same in the background: a future, which may be awaited too.",
          nb::sig("def redefine_async(self, source: str, options: CompileOptions | None = None, file: str | None = None, line: int = 1) -> "
                  "dwell._futures.Pending[None]"))
      .def(
          "rollback",
          [](const Handle& self) {
            self.runtime->get();
            Operator<> op = self.op;
            const Unlocked unlocked;
            op.rollback();
          },
          "Makes the version below the current one current again, without compiling.")
      .def(
          "__call__",
          [](const Handle& self, const nb::args& arguments, std::uint32_t groups, std::uint32_t gang, nb::object after,
             nb::object after_any_result, bool link, bool hard_link, bool drain, std::optional<std::uint32_t> priority,
             std::uint32_t repeat) {
            return submit(self.runtime, self, arguments,
                          {groups, gang, std::move(after), std::move(after_any_result), link, hard_link, drain, priority, repeat});
          },
          "arguments"_a, DWELL_MODIFIERS, "Submits a task, as Runtime.submit.",
          nb::sig("def __call__(self, *arguments: object, groups: int = 1, gang: int = 0, after: Ticket | typing.Iterable[Ticket] | None = "
                  "None, "
                  "after_any_result: Ticket | typing.Iterable[Ticket] | None = None, link: bool = False, hard_link: bool = False, drain: "
                  "bool = "
                  "False, priority: int | None = None, repeat: int = 1) -> Ticket"))
      .def(
          "__eq__", [](const Handle& self, const Handle& other) { return self.op == other.op; }, nb::is_operator(),
          nb::sig("def __eq__(self, other: object) -> bool"))
      .def("__hash__", [](const Handle& self) { return std::hash<const void*>()(&self.op.signature()); })
      .def("__repr__", [](const Handle& self) { return text_of(self); });
}

}  // namespace dwell::python
