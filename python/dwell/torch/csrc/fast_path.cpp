// Installs rules of operations in PyTorch's functions and methods. Each keeps its object, its definition and its hash, by which compilers
// find it; its call goes to a function of ours, which takes the fast path if it can and calls PyTorch's function otherwise.
#include "fast_path.hpp"

#include <vector>

#include "gil.hpp"

namespace dwell::pytorch {

namespace {

std::vector<FastPath>& offered() {
  static auto* const all = new std::vector<FastPath>;
  return *all;
}

}  // namespace

void offer(const FastPath& path) { offered().push_back(path); }

}  // namespace dwell::pytorch

#if __has_include(<Python.h>)

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <array>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "collector.hpp"
#include "fast_path_entries.hpp"
#include "operation_kernel.hpp"
#include "python_tensor.hpp"

namespace dwell::pytorch {

namespace {

// ---- Calls -----------------------------------------------------------------------------------------------------------------------------

// A path and the parameters of its schema.
struct Candidate {
  FastPath path;
  std::size_t positional = 0;                                // parameters that may be given by place
  std::array<PyObject*, FastPath::kMostParameters> names{};  // interned
  std::array<bool, FastPath::kMostParameters> has_default{};
  std::array<Argument, FastPath::kMostParameters> defaults{};
};

// A function or method of PyTorch with fast paths.
struct Entry {
  vectorcallfunc method = nullptr;  // the original call of a method; functions are called by their definition
  PyCFunction bare = nullptr;       // the original call of a method without arguments
  PyMethodDef definition{};         // the new definition of such a method
  std::vector<Candidate> candidates;
};
std::array<Entry, kMostEntries> entries;
std::size_t entry_count = 0;

bool in_use = true;
std::uint64_t calls = 0;            // guarded by the GIL
c10::DispatchKeySet plain_keys;     // of a plain tensor (is_plain)
c10::DispatchKeySet host_keys;      // of a plain tensor on the host
c10::DispatchKeySet straight_keys;  // on in a thread that takes operations

// Returns whether nothing but autograd stands between this thread's calls and the backend's kernel. Autograd is checked for each tensor.
bool is_straight() {
  if (!in_use || !takes_here()) return false;
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  return keys.included_ == straight_keys && keys.excluded_ == c10::default_excluded_set && !at::impl::torch_function_mode_enabled() &&
         !at::hasCallbacks();
}

bool read_tensor(const at::Tensor& tensor, Argument& to) {
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  const c10::DispatchKeySet keys = impl->key_set();
  to.kind = keys == plain_keys ? ArgumentKind::tensor : ArgumentKind::host_tensor;
  to.tensor = &tensor;
  return (keys == plain_keys || keys == host_keys) && has_no_gradient(impl) &&
         tensor.numel() <= limits().elements.load(std::memory_order_relaxed);
}

bool read_integer(PyObject* from, std::int64_t& to) {
  int overflow = 0;
  to = PyLong_AsLongLongAndOverflow(from, &overflow);
  return overflow == 0;
}

bool read_dims(PyObject* from, Argument& to) {
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(from);
  if (count > static_cast<Py_ssize_t>(Argument::kMostDims)) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const item = PySequence_Fast_GET_ITEM(from, i);
    if (!PyLong_CheckExact(item) || !read_integer(item, to.integers[static_cast<std::size_t>(i)])) return false;
  }
  to.kind = ArgumentKind::dims;
  to.count = static_cast<std::uint8_t>(count);
  return true;
}

// Reads an argument. Returns false for objects that only PyTorch's parser understands.
bool read(PyObject* from, Argument& to) {
  if (const at::Tensor* const tensor = plain_tensor_in(from)) return read_tensor(*tensor, to);
  if (PyFloat_CheckExact(from)) {
    to.kind = ArgumentKind::real;
    to.real = PyFloat_AS_DOUBLE(from);
    return true;
  }
  if (PyBool_Check(from)) {
    to.kind = ArgumentKind::boolean;
    to.integers[0] = from == Py_True ? 1 : 0;
    return true;
  }
  if (PyLong_CheckExact(from)) {
    to.kind = ArgumentKind::integer;
    return read_integer(from, to.integers[0]);
  }
  if (from == Py_None) {
    to.kind = ArgumentKind::none;
    return true;
  }
  if (PyUnicode_CheckExact(from)) {
    Py_ssize_t length = 0;
    to.kind = ArgumentKind::text;
    to.text = PyUnicode_AsUTF8AndSize(from, &length);  // owned by the object
    to.length = static_cast<std::size_t>(length);
    if (to.text == nullptr) PyErr_Clear();
    return to.text != nullptr;
  }
  return (PyTuple_CheckExact(from) || PyList_CheckExact(from)) && read_dims(from, to);
}

// The arguments that Python passed, in their order.
struct Given {
  static constexpr std::size_t kMost = FastPath::kMostParameters;

