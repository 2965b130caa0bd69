// On CUDA: the operator of products in other ways than in tiles (product.hpp), apart from that of tiles so that an image has the code of
// the ways that its program takes.
#pragma once

#include <dwell/device/exchange.hpp>
#include <dwell/device/group.hpp>

#include "tensor/device/matrix.hpp"
#include "tensor/device/thin.hpp"

namespace dwell {
namespace device {

#if DWELL_PARALLEL_GROUP

struct AcrossLanes {
  template <class C>
  DWELL_DEVICE C operator()(C value, u32 distance) const {
    return Exchange<C>::across(value, distance);
  }
};

template <class C, class Elements>
DWELL_DEVICE void multiply_thin_or_singly(const Group& g, const u32* words) {
  if (ProductWords(words).way() == ProductWay::single)
    multiply_singly<C, Elements>(g, words);
  else
    multiply_thin<C, Elements>(g, words);
}
template <class Elements>
DWELL_DEVICE void multiply_floats(const Group& g, const u32* words) {
  const ProductWords all(words);
  if (all.way() != ProductWay::stream)
    multiply_thin_or_singly<float, Elements>(g, words);
  else if (all.m() == 1)
    multiply_stream<1, Elements>(g, words, AcrossLanes());
  else
    multiply_stream<kThinRowsAtOnce, Elements>(g, words, AcrossLanes());
}

// Together: computes a product, divided among all groups of the task.
DWELL_DEVICE void run_small_product(const Group& g, const u32* words) {
  switch (ProductWords(words).type()) {
    case ElementType::f32: multiply_floats<TypedElements<float, float>>(g, words); break;
    case ElementType::f64: multiply_thin_or_singly<double, TypedElements<double, double>>(g, words); break;
    case ElementType::f16:
    case ElementType::bf16: multiply_floats<ShortElements>(g, words); break;
    default: multiply_thin<u64, AnyElements<u64>>(g, words); break;
  }
}

#endif

}  // namespace device
}  // namespace dwell
