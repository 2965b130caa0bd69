#include "foreign.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include "cuda_stream.hpp"
#include "foreign_dlpack.hpp"
#include "shape.hpp"

namespace dwell::python {

namespace {

std::size_t alignment_of(ElementType type) { return bytes_of(type); }

// Notes strides in bytes of something that is not in C order.
void set_strides(Foreign& to, const std::vector<std::int64_t>& bytes) {
  const auto itemsize = static_cast<std::int64_t>(to.itemsize);
  if (std::ranges::any_of(bytes, [&](std::int64_t stride) { return stride % itemsize != 0; })) return;
  for (const std::int64_t stride : bytes) to.strides.push_back(stride / itemsize);
}

// ---- The buffer protocol ---------------------------------------------------------------------------------------------------------

// What a format of the struct module says of one element.
void set_format(Foreign& to, const char* format) {
  std::string_view text = format == nullptr ? "B" : format;
  to.type_text = std::string(text);
  if (!text.empty() && (text.front() == '@' || text.front() == '=' || text.front() == '<' || text.front() == '>' || text.front() == '!')) {
    to.swapped = text.front() == '>' || text.front() == '!';
    text.remove_prefix(1);
  }
  const bool complex = text.size() == 2 && text.front() == 'Z';
  if (text.size() != 1 && !complex) return;
  const char code = text.back();
  const char kind = complex                                                            ? 'c'
                    : code == '?'                                                      ? 'b'
                    : std::string_view("bhilqn").find(code) != std::string_view::npos  ? 'i'
                    : std::string_view("BHILQNc").find(code) != std::string_view::npos ? 'u'
                    : std::string_view("efd").find(code) != std::string_view::npos     ? 'f'
                                                                                       : ' ';
  to.type = type_of(kind, to.itemsize);
  if (to.itemsize == 1) to.swapped = false;
}

std::optional<Foreign> from_buffer(nb::handle object) {
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), view.get(), PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  Foreign to;
  to.data = view->buf;
  to.itemsize = static_cast<std::size_t>(std::max<Py_ssize_t>(view->itemsize, 1));
  to.count = static_cast<std::size_t>(view->len) / to.itemsize;
  to.readonly = view->readonly != 0;
  to.contiguous = PyBuffer_IsContiguous(view.get(), 'C') != 0;
  for (int i = 0; i < view->ndim; ++i) to.shape.push_back(static_cast<std::size_t>(view->shape[i]));
  if (!to.contiguous && view->strides != nullptr) set_strides(to, {view->strides, view->strides + view->ndim});
  set_format(to, view->format);
  to.keep = std::shared_ptr<void>(view.release(), [](void* dropped) {
    const auto release = [held = static_cast<Py_buffer*>(dropped)] {
      PyBuffer_Release(held);
      delete held;
    };
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0)
      release();
    else
      post(release);
  });
  return to;
}

// ---- Array interfaces ------------------------------------------------------------------------------------------------------------

// A dictionary of __array_interface__ or __cuda_array_interface__.
Foreign from_interface(nb::handle object, nb::handle interface, const std::string& name) {
  const nb::dict dict = nb::cast<nb::dict>(interface);
  Foreign to;
  const std::string type = nb::cast<std::string>(nb::str(dict["typestr"]));
  const char* const end = type.data() + type.size();
  const auto [parsed, error] = std::from_chars(std::min(type.data() + 2, end), end, to.itemsize);
  constexpr std::size_t kMostBytes = 1U << 20U;  // of an element that dwell does not know
  if (error != std::errc() || parsed != end || to.itemsize == 0 || to.itemsize > kMostBytes)
    refuse_array(name, "its array interface has the type '" + type + "'");
  to.swapped = type[0] == '>' && to.itemsize > 1;
  to.type = type_of(type[1], to.itemsize);
  to.type_text = type;
  // What ml_dtypes adds to NumPy.
  if (type[1] == 'V' && to.itemsize == 2 && nb::hasattr(object, "dtype") &&
      nb::cast<std::string>(nb::str(object.attr("dtype"))).find("bfloat16") != std::string::npos)
    to.type = ElementType::bf16;
  to.set_shape(nb::cast<std::vector<std::int64_t>>(dict["shape"]), name);
  const nb::object strides = nb::borrow(dict.contains("strides") ? nb::object(dict["strides"]) : nb::none());
  if (!strides.is_none() && to.count > 0) {
    std::size_t at = to.shape.size();
    auto expected = static_cast<std::int64_t>(to.itemsize);  // at most the bytes of all elements
    const nb::tuple list(strides);
    if (list.size() != at)
      refuse_array(name, "its array interface has " + std::to_string(list.size()) + " strides for shape " + shape_text(to.shape));
    while (at-- > 0) {
      if (to.shape[at] > 1 && nb::cast<std::int64_t>(list[at]) != expected) to.contiguous = false;
      expected *= static_cast<std::int64_t>(to.shape[at]);
    }
    if (!to.contiguous) set_strides(to, nb::cast<std::vector<std::int64_t>>(strides));
  }
  const nb::object data = nb::borrow(dict["data"]);
  to.data = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(data[0]));
  to.readonly = nb::cast<bool>(data[1]);
  const Shared owner{nb::borrow(object)};
  to.keep = std::make_shared<Shared>(owner);
  return to;
}

