// Registers operations with PyTorch's dispatcher, a function for each table: elementwise.cpp, rows.cpp and so on.
#pragma once

#include <torch/library.h>

namespace dwell::pytorch {

void take_unary_rows(torch::Library& library);
void take_binary_rows(torch::Library& library);
void take_arithmetic(torch::Library& library);
void take_elementwise(torch::Library& library);
void take_elementwise_backward(torch::Library& library);
void take_rows(torch::Library& library);
void take_layer_norm(torch::Library& library);
void take_products(torch::Library& library);
void take_concatenations(torch::Library& library);

}  // namespace dwell::pytorch
