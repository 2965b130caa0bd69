// Results that overlap their operands.
#pragma once

#include <dwell/batch.hpp>

namespace dwell {

template <class Write>
void Batch::write_apart(const TensorView& to, bool apart, const Write& write) {
  if (!apart) return write(to);
  const TensorView made = made_like(to);
  write(made);
  copy(to, made);
}

}  // namespace dwell
