#include "calls.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

namespace dwell::python {

namespace nb = nanobind;

namespace {

// The entry points of nanobind's functions, of which it has a handful: by the number of arguments and by what they may be. A function that
// is wrapped enters the wrapper of the same number, so that a call costs one jump more. Written while the module is made.
constexpr std::size_t kMost = 16;
std::array<vectorcallfunc, kMost> entries = {};

// Replaces the exception that is set, if it is nanobind's "incompatible function arguments".
void explain(PyObject* function, PyObject* const* arguments, std::size_t flagged, PyObject* names) {
  if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) return;
  nb::python_error raised;
  try {
    const auto text = nb::cast<std::string>(nb::str(raised.value()));
    if (text.find("(): incompatible function arguments. ") != std::string::npos) {
      const std::size_t count = flagged & 0xFFFFFFFFU;  // Python and nanobind have flags in the upper bits
      nb::list positional;
      for (std::size_t i = 0; i < count; ++i) positional.append(nb::handle(arguments[i]));
      nb::dict named;
      if (names != nullptr)
        for (const nb::handle name : nb::borrow<nb::tuple>(names)) named[name] = nb::handle(arguments[count + named.size()]);
      const nb::object line = nb::module_::import_("dwell._calls").attr("explain")(nb::handle(function), text, positional, named);
      if (!line.is_none()) {
        PyErr_SetObject(PyExc_TypeError, line.ptr());
        return;
      }
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): nanobind's own words say it
  }
  raised.restore();
}

template <std::size_t index>
PyObject* call(PyObject* function, PyObject* const* arguments, std::size_t flagged, PyObject* names) {
  PyObject* const result = entries[index](function, arguments, flagged, names);
  if (result == nullptr) [[unlikely]]
    explain(function, arguments, flagged, names);
  return result;
}

template <std::size_t... index>
constexpr std::array<vectorcallfunc, kMost> all(std::index_sequence<index...>) {
  return {&call<index>...};
}
constexpr std::array<vectorcallfunc, kMost> kWrappers = all(std::make_index_sequence<kMost>());

void wrap(nb::handle object) {
  PyTypeObject* const type = Py_TYPE(object.ptr());
  if (std::strcmp(type->tp_name, "nanobind.nb_func") != 0 && std::strcmp(type->tp_name, "nanobind.nb_method") != 0) return;
  auto& entry = *reinterpret_cast<vectorcallfunc*>(reinterpret_cast<char*>(object.ptr()) + type->tp_vectorcall_offset);
  if (std::ranges::find(kWrappers, entry) != kWrappers.end()) return;  // by another name
  auto* const known = std::ranges::find_if(entries, [&](vectorcallfunc one) { return one == nullptr || one == entry; });
  if (known == entries.end()) return;
  *known = entry;
  entry = kWrappers[static_cast<std::size_t>(known - entries.begin())];
}

}  // namespace

void explain_calls(nb::module_& module) {
  for (const nb::handle object : nb::list(module.attr("__dict__").attr("values")())) {
    wrap(object);
    if (PyType_Check(object.ptr()) == 0) continue;
    for (const nb::handle member : nb::list(object.attr("__dict__").attr("values")())) wrap(member);
  }
}

}  // namespace dwell::python
