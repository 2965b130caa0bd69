#include "batch.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <array>
#include <utility>

#include "bind.hpp"
#include "compiling.hpp"

namespace dwell::python {

using namespace nb::literals;

PyBatch::PyBatch(State runtime) : runtime_(std::move(runtime)) {
  Runtime& opened = runtime_->get();
  const Compiling compiling(*runtime_, kOwnOperators);
  batch_.emplace(opened);
}

dwell::Batch& PyBatch::batch() {
  static_cast<void>(runtime_->get());
  return *batch_;
}

Receipt PyBatch::flush() {
  run_posted();
  decltype(kept_) kept;  // dropped without the lock: it may be an array of Python's
  const Guard guard(mutex_);
  Receipt receipt;
  {
    const Unlocked unlocked;
    receipt.ticket = batch().flush();
  }
  kept.swap(kept_);
  return receipt;
}

BatchStats PyBatch::stats() {
  const Guard guard(mutex_);
  return batch_->stats();
}

namespace {

// The arguments of one call, with their memory.
class Call {
 public:
  Call(PyBatch& batch, const char* function) : batch_(batch), function_(function) {}

  TensorView reads(nb::handle object, const char* argument) { return tensor(object, argument, false); }
  TensorView writes(nb::handle object, const char* argument) { return tensor(object, argument, true); }
  std::optional<TensorView> reads_if(nb::handle object, const char* argument) {
    return object.is_none() ? std::nullopt : std::optional(reads(object, argument));
  }
  std::vector<TensorView> reads_all(nb::handle objects, const char* argument) {
    if (PySequence_Check(objects.ptr()) == 0)
      refuse_argument(errc::signature_mismatch, name(argument), python_name(objects) + ": a sequence of arrays is needed");
    std::vector<TensorView> views;
    for (const nb::handle one : objects) views.push_back(reads(one, argument));
    return views;
  }
  Expression expression(nb::handle object, const char* argument) {
    if (const auto number = number_from(object, name(argument))) return *number;
    return reads(object, argument);
  }
  Dims dims(nb::handle object, const char* argument) { return object.is_none() ? Dims() : dims_from(object, name(argument)); }
  std::size_t dim(std::int64_t value, const TensorView& view, const char* argument) const {
    const auto dims = static_cast<std::int64_t>(view.dims());
    if (value < -dims || value >= dims)
      refuse_argument(errc::invalid_argument, name(argument),
                      std::to_string(value) + " is no dimension of a tensor of shape " + to_string(view.shape()));
    return static_cast<std::size_t>(value < 0 ? value + dims : value);
  }

  std::string name(const char* argument) const { return std::string("argument ") + argument + " of Batch." + function_; }

  template <class Collect>
  void collect(Collect f) {
    batch_.with(memory_, f);
  }

 private:
  TensorView tensor(nb::handle object, const char* argument, bool written) {
    auto held = tensor_from(batch_.runtime(), object, name(argument), written);
    if (!held)
      refuse_argument(errc::signature_mismatch, name(argument),
                      python_name(object) + ": a dwell.Buffer or an array on " + batch_.runtime()->device() + " is needed" +
                          (written                         ? ""
                           : number_from(object, argument) ? ", and no number"
                                                           : ""));
    memory_.push_back(std::move(held->memory));
    return held->view;
  }