std::optional<Foreign> from_cuda_interface(nb::handle object, const RuntimeState& runtime, const std::string& name) {
  try {
    const nb::dict interface = nb::cast<nb::dict>(object.attr("__cuda_array_interface__"));
    Foreign to = from_interface(object, interface, name);
    to.place = Foreign::Place::cuda;
    // The interface does not say which device; `wrap` looks the memory up, and refuses another one's.
    to.id = runtime.cuda();
    const nb::object stream = interface.contains("stream") ? nb::object(interface["stream"]) : nb::none();
    if (!stream.is_none() && runtime.cuda() >= 0 && to.count > 0) {
      const auto number = nb::cast<std::uintptr_t>(stream);
      const Unlocked unlocked;
      wait_for_stream(runtime.cuda(), number);
    }
    return to;
  } catch (nb::python_error& error) {
    refuse_array(name, "__cuda_array_interface__ of " + python_name(object) + " cannot be read: " + text_of_raised(error));
  }
}

}  // namespace

// ---- All of them -----------------------------------------------------------------------------------------------------------------

std::string python_name(nb::handle object) {
  const nb::handle type = object.type();
  std::string name = nb::cast<std::string>(nb::str(type.attr("__qualname__")));
  const std::string module = nb::cast<std::string>(nb::str(nb::getattr(type, "__module__", nb::str("builtins"))));
  return module == "builtins" ? name : module + "." + name;
}

void refuse_array(const std::string& name, const std::string& why) {
  throw Error(errc::invalid_argument, name + ": " + why, {"argument", name});
}

std::string text_of_raised(nb::python_error& error) { return nb::cast<std::string>(nb::str(error.value())); }

void Foreign::set_shape(const std::vector<std::int64_t>& sizes, const std::string& name) {
  for (const std::int64_t size : sizes) {
    if (size < 0) refuse_array(name, "it has the size " + std::to_string(size) + " in its shape");
    shape.push_back(static_cast<std::size_t>(size));
  }
  const std::optional<ShapeSize> size = size_of(shape, itemsize);
  if (!size) refuse_array(name, "an array of shape " + shape_text(shape) + " has more bytes than there are addresses");
  count = size->count;
}

std::string Foreign::text() const {
  const std::string where = place == Place::host      ? "on the CPU"
                            : place == Place::pinned  ? "in pinned host memory"
                            : place == Place::managed ? "in managed memory"
                            : place == Place::cuda    ? (id < 0 ? std::string("on a CUDA device") : "on cuda:" + std::to_string(id))
                                                      : "on " + place_text;
  return of + " of " + (type ? numpy_name(*type) : type_text) + (swapped ? " in the other byte order" : "") +
         (keep ? ", shape " + shape_text(shape) : "") + (contiguous ? "" : ", strided") + (readonly ? ", read-only" : "") + ", " + where;
}

std::optional<Foreign> describe(nb::handle object, const RuntimeState& runtime, const std::string& name) {
  std::optional<Foreign> found;
  if (PyObject_CheckBuffer(object.ptr()) != 0) found = from_buffer(object);
  if (found && !found->type && found->itemsize == 2 && nb::hasattr(object, "__array_interface__")) found.reset();  // bfloat16
  if (!found && nb::hasattr(object, "__array_interface__")) {
    try {
      found = from_interface(object, object.attr("__array_interface__"), name);
    } catch (nb::python_error& error) {
      refuse_array(name, "__array_interface__ of " + python_name(object) + " cannot be read: " + text_of_raised(error));
    }
  }
  if (!found && nb::hasattr(object, "__dlpack__") && nb::hasattr(object, "__dlpack_device__")) found = from_dlpack(object, runtime, name);
  if (!found && nb::hasattr(object, "__cuda_array_interface__")) found = from_cuda_interface(object, runtime, name);
  if (found) found->of = python_name(object);
  return found;
}

bool is_reachable(const Foreign& array, const RuntimeState& runtime) {
  if (array.place == Foreign::Place::cuda) return runtime.cuda() >= 0 && runtime.cuda() == array.id;
  return array.place != Foreign::Place::other;
}

std::string out_of_reach(const Foreign& array, const RuntimeState& runtime) {
  if (!is_reachable(array, runtime)) {
    return runtime.cuda() < 0 ? "the runtime works on the CPU: pass an array in host memory, or open a dwell.Runtime on that device"
                              : "the runtime works on " + runtime.device() + ": pass an array there, or a runtime.array(...) copy";
  }
  if (array.place == Foreign::Place::host && runtime.cuda() >= 0)
    return "the runtime works on " + runtime.device() + ", which does not reach it: copy it with runtime.array(...)";
  return {};
}

std::string unusable(const Foreign& array, const RuntimeState& runtime) {
  if (std::string why = out_of_reach(array, runtime); !why.empty()) return why;
  if (array.swapped) return "its bytes are in the other order: pass a copy in the machine's own";
  if (!array.contiguous)
    return "its elements do not lie behind each other in C order: pass a copy, numpy.ascontiguousarray(x) or x.contiguous()";
  if (array.type && reinterpret_cast<std::uintptr_t>(array.data) % alignment_of(*array.type) != 0)
    return "its elements are not aligned to " + std::to_string(alignment_of(*array.type)) + " bytes: pass a copy";
  return {};
}

}  // namespace dwell::python
