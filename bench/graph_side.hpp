// A way to run task graphs: dwell's or a peer's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "bench/dag.hpp"

namespace dwell::bench {

// The work of each node.
enum class Work : std::uint8_t {
  empty,  // nothing
  sum,    // adds the first slice of `first` to the first slice of `sums`; for chains
  slice,  // node i: slice i of `sums` is that of `first` plus that of `second`
  visit,  // a busy loop of cells[0] rounds; then cell i + 1 counts the launch, if all predecessors' cells have counted it
};

// Stored by `visit` in the cell of a node that ran too early or twice; stays wrong in later launches.
inline constexpr unsigned kWrongVisit = 1U << 31U;

// Sizes of a side's memory, in elements.
struct GraphMemory {
  std::size_t cells;
  std::size_t floats;  // of each of `first`, `second` and `sums`: slices of Adds::kFloats
};

class LaunchableGraph {
 public:
  virtual ~LaunchableGraph() = default;
  // One launch at a time. wait() does what a side can only do while its host waits.
  virtual void launch() = 0;
  virtual void wait() = 0;
};

// All members throw std::exception. Copies are made while nothing runs.
class GraphSide {
 public:
  virtual ~GraphSide() = default;
  virtual std::string name() const = 0;
  // Makes a launchable graph from its description. `dag` and the side must outlive it.
  virtual std::unique_ptr<LaunchableGraph> make(const Dag& dag, Work work) = 0;

  virtual void write_cells(std::span<const unsigned> cells) = 0;
  virtual void read_cells(std::span<unsigned> cells) = 0;
  virtual void write_first(std::span<const float> floats) = 0;
  virtual void write_second(std::span<const float> floats) = 0;
  virtual void write_sums(std::span<const float> floats) = 0;
  virtual void read_sums(std::span<float> floats) = 0;
};

}  // namespace dwell::bench
