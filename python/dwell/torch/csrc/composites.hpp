// Operations whose code reads the memory of tensors above our key, or where it is off.
#pragma once

#include <torch/library.h>

namespace dwell::pytorch {

// Watches what turns a tensor of one element into a number, at the key of its backend: constructors of tensors switch ours off while they
// read the tensors in what they are given.
void watch_numbers(torch::Library& backend);
// Watches operations that PyTorch takes apart before they come to our key: their code may read elements itself, of arguments or of what it
// has made of them. Such a call is done again behind all that was collected. `aten` and `any` are of the key above.
void watch_composites(torch::Library& aten, torch::Library& any);

}  // namespace dwell::pytorch
