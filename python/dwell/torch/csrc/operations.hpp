// Registers operations with PyTorch's dispatcher, a function for each table: elementwise.cpp, rows.cpp and so on.
#pragma once

#include <torch/library.h>

namespace dwell::pytorch {

void take_elementwise(torch::Library& library);
void take_rows(torch::Library& library);
void take_layer_norm(torch::Library& library);
void take_products(torch::Library& library);
void take_concatenations(torch::Library& library);

}  // namespace dwell::pytorch
