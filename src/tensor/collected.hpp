// What a batch holds.
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
  std::function<bool(const TensorView::Extent&)> is_needed = {};  // whether somebody reads what a program writes there; empty: always
  std::vector<Buffer<std::byte>> copies = {};                     // memory that they name
  // Operations are numbered as they are submitted. Those that may still run, from number `first` on; what others did is of no interest.
  Accesses accesses = {};
  std::deque<Ticket> tickets = {};
  Accesses::Node first = 0;
  Accesses::Node flushed = 0;             // those before are in a flush already
  std::vector<bool> followed = {};        // by another, each from `flushed` on
  std::vector<std::uint32_t> words = {};  // of the one that is being submitted
  std::vector<Accesses::Node> before = {};
  std::vector<Ticket> awaited = {};  // by it, or by a flush
  BatchStats stats = {};
  BatchStats counted = {};  // of these, what the runtime has been told

  // The number of an operation that is to be submitted. It has its place from then on, so that nothing fails behind its submission; when it
  // is not submitted, that keeps a ticket of no task, which is done.
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
