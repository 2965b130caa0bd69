// Which tensors members share, and with them the steps that they share out. Each member does all other steps.
#pragma once

#include "tensor/gang/draft.hpp"

namespace dwell::tensor::gang {

// Notes them in the draft's ranges. Throws errc::unsupported for a step that is too large for a member.
void choose_shared(Draft& draft);

}  // namespace dwell::tensor::gang
