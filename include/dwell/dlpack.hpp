// Tensors of other libraries, and tensors for them, by DLPack (https://dmlc.github.io/dlpack). Nothing is copied. DLPack's own header is
// not needed here, and may be included before or after this one.
#pragma once

#include <cstddef>
#include <memory>

#include <dwell/buffer_view.hpp>
#include <dwell/detail/dlpack.hpp>
#include <dwell/runtime.hpp>
#include <dwell/tensor.hpp>

namespace dwell {

namespace tensor {
struct DlpackImport;
}

// A tensor imported by from_dlpack, with its ownership. Any thread may call the producer's deleter, once this has been dropped and the last
// task that names the view has ended (Runtime::wrap). Must live until a task that names the view is submitted, or the batch that collects
// it is flushed. Moved, not copied; a move keeps the view. Members may be called from any thread, but not concurrently with a move.
class DlpackTensor {
 public:
  // No elements.
  DlpackTensor() = default;
  DlpackTensor(DlpackTensor&&) noexcept = default;
  DlpackTensor& operator=(DlpackTensor&&) noexcept = default;
  ~DlpackTensor() = default;
  DlpackTensor(const DlpackTensor&) = delete;
  DlpackTensor& operator=(const DlpackTensor&) = delete;

  const TensorView& view() const noexcept { return view_; }
  // Returns all elements between the lowest address and the highest, as an argument of a task: the view's elements in row-major order if it
  // is contiguous.
  BufferView memory() const { return BufferView(memory_, view_.type()); }
  // Returns whether the producer forbids writes, or has made a copy, which would lose them. dwell does not enforce it.
  bool read_only() const noexcept { return read_only_; }

 private:
  friend struct tensor::DlpackImport;

  std::shared_ptr<void> owner_;  // set without elements, too
  Buffer<std::byte> memory_;     // from the lowest element to the highest; empty without elements
  TensorView view_;
  bool read_only_ = false;
};

// Takes ownership of a tensor; calls its deleter if it throws. Waits for no stream: the caller ensures that writers of the memory have
// ended before tasks read it. Throws errc::invalid_argument for null, a version other than 1, memory that the runtime's device cannot
// access, an element type that dwell lacks (or several lanes), more than 8 dimensions, no data, and whatever TensorView rejects.
DlpackTensor from_dlpack(Runtime& runtime, DLManagedTensor* tensor);
DlpackTensor from_dlpack(Runtime& runtime, DLManagedTensorVersioned* tensor);

// Exports a tensor to another library, which calls its deleter. `owner` keeps the memory until then; the deleter's thread drops it.
// `runtime` must be on the view's device. The caller waits for the tasks that write the memory. The second is for consumers of DLPack 1.0
// and later, and the only one with `read_only`.
DLManagedTensor* to_dlpack(const Runtime& runtime, const TensorView& view, std::shared_ptr<void> owner);
DLManagedTensorVersioned* to_dlpack_versioned(const Runtime& runtime, const TensorView& view, std::shared_ptr<void> owner,
                                              bool read_only = false);

}  // namespace dwell
