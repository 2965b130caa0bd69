// Python's tensors, and autograd's part of a tensor. PyTorch's headers of these take ten seconds to compile: one source includes them.
#pragma once

#if __has_include(<Python.h>)

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <exception>

namespace dwell::pytorch {

// The tensor of an object; null if it is none. Throws python_error if Python fails to tell.
const at::Tensor* tensor_in(PyObject* object);
// Likewise; null for objects of subclasses, but for parameters.
const at::Tensor* plain_tensor_in(PyObject* object);
// Returns a new reference to Python's object of a tensor.
PyObject* python_tensor(at::Tensor tensor);
// Returns whether autograd ignores operations on a tensor in this thread.
bool has_no_gradient(c10::TensorImpl* impl);
// Sets Python's error of an exception, as PyTorch's own functions do.
void set_error(const std::exception_ptr& failure);

}  // namespace dwell::pytorch

#endif
