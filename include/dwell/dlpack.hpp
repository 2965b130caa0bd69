// Tensors of other libraries, and tensors for them, by DLPack (https://dmlc.github.io/dlpack). Nothing is copied. DLPack's own header is
// not needed here, and may be included before or behind this one.
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

// A tensor that was taken over by from_dlpack. Owns it: the producer's deleter is called when this has been dropped and the last task that
// names the view has ended, by any thread, as Runtime::wrap says. As with a Buffer, this must live until a task that names the view is
// submitted, or the batch that collects it is flushed. Moved, not copied; the view stays what it is. Members may be called from any thread,
// but not beside a move.
class DlpackTensor {
 public:
  // Of nothing: no elements.
  DlpackTensor() = default;
  DlpackTensor(DlpackTensor&&) noexcept = default;
  DlpackTensor& operator=(DlpackTensor&&) noexcept = default;
  ~DlpackTensor() = default;
  DlpackTensor(const DlpackTensor&) = delete;
  DlpackTensor& operator=(const DlpackTensor&) = delete;

  const TensorView& view() const noexcept { return view_; }
  // All elements between the lowest address and the highest, as an argument of a task: those of the view in the order of rows, when that is
  // contiguous.
  BufferView memory() const { return BufferView(memory_, view_.type()); }
  // Whether the producer forbids to write into it, or has made a copy, in which what is written would be lost. dwell does not check it.
  bool read_only() const noexcept { return read_only_; }

 private:
  friend struct tensor::DlpackImport;

  std::shared_ptr<void> owner_;  // of one without elements, too
  Buffer<std::byte> memory_;     // from the lowest element to the highest; of no bytes without elements
  TensorView view_;
  bool read_only_ = false;
};

// Takes over a tensor: the deleter is called here when it throws. No stream is waited for: the caller makes sure that what writes the
// memory has ended before tasks read it. Throws errc::invalid_argument for null, a version other than 1, memory that the runtime's device
// does not reach, elements of a type that dwell has not (or of several lanes), more than 8 dimensions, no data, and what TensorView
// refuses.
DlpackTensor from_dlpack(Runtime& runtime, DLManagedTensor* tensor);
DlpackTensor from_dlpack(Runtime& runtime, DLManagedTensorVersioned* tensor);

// A tensor for another library, which calls its deleter; until then `owner` keeps the memory, and is dropped by the thread that calls the
// deleter. `runtime` is that on whose device the view lies. The caller waits for the tasks that write the memory. The second is what
// consumers from DLPack 1.0 on take, and the only one that can say `read_only`.
DLManagedTensor* to_dlpack(const Runtime& runtime, const TensorView& view, std::shared_ptr<void> owner);
DLManagedTensorVersioned* to_dlpack_versioned(const Runtime& runtime, const TensorView& view, std::shared_ptr<void> owner,
                                              bool read_only = false);

}  // namespace dwell
