// Operations of PyTorch that read memory above our dispatch key, or while it is off.
#pragma once

#include <torch/library.h>

namespace dwell::pytorch {

// Flushes before a tensor of one element becomes a number, at the key of its backend: constructors of tensors switch our key off while they
// read tensors in lists.
void watch_numbers(torch::Library& backend);
// Registers kernels above our key for composite operations, which PyTorch splits into others before they reach it: their code may read
// elements itself. A call that hits a guard is repeated after a flush (redispatch_behind). `aten` and `any` are libraries of the key above.
void watch_composites(torch::Library& aten, torch::Library& any);

}  // namespace dwell::pytorch
