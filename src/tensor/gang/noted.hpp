// Operations of a batch, as it submits them, for a program of the whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <dwell/buffer.hpp>
#include <dwell/gang_program.hpp>

namespace dwell::tensor {

// An operation by the words of its task.
struct NotedOperation {
  enum class Kind : std::uint8_t { program, product, rows, other };

  Kind kind = Kind::other;
  std::vector<std::uint32_t> words = {};
};

// The operations in the order of their submission, which is one that respects their dependencies.
struct Noted {
  std::vector<NotedOperation> operations = {};
  std::vector<Buffer<std::byte>> copies = {};         // memory of the batch's own that they name
  std::shared_ptr<const Noted> moved_from = nullptr;  // has the copies of a list that was moved

  void add(NotedOperation::Kind kind, std::span<const std::uint32_t> words) {
    operations.push_back({kind, std::vector<std::uint32_t>(words.begin(), words.end())});
  }
};

namespace gang {

// Operations of the same kinds and shapes, with the addresses of OperationList::moved. Those of an unknown kind stay as they are: a program
// refuses them.
NotedOperation moved(const NotedOperation& noted, std::span<const MovedMemory> moves);

}  // namespace gang

}  // namespace dwell::tensor
