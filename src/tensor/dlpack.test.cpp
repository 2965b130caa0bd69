#include <dwell/dlpack.hpp>

#include <gtest/gtest.h>

#include <cstddef>

#include <dwell/detail/dlpack.hpp>

#include "tests/unit/official_dlpack.hpp"

namespace dwell {
namespace {

namespace dlpack = detail::dlpack;

#define DWELL_SAME_PLACE(ours, member, theirs, official) \
  static_assert(offsetof(dlpack::ours, member) == offsetof(theirs, official) && sizeof(dlpack::ours) == sizeof(theirs))
DWELL_SAME_PLACE(Tensor, data, DLTensor, data);
DWELL_SAME_PLACE(Tensor, device, DLTensor, device);
DWELL_SAME_PLACE(Tensor, dimensions, DLTensor, ndim);
DWELL_SAME_PLACE(Tensor, type, DLTensor, dtype);
DWELL_SAME_PLACE(Tensor, shape, DLTensor, shape);
DWELL_SAME_PLACE(Tensor, strides, DLTensor, strides);
DWELL_SAME_PLACE(Tensor, byte_offset, DLTensor, byte_offset);
DWELL_SAME_PLACE(Managed, tensor, DLManagedTensor, dl_tensor);
DWELL_SAME_PLACE(Managed, context, DLManagedTensor, manager_ctx);
DWELL_SAME_PLACE(Managed, deleter, DLManagedTensor, deleter);
DWELL_SAME_PLACE(ManagedVersioned, version, DLManagedTensorVersioned, version);
DWELL_SAME_PLACE(ManagedVersioned, context, DLManagedTensorVersioned, manager_ctx);
DWELL_SAME_PLACE(ManagedVersioned, deleter, DLManagedTensorVersioned, deleter);
DWELL_SAME_PLACE(ManagedVersioned, flags, DLManagedTensorVersioned, flags);
DWELL_SAME_PLACE(ManagedVersioned, tensor, DLManagedTensorVersioned, dl_tensor);
#undef DWELL_SAME_PLACE

TEST(Dlpack, NamesEachTypeOnce) {
  for (const ElementType type : kElementTypes) {
    const dlpack::DataType named = dlpack::data_type_of(type);
    EXPECT_EQ(named.bits, bytes_of(type) * 8) << name_of(type);
    EXPECT_EQ(named.lanes, 1) << name_of(type);
    EXPECT_EQ(dlpack::element_type_of(named), type) << name_of(type);
  }
  EXPECT_EQ(dlpack::element_type_of({kDLBfloat, 16, 1}), ElementType::bf16);
  EXPECT_EQ(dlpack::element_type_of({kDLFloat, 16, 1}), ElementType::f16);
  EXPECT_EQ(dlpack::element_type_of({kDLInt, 64, 1}), ElementType::i64);
  EXPECT_EQ(dlpack::element_type_of({kDLUInt, 8, 1}), ElementType::u8);
  EXPECT_EQ(dlpack::element_type_of({kDLBool, 8, 1}), ElementType::boolean);
  EXPECT_EQ(dlpack::element_type_of({kDLComplex, 64, 1}), ElementType::complex64);
}

TEST(Dlpack, KnowsNoOtherTypes) {
  EXPECT_EQ(dlpack::element_type_of({kDLFloat, 32, 2}), std::nullopt);
  EXPECT_EQ(dlpack::element_type_of({kDLFloat, 8, 1}), std::nullopt);
  EXPECT_EQ(dlpack::element_type_of({kDLInt, 4, 1}), std::nullopt);
  EXPECT_EQ(dlpack::element_type_of({kDLComplex, 32, 1}), std::nullopt);
  EXPECT_EQ(dlpack::element_type_of({3, 64, 1}), std::nullopt);  // a handle
}

}  // namespace
}  // namespace dwell
