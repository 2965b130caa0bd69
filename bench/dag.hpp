// Task graphs of the benchmark `graphs`, shared by dwell and its peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dwell::bench {

// A plain C view of a graph, for modules. Node i waits for before[first[i]] to before[first[i + 1] - 1].
struct DagView {
  std::size_t nodes;
  const std::uint32_t* first;  // nodes + 1 elements
  const std::uint32_t* before;
};

// A graph. Each node waits only for nodes of smaller numbers.
class Dag {
 public:
  static constexpr std::size_t kMostBefore = 4;  // predecessors of one node

  // Adds a node with at most kMostBefore predecessors.
  void add(std::span<const std::uint32_t> before) {
    before_.insert(before_.end(), before.begin(), before.end());
    first_.push_back(static_cast<std::uint32_t>(before_.size()));
  }

  std::size_t size() const { return first_.size() - 1; }
  std::span<const std::uint32_t> before(std::size_t node) const {
    return std::span(before_).subspan(first_[node], first_[node + 1] - first_[node]);
  }
  DagView view() const { return {size(), first_.data(), before_.data()}; }

 private:
  std::vector<std::uint32_t> first_ = {0};
  std::vector<std::uint32_t> before_;
};

Dag chain_of(std::size_t nodes);
Dag independent(std::size_t nodes);
// Makes a graph in which each node waits for 0 to kMostBefore random earlier nodes; the same in every run.
Dag random_dag(std::size_t nodes);

// Dependences of Task Bench (Slaughter et al., SC 2020) between `steps` rows of `width` tasks, as requested in issue 10.
enum class Pattern : std::uint8_t {
  trivial,     // none
  stencil_1d,  // the same column and its two neighbours
  fft,         // the same column, and those 1, 2, 4, ... columns away
  tree,        // half the column; the rows are 1, 2, 4, ... tasks wide until they are full
  random,      // each of four columns nearby, with probability 1/2
};
inline constexpr Pattern kPatterns[] = {Pattern::trivial, Pattern::stencil_1d, Pattern::fft, Pattern::tree, Pattern::random};
std::string name_of(Pattern pattern);
// Makes the graph of a pattern. `width` is a power of two.
Dag dag_of(Pattern pattern, std::size_t width, std::size_t steps);

}  // namespace dwell::bench