  std::size_t positional = 0;
  std::size_t named = 0;  // after the positional ones
  std::array<Argument, kMost> arguments;
  std::array<PyObject*, kMost> objects;
  std::array<PyObject*, kMost> names;
};

// Reads all arguments. Returns false if only PyTorch's parser understands one. `names`: a tuple of the names of the last objects, or null.
bool read_all(PyObject* const* objects, std::size_t positional, PyObject* names, Given& given) {
  given.positional = positional;
  given.named = names != nullptr ? static_cast<std::size_t>(PyTuple_GET_SIZE(names)) : 0;
  if (given.positional + given.named > Given::kMost) return false;
  for (std::size_t i = 0; i < given.positional + given.named; ++i) {
    given.objects[i] = objects[i];
    if (!read(objects[i], given.arguments[i])) return false;
    if (i >= positional) given.names[i] = PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i - positional));
  }
  return true;
}

// Puts the arguments in the order of a candidate's parameters, and finds the object to return. Returns false if they do not fit.
bool place(const Candidate& candidate, const Given& given, std::array<const Argument*, Given::kMost>& placed, PyObject*& result) {
  const FastPath& path = candidate.path;
  if (given.positional > candidate.positional) return false;
  const std::size_t of_result = path.result_in == ResultIn::last_argument ? path.parameters - 1 : 0;
  placed.fill(nullptr);
  const auto put = [&](std::size_t parameter, std::size_t at) {
    if (placed[parameter] != nullptr || (path.fits[parameter] & only(given.arguments[at].kind)) == 0) return false;
    placed[parameter] = &given.arguments[at];
    if (parameter == of_result) result = given.objects[at];
    return true;
  };
  for (std::size_t i = 0; i < given.positional; ++i)
    if (!put(i, i)) return false;
  for (std::size_t i = given.positional; i < given.positional + given.named; ++i) {
    std::size_t parameter = 0;
    while (parameter < path.parameters && candidate.names[parameter] != given.names[i]) ++parameter;
    if (parameter == path.parameters || !put(parameter, i)) return false;
  }
  for (std::size_t i = 0; i < path.parameters; ++i) {
    if (placed[i] != nullptr) continue;
    if (!candidate.has_default[i]) return false;
    placed[i] = &candidate.defaults[i];
  }
  return true;
}

// A call by a fast path. Starts with the GIL; release_gil releases it until the end.
class StraightCall {
 public:
  StraightCall() : around_(std::exchange(here, this)) {}
  ~StraightCall() {
    here = around_;
    if (thread_ != nullptr) PyEval_RestoreThread(thread_);
  }
  StraightCall(const StraightCall&) = delete;
  StraightCall& operator=(const StraightCall&) = delete;

  static void release_gil() {
    if (here != nullptr && here->thread_ == nullptr) here->thread_ = PyEval_SaveThread();
  }

