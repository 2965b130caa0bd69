// Numbers of the host in CPU tensors of one element, such as an optimiser's count of steps.
#pragma once

namespace dwell::pytorch {

// Offers fast paths (fast_path.hpp) that add to such a number and that read it, unless a collected operation names it. They run at once:
// PyTorch takes longer to find its kernel, and a task would have to run before the read.
void offer_host_numbers();

}  // namespace dwell::pytorch
