// How many members a gang has, and how many threads a member.
#pragma once

#include "tensor/gang/draft.hpp"

namespace dwell::tensor::gang {

void choose_members(Draft& draft);

}  // namespace dwell::tensor::gang
