// Calls of resident steps from Python, past PyTorch's dispatcher: a call takes some microseconds, as long as a few calls of Python's own.
#include "resident_type.hpp"

#if __has_include(<Python.h>)

#include <structmember.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <c10/util/SmallVector.h>

#include "call_elements.hpp"
#include "python_tensor.hpp"
#include "resident_step.hpp"

namespace dwell::pytorch {

namespace {

using StepClock = std::chrono::steady_clock;

constexpr std::chrono::nanoseconds kHoldsGil = std::chrono::microseconds(20);

FindRecording find_recording = nullptr;

// Without the GIL, for a scope.
class WithoutGil {
 public:
  WithoutGil() : python_(PyEval_SaveThread()) {}
  ~WithoutGil() { PyEval_RestoreThread(python_); }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* python_;
};

constexpr std::size_t kUsual = 4;  // inputs, and outputs
using AllElements = c10::SmallVector<Elements, kUsual>;
template <class Bytes>
using AllBytes = c10::SmallVector<std::span<Bytes>, kUsual>;

// The step of a Python object, and the tensors of its calls.
struct Called {
  std::shared_ptr<ResidentStep> resident;
  std::vector<CallTensor> inputs;
  std::vector<CallTensor> outputs;
  Owned empty;
  Owned convert;
  // On a CPU a call runs in this thread. One that takes long is without the GIL.
  bool takes_long = true;
  std::uint32_t calls = 0;
};
struct StepObject {
  PyObject_HEAD vectorcallfunc call;
  Called* of;
  PyObject* executor;  // of submitted calls; null or None: none yet
  PyObject* weak;
};
Called& called(PyObject* self) { return *reinterpret_cast<StepObject*>(self)->of; }

PyObject* interned_out() {
  static PyObject* const name = PyUnicode_InternFromString("out");
  return name;
}

// Runs and translates exceptions. Returns whether it has succeeded.
template <class Work>
bool attempted(Work&& work) {
  std::string failure;
  try {
    work();
    return true;
  } catch (const c10::Error& error) {
    failure = error.what_without_backtrace();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  PyErr_SetString(PyExc_RuntimeError, failure.c_str());
  return false;
}

void run_step(Called& all, std::span<const std::span<const std::byte>> inputs, std::span<const std::span<std::byte>> outputs) {
  ResidentStep& resident = *all.resident;
  std::unique_lock lock(resident.mutex(), std::try_to_lock);
  if (!lock.owns_lock()) {
    const WithoutGil waits;
    lock.lock();
  }
  if (!resident.is_fresh()) {
    const WithoutGil waits;
    resident.refresh();
  }
  Step& step = resident.step();
  if (resident.is_on_cpu()) {
    std::optional<WithoutGil> without;
    if (all.takes_long) without.emplace();
    constexpr std::uint32_t kTimed = 16;  // a call of so many
    const bool times = all.calls++ % kTimed < 2;
    const StepClock::time_point begun = times ? StepClock::now() : StepClock::time_point();
    step(inputs, outputs);
    if (times) all.takes_long = StepClock::now() - begun > kHoldsGil;
    return;
  }
  step.begin(inputs);
  constexpr std::uint32_t kRounds = 32;
  StepClock::time_point begun;
  for (std::uint32_t round = 0; !step.done(); ++round) {
    if (round % kRounds != 0) continue;
    const StepClock::time_point now = StepClock::now();
    if (round == 0) begun = now;
    if (now - begun < kHoldsGil) continue;
    const WithoutGil waits;
    step.end(outputs);
    return;
  }
  step.end(outputs);
}

// Makes the results, which are tensors if the first input is.
PyObject* made_output(const Called& all, std::size_t number, bool tensors, Elements& to) {
  const CallTensor& as = all.outputs[number];
  if (tensors) {
    at::Tensor made;
    if (!attempted([&] { made = at::detail::empty_cpu(as.sizes, as.type, false, std::nullopt); })) return nullptr;
    to.write(made);
    return python_tensor(std::move(made));
  }
  if (all.empty.get() == Py_None)
    return PyErr_Format(PyExc_RuntimeError, "results are NumPy's arrays, which is not installed: pass tensors");
  if (as.dtype.get() == Py_None)
    return PyErr_Format(PyExc_TypeError, "output %zu is of type %s, which NumPy does not have: pass tensors, or out=tensor", number,
                        c10::toString(as.type));
  const std::array<PyObject*, 2> arguments{as.shape.get(), as.dtype.get()};
  Owned made(PyObject_Vectorcall(all.empty.get(), arguments.data(), arguments.size(), nullptr));
  if (made.get() == nullptr || !to.write(made.get(), as, number)) return nullptr;
  return made.release();
}

// Returns the results: `out`, or new ones.
PyObject* made_outputs(const Called& all, PyObject* out, bool tensors, AllElements& to) {
  const std::size_t count = all.outputs.size();
  for (std::size_t i = 0; i < count; ++i) to.emplace_back();
  if (out == nullptr) {
    if (count == 1) return made_output(all, 0, tensors, to[0]);
    Owned results(PyTuple_New(static_cast<Py_ssize_t>(count)));
    if (results.get() == nullptr) return nullptr;
    for (std::size_t i = 0; i < count; ++i) {
      PyObject* const made = made_output(all, i, tensors, to[i]);
      if (made == nullptr) return nullptr;
      PyTuple_SET_ITEM(results.get(), static_cast<Py_ssize_t>(i), made);
    }
    return results.release();
  }
  if (count == 1 && PyTuple_Check(out) == 0 && PyList_Check(out) == 0) {
    if (!to[0].write(out, all.outputs[0], 0)) return nullptr;
    return Py_NewRef(out);
  }
  if ((PyTuple_Check(out) == 0 && PyList_Check(out) == 0) || PySequence_Fast_GET_SIZE(out) != static_cast<Py_ssize_t>(count))
    return PyErr_Format(PyExc_TypeError, "out: a step with %zu outputs writes a tuple of so many arrays", count);
  for (std::size_t i = 0; i < count; ++i)
    if (!to[i].write(PySequence_Fast_GET_ITEM(out, static_cast<Py_ssize_t>(i)), all.outputs[i], i)) return nullptr;
  return Py_NewRef(out);
}

PyObject* refuse_forked() {
  return PyErr_Format(
      PyExc_RuntimeError,
      "a resident step: the threads that would run it are the parent's: use it in a process that was started, not forked off");
}

PyObject* call_step(PyObject* self, PyObject* const* given, std::size_t flags, PyObject* names) {
  Called& all = called(self);
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  PyObject* out = nullptr;
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i) {
    PyObject* const name = PyTuple_GET_ITEM(names, i);
    if (name != interned_out() && PyUnicode_Compare(name, interned_out()) != 0)
      return PyErr_Format(PyExc_TypeError, "a step has no argument %R: out= is its only name", name);
    out = given[count + i] == Py_None ? nullptr : given[count + i];
  }
  if (count != static_cast<Py_ssize_t>(all.inputs.size()))
    return PyErr_Format(PyExc_TypeError, "a step has %zu inputs, %zd were given", all.inputs.size(), count);
  if (is_forked()) return refuse_forked();
  // Arguments are on the CPU. Weights that others collect are seen by their version counters.
  if (Collector* const of_cpu = Collector::any_pending() ? Collector::known(c10::Device(c10::kCPU)) : nullptr;
      of_cpu != nullptr && !attempted([&] {
        const WithoutGil waits;
        of_cpu->flush(FlushReason::asked, false);
      }))
    return nullptr;
  // All that runs Python's code happens before the lock is taken, or behind.
  Owned result;
  AllElements from;
  AllElements to;
  const auto get_elements = [&] {
    for (std::size_t i = 0; i < all.inputs.size(); ++i) {
      from.emplace_back();
      if (!from.back().read(given[i], all.inputs[i], i, all.convert.get())) return false;
    }
    result = Owned(made_outputs(all, out, count > 0 && tensor_in(given[0]) != nullptr, to));
    return result.get() != nullptr;
  };
  bool has_elements = false;
  if (!attempted([&] { has_elements = get_elements(); }) || !has_elements) return nullptr;
  AllBytes<const std::byte> inputs;
  AllBytes<std::byte> outputs;
  for (const Elements& one : from) inputs.push_back(one.bytes());
  for (const Elements& one : to) outputs.push_back(one.bytes());
  if (!attempted([&] { run_step(all, inputs, outputs); })) return nullptr;
  return result.release();
}

bool append_passed(PyObject* tensors, PyObject* dtypes, std::vector<CallTensor>& to, std::vector<at::Tensor>& unpacked) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); ++i) {
    PyObject* const item = PyTuple_GET_ITEM(tensors, i);
    const at::Tensor* const tensor_or_null = tensor_in(item);
    if (tensor_or_null == nullptr) {
      PyErr_SetString(PyExc_TypeError, "inputs and outputs are tensors");
      return false;
    }
    const at::Tensor& tensor = *tensor_or_null;
    CallTensor one{.type = tensor.scalar_type(), .sizes = tensor.sizes().vec(), .elements = tensor.numel(), .bytes = tensor.nbytes()};
    one.shape = Owned(PyTuple_New(tensor.dim()));
    if (one.shape.get() == nullptr) return false;
    for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) PyTuple_SET_ITEM(one.shape.get(), dim, PyLong_FromLongLong(tensor.size(dim)));
    one.dtype = Owned(Py_NewRef(dtypes == nullptr ? Py_None : PyTuple_GET_ITEM(dtypes, i)));
    to.push_back(std::move(one));
    unpacked.push_back(tensor);
  }
  return true;
}

