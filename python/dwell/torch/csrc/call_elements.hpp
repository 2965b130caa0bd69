// Elements of arrays, buffers and CPU tensors that a call from Python reads or writes.
#pragma once

#if __has_include(<Python.h>)

#include <Python.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fallback.hpp"
#include "python_tensor.hpp"

namespace dwell::pytorch {

// Owns a reference.
class Owned {
 public:
  Owned() = default;
  explicit Owned(PyObject* object) : object_(object) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }

 private:
  PyObject* object_ = nullptr;
};

// A tensor of the recording whose elements a call passes.
struct CallTensor {
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> sizes;
  std::int64_t elements = 0;
  std::size_t bytes = 0;
  Owned shape;  // a tuple
  Owned dtype;  // NumPy's; None if it has none
};

// Returns whether elements of a buffer are of a type.
inline bool is_format(const Py_buffer& buffer, at::ScalarType type, std::size_t size) {
  const char* format = buffer.format == nullptr ? "B" : buffer.format;
  if (*format == '@' || *format == '=' || (*format == '<' && std::endian::native == std::endian::little)) ++format;
  if (format[0] == '\0' || format[1] != '\0' || static_cast<std::size_t>(buffer.itemsize) != size) return false;
  switch (type) {
    case at::kFloat: return *format == 'f';
    case at::kDouble: return *format == 'd';
    case at::kHalf: return *format == 'e';
    case at::kBool: return *format == '?';
    case at::kByte: return *format == 'B';
    case at::kChar: return *format == 'b';
    case at::kShort: return *format == 'h';
    case at::kInt:
    case at::kLong: return *format == 'i' || *format == 'l' || *format == 'q';
    default: return false;
  }
}

// Elements that a call reads or writes, kept as long as this.
class Elements {
 public:
  Elements() = default;
  Elements(Elements&& other) noexcept
      : bytes_(other.bytes_),
        buffer_(other.buffer_),
        has_buffer_(std::exchange(other.has_buffer_, false)),
        tensor_(std::move(other.tensor_)) {}
  ~Elements() {
    if (has_buffer_) PyBuffer_Release(&buffer_);
  }
  Elements(const Elements&) = delete;

  // Returns false with an exception. `name`: "input" or "out".
  bool read(PyObject* from, const CallTensor& as, std::size_t number, PyObject* convert) {
    if (const at::Tensor* const tensor = tensor_in(from)) return read(*tensor, as, number);
    if (PyObject_CheckBuffer(from) && take(from, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)) return check(as, "input", number);
    PyErr_Clear();  // not contiguous, most likely; else the conversion raises
    const Owned at(PyLong_FromSize_t(number));
    if (at.get() == nullptr) return false;
    const Owned made(PyObject_CallFunctionObjArgs(convert, from, at.get(), nullptr));
    if (made.get() == nullptr) return false;
    if (const at::Tensor* const tensor = tensor_in(made.get())) return read(*tensor, as, number);
    return take(made.get(), PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) && check(as, "input", number);
  }
  bool write(PyObject* to, const CallTensor& as, std::size_t number) {
    if (const at::Tensor* const tensor = tensor_in(to)) return write(*tensor, as, number);
    if (PyObject_CheckBuffer(to) == 0) {
      PyErr_Format(PyExc_TypeError, "out %zu is a %s: pass a NumPy array, a buffer or a CPU tensor", number, Py_TYPE(to)->tp_name);
      return false;
    }
    if (!take(to, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE)) {
      PyErr_Clear();
      PyErr_Format(PyExc_ValueError, "out %zu is not contiguous, or cannot be written: pass a contiguous array of the caller's", number);
      return false;
    }
    return check(as, "out", number);
  }
  // A new tensor.
  void write(const at::Tensor& fresh) {
    tensor_ = fresh;
    bytes_ = {static_cast<std::byte*>(fresh.data_ptr()), fresh.nbytes()};
  }

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  bool take(PyObject* from, int flags) {
    if (PyObject_GetBuffer(from, &buffer_, flags) != 0) return false;
    has_buffer_ = true;
    bytes_ = {static_cast<std::byte*>(buffer_.buf), static_cast<std::size_t>(buffer_.len)};
    return true;
  }
  bool check(const CallTensor& as, const char* what, std::size_t number) const {
    const std::size_t size = as.elements == 0 ? 1 : as.bytes / static_cast<std::size_t>(as.elements);
    if (!is_format(buffer_, as.type, size)) {
      PyErr_Format(PyExc_TypeError, "%s %zu has elements of format '%s' and %zd bytes, the step's are %s", what, number,
                   buffer_.format == nullptr ? "B" : buffer_.format, buffer_.itemsize, c10::toString(as.type));
      return false;
    }
    if (bytes_.size() != as.bytes) return refuse_size(what, number, buffer_.len / buffer_.itemsize, as);
    return true;
  }
  static bool refuse_size(const char* what, std::size_t number, std::int64_t elements, const CallTensor& as) {
    PyErr_Format(PyExc_ValueError, "%s %zu has %lld elements, the step's has %lld", what, number, static_cast<long long>(elements),
                 static_cast<long long>(as.elements));
    return false;
  }
  static bool check(const at::Tensor& tensor, const CallTensor& as, const char* what, std::size_t number) {
    if (!tensor.device().is_cpu() || tensor.layout() != at::kStrided) {
      const std::string where = tensor.device().str();
      PyErr_Format(PyExc_ValueError, "%s %zu is a tensor on %s: a step's numbers come from the host: pass a strided tensor on the CPU",
                   what, number, where.c_str());
      return false;
    }
    if (tensor.scalar_type() != as.type) {
      PyErr_Format(PyExc_TypeError, "%s %zu is of type %s, the step's is %s", what, number, c10::toString(tensor.scalar_type()),
                   c10::toString(as.type));
      return false;
    }
    if (tensor.numel() != as.elements) return refuse_size(what, number, tensor.numel(), as);
    return true;
  }
  bool read(const at::Tensor& from, const CallTensor& as, std::size_t number) {
    if (!check(from, as, "input", number)) return false;
    tensor_ = is_plain(from) && from.is_contiguous() ? from : from.detach().resolve_conj().resolve_neg().contiguous();
    bytes_ = {static_cast<std::byte*>(const_cast<void*>(tensor_.const_data_ptr())), as.bytes};
    return true;
  }
  bool write(const at::Tensor& to, const CallTensor& as, std::size_t number) {
    if (!check(to, as, "out", number)) return false;
    if (!is_plain(to) || !to.is_contiguous() || to.requires_grad()) {
      PyErr_Format(PyExc_ValueError,
                   "out %zu is not contiguous, no plain tensor, or requires a gradient: pass a contiguous tensor, detached", number);
      return false;
    }
    tensor_ = to;
    bytes_ = {static_cast<std::byte*>(to.mutable_data_ptr()), as.bytes};
    to.unsafeGetTensorImpl()->bump_version();
    return true;
  }

  std::span<std::byte> bytes_;
  Py_buffer buffer_{};
  bool has_buffer_ = false;
  at::Tensor tensor_;
};

}  // namespace dwell::pytorch

#endif
