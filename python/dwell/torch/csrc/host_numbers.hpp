// Numbers that the host has in tensors of one element: an optimiser's count of steps, say.
#pragma once

namespace dwell::pytorch {

// Offers calls from Python that add to such a number and that look at it, for as long as nothing collected has to do with it. They are done
// at once: PyTorch takes longer to find its kernel, and a task on a CPU would have to run before the look.
void offer_host_numbers();

}  // namespace dwell::pytorch
