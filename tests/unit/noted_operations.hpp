// Operations on tensors as a batch notes them, without a batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/gang/noted.hpp"
#include "tensor/gang/plan.hpp"
#include "tensor/product.hpp"
#include "tensor/program_builder.hpp"

namespace dwell::tensor {

// A tensor of floats at a made-up address, apart from all others.
inline TensorView made_up(const Dims& shape) {
  static std::uint64_t next = 0x10000000;
  const std::uint64_t address = next;
  std::uint64_t elements = 1;
  for (const std::int64_t size : shape) elements *= static_cast<std::uint64_t>(size);
  next += (elements * sizeof(float) + 511) / 256 * 256;
  return {address, ElementType::f32, shape};
}

// to = a times the transpose of b, plus a bias.
inline void note_linear(Noted& noted, const TensorView& to, const TensorView& a, const TensorView& b, const TensorView& bias) {
  const TensorView turned = b.transpose(0, 1);
  const TensorView all = bias.expand(to.shape());
  const Product product{.to = to, .a = a, .b = turned, .bias = &all};
  const Operation operation = operation_of(product, true, 1);
  noted.add(NotedOperation::Kind::product, std::span(operation.words.data(), operation.words.size()));
}
inline void note_program(Noted& noted, TensorOp op, const TensorView& to, std::span<const Operand> operands) {
  ProgramBuilder builder(to.shape());
  builder.add(op, to.type(), to, operands);
  std::vector<std::uint32_t> words;
  builder.write_to(words);
  noted.add(NotedOperation::Kind::program, words);
}

// A multilayer perceptron of 64, 256, 256 and 8 units.
struct NotedNetwork {
  TensorView x = made_up({1, 64});
  TensorView first = made_up({1, 256});
  TensorView second = made_up({1, 256});
  TensorView y = made_up({1, 8});
  Noted noted;

  NotedNetwork() {
    note_linear(noted, first, x, made_up({256, 64}), made_up({256}));
    note_program(noted, TensorOp::tanh, first, std::vector<Operand>{first});
    note_linear(noted, second, first, made_up({256, 256}), made_up({256}));
    note_program(noted, TensorOp::tanh, second, std::vector<Operand>{second});
    note_linear(noted, y, second, made_up({8, 256}), made_up({8}));
  }
};

inline gang::Limits on_a_gpu(std::uint32_t members = 0) {
  return {.members = members, .most_members = 132, .local_bytes = std::uint64_t{227} << 10U, .on_cuda = true};
}

}  // namespace dwell::tensor