 private:
  static inline thread_local constinit StraightCall* here = nullptr;

  StraightCall* const around_;
  PyThreadState* thread_ = nullptr;
};

PyObject* to_python(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return PyFloat_FromDouble(*tensor.const_data_ptr<float>());
    case at::kDouble: return PyFloat_FromDouble(*tensor.const_data_ptr<double>());
    default: return PyLong_FromLongLong(*tensor.const_data_ptr<std::int64_t>());
  }
}

// Tries the fast paths. Returns a new reference to the result; null without an error set if PyTorch is to make the call.
PyObject* attempt(const Entry& entry, PyObject* const* objects, std::size_t positional, PyObject* names) {
  Given given;
  if (!read_all(objects, positional, names, given)) return nullptr;
  std::array<const Argument*, Given::kMost> placed;
  for (const Candidate& candidate : entry.candidates) {
    PyObject* written = nullptr;
    if (!place(candidate, given, placed, written)) continue;
    at::Tensor made;
    bool taken = false;
    std::exception_ptr failure;
    try {
      const StraightCall call;
      taken = candidate.path.attempt(placed.data(), made);
    } catch (...) {
      failure = std::current_exception();
    }
    if (failure != nullptr) {
      set_error(failure);
      return nullptr;
    }
    if (!taken) {
      take_reason();  // resets it: the dispatcher calls the rule again
      if (candidate.path.at_once) continue;
      return nullptr;
    }
    if (candidate.path.result_in == ResultIn::number) return to_python(made);
    if (!candidate.path.at_once) ++calls;
    if (candidate.path.result_in == ResultIn::its_own) return python_tensor(std::move(made));
    plain_tensor_in(written)->unsafeGetTensorImpl()->bump_version();
    Py_INCREF(written);
    return written;
  }
  return nullptr;
}

// Calls PyTorch's own function by its definition, which takes a tuple and a dictionary.
PyObject* call_function(PyObject* function, PyObject* const* objects, std::size_t positional, PyObject* names) {
  PyObject* const args = PyTuple_New(static_cast<Py_ssize_t>(positional));
  if (args == nullptr) return nullptr;
  for (std::size_t i = 0; i < positional; ++i) {
    Py_INCREF(objects[i]);
    PyTuple_SET_ITEM(args, static_cast<Py_ssize_t>(i), objects[i]);
  }
  PyObject* keywords = nullptr;
  bool failed = false;
  if (names != nullptr && PyTuple_GET_SIZE(names) != 0) {
    keywords = PyDict_New();
    failed = keywords == nullptr;
    for (Py_ssize_t i = 0; !failed && i < PyTuple_GET_SIZE(names); ++i)
      failed = PyDict_SetItem(keywords, PyTuple_GET_ITEM(names, i), objects[positional + static_cast<std::size_t>(i)]) != 0;
  }
  PyObject* result = nullptr;
  if (!failed) {
    const auto original = reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void (*)()>(PyCFunction_GET_FUNCTION(function)));
    result = original(PyCFunction_GET_SELF(function), args, keywords);
  }
  Py_XDECREF(keywords);
  Py_DECREF(args);
  return result;
}

}  // namespace

PyObject* call_entry(std::size_t entry, PyObject* callable, PyObject* const* objects, std::size_t flags, PyObject* names) {
  const auto positional = static_cast<std::size_t>(PyVectorcall_NARGS(flags));
  if (is_straight()) {
    PyObject* const result = attempt(entries[entry], objects, positional, names);
    if (result != nullptr || PyErr_Occurred() != nullptr) return result;
  }
  return call_function(callable, objects, positional, names);
}

PyObject* call_method_entry(std::size_t entry, PyObject* callable, PyObject* const* objects, std::size_t flags, PyObject* names) {
  if (is_straight()) {
    PyObject* const result = attempt(entries[entry], objects, static_cast<std::size_t>(PyVectorcall_NARGS(flags)), names);
    if (result != nullptr || PyErr_Occurred() != nullptr) return result;
  }
  return entries[entry].method(callable, objects, flags, names);
}

