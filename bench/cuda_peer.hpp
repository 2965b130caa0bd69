// CUDA programs of today, as peers of dwell. Needs none of CUDA's headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/graph_side.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

// Adds of 1024 floats over three arrays of its own, each a launch of 128 threads, or a node of a graph.
class CudaAdds {
 public:
  virtual ~CudaAdds() = default;
  virtual std::size_t slices() const = 0;
  virtual void launch(std::size_t task) = 0;
  virtual void synchronise() = 0;
  // Makes a graph of `nodes` independent adds, spread over all slices; returns the time that instantiating it took, in nanoseconds.
  virtual double make_graph(std::size_t nodes) = 0;
  // Launches the graph and synchronises.
  virtual void replay() = 0;
  virtual void poison() = 0;
  // Sums that are wrong, in `slices` slices that are `step` apart.
  virtual std::size_t wrong(std::size_t slices, std::size_t step) = 0;
};

// How CUDA programs run task graphs; every node is a kernel of one block.
enum class CudaGraphs : std::uint8_t {
  graph,         // a CUDA graph
  programmatic,  // the same with edges of programmatic dependent launch; chains of Work::empty and Work::sum only
  streams,       // a launch a node, over kCudaPlaces streams, and events
};
// Kernels that a device runs at a time, of as many streams or branches.
inline constexpr std::size_t kCudaPlaces = 128;

// Steps over a row of cells, each a block of 128 threads: a cell becomes its own value times three and its neighbours', round the ends.
class CudaSweep {
 public:
  virtual ~CudaSweep() = default;
  virtual void write(std::span<const unsigned> cells) = 0;
  // All steps, an even number of them; returns when they are done.
  virtual void run() = 0;
  virtual void read(std::span<unsigned> cells) = 0;
};
enum class CudaSweeps : std::uint8_t {
  cooperative,   // one cooperative kernel, with a barrier of the kind that cooperative groups' grid.sync() is
  programmatic,  // a CUDA graph, a kernel a step, with edges of programmatic dependent launch
};

// The fork-join tree of tree.hpp by CUDA dynamic parallelism, a kernel of one thread a task.
class CudaTree {
 public:
  virtual ~CudaTree() = default;
  // Returns when all tasks are complete.
  virtual void run(unsigned char mark) = 0;
  virtual void read(std::span<unsigned char> cells) = 0;
};

// A flag in mapped pinned host memory that a kernel of one thread answers.
class CudaPingPong {
 public:
  virtual ~CudaPingPong() = default;
  // Raises the flag and waits for the answer.
  virtual void round() = 0;
};

// A call that some programs make while a runtime works, with what goes before and after it. Each throws std::runtime_error when it fails,
// `undo` also when the call did not do what it should have.
struct CudaCall {
  std::string name;
  bool waits;  // for all kernels on the device, as facts.md has it
  std::function<void()> prepare;
  std::function<void()> call;
  std::function<void()> undo;
};

// All throw std::runtime_error. Destroyed by the thread that opened it.
class CudaPeer {
 public:
  virtual ~CudaPeer() = default;
  virtual std::string version() const = 0;  // of CUDA, as the driver says: "13.0"
  virtual std::string bus() const = 0;      // the device's PCI address
  virtual std::span<const std::byte> cubin() const = 0;
  // Lets the calling thread use this. The thread that opened it may do so already.
  virtual void enter() = 0;
  // Keeps the device busy for 100 ms, so that its clocks are up.
  virtual void warm_up() = 0;
  // Launches an empty kernel, and waits for its stream.
  virtual void launch_and_synchronise() = 0;
  // Compiles a new kernel with NVRTC, loads it, and has it write `value`, which is looked at.
  virtual void compile_and_run(unsigned value) = 0;
  virtual std::unique_ptr<CudaPingPong> ping_pong() = 0;
  // `floats` of each array, a power of two. The sums are poisoned.
  virtual std::unique_ptr<CudaAdds> adds(std::size_t floats) = 0;
  virtual std::unique_ptr<GraphSide> graphs(CudaGraphs way, const GraphMemory& memory) = 0;
  virtual std::size_t multiprocessors() const = 0;
  virtual std::unique_ptr<CudaSweep> sweep(CudaSweeps way, std::size_t cells, unsigned steps) = 0;
  // Of `count` tasks, 2^18 at most. Nothing runs on the device.
  virtual std::unique_ptr<CudaTree> tree(std::uint32_t count) = 0;
  // Bytes a nanosecond, read and written, that a copy of `bytes` within the device moves.
  virtual double copy_bandwidth(std::size_t bytes) = 0;
  virtual std::vector<CudaCall> calls() = 0;
};

// On the device's primary context, which is made current in the calling thread. Nothing, and why, when CUDA cannot be used.
std::unique_ptr<CudaPeer> open_cuda_peer(int ordinal, std::string* why);

}  // namespace dwell::bench
