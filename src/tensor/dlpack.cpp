#include <dwell/dlpack.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <dwell/detail/checked.hpp>
#include <dwell/detail/dlpack.hpp>
#include <dwell/detail/task.hpp>
#include <dwell/error.hpp>

#include "tensor/named_tensors.hpp"

namespace dwell {

namespace dlpack = detail::dlpack;

// ---- Types -------------------------------------------------------------------------------------------------------------------------

namespace detail::dlpack {

DataType data_type_of(ElementType type) {
  const auto with = [type](Code code) { return DataType{code, static_cast<std::uint8_t>(bytes_of(type) * 8), 1}; };
  switch (type) {
    case ElementType::f16:
    case ElementType::f32:
    case ElementType::f64: return with(kFloat);
    case ElementType::bf16: return with(kBfloat);
    case ElementType::u8:
    case ElementType::u16:
    case ElementType::u32:
    case ElementType::u64: return with(kUnsigned);
    case ElementType::boolean: return with(kBool);
    case ElementType::complex64:
    case ElementType::complex128: return with(kComplex);
    default: return with(kInt);
  }
}

std::optional<ElementType> element_type_of(const DataType& type) {
  const auto* const found = std::ranges::find_if(kElementTypes, [&](ElementType one) {
    const DataType known = data_type_of(one);
    return known.code == type.code && known.bits == type.bits && known.lanes == type.lanes;
  });
  return found == kElementTypes.end() ? std::nullopt : std::optional(*found);
}

}  // namespace detail::dlpack

namespace {

// ---- From others -------------------------------------------------------------------------------------------------------------------

[[noreturn]] void reject(const std::string& why) { throw Error(errc::invalid_argument, "from_dlpack: " + why); }

// Returns the number of a CUDA device, as in "cuda:0"; nothing for the CPU.
std::optional<std::int32_t> cuda_number(const std::string& device) {
  constexpr std::string_view kCuda = "cuda:";
  if (!device.starts_with(kCuda)) return std::nullopt;
  std::int32_t number = 0;
  std::from_chars(device.data() + kCuda.size(), device.data() + device.size(), number);
  return number;
}

std::string text_of(const dlpack::Device& device) {
  switch (device.type) {
    case dlpack::kCpu: return "on the CPU";
    case dlpack::kCuda: return "on cuda:" + std::to_string(device.id);
    case dlpack::kCudaHost: return "in pinned host memory";
    case dlpack::kCudaManaged: return "in managed memory";
    default: return "on a device of DLPack's type " + std::to_string(device.type);
  }
}

std::string text_of(const dlpack::DataType& type) {
  const std::string_view kind = type.code == dlpack::kInt        ? "integers"
                                : type.code == dlpack::kUnsigned ? "unsigned integers"
                                : type.code == dlpack::kFloat    ? "floating point numbers"
                                : type.code == dlpack::kBfloat   ? "bfloats"
                                : type.code == dlpack::kComplex  ? "complex numbers"
                                : type.code == dlpack::kBool     ? "bools"
                                                                 : "";
  return (kind.empty() ? "elements of DLPack's type " + std::to_string(type.code) : std::string(kind)) + " of " +
         std::to_string(type.bits) + " bits in " + std::to_string(type.lanes) + (type.lanes == 1 ? " lane" : " lanes");
}

// Runtime::wrap checks whether a GPU can access the producer's host memory: some producers do not declare pinned memory.
void check_device(const dlpack::Device& device, const std::string& runtimes) {
  const bool host = device.type == dlpack::kCpu || device.type == dlpack::kCudaHost || device.type == dlpack::kCudaManaged;
  if (host || (device.type == dlpack::kCuda && cuda_number(runtimes) == device.id)) return;
  reject("the tensor lies " + text_of(device) + ", the runtime works on " + runtimes +
         ": copy it there first, or open a dwell::Runtime on its device");
}

ElementType checked_type(const dlpack::DataType& type) {
  const std::optional<ElementType> known = dlpack::element_type_of(type);
  if (!known) reject("the tensor has " + text_of(type) + ": convert it to one of " + element_type_names() + ", in 1 lane");
  return *known;
}

std::span<const std::int64_t> numbers(const std::int64_t* list, std::int32_t dimensions) {
  return {list, static_cast<std::size_t>(dimensions)};
}

Dims checked_shape(const dlpack::Tensor& tensor) {
  if (tensor.dimensions < 0 || tensor.dimensions > static_cast<std::int32_t>(Dims::kMost))
    reject("the tensor has " + std::to_string(tensor.dimensions) + " dimensions, a TensorView has up to 8: reshape it first");
  if (tensor.dimensions > 0 && tensor.shape == nullptr)
    reject("the tensor has " + std::to_string(tensor.dimensions) + " dimensions and no shape: its producer must set DLTensor::shape");
  return Dims(numbers(tensor.shape, tensor.dimensions));
}

// Calls the deleter with its last owner.
template <class Any>
std::shared_ptr<void> owner_of(Any* managed) {
  return std::shared_ptr<void>(managed, [](void* dropped) { dlpack::call_deleter(static_cast<Any*>(dropped)); });
}

}  // namespace

struct tensor::DlpackImport {
  static DlpackTensor take(Runtime& runtime, const dlpack::Tensor& tensor, std::shared_ptr<void> owner, bool read_only) {
    const ElementType type = checked_type(tensor.type);
    const Dims shape = checked_shape(tensor);
    const Dims strides = tensor.strides == nullptr ? TensorView::row_major(shape) : Dims(numbers(tensor.strides, tensor.dimensions));
    check_device(tensor.device, runtime.info().device);

    DlpackTensor made;
    made.read_only_ = read_only;
    const detail::Checked begin = detail::Checked(reinterpret_cast<std::uint64_t>(tensor.data)) + tensor.byte_offset;
    if (!begin.fits())
      reject("data at address " + std::to_string(reinterpret_cast<std::uint64_t>(tensor.data)) + " and a byte offset of " +
             std::to_string(tensor.byte_offset) + " make no address: its producer must set DLTensor::byte_offset");
    const auto first = static_cast<std::uint64_t>(begin.value());
    const TensorView seen(tensor.data == nullptr ? 0 : first, type, shape, strides);
    if (seen.elements() == 0) {
      made.view_ = seen;
    } else {
      if (tensor.data == nullptr)
        reject("the tensor of shape " + to_string(shape) + " has elements and no data: its producer must set DLTensor::data");
      const TensorView::Extent extent = seen.extent();
      made.memory_ = runtime.wrap(reinterpret_cast<void*>(extent.first), extent.end - extent.first, owner);
      made.view_ = TensorView(BufferView(made.memory_, type), shape, strides, (first - extent.first) / bytes_of(type));
    }
    made.owner_ = std::move(owner);
    return made;
  }
};

DlpackTensor from_dlpack(Runtime& runtime, DLManagedTensor* tensor) {
  if (tensor == nullptr) reject("the tensor is null");
  auto* const managed = dlpack::ours(tensor);
  std::shared_ptr<void> owner = owner_of(managed);
  return tensor::DlpackImport::take(runtime, managed->tensor, std::move(owner), false);
}

DlpackTensor from_dlpack(Runtime& runtime, DLManagedTensorVersioned* tensor) {
  if (tensor == nullptr) reject("the tensor is null");
  auto* const managed = dlpack::ours(tensor);
  std::shared_ptr<void> owner = owner_of(managed);
  if (managed->version.major != dlpack::kVersion.major)
    reject("the tensor is one of DLPack " + std::to_string(managed->version.major) + "." + std::to_string(managed->version.minor) +
           ", dwell takes version 1: ask its producer for that");
  return tensor::DlpackImport::take(runtime, managed->tensor, std::move(owner),
                                    (managed->flags & (dlpack::kReadOnly | dlpack::kCopied)) != 0);
}

// ---- For others --------------------------------------------------------------------------------------------------------------------

namespace {

dlpack::Device device_of(const Runtime& runtime, const TensorView& view) {
  const std::optional<std::int32_t> cuda = cuda_number(runtime.info().device);
  if (!cuda) return {dlpack::kCpu, 0};
  const bool host = (tensor::ViewMemory::flags(view) & detail::kSystem) != 0;
  return {host ? dlpack::kCudaHost : dlpack::kCuda, *cuda};
}

// The managed tensor that the consumer holds.
template <class Any>
struct Export {
  Any managed{};
  Dims shape;
  Dims strides;
  std::shared_ptr<void> owner;
};

template <class Any>
Any* exported(const Runtime& runtime, const TensorView& view, std::shared_ptr<void>&& owner) {
  auto made = std::make_unique<Export<Any>>();
  made->shape = view.shape();
  made->strides = view.strides();
  made->owner = std::move(owner);
  made->managed.tensor = {reinterpret_cast<void*>(view.address()),
                          device_of(runtime, view),
                          static_cast<std::int32_t>(view.dims()),
                          dlpack::data_type_of(view.type()),
                          &made->shape[0],
                          &made->strides[0],
                          0};
  made->managed.context = made.get();
  made->managed.deleter = [](auto* dropped) { delete static_cast<Export<Any>*>(dlpack::ours(dropped)->context); };
  return &made.release()->managed;
}

}  // namespace

DLManagedTensor* to_dlpack(const Runtime& runtime, const TensorView& view, std::shared_ptr<void> owner) {
  return dlpack::official(exported<dlpack::Managed>(runtime, view, std::move(owner)));
}

DLManagedTensorVersioned* to_dlpack_versioned(const Runtime& runtime, const TensorView& view, std::shared_ptr<void> owner, bool read_only) {
  auto* const made = exported<dlpack::ManagedVersioned>(runtime, view, std::move(owner));
  made->version = dlpack::kVersion;
  made->flags = read_only ? dlpack::kReadOnly : 0;
  return dlpack::official(made);
}

}  // namespace dwell
