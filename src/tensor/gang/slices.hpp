// Slices of a program's runs, and the numbers of its calls: checks them, and finds the ranges that they come to and go from.
#pragma once

#include "tensor/gang/draft.hpp"

namespace dwell::tensor::gang {

// Notes them in the draft's ranges. Throws errc::invalid_argument for slices that are not as GangSlices says.
void find_slices(Draft& draft);

}  // namespace dwell::tensor::gang