PyObject* call_bare_entry(std::size_t entry, PyObject* self, PyObject* nothing) {
  if (is_straight()) {
    PyObject* const result = attempt(entries[entry], &self, 1, nullptr);
    if (result != nullptr || PyErr_Occurred() != nullptr) return result;
  }
  return entries[entry].bare(self, nothing);
}

namespace {

// ---- Entries ---------------------------------------------------------------------------------------------------------------------------

// Reads a default value. Returns false for types that are not read.
bool read_default(const c10::IValue& from, Argument& to) {
  if (from.isNone()) {
    to.kind = ArgumentKind::none;
  } else if (from.isDouble()) {
    to.kind = ArgumentKind::real;
    to.real = from.toDouble();
  } else if (from.isInt()) {
    to.kind = ArgumentKind::integer;
    to.integers[0] = from.toInt();
  } else if (from.isBool()) {
    to.kind = ArgumentKind::boolean;
    to.integers[0] = from.toBool() ? 1 : 0;
  } else if (from.isString()) {
    to.kind = ArgumentKind::text;
    to.text = from.toStringRef().data();  // owned by the schema
    to.length = from.toStringRef().size();
  } else if (from.isIntList() && from.toIntVector().empty()) {
    to.kind = ArgumentKind::dims;
    to.count = 0;
  } else {
    return false;
  }
  return true;
}

std::optional<Candidate> candidate_of(const FastPath& path) {
  const auto op = c10::Dispatcher::singleton().findSchema({path.name, path.overload});
  if (!op || op->schema().arguments().size() != path.parameters) return {};
  Candidate candidate{path};
  for (std::size_t i = 0; i < path.parameters; ++i) {
    const c10::Argument& parameter = op->schema().arguments()[i];
    candidate.names[i] = PyUnicode_InternFromString(parameter.name().c_str());
    // Pass alpha by name alone: PyTorch's functions read a positional one as an older order of arguments.
    if (!parameter.kwarg_only() && parameter.name() != "alpha") candidate.positional = i + 1;
    if (!parameter.default_value()) continue;
    candidate.has_default[i] = read_default(*parameter.default_value(), candidate.defaults[i]);
    if (!candidate.has_default[i] || (path.fits[i] & only(candidate.defaults[i].kind)) == 0) return {};
  }
  return candidate;
}

// Replaces the call of a function or method. Leaves objects of other types than CPython's two alone. Keeps a function's definition, from
// which its hash follows. Replaces the definition of a method without arguments: CPython calls it by that, and ignores its vectorcall.
void put_behind(PyObject* object, const std::vector<Candidate>& candidates) {
  if (entry_count == kMostEntries) return;
  Entry& entry = entries[entry_count];
  const auto kind = [](const PyMethodDef& of) { return of.ml_flags & ~(METH_STATIC | METH_CLASS); };
  if (PyCFunction_CheckExact(object)) {
    auto* const function = reinterpret_cast<PyCFunctionObject*>(object);
    if (kind(*function->m_ml) != (METH_VARARGS | METH_KEYWORDS) || function->vectorcall != nullptr) return;
    function->vectorcall = kEntryCalls[entry_count].function;
  } else if (Py_TYPE(object) == &PyMethodDescr_Type) {
    auto* const method = reinterpret_cast<PyMethodDescrObject*>(object);
    if (kind(*method->d_method) == (METH_VARARGS | METH_KEYWORDS) && method->vectorcall != nullptr) {
      entry.method = method->vectorcall;
      method->vectorcall = kEntryCalls[entry_count].method;
    } else if (kind(*method->d_method) == METH_NOARGS) {
      entry.bare = method->d_method->ml_meth;
      entry.definition = *method->d_method;
      entry.definition.ml_meth = kEntryCalls[entry_count].bare;
      method->d_method = &entry.definition;
    } else {
      return;
    }
  } else {
    return;
  }
  entry.candidates = candidates;
  ++entry_count;
}

// Operators of Python, which are methods of their own.
const std::map<std::string, std::vector<const char*>>& operators() {
  static const std::map<std::string, std::vector<const char*>> of = {
      {"add", {"__add__", "__radd__"}},
      {"add_", {"__iadd__"}},
      {"sub", {"__sub__"}},
      {"sub_", {"__isub__"}},
      {"mul", {"__mul__", "__rmul__"}},
      {"mul_", {"__imul__"}},
      {"div", {"__truediv__"}},
      {"div_", {"__itruediv__"}},
      {"eq", {"__eq__"}},
      {"ne", {"__ne__"}},
      {"lt", {"__lt__"}},
      {"le", {"__le__"}},
      {"gt", {"__gt__"}},
      {"ge", {"__ge__"}},
      {"matmul", {"__matmul__"}},
  };
  return of;
}

// Returns a new reference, or null if there is no such name.
PyObject* attribute(PyObject* of, const char* name) {
  PyObject* const found = of != nullptr ? PyObject_GetAttrString(of, name) : nullptr;
  if (found == nullptr) PyErr_Clear();
  return found;
}

}  // namespace

