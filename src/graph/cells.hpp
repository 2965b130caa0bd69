// Which node lies in a cell.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "graph/layout.hpp"

namespace dwell::graph {

// Made when it is first asked: few execs are, and it takes 4 bytes a cell of the records. Members may be called from any thread.
class Cells {
 public:
  static constexpr std::uint32_t kNone = ~0U;

  // The node of a graph of `nodes` nodes, laid out like this, whose record begins in the cell; kNone without one.
  std::uint32_t node_at(const Layout& layout, std::uint32_t nodes, std::uint32_t cell) const {
    std::call_once(made_, [&] {
      for (std::uint32_t node = 0; node < nodes; ++node) {
        if (layout.cell(node) >= nodes_.size()) nodes_.resize(layout.cell(node) + 1, kNone);
        nodes_[layout.cell(node)] = node;
      }
    });
    return cell < nodes_.size() ? nodes_[cell] : kNone;
  }

 private:
  mutable std::once_flag made_;
  mutable std::vector<std::uint32_t> nodes_;  // by cell
};

}  // namespace dwell::graph
