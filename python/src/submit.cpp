// From a call in Python to tasks in the ring.
#include <nanobind/stl/string.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "bind.hpp"

namespace dwell::python {

namespace {

Receipt submit_packed(Runtime& runtime, const Handle& op, Packed& packed) {
  if (Kept* const kept = captured()) kept->insert(kept->end(), packed.kept.begin(), packed.kept.end());
  // The GIL is only let go of when the ring is full: letting go costs as much as a submission.
  if (const auto ticket = runtime.try_submit(op.op, packed.arguments)) return {*ticket};
  const Unlocked unlocked;
  return {runtime.submit(op.op, packed.arguments)};
}

}  // namespace

Receipt submit(const State& runtime, const Handle& op, const nb::args& arguments, const Modifiers& modifiers) {
  run_posted();
  Runtime& open = runtime->get();
  Packed packed;
  Packer packer(runtime, "operator", op.op.name(), op.op.signature());
  packer.pack(packed, PySequence_Fast_ITEMS(arguments.ptr()), arguments.size());
  packer.add(packed, modifiers);
  return submit_packed(open, op, packed);
}

Receipt submit_many(const State& runtime, const Handle& op, const nb::iterable& rows, const Modifiers& modifiers) {
  run_posted();
  Runtime& open = runtime->get();
  Packer packer(runtime, "operator", op.op.name(), op.op.signature());
  std::vector<Packed> packed;
  if (const Py_ssize_t expected = PyObject_LengthHint(rows.ptr(), 0); expected > 0) packed.reserve(static_cast<std::size_t>(expected));
  std::size_t number = 0;
  for (const nb::handle row : rows) {
    packed.emplace_back();
    try {
      const nb::object fast = nb::steal(PySequence_Fast(row.ptr(), "submit_many takes rows, each a tuple or a list of a task's arguments"));
      if (!fast.is_valid()) throw nb::python_error();
      packer.pack(packed.back(), PySequence_Fast_ITEMS(fast.ptr()), static_cast<std::size_t>(PySequence_Fast_GET_SIZE(fast.ptr())));
      packer.add(packed.back(), modifiers);
    } catch (const Error& error) {
      throw Error(error.kind(), "row " + std::to_string(number) + ": " + error.message(), error.fields());
    }
    ++number;
  }
  std::vector<Arguments> arguments;
  arguments.reserve(packed.size());
  for (Packed& one : packed) {
    arguments.push_back(std::move(one.arguments));
    if (captured() != nullptr) captured()->insert(captured()->end(), one.kept.begin(), one.kept.end());
  }
  const Unlocked unlocked;
  return {open.submit_many(op.op, arguments)};
}

}  // namespace dwell::python
