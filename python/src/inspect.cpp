// Variables of operators and structures of the runtime, as Python sees them.
#include <nanobind/stl/complex.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dwell/device/bfloat16.hpp>
#include <dwell/device/complex.hpp>
#include <dwell/device/half.hpp>
#include <dwell/element_type.hpp>
#include <dwell/inspect.hpp>

#include "bind.hpp"
#include "guard.hpp"
#include "runtime.hpp"

namespace dwell::python {

using namespace nb::literals;

namespace {

// Calls `with` with a value of that of these C++ types which `type` names.
template <class... T, class With>
void with_one_of(ElementType type, With with) {
  static_cast<void>(((element_type_of<T>() == type && (with(T()), true)) || ...));
}
template <class With>
void with_type(ElementType type, With with) {
  with_one_of<half, bfloat16, float, double, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
              std::uint32_t, std::uint64_t, bool, complex<float>, complex<double>>(type, with);
}

// What Python knows instead of T: f16 and bf16 are numbers, too.
template <class T>
struct AsPython {
  using type = T;
};
template <>
struct AsPython<half> {
  using type = float;
};
template <>
struct AsPython<bfloat16> {
  using type = float;
};
template <class T>
struct AsPython<complex<T>> {
  using type = std::complex<T>;
};

nb::object element(const InspectedValue& value, std::size_t index) {
  const std::byte* const from = value.bytes.data() + index * value.type.bytes;
  const std::optional<ElementType> type = element_type_of(value.type);
  if (!type) return nb::bytes(from, value.type.bytes);
  nb::object made;
  with_type(*type, [&]<class T>(T one) {
    using Python = typename AsPython<T>::type;
    if constexpr (sizeof(T) == sizeof(Python)) {
      Python same;
      std::memcpy(&same, from, sizeof(same));
      made = nb::cast(same);
    } else {
      std::memcpy(&one, from, sizeof(one));
      made = nb::cast(static_cast<Python>(one));
    }
  });
  return made;
}

nb::object object_of(const InspectedValue& value) {
  if (!value.text.empty()) return nb::cast(value.text);
  if (!value.array) return element(value, 0);
  nb::list all;
  for (std::size_t i = 0; i < value.count; ++i) all.append(element(value, i));
  return all;
}

// A number, or as many as the variable has, as its bytes.
std::vector<std::byte> bytes_of(const InspectedValue& variable, nb::handle value) {
  const std::optional<ElementType> type = element_type_of(variable.type);
  if (!type)
    throw Error(errc::unsupported, "'" + variable.name + "' is a struct: show its members with DWELL_INSPECT_MEMBERS",
                {"name", variable.name});
  std::vector<std::byte> bytes(variable.count * variable.type.bytes);
  const auto put = [&](std::size_t index, nb::handle one) {
    with_type(*type, [&]<class T>(T made) {
      using Python = typename AsPython<T>::type;
      Python given{};
      if (!nb::try_cast(one, given))
        throw Error(
            errc::signature_mismatch,
            "'" + variable.name + "' is " + std::string(name_of(*type)) + ", which " + nb::cast<std::string>(nb::repr(one)) + " is not",
            {"name", variable.name});
      if constexpr (sizeof(T) == sizeof(Python))
        std::memcpy(&made, &given, sizeof(made));
      else
        made = static_cast<T>(given);
      std::memcpy(bytes.data() + index * sizeof(T), &made, sizeof(T));
    });
  };
  if (!variable.array) {
    put(0, value);
    return bytes;
  }
  const nb::list all{nb::borrow(value)};
  if (all.size() != variable.count)
    throw Error(errc::signature_mismatch,
                "'" + variable.name + "' has " + std::to_string(variable.count) + " elements, not " + std::to_string(all.size()),
                {"name", variable.name, all.size(), variable.count});
  for (std::size_t i = 0; i < all.size(); ++i) put(i, all[i]);
  return bytes;
}

// dwell.Watch.
class PyWatch {
 public:
  PyWatch(Watch watch, Shared called) : watch_(std::move(watch)), called_(std::move(called)) {}
  ~PyWatch() { stop(); }
  PyWatch(const PyWatch&) = delete;
  PyWatch& operator=(const PyWatch&) = delete;

  void stop() {
    Watch mine;
    {
      // Not held while it waits: the callback may call this, too.
      const Guard guard(mutex_);
      mine = std::move(watch_);
    }
    {
      // It waits for the callback, which takes the GIL.
      const Unlocked unlocked;
      mine.stop();
    }
    called_.clear();
  }
  bool active() {
    const Guard guard(mutex_);
    return watch_.active();
  }

