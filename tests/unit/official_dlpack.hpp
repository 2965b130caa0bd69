// DLPack's structures as declared in its own header (dlpack/dlpack.h, version 1.1), for exchange with other libraries.
#pragma once

#include <cstdint>

extern "C" {
// NOLINTBEGIN(modernize-use-using, readability-identifier-naming): it is C
typedef struct {
  std::uint32_t major;
  std::uint32_t minor;
} DLPackVersion;
typedef enum : std::int32_t { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLVulkan = 7 } DLDeviceType;
typedef struct {
  DLDeviceType device_type;
  std::int32_t device_id;
} DLDevice;
typedef enum { kDLInt = 0U, kDLUInt = 1U, kDLFloat = 2U, kDLBfloat = 4U, kDLComplex = 5U, kDLBool = 6U } DLDataTypeCode;
typedef struct {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
} DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;
typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;
// NOLINTEND(modernize-use-using, readability-identifier-naming)
}

inline constexpr std::uint64_t kDLReadOnly = 1;
inline constexpr std::uint64_t kDLCopied = 2;
