// Where tensors lie: which ones a member has in its own memory and at what place, which weights it keeps, and who owns which elements.
#pragma once

#include "tensor/gang/draft.hpp"

namespace dwell::tensor::gang {

// Throws errc::unsupported if the tensors take more than a member's memory.
void place_all(Draft& draft);

}  // namespace dwell::tensor::gang
