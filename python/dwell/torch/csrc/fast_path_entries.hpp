// The calls that PyTorch's functions and methods get: one of each kind for every entry, since a call has no other way to say whose it is.
#pragma once

#if __has_include(<Python.h>)

#include <Python.h>

#include <array>
#include <cstddef>

namespace dwell::pytorch {

inline constexpr std::size_t kMostEntries = 768;

// The calls of an entry: as a function, a method, and a method without arguments.
struct EntryCalls {
  vectorcallfunc function;
  vectorcallfunc method;
  PyCFunction bare;
};
extern const std::array<EntryCalls, kMostEntries> kEntryCalls;

// The functions of kEntryCalls call these, with the entry's number.
PyObject* call_entry(std::size_t entry, PyObject* callable, PyObject* const* objects, std::size_t flags, PyObject* names);
PyObject* call_method_entry(std::size_t entry, PyObject* callable, PyObject* const* objects, std::size_t flags, PyObject* names);
PyObject* call_bare_entry(std::size_t entry, PyObject* self, PyObject* nothing);

}  // namespace dwell::pytorch

#endif