  PyBatch& batch_;
  const char* function_;
  std::vector<std::shared_ptr<HeldMemory>> memory_;
};

void apply(PyBatch& self, const std::string& op, nb::handle to, const nb::args& operands) {
  constexpr std::size_t kMost = 3;
  Call call(self, "apply");
  const TensorOp operation = operation_named(op);
  const TensorView result = call.writes(to, "to");
  if (operands.size() > kMost)
    refuse_argument(errc::invalid_argument, call.name("operands"), "no operation takes " + std::to_string(operands.size()));
  std::array<TensorView, kMost> views;
  std::vector<Operand> given;
  given.reserve(kMost);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::string name = "operand " + std::to_string(i + 1);
    if (const auto number = number_from(operands[i], name)) {
      given.emplace_back(*number);
    } else {
      views.at(i) = call.reads(operands[i], name.c_str());
      given.emplace_back(views.at(i));
    }
  }
  call.collect([&](dwell::Batch& batch) { batch.apply(operation, result, given); });
}

void assign(PyBatch& self, nb::handle to, nb::handle from) {
  Call call(self, "assign");
  const TensorView result = call.writes(to, "to");
  const Expression value = call.expression(from, "value");
  call.collect([&](dwell::Batch& batch) { batch.assign(result, value); });
}

void arange(PyBatch& self, nb::handle to, nb::handle start, nb::handle step) {
  Call call(self, "arange");
  const TensorView result = call.writes(to, "to");
  const bool floating = result.type() == ElementType::f64 || result.type() == ElementType::f32;
  // A number of the program counts as f32 beside integers: the index is made what the result is first.
  const Expression index = floating ? Expression::index().as(result.type()) : Expression::index();
  const Expression value = index * call.expression(step, "step") + call.expression(start, "start");
  call.collect([&](dwell::Batch& batch) { batch.assign(result, value); });
}

template <class Class>
void bind_reductions(Class& type) {
  const auto add_plain = [&](const char* name, Reduction reduction, const char* doc) {
    type.def(
        name,
        [reduction, name](PyBatch& self, nb::handle to, nb::handle x, nb::handle axes) {
          Call call(self, name);
          const TensorView result = call.writes(to, "to");
          const TensorView from = call.reads(x, "x");
          const Dims along = call.dims(axes, "axes");
          call.collect([&](dwell::Batch& batch) { batch.reduce(reduction, result, from, along); });
        },
        "to"_a, "x"_a, "axes"_a = nb::none(), doc);
  };
  const auto add_with = [&](const char* name, Reduction reduction, const char* parameter, double value, const char* doc) {
    type.def(
        name,
        [reduction, name](PyBatch& self, nb::handle to, nb::handle x, nb::handle axes, double given) {
          Call call(self, name);
          const TensorView result = call.writes(to, "to");
          const TensorView from = call.reads(x, "x");
          const Dims along = call.dims(axes, "axes");
          call.collect([&](dwell::Batch& batch) { batch.reduce(reduction, result, from, along, given); });
        },
        "to"_a, "x"_a, "axes"_a = nb::none(), nb::arg(parameter) = value, doc);
  };
  const auto add_typed = add_plain;
  const auto add_corrected = [&](const char* name, Reduction reduction, const char* doc) {
    add_with(name, reduction, "correction", 1, doc);
  };
  const auto add_own = [&](const char* name, Reduction reduction, const char* doc) { add_with(name, reduction, "p", 2, doc); };
  const auto text_of = [](const char* text) {
    return std::string("to = ") + text +
           ". Along axes: all, when none is named; `to` has the shape of x without them, or 1 in their place.";
  };
#define DWELL_ADD(name, pytorch, numpy, gives, calls, text) add_##calls(#pytorch, Reduction::name, text_of(text).c_str());
  DWELL_REDUCTIONS(DWELL_ADD)
#undef DWELL_ADD
  const auto add_places = [&](const char* name, auto member, const char* doc) {
    type.def(
        name,
        [member, name](PyBatch& self, nb::handle values, nb::handle places, nb::handle x, std::int64_t axis) {
          Call call(self, name);
          const TensorView result = call.writes(values, "values");
          const TensorView where = call.writes(places, "places");
          const TensorView from = call.reads(x, "x");
          call.collect([&](dwell::Batch& batch) { (batch.*member)(result, where, from, axis); });
        },
        "values"_a, "places"_a, "x"_a, "axis"_a, doc);
  };
  add_places("max", &dwell::Batch::max, "The largest elements along an axis, and their places.");
  add_places("min", &dwell::Batch::min, "The smallest elements along an axis, and their places.");
}

template <class Class>
void bind_normalisations(Class& type) {
  const auto add = [&](const char* name, auto member, const char* doc) {
    type.def(
        name,
        [member, name](PyBatch& self, nb::handle to, nb::handle x, std::int64_t axis) {
          Call call(self, name);
          const TensorView result = call.writes(to, "to");
          const TensorView from = call.reads(x, "x");
          call.collect([&](dwell::Batch& batch) { (batch.*member)(result, from, axis); });
        },
        "to"_a, "x"_a, "axis"_a = -1, doc);
  };
  add("softmax", &dwell::Batch::softmax, "to = exponentials of x, divided by their sum along an axis. `to` may be x.");
  add("log_softmax", &dwell::Batch::log_softmax, "to = the logarithm of `softmax`.");
  add("cumsum", &dwell::Batch::cumsum, "to = the sum of all elements up to this one along an axis.");
  type.def(
      "layer_norm",
      [](PyBatch& self, nb::handle to, nb::handle x, nb::handle shape, nb::handle weight, nb::handle bias, double epsilon) {
        Call call(self, "layer_norm");
        const TensorView result = call.writes(to, "to");
        const TensorView from = call.reads(x, "x");
        const Dims last = call.dims(shape, "shape");
        const auto weights = call.reads_if(weight, "weight");
        const auto biases = call.reads_if(bias, "bias");
        call.collect([&](dwell::Batch& batch) { batch.layer_norm(result, from, last, weights, biases, epsilon); });
      },
      "to"_a, "x"_a, "shape"_a, "weight"_a = nb::none(), "bias"_a = nb::none(), "epsilon"_a = 1e-5,
      "to = x with mean 0 and variance 1 along its last dimensions, which have `shape`; times weights, plus biases, of that shape.");
  type.def(
      "rms_norm",
      [](PyBatch& self, nb::handle to, nb::handle x, nb::handle shape, nb::handle weight, double epsilon) {
        Call call(self, "rms_norm");
        const TensorView result = call.writes(to, "to");
        const TensorView from = call.reads(x, "x");
        const Dims last = call.dims(shape, "shape");
        const auto weights = call.reads_if(weight, "weight");
        call.collect([&](dwell::Batch& batch) { batch.rms_norm(result, from, last, weights, epsilon); });
      },
      "to"_a, "x"_a, "shape"_a, "weight"_a = nb::none(), "epsilon"_a = 1e-5,
      "to = x with a mean square of 1 along its last dimensions, times weights.");
}

template <class Class>
void bind_products(Class& type) {
  const auto add = [&](const char* name, auto member, const char* doc) {
    type.def(
        name,
        [member, name](PyBatch& self, nb::handle to, nb::handle a, nb::handle b) {
          Call call(self, name);
          const TensorView result = call.writes(to, "to");
          const TensorView left = call.reads(a, "a");
          const TensorView right = call.reads(b, "b");
          call.collect([&](dwell::Batch& batch) { (batch.*member)(result, left, right); });
        },
        "to"_a, "a"_a, "b"_a, doc);
  };
  add("mm", &dwell::Batch::mm, "to (m, n) = a (m, k) times b (k, n), all of one type.");
  add("bmm", &dwell::Batch::bmm, "The same for each of a batch: to (batch, m, n), a (batch, m, k), b (batch, k, n).");
  add("matmul", &dwell::Batch::matmul, "As torch.matmul: vectors, matrices, and dimensions ahead of them that broadcast.");
  add("mv", &dwell::Batch::mv, "to (m) = a (m, k) times b (k).");
  add("dot", &dwell::Batch::dot, "to () = the sum of a (k) times b (k).");
  add("outer", &dwell::Batch::outer, "to (m, n) = a (m) times b (n), of any types.");
  const auto add_biased = [&](const char* name, auto member, const char* doc) {
    type.def(
        name,
        [member, name](PyBatch& self, nb::handle to, nb::handle bias, nb::handle a, nb::handle b, double beta, double alpha) {
          Call call(self, name);
          const TensorView result = call.writes(to, "to");
          const TensorView added = call.reads(bias, "bias");
          const TensorView left = call.reads(a, "a");
          const TensorView right = call.reads(b, "b");
          call.collect([&](dwell::Batch& batch) { (batch.*member)(result, added, left, right, beta, alpha); });
        },
        "to"_a, "bias"_a, "a"_a, "b"_a, "beta"_a = 1.0, "alpha"_a = 1.0, doc);
  };
  add_biased("addmm", &dwell::Batch::addmm, "to = beta * bias + alpha * (a times b); the bias broadcasts, and may be `to`.");
  add_biased("baddbmm", &dwell::Batch::baddbmm, "The same for each of a batch.");
  add_biased("addmv", &dwell::Batch::addmv, "The same of a matrix and a vector.");
}

template <class Class>
void bind_selections(Class& type) {
  const auto add = [&](const char* name, auto member, const char* doc) {
    type.def(
        name,
        [member, name](PyBatch& self, nb::handle to, nb::handle from, std::int64_t axis, nb::handle index) {
          Call call(self, name);
          const TensorView result = call.writes(to, "to");
          const TensorView source = call.reads(from, "source");
          const TensorView where = call.reads(index, "index");
          const std::size_t dim = call.dim(axis, source, "axis");
          call.collect([&](dwell::Batch& batch) { (batch.*member)(result, source, dim, where); });
        },
        "to"_a, "source"_a, "axis"_a, "index"_a, doc);
  };
  add("index_select", &dwell::Batch::index_select,
      "to = slices of source along an axis, by an index of int32 or int64 with one dimension.");
  add("gather", &dwell::Batch::gather, "to = the element that the index, of its shape, names along an axis of source.");
  type.def(
      "embedding",
      [](PyBatch& self, nb::handle to, nb::handle from, nb::handle index) {
        Call call(self, "embedding");
        const TensorView result = call.writes(to, "to");
        const TensorView source = call.reads(from, "source");
        const TensorView where = call.reads(index, "index");
        call.collect([&](dwell::Batch& batch) { batch.embedding(result, source, where); });
      },
      "to"_a, "source"_a, "index"_a, "to = rows of a table, for an index of any shape.");
  type.def(
      "scatter_add",
      [](PyBatch& self, nb::handle to, std::int64_t axis, nb::handle index, nb::handle from) {
        Call call(self, "scatter_add");
        const TensorView result = call.writes(to, "to");
        const TensorView where = call.reads(index, "index");
        const TensorView source = call.reads(from, "source");
        const std::size_t dim = call.dim(axis, result, "axis");
        call.collect([&](dwell::Batch& batch) { batch.scatter_add(result, dim, where, source); });
      },
      "to"_a, "axis"_a, "index"_a, "source"_a, "Adds each element of source where the index says along an axis of `to`.");
  const auto add_triangle = [&](const char* name, auto member, const char* doc) {
    type.def(
        name,
        [member, name](PyBatch& self, nb::handle to, nb::handle x, std::int64_t diagonal) {
          Call call(self, name);
          const TensorView result = call.writes(to, "to");
          const TensorView from = call.reads(x, "x");
          call.collect([&](dwell::Batch& batch) { (batch.*member)(result, from, diagonal); });
        },
        "to"_a, "x"_a, "diagonal"_a = 0, doc);
  };
  add_triangle("tril", &dwell::Batch::tril, "to = the lower triangle of each matrix, 0 elsewhere.");
  add_triangle("triu", &dwell::Batch::triu, "to = the upper triangle of each matrix, 0 elsewhere.");
  const auto add_joined = [&](const char* name, auto member, const char* doc) {
    type.def(
        name,
        [member, name](PyBatch& self, nb::handle to, nb::handle from, std::int64_t axis) {
          Call call(self, name);
          const TensorView result = call.writes(to, "to");
          const std::vector<TensorView> parts = call.reads_all(from, "arrays");
          const std::size_t dim = call.dim(axis, result, "axis");
          call.collect([&](dwell::Batch& batch) { (batch.*member)(result, parts, dim); });
        },
        "to"_a, "arrays"_a, "axis"_a = 0, doc);
  };
  add_joined("cat", &dwell::Batch::cat, "to = the arrays behind each other along an axis.");
  add_joined("stack", &dwell::Batch::stack, "to = the arrays along an axis that they do not have.");
}

}  // namespace

