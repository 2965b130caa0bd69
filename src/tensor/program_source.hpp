// The source of an operator that runs one program (tensor/device/compiled_elementwise.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dwell::tensor {

// The compiled part of a program: everything except addresses, sizes, strides and numbers, so that tensors of other sizes run the same
// operator. The head, a word for each tensor, the code.
using ProgramForm = std::vector<std::uint32_t>;

// Extracts the form from a program's words (tensor/device/program.hpp) into `form`.
void take_form(std::span<const std::uint32_t> words, ProgramForm& form);
std::uint64_t hash_of(const ProgramForm& form);

// The name and the text of its operator.
std::string operator_name_of(const ProgramForm& form);
std::string source_of(const ProgramForm& form);

}  // namespace dwell::tensor
