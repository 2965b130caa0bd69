// The structures of DLPack 1.1 (https://dmlc.github.io/dlpack), as far as they are used here. They have names of their own, so that a
// program may include any version of DLPack's header beside them.
#pragma once

#include <cstdint>
#include <optional>

#include <dwell/element_type.hpp>

// DLPack's own, of dlpack/dlpack.h.
struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace dwell::detail::dlpack {

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};
inline constexpr Version kVersion{1, 1};  // of what is exported; any minor version of it is taken

enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
struct Device {
  std::int32_t type;
  std::int32_t id;
};
enum Code : std::uint8_t { kInt = 0, kUnsigned = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };
struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct Tensor {
  void* data;
  Device device;
  std::int32_t dimensions;
  DataType type;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: C order
  std::uint64_t byte_offset;
};
struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};
inline constexpr std::uint64_t kReadOnly = 1;
inline constexpr std::uint64_t kCopied = 2;
struct ManagedVersioned {
  Version version;
  void* context;
  void (*deleter)(DLManagedTensorVersioned*);
  std::uint64_t flags;
  Tensor tensor;
};

// The same tensor, as others know it: deleters are called with that type, whoever wrote them.
inline DLManagedTensor* official(Managed* tensor) { return reinterpret_cast<DLManagedTensor*>(tensor); }
inline DLManagedTensorVersioned* official(ManagedVersioned* tensor) { return reinterpret_cast<DLManagedTensorVersioned*>(tensor); }
inline Managed* ours(DLManagedTensor* tensor) { return reinterpret_cast<Managed*>(tensor); }
inline ManagedVersioned* ours(DLManagedTensorVersioned* tensor) { return reinterpret_cast<ManagedVersioned*>(tensor); }

template <class Any>
void call_deleter(Any* tensor) {
  if (tensor->deleter != nullptr) tensor->deleter(official(tensor));
}

DataType data_type_of(ElementType type);
// Nothing for a type that dwell does not know.
std::optional<ElementType> element_type_of(const DataType& type);

}  // namespace dwell::detail::dlpack
