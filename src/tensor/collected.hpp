// The state of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include <dwell/batch.hpp>
#include <dwell/buffer.hpp>
#include <dwell/runtime.hpp>
#include <dwell/ticket.hpp>

#include "base/accesses.hpp"
#include "tensor/compiled_programs.hpp"
#include "tensor/formulas.hpp"
#include "tensor/operation.hpp"
#include "tensor/operators.hpp"
#include "tensor/programs.hpp"

namespace dwell::tensor {

struct Collected {
  Runtime* runtime;
  Operators operators;
  std::shared_ptr<CompiledPrograms> compiled;
  std::uint32_t workers = 1;
  Programs programs = {};
  Formulas formulas = {};
  std::function<bool(const TensorView::Extent&)> is_needed = {};  // whether memory written by a program is read later; empty: always
  std::vector<Buffer<std::byte>> copies = {};                     // memory of the copies
  // Operations are numbered in the order of submission. Tracks those from number `first` on, which may still run.
  Accesses accesses = {};
  std::deque<Ticket> tickets = {};
  Accesses::Node first = 0;
  Accesses::Node flushed = 0;             // earlier operations are part of a flush already
  std::vector<bool> followed = {};        // by another operation; from `flushed` on
  std::vector<std::uint32_t> words = {};  // of the operation being submitted
  std::vector<Accesses::Node> before = {};
  std::vector<Ticket> awaited = {};   // by that operation, or by a flush
  std::shared_ptr<Noted> noted = {};  // gets the operations that are submitted; null: nobody does
  BatchStats stats = {};
  BatchStats counted = {};  // of these, already reported to the runtime

  // Returns the number of the next operation to submit, and reserves its place, so that nothing fails after its submission. If it is not
  // submitted, its place keeps an empty ticket, which is done.
  Accesses::Node number_next() {
    followed.push_back(false);
    try {
      tickets.emplace_back();
    } catch (...) {
      followed.pop_back();
      throw;
    }
    return first + tickets.size() - 1;
  }
};

}  // namespace dwell::tensor
