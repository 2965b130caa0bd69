// What is registered with PyTorch's dispatcher: tables of operations, one a file of that name, and what happens to all others.
#pragma once

#include <torch/library.h>

namespace dwell::pytorch {

void take_elementwise(torch::Library& library);
void take_rows(torch::Library& library);
void take_layer_norm(torch::Library& library);
void take_products(torch::Library& library);
void take_concatenations(torch::Library& library);

}  // namespace dwell::pytorch