void bind_batch(nb::module_& m) {
  nb::class_<BatchStats>(m, "BatchStats", "What has been collected since the beginning.")
      .def_ro("operations", &BatchStats::operations, "Collected, copies in between among them.")
      .def_ro("tasks", &BatchStats::tasks, "Submitted: fewer, as far as operations became part of others.")
      .def_ro("programs", &BatchStats::programs, "Tasks among these that run a program over elements.")
      .def_ro("compiled", &BatchStats::compiled, "And among those, by an operator compiled for the program.")
      .def("__repr__", [](const BatchStats& self) {
        return "<dwell.BatchStats operations=" + std::to_string(self.operations) + " tasks=" + std::to_string(self.tasks) +
               " programs=" + std::to_string(self.programs) + " compiled=" + std::to_string(self.compiled) + ">";
      });

  nb::class_<PyBatch> type(
      m, "Batch",
      "Collects operations on tensors, and runs them as few tasks: nothing is compiled for them, and no kernel is launched.\n\n"
      "Tensors are ``dwell.Buffer``, or arrays of others on the runtime's device, of any strides, up to 8 dimensions and of float16,\n"
      "bfloat16, float32, float64, int8, int16, int32, int64, uint8 or bool. ``to`` is where results go; types are PyTorch's. Order "
      "follows\n"
      "from memory. What an operation names lives until it has run. A context manager: the block's end flushes. Threads may share it, and\n"
      "then wait for each other. Made by ``Runtime.batch``.");
  type.def("apply", &apply, "op"_a, "to"_a, "operands"_a,
           "to = op(operands), element by element, with broadcasting: ``batch.apply(\"add\", y, x, 1.0)``. The names are those of C++,\n"
           "``dwell/device/tensor_op.hpp``. Operands are tensors, bools, ints and floats. Raises dwell.InvalidArgument for what does not\n"
           "fit, dwell.Unsupported for types that tensors cannot have.",
           nb::sig("def apply(self, op: str, to: object, *operands: object) -> None"))
      .def("assign", &assign, "to"_a, "value"_a, "to = a tensor or a number, converted to its type and broadcast to its shape.")
      .def("arange", &arange, "to"_a, "start"_a = 0, "step"_a = 1, "to = start, start + step, ... in the order of rows.")
      .def("flush", &PyBatch::flush, "Submits what is left. The ticket stands for all since the flush before.")
      .def_prop_ro("stats", &PyBatch::stats, "What it has done since it was made.")
      .def(
          "__enter__", [](nb::handle_t<PyBatch> self) { return nb::borrow(self); }, nb::sig("def __enter__(self) -> Batch"))
      .def(
          "__exit__", [](PyBatch& self, nb::handle, nb::handle, nb::handle) { static_cast<void>(self.flush()); }, "type"_a = nb::none(),
          "value"_a = nb::none(), "traceback"_a = nb::none(), "Flushes, and does not wait.",
          nb::sig("def __exit__(self, type: object = None, value: object = None, traceback: object = None) -> None"))
      .def("__repr__", [](PyBatch& self) {
        return "<dwell.Batch on " + self.runtime()->device() + ", " + std::to_string(self.stats().operations) + " operations>";
      });
  bind_reductions(type);
  bind_normalisations(type);
  bind_products(type);
  bind_selections(type);
}

}  // namespace dwell::python
