#include "errors.hpp"

#include <nanobind/stl/string.h>

#include <array>
#include <cstddef>
#include <deque>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace dwell::python {

namespace nb = nanobind;

namespace {

// How the compiler spells an enumerator: "[with dwell::errc code = dwell::errc::closed; ...]"; without a name "(dwell::errc)42".
template <errc code>
constexpr std::string_view spelled() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.rfind("code = ") + 7);
  text = text.substr(0, text.find_first_of(";]"));
  return text.front() == '(' ? std::string_view() : text.substr(text.rfind(':') + 1);
}
constexpr std::size_t kMost = 64;
template <std::size_t... i>
constexpr std::array<std::string_view, kMost> all(std::index_sequence<i...>) {
  return {spelled<static_cast<errc>(i)>()...};
}
// The names of all codes, by their values: no list to be kept up.
constexpr std::array<std::string_view, kMost> kNames = all(std::make_index_sequence<kMost>());
static_assert(kNames[static_cast<std::size_t>(errc::invalid_argument)] == "invalid_argument");
static_assert(kNames[static_cast<std::size_t>(errc::stalled)] == "stalled");
static_assert(kNames[kMost - 1].empty(), "there are more codes than this table has room for");

// Names of files and sources, which messages quote, need not be UTF-8.
nb::object text_of(const std::string& text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

PyObject* classes[kMost] = {};  // never dropped: as types they live as long as the interpreter

nb::object take_exception() {
#if PY_VERSION_HEX >= 0x030c0000
  return nb::steal(PyErr_GetRaisedException());
#else
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return nb::steal(value);
#endif
}

// "ValueError: what it says". An exception whose text cannot be had goes by its class.
std::string text_of(nb::handle exception) {
  auto type = nb::cast<std::string>(exception.type().attr("__name__"));
  try {
    return type + ": " + nb::cast<std::string>(nb::str(exception));
  } catch (nb::python_error&) {
    return type;
  }
}

// The last that callbacks have raised. Guarded by the GIL.
std::deque<Shared>& last_raised() {
  static auto* const all = new std::deque<Shared>;
  return *all;
}
constexpr std::size_t kMostRaised = 64;

// As Python's own `raise made from cause`.
void set_cause(nb::handle made, const std::exception_ptr& cause) {
  if (cause == nullptr) return;
  try {
    std::rethrow_exception(cause);
  } catch (const Raised& raised) {
    if (raised.get() != nullptr) PyException_SetCause(made.ptr(), nb::borrow(raised.get()).release().ptr());
  } catch (...) {  // of C++: the message has its text
  }
}

}  // namespace

Raised::Raised() : Raised(take_exception()) {}

Raised::Raised(const nb::object& raised) : std::runtime_error(text_of(raised)), exception_(raised) {
  auto& last = last_raised();
  last.push_back(exception_);
  if (last.size() <= kMostRaised) return;
  Shared oldest = std::move(last.front());
  last.pop_front();
  oldest.clear();
}

nb::object exception_for(const Error& error, std::optional<int> status) {
  const nb::handle type(classes[static_cast<std::size_t>(error.kind())]);
  nb::object made = type(text_of(error.message()));
  const ErrorFields& fields = error.fields();
  made.attr("message") = text_of(error.message());
  made.attr("what") = nb::cast(fields.what);
  made.attr("which") = text_of(fields.which);
  made.attr("value") = nb::cast(fields.value);
  made.attr("limit") = nb::cast(fields.limit);
  if (error.kind() == errc::task_failed) {
    if (status) made.attr("code") = nb::cast(*status);
    made.attr("position") = nb::cast(fields.value);
  }
  set_cause(made, error.cause());
  return made;
}

nb::object exception_for(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& ours) {
    return exception_for(ours);
  } catch (nb::python_error& theirs) {
    return nb::borrow(theirs.value());
  } catch (const std::bad_alloc&) {
    return nb::borrow(nb::handle(PyExc_MemoryError))();
  } catch (const std::exception& other) {
    return nb::borrow(nb::handle(PyExc_RuntimeError))(text_of(other.what()));
  }
}

void raise(const Error& error, std::optional<int> status) {
  const nb::object made = exception_for(error, status);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  throw nb::python_error();
}

void bind_errors(nb::module_& module) {
  nb::dict by_kind = nb::cast<nb::dict>(nb::module_::import_("dwell._errors").attr("BY_KIND"));
  std::size_t found = 0;
  for (std::size_t code = 1; code < kMost; ++code) {
    if (kNames[code].empty()) continue;
    const nb::str name(kNames[code].data(), kNames[code].size());
    if (!by_kind.contains(name)) throw std::runtime_error("dwell/_errors.py has no class for errc::" + std::string(kNames[code]));
    classes[code] = nb::object(by_kind[name]).release().ptr();
    ++found;
  }
  if (found != by_kind.size()) throw std::runtime_error("dwell/_errors.py has a class of which dwell knows no errc");
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      const nb::object made = exception_for(error);
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
    }
  });
  static_cast<void>(module);
}

}  // namespace dwell::python
