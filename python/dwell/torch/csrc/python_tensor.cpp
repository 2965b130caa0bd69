#include "python_tensor.hpp"

#if __has_include(<Python.h>)

#include <ATen/core/grad_mode.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace dwell::pytorch {

const at::Tensor* tensor_in(PyObject* object) { return THPVariable_Check(object) ? &THPVariable_Unpack(object) : nullptr; }

const at::Tensor* plain_tensor_in(PyObject* object) { return THPVariable_CheckExact(object) ? &THPVariable_Unpack(object) : nullptr; }

PyObject* python_tensor(at::Tensor tensor) { return THPVariable_Wrap(std::move(tensor)); }

bool has_no_gradient(c10::TensorImpl* impl) {
  c10::AutogradMetaInterface* const meta = impl->autograd_meta();
  if (meta == nullptr) return true;
  return static_cast<torch::autograd::AutogradMeta*>(meta)->fw_grad_ == nullptr && !(impl->requires_grad() && at::GradMode::is_enabled());
}

namespace {

PyObject* raised(const std::exception_ptr& failure) {
  HANDLE_TH_ERRORS
  std::rethrow_exception(failure);
  END_HANDLE_TH_ERRORS
}

}  // namespace

void set_error(const std::exception_ptr& failure) { raised(failure); }

}  // namespace dwell::pytorch

#endif