void release_gil() { StraightCall::release_gil(); }

void open_fast_paths() {
  const PyGILState_STATE interpreter = PyGILState_Ensure();
  straight_keys = c10::default_included_set | the_key.both();
  plain_keys = at::empty({0}, at::TensorOptions(takes_from_cpu() ? at::kCPU : at::kCUDA)).key_set();
  host_keys = at::empty({0}, at::TensorOptions(at::kCPU)).key_set();
  std::map<std::string, std::vector<Candidate>> by_name;
  for (const FastPath& path : offered())
    if (auto candidate = candidate_of(path)) by_name[std::string(path.name).substr(6)].push_back(*candidate);  // without aten::
  PyObject* const torch = PyImport_ImportModule("torch._C");
  PyObject* const tensor = attribute(torch, "TensorBase");
  PyObject* const methods = tensor != nullptr ? tensor : attribute(torch, "_TensorBase");
  PyObject* const functions = attribute(torch, "_VariableFunctions");
  PyObject* const layers = attribute(torch, "_nn");
  const auto put = [](PyObject* in, const char* name, const std::vector<Candidate>& candidates) {
    PyObject* const object = attribute(in, name);
    if (object != nullptr) put_behind(object, candidates);
    Py_XDECREF(object);
  };
  PyObject* const self = PyUnicode_InternFromString("self");
  for (const auto& [name, candidates] : by_name) {
    for (PyObject* const in : {functions, layers}) put(in, name.c_str(), candidates);
    // The tensor before a method's dot is the parameter `self`, the second of `where`.
    std::vector<Candidate> of_methods = candidates;
    std::erase_if(of_methods, [self](const Candidate& one) { return one.names[0] != self; });
    if (of_methods.empty()) continue;
    put(methods, name.c_str(), of_methods);
    if (const auto symbols = operators().find(name); symbols != operators().end())
      for (const char* const symbol : symbols->second) put(methods, symbol, of_methods);
  }
  Py_DECREF(self);
  for (PyObject* const done : {torch, methods, functions, layers}) Py_XDECREF(done);
  PyGILState_Release(interpreter);
}

bool has_fast_paths() { return entry_count != 0; }
void use_fast_paths(bool use) { in_use = use; }
std::uint64_t fast_calls() { return calls; }

}  // namespace dwell::pytorch

#else

namespace dwell::pytorch {

void release_gil() {}
void open_fast_paths() {}
bool has_fast_paths() { return false; }
void use_fast_paths(bool) {}
std::uint64_t fast_calls() { return 0; }

}  // namespace dwell::pytorch

#endif
