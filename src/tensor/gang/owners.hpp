// Ownership of elements: a member that has computed some elements of a product's result goes on with them, as long as elementwise steps
// need no others. Then members exchange less, and later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tensor/gang/forms.hpp"
#include "tensor/gang/ranges.hpp"

namespace dwell::tensor::gang {

// How members do an operation: each the elements that it owns, and what of its results it hands on to the others.
struct Ownership {
  Owned owned = {};  // period 0: not so
  std::vector<std::size_t> handed_on = {};
};

struct OwnerSettings {
  std::uint32_t members = 1;
  std::uint64_t most_bytes = 0;  // of a tensor that each member has
  bool repeats = false;          // the operations run again and again, on what they have left
};

// Finds the owners of all operations' results; notes in the ranges which elements are owned at the end. `may_be_owned`: whether members may
// own a product's result.
std::vector<Ownership> find_owners(const std::vector<Operation>& operations, Ranges& ranges, const OwnerSettings& settings,
                                   const std::function<bool(const Operation&)>& may_be_owned);

}  // namespace dwell::tensor::gang