PyObject* new_step(PyTypeObject* type, PyObject* arguments, PyObject* /*names*/) {
  long long number = 0;
  const char* device = nullptr;
  PyObject* inputs = nullptr;
  PyObject* outputs = nullptr;
  unsigned int members = 0;
  long long lease = 0;
  long long idle = 0;
  PyObject* empty = nullptr;
  PyObject* dtypes = nullptr;
  PyObject* convert = nullptr;
  if (PyArg_ParseTuple(arguments, "LsO!O!ILLOO!O", &number, &device, &PyTuple_Type, &inputs, &PyTuple_Type, &outputs, &members, &lease,
                       &idle, &empty, &PyTuple_Type, &dtypes, &convert) == 0)
    return nullptr;
  if (PyTuple_GET_SIZE(dtypes) != PyTuple_GET_SIZE(outputs)) return PyErr_Format(PyExc_TypeError, "a dtype for each output");
  auto made = std::make_unique<Called>();
  std::vector<at::Tensor> from;
  std::vector<at::Tensor> to;
  if (!append_passed(inputs, nullptr, made->inputs, from) || !append_passed(outputs, dtypes, made->outputs, to)) return nullptr;
  made->empty = Owned(Py_NewRef(empty));
  made->convert = Owned(Py_NewRef(convert));
  const bool done = attempted([&] {
    const WithoutGil compiles;
    const auto [collector, recording] = find_recording(number);
    made->resident =
        ResidentStep::make(*collector, c10::Device(device), recording, from, to,
                           {.members = members, .lease = std::chrono::nanoseconds(lease), .idle = std::chrono::nanoseconds(idle)});
  });
  if (!done) return nullptr;
  PyObject* const self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  auto* const object = reinterpret_cast<StepObject*>(self);
  object->call = &call_step;
  object->of = made.release();
  return self;
}

