// What a runtime compiles: operators and kernels.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "background.hpp"
#include "bind.hpp"
#include "compiling.hpp"
#include "runtime.hpp"

namespace dwell::python {

using namespace nb::literals;

namespace {

Handle define(const PyRuntime& self, const std::string& name, std::string source, std::vector<std::string> instances,
              std::optional<CompileOptions> options, const std::optional<std::string>& file, int line) {
  Runtime& runtime = runtime_of(self);
  const Source from = source_from(std::move(source), file, line);
  const Definition how{std::move(instances), std::move(options)};
  const Compiling compiling(*self.state, name);
  return {runtime.define(name, from, how), self.state};
}

nb::object define_async(const PyRuntime& self, const std::string& name, std::string source, std::vector<std::string> instances,
                        std::optional<CompileOptions> options, const std::optional<std::string>& file, int line) {
  Runtime& runtime = runtime_of(self);
  const Source from = source_from(std::move(source), file, line);
  const Definition how{std::move(instances), std::move(options)};
  nb::object held = nb::cast(Stop());
  Stop& stop = nb::cast<Stop&>(held);  // the future has it
  nb::object future = futures().attr("Pending")(held);
  // Weak: a runtime that is dropped calls definitions off.
  Async<Operator<>> async{reporting<Operator<>>(future.attr("_done"),
                                                [state = std::weak_ptr(self.state)](const std::shared_future<Operator<>>& ended) {
                                                  Operator<> op = ended.get();
                                                  State open = state.lock();
                                                  if (!open) throw Error(errc::closed, "the runtime is closed");
                                                  return nb::cast(Handle{std::move(op), std::move(open)});
                                                }),
                          stop.source.get_token()};
  const Unlocked unlocked;
  stop.is_over = called_off(runtime.define_async(name, from, how, std::move(async)));
  return future;
}

}  // namespace

void bind_runtime_code(nb::class_<PyRuntime>& type) {
  type.def(
          "define", &define, "name"_a, "source"_a, "instances"_a = std::vector<std::string>(), "options"_a = nb::none(),
          "file"_a = nb::none(), "line"_a = 1,
          "Compiles `source`, which defines ``DWELL_OPERATOR(name)``, and links it into the image. `instances` are those wanted of a "
          "template,\n"
          "as C++ spells them: [\"axpy<float>\"]; the first is returned. `file` and `line` tell where the text comes from. Raises\n"
          "dwell.CompileError, dwell.OperatorNotFound, dwell.LinkError, dwell.ResourceLimit, dwell.InvalidArgument (the name is taken).",
          nb::sig(
              "def define(self, name: str, source: str, instances: typing.Sequence[str] = [], options: CompileOptions | None = None, file: "
              "str | None = None, line: int = 1) -> Operator"))
      .def(
          "define_async", &define_async, "name"_a, "source"_a, "instances"_a = std::vector<std::string>(), "options"_a = nb::none(),
          "file"_a = nb::none(), "line"_a = 1,
          "The same in the background: a concurrent.futures.Future, which may be awaited too. Cancelling it calls the definition off.",
          nb::sig(
              "def define_async(self, name: str, source: str, instances: typing.Sequence[str] = [], options: CompileOptions | None = None, "
              "file: str | None = None, line: int = 1) -> dwell._futures.Pending[Operator]"))
      .def(
          "compile",
          [](const PyRuntime& self, std::string source, const std::optional<CompileOptions>& options,
             const std::vector<std::string>& expressions, const std::optional<std::string>& file, int line) {
            Runtime& runtime = runtime_of(self);
            const Source from = source_from(std::move(source), file, line);
            Module module;
            {
              const Compiling compiling(*self.state, file.value_or("a module"));
              module = runtime.compile(from, options, expressions);
            }
            return module_object(std::move(module), self.state);
          },
          "source"_a, "options"_a = nb::none(), "expressions"_a = std::vector<std::string>(), "file"_a = nb::none(), "line"_a = 1,
          "Compiles a program of ordinary kernels (CUDA C++ with grid and block) and loads it beside the resident loop. `expressions` are "
          "the\n"
          "instantiations wanted of kernel templates. On the CPU it raises dwell.Unsupported.",
          nb::sig("def compile(self, source: str, options: CompileOptions | None = None, expressions: typing.Sequence[str] = [], file: str "
                  "| None "
                  "= None, line: int = 1) -> Module"));
}

}  // namespace dwell::python
