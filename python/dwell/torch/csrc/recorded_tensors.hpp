// Tensors of a recording: detects those that were given other memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <unordered_map>

#include "memory.hpp"

namespace dwell::pytorch {

// Holds weak references; tensors that are gone are not checked.
class RecordedTensors {
 public:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  // Adds tensors that an operation names, while the recording is made.
  void note(std::span<const at::Tensor* const> tensors) {
    for (const at::Tensor* const tensor : tensors) {
      note(*tensor);
      if (tensor->is_view()) note(at::Tensor(tensor->_base()));
    }
  }
  // Ends the recording: the tensors must keep the memory that they have now.
  void settle() {
    for (auto at = all_.begin(); at != all_.end();) {
      if (at->second.tensor.expired()) {
        at = all_.erase(at);
        continue;
      }
      at->second.storage = storage_of(*at->first);
      ++at;
    }
  }
  // Calls visit(tensor, weak reference to it) for each tensor that is there.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [tensor, was] : all_)
      if (!was.tensor.expired()) visit(*tensor, was.tensor);
  }
  // Describes a tensor that has been given other memory; nothing if none has.
  std::optional<std::string> moved() const {
    for (const auto& [tensor, was] : all_) {
      if (was.tensor.expired() || storage_of(*tensor) == was.storage) continue;
      std::ostringstream text;
      text << "a tensor of shape " << tensor->sizes() << " and type " << c10::toString(c10::typeMetaToScalarType(tensor->dtype()));
      return text.str();
    }
    return {};
  }

 private:
  struct Was {
    Weak tensor;  // keeps the address from being used again
    const c10::StorageImpl* storage = nullptr;
  };

  void note(const at::Tensor& tensor) { all_.try_emplace(tensor.unsafeGetTensorImpl(), Was{Weak(tensor.getIntrusivePtr())}); }
  static const c10::StorageImpl* storage_of(c10::TensorImpl& tensor) { return tensor.unsafe_storage().unsafeGetStorageImpl(); }

  std::unordered_map<c10::TensorImpl*, Was> all_;
};

}  // namespace dwell::pytorch