 private:
  std::mutex mutex_;
  Watch watch_;
  Shared called_;
};

std::unique_ptr<PyWatch> watch(PyRuntime& self, const std::string& name, double every, nb::object callback) {
  if (PyCallable_Check(callback.ptr()) == 0)
    throw Error(errc::invalid_argument, "watch: the callback is not callable", {"argument", "callback"});
  Runtime& runtime = runtime_of(self);
  const std::chrono::nanoseconds time = nanoseconds_from(every, "every");
  const Shared called(std::move(callback));
  const auto call = [called](const Inspection& found) {
    const CallbackScope scope;
    if (!scope.entered() || called.get() == nullptr) return;
    const nb::object callable = nb::borrow(called.get());
    try {
      callable(found);
    } catch (nb::python_error& error) {
      error.discard_as_unraisable(callable);
    }
  };
  const Unlocked unlocked;
  return std::make_unique<PyWatch>(runtime.watch(name, time, call), called);
}

}  // namespace

void bind_runtime_inspection(nb::class_<PyRuntime>& type) {
  type.def(
          "inspect",
          [](PyRuntime& self, std::string_view name) {
            Runtime& runtime = runtime_of(self);
            const Unlocked unlocked;
            return runtime.inspect(name);
          },
          "name"_a,
          "What goes by this name at this moment, read while the loop runs: a variable that an operator shows with DWELL_INSPECT, an\n"
          "operator, or \"ring\", \"queue\", \"held\", \"workers\", \"leases\", \"image\", \"graphs\", \"memory\".")
      .def("watch", &watch, "name"_a, "every"_a, "callback"_a,
           "Calls ``callback(inspection)`` now and each ``every`` seconds, on a thread of its own, until the dwell.Watch is stopped or "
           "gone,\n"
           "or the runtime is closed.",
           nb::sig("def watch(self, name: str, every: float, callback: typing.Callable[[Inspection], object]) -> Watch"))
      .def(
          "assign",
          [](PyRuntime& self, const std::string& name, nb::handle value) {
            Runtime& runtime = runtime_of(self);
            const auto now = [&] {
              const Unlocked unlocked;
              return runtime.inspect(name);
            }();
            const InspectedValue& variable = now.value();
            const std::vector<std::byte> bytes = bytes_of(variable, value);
            const Unlocked unlocked;
            runtime.assign(name, variable.type, variable.count, bytes);
          },
          "name"_a, "value"_a,
          "Writes a variable of an operator, while operators may use it; with Runtime(inspect_writes=True). A number, or a list of as "
          "many\n"
          "as the array has.",
          nb::sig("def assign(self, name: str, value: complex | typing.Sequence[complex]) -> None"));
}

void bind_inspection(nb::module_& m) {
  nb::class_<Inspection>(m, "Inspection", "What Runtime.inspect has found. ``str`` makes a text of it.")
      .def_prop_ro(
          "name", [](const Inspection& self) { return self.name; }, "As it was asked for.")
      .def_prop_ro(
          "operator", [](const Inspection& self) { return self.op; }, "Whose variables they are; empty for others.")
      .def_prop_ro(
          "version", [](const Inspection& self) { return self.version; }, "Which version of it.")
      .def_prop_ro(
          "whole", [](const Inspection& self) { return self.whole; },
          "Whether all values are of one moment: a dwell::Seqlock has guarded them, or it is one of at most 8 bytes.")
      .def_prop_ro(
          "value", [](const Inspection& self) { return object_of(self.value()); },
          "The only value: a number, a list of them, the bytes of a struct, or a text.", nb::sig("def value(self) -> typing.Any"))
      .def_prop_ro(
          "values",
          [](const Inspection& self) {
            nb::dict all;
            for (const InspectedValue& value : self.values) all[value.name.c_str()] = object_of(value);
            return all;
          },
          "All values by their names.", nb::sig("def values(self) -> dict[str, typing.Any]"))
      .def(
          "__getitem__", [](const Inspection& self, std::string_view field) { return object_of(self.at(field)); }, "name"_a,
          nb::sig("def __getitem__(self, name: str) -> typing.Any"))
      .def("__str__", [](const Inspection& self) { return to_string(self); })
      .def("__repr__", [](const Inspection& self) {
        std::string text = to_string(self);
        if (text.ends_with('\n')) text.pop_back();
        return "<dwell.Inspection " + text + ">";
      });

  nb::class_<PyWatch>(m, "Watch", "What Runtime.watch has begun. A context manager that ends it.")
      .def("stop", &PyWatch::stop, "No call of the callback runs behind this, unless that itself stops it.")
      .def_prop_ro("active", &PyWatch::active, "Whether it still goes on.")
      .def(
          "__enter__", [](nb::handle_t<PyWatch> self) { return nb::borrow(self); }, nb::sig("def __enter__(self) -> Watch"))
      .def(
          "__exit__", [](PyWatch& self, const nb::args&) { self.stop(); }, nb::sig("def __exit__(self, *exc_info: object) -> None"));
}

}  // namespace dwell::python
