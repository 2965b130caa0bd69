// Maps cells to nodes.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "graph/layout.hpp"

namespace dwell::graph {

// Built at the first query, since few execs are queried; takes 4 bytes per cell of the records. Members may be called from any thread.
class Cells {
 public:
  static constexpr std::uint32_t kNone = ~0U;

  // Returns the node whose record begins in the cell, in a graph of `nodes` nodes with this layout; kNone without one.
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
