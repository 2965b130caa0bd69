// Refuses programs that tasks would run faster, side by side.
#pragma once

#include "tensor/gang/draft.hpp"

namespace dwell::tensor::gang {

// Throws errc::unsupported if tasks would run the program faster.
void check_worth(const Draft& draft);

}  // namespace dwell::tensor::gang
