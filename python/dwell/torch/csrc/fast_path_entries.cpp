#include "fast_path_entries.hpp"

#if __has_include(<Python.h>)

#include <utility>

namespace dwell::pytorch {

namespace {

template <std::size_t kEntry>
struct Calls {
  static PyObject* function(PyObject* callable, PyObject* const* objects, std::size_t flags, PyObject* names) {
    return call_entry(kEntry, callable, objects, flags, names);
  }
  static PyObject* method(PyObject* callable, PyObject* const* objects, std::size_t flags, PyObject* names) {
    return call_method_entry(kEntry, callable, objects, flags, names);
  }
  static PyObject* bare(PyObject* self, PyObject* nothing) { return call_bare_entry(kEntry, self, nothing); }
};

template <std::size_t... I>
constexpr std::array<EntryCalls, sizeof...(I)> all_calls(std::index_sequence<I...>) {
  return {EntryCalls{&Calls<I>::function, &Calls<I>::method, &Calls<I>::bare}...};
}

}  // namespace

const std::array<EntryCalls, kMostEntries> kEntryCalls = all_calls(std::make_index_sequence<kMostEntries>());

}  // namespace dwell::pytorch

#endif
