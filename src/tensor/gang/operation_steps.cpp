#include "tensor/gang/operation_steps.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "tensor/device/product.hpp"

namespace dwell::tensor::gang {

namespace {

using device::ProductWords;

std::string remark_of(const Operation& operation) {
  switch (operation.kind) {
    case NotedOperation::Kind::program: {
      std::string shape;
      for (const std::int64_t size : operation.tensors.front().sizes) shape += (shape.empty() ? "" : " x ") + std::to_string(size);
      return "elementwise, " + shape;
    }
    case NotedOperation::Kind::product: {
      const ProductShape& shape = operation.product;
      return "product of " + (shape.batch == 1 ? "" : std::to_string(shape.batch) + " times ") + std::to_string(shape.m) + " x " +
             std::to_string(shape.k) + " by " + std::to_string(shape.k) + " x " + std::to_string(shape.n);
    }
    default: return "reduction of rows";
  }
}

}  // namespace

bool OperationSteps::waits_for_exchange(const Operation& operation) const {
  if (awaited_.empty()) return false;
  if (words_ + elements_of(operation) > draft_.limits.costs.most_exchanged) return true;
  const bool own = draft_.owned_by(operation).period != 0;
  return std::ranges::any_of(operation.tensors, [&](const View& view) {
    // Its own elements a member has already, of a result that members own. A product reads its factors as a whole.
    const bool reads_own = own && !view.written && is_elementwise(operation);
    return std::ranges::any_of(
        awaited_, [&](const Awaited& other) { return !(reads_own && other.owned) && other.to.extent().overlaps(view.extent()); });
  });
}

void OperationSteps::write(const Operation& operation) {
  MemberStep step;
  const Ownership& ownership = draft_.ownership_of(operation);
  const bool own = ownership.owned.period != 0;
  if (own && is_elementwise(operation)) {
    Places places;
    for (const View& view : operation.tensors) places.push_back(step.place_of(view, draft_.ranges.of(view), ownership.owned));
    HandedOn handed_on;
    for (const std::size_t i : ownership.handed_on) handed_on.emplace_back(i, word_in(step, operation.tensors[i], true));
    steps_.add(step, program_text(operation, places, By::own, draft_.threads, ownership.owned, handed_on),
               remark_of(operation) + ", what a member owns");
    if (!handed_on.empty()) steps_.tell(step);
    return;
  }
  if (draft_.is_handed_on(operation)) {
    const View& to = operation.tensors[ProductWords::to];
    const bool kept = draft_.keeps(operation);
    Places places{own ? step.place_of(to, draft_.ranges.of(to)) : ""};
    for (std::size_t i = 1; i < operation.tensors.size(); ++i)
      places.push_back(kept && i == ProductWords::b ? step.local_at("const float", draft_.kept_for(operation).place)
                                                    : step.place_of(operation.tensors[i], draft_.ranges.of(operation.tensors[i])));
    const bool hands_on = !own || !ownership.handed_on.empty();
    const std::string word = hands_on ? word_in(step, to, own) : "";
    const By by = own ? By::own : kept ? By::kept : By::parts;
    steps_.add(step, product_text(operation, places, by, draft_.threads, draft_.outputs_of_member(operation), word, ownership.owned),
               remark_of(operation));
    if (hands_on) steps_.tell(step);
    return;
  }
  Places places;
  for (const View& view : operation.tensors) places.push_back(step.place_of(view, draft_.ranges.of(view)));
  if (const std::optional<Tile> tile = draft_.tile_for(operation)) {
    const std::uint64_t at = draft_.tiles_at.at(draft_.index_of(operation));
    step.use_local(at, tile->bytes());
    const std::string tiles = step.local_at("float", at);
    return steps_.add(step, tiled_text(operation, places, draft_.threads, *tile, tiles), remark_of(operation) + ", in tiles");
  }
  const By by = draft_.ranges.shares(operation) ? By::shared : By::each;
  const std::int64_t outputs = by == By::shared ? draft_.outputs_of_member(operation) : operation.product.outputs();
  switch (operation.kind) {
    case NotedOperation::Kind::program: return steps_.add(step, program_text(operation, places, by, draft_.threads), remark_of(operation));
    case NotedOperation::Kind::product:
      return steps_.add(step, product_text(operation, places, by, draft_.threads, outputs, ""), remark_of(operation));
    default: return steps_.add(step, rows_text(operation, places, by, draft_.threads), remark_of(operation));
  }
}

std::string OperationSteps::word_in(MemberStep& step, const View& to, bool owned) {
  // As a batch of rows and columns.
  View matrices = to;
  while (matrices.sizes.size() < 3) {
    matrices.sizes.insert(matrices.sizes.begin(), 1);
    matrices.strides.insert(matrices.strides.begin(), 0);
  }
  awaited_.push_back({matrices, matrices.sizes[0] * matrices.sizes[1] * matrices.sizes[2], owned});
  std::string first = step.word(static_cast<std::uint64_t>(words_));
  words_ += awaited_.back().elements;
  return first;
}

void OperationSteps::exchange() {
  if (awaited_.empty()) return;
  MemberStep step;
  std::string text =
      "  static constexpr u32 count = " + std::to_string(words_) + ";\n  static DWELL_DEVICE u32 place(const u32* at, u32 i) {\n";
  std::int64_t first = 0;
  for (std::size_t i = 0; i < awaited_.size(); ++i) {
    const View& to = awaited_[i].to;
    const Range& range = draft_.ranges.of(to);
    step.use(range, to.extent(), true);
    step.word(range.place + to.address - range.extent.first);
    const std::string j = first == 0 ? "i" : "(i - " + std::to_string(first) + ")";
    first += awaited_[i].elements;
    std::string at = "at[" + std::to_string(i) + "]";
    const auto term = [&](std::size_t dim, const std::string& index) {
      if (to.sizes[dim] != 1 && to.strides[dim] != 0) at += " + " + index + " * " + std::to_string(to.strides[dim] * 4);
    };
    const std::int64_t rows = to.sizes[0] * to.sizes[1];
    term(0, j + " / " + std::to_string(to.sizes[1] * to.sizes[2]));
    term(1, j + " / " + std::to_string(to.sizes[2]) + " % " + std::to_string(to.sizes[1]));
    term(2, rows != 1 ? j + " % " + std::to_string(to.sizes[2]) : j);
    text += "    " + (i + 1 < awaited_.size() ? "if (i < " + std::to_string(first) + ") " : std::string()) + "return " + at + ";\n";
  }
  text += "  }\n";
  // Behind a barrier: a word of the next exchange says that all threads of its member have read this one.
  steps_.add(step, {text, "  gather<Form, kThreads>(m, at);\n"}, "gets the members' parts of products", true);
  steps_.heard();
  exchanged_ = std::max(exchanged_, static_cast<std::uint32_t>(words_));
  awaited_.clear();
  words_ = 0;
}

}  // namespace dwell::tensor::gang