void delete_step(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  Called* const all = reinterpret_cast<StepObject*>(self)->of;
  if (all != nullptr) {
    if (is_forked()) {
      // Never freed: its threads are the parent's.
      static_cast<void>(new std::shared_ptr<ResidentStep>(std::move(all->resident)));
    } else {
      const WithoutGil waits;
      all->resident.reset();
    }
    delete all;
  }
  auto* const object = reinterpret_cast<StepObject*>(self);
  if (object->weak != nullptr) PyObject_ClearWeakRefs(self);
  Py_CLEAR(object->executor);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* pause_step(PyObject* self, PyObject* /*nothing*/) {
  if (is_forked()) return refuse_forked();
  const bool done = attempted([&] {
    const WithoutGil waits;
    called(self).resident->pause();
  });
  if (!done) return nullptr;
  Py_RETURN_NONE;
}
PyObject* source_of_step(PyObject* self, PyObject* /*nothing*/) {
  const std::string& text = called(self).resident->source();
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}
PyObject* members_of_step(PyObject* self, void* /*nothing*/) { return PyLong_FromUnsignedLong(called(self).resident->members()); }
PyObject* launches_of_step(PyObject* self, void* /*nothing*/) { return PyLong_FromUnsignedLongLong(called(self).resident->launches()); }

}  // namespace

PyObject* step_type(FindRecording find, PyObject* base) {
  find_recording = find;
  static std::array<PyMethodDef, 4> methods{{
      {"pause", &pause_step, METH_NOARGS, nullptr},
      {"invalidate", &pause_step, METH_NOARGS, nullptr},
      {"source", &source_of_step, METH_NOARGS, nullptr},
      {},
  }};
  static std::array<PyGetSetDef, 3> members{{
      {"members", &members_of_step, nullptr, nullptr, nullptr},
      {"launches", &launches_of_step, nullptr, nullptr, nullptr},
      {},
  }};
  static std::array<PyMemberDef, 4> offsets{{
      {"_executor", T_OBJECT, static_cast<Py_ssize_t>(offsetof(StepObject, executor)), 0, nullptr},
      {"__weaklistoffset__", T_PYSSIZET, static_cast<Py_ssize_t>(offsetof(StepObject, weak)), READONLY, nullptr},
      {"__vectorcalloffset__", T_PYSSIZET, static_cast<Py_ssize_t>(offsetof(StepObject, call)), READONLY, nullptr},
      {},
  }};
  static std::array<PyType_Slot, 7> slots{{
      {Py_tp_new, reinterpret_cast<void*>(&new_step)},
      {Py_tp_dealloc, reinterpret_cast<void*>(&delete_step)},
      {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
      {Py_tp_methods, methods.data()},
      {Py_tp_getset, members.data()},
      {Py_tp_members, offsets.data()},
      {},
  }};
  static PyType_Spec spec{.name = "dwell.torch.CalledStep",
                          .basicsize = sizeof(StepObject),
                          .itemsize = 0,
                          .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
                          .slots = slots.data()};
  const Owned bases(PyTuple_Pack(1, base));
  return bases.get() == nullptr ? nullptr : PyType_FromSpecWithBases(&spec, bases.get());
}

}  // namespace dwell::pytorch

#endif
