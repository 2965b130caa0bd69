// Plain CUDA programs, as peers of dwell. Needs none of CUDA's headers.
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

// Adds of 1024 floats over its own three arrays; each is a launch of 128 threads, or a node of a graph.
class CudaAdds {
 public:
  virtual ~CudaAdds() = default;
  virtual std::size_t slices() const = 0;
  virtual void launch(std::size_t task) = 0;
  virtual void synchronise() = 0;
  // Makes a graph of `nodes` independent adds, spread over all slices. Returns the time of its instantiation in nanoseconds.
  virtual double make_graph(std::size_t nodes) = 0;
  // Launches the graph and synchronises.
  virtual void replay() = 0;
  virtual void poison() = 0;
  // Returns the number of wrong sums in `slices` slices that are `step` apart.
  virtual std::size_t wrong(std::size_t slices, std::size_t step) = 0;
};

// Ways to run task graphs in CUDA; every node is a kernel of one block.
enum class CudaGraphs : std::uint8_t {
  graph,         // a CUDA graph
  programmatic,  // the same with edges of programmatic dependent launch; chains of Work::empty and Work::sum only
  streams,       // one launch per node, over kCudaPlaces streams, with events
};
// Kernels that a device runs at once, from as many streams or branches.
inline constexpr std::size_t kCudaPlaces = 128;

// Steps over a ring of cells, each a block of 128 threads. A cell becomes three times its value, plus its neighbours'.
class CudaSweep {
 public:
  virtual ~CudaSweep() = default;
  virtual void write(std::span<const unsigned> cells) = 0;
  // Runs all steps, an even number; returns when they are done.
  virtual void run() = 0;
  virtual void read(std::span<unsigned> cells) = 0;
};
enum class CudaSweeps : std::uint8_t {
  cooperative,   // one cooperative kernel, with a barrier like cooperative groups' grid.sync()
  programmatic,  // a CUDA graph with one kernel per step, and edges of programmatic dependent launch
};

// The fork-join tree of tree.hpp with CUDA dynamic parallelism: each task is a kernel of one thread.
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

// A call that programs may make while a runtime works, with its setup and undo. Each throws std::runtime_error when it fails; `undo` also
// when the call's effect was wrong.
struct CudaCall {
  std::string name;
  bool waits;  // for all kernels on the device, according to facts.md
  std::function<void()> prepare;
  std::function<void()> call;
  std::function<void()> undo;
};

// All members throw std::runtime_error. Destroyed by the thread that opened it.
class CudaPeer {
 public:
  virtual ~CudaPeer() = default;
  virtual std::string version() const = 0;  // the driver's CUDA version: "13.0"
  virtual std::string bus() const = 0;      // the device's PCI address
  virtual std::span<const std::byte> cubin() const = 0;
  // Lets the calling thread use this object. The thread that opened it need not call this.
  virtual void enter() = 0;
  // Keeps the device busy for 100 ms, to raise its clocks.
  virtual void warm_up() = 0;
  // Launches an empty kernel, and waits for its stream.
  virtual void launch_and_synchronise() = 0;
  // Compiles a new kernel with NVRTC, loads it, lets it write `value`, and checks the result.
  virtual void compile_and_run(unsigned value) = 0;
  virtual std::unique_ptr<CudaPingPong> ping_pong() = 0;
  // Makes adds over arrays of `floats`, a power of two. The sums are poisoned.
  virtual std::unique_ptr<CudaAdds> adds(std::size_t floats) = 0;
  virtual std::unique_ptr<GraphSide> graphs(CudaGraphs way, const GraphMemory& memory) = 0;
  virtual std::size_t multiprocessors() const = 0;
  virtual std::unique_ptr<CudaSweep> sweep(CudaSweeps way, std::size_t cells, unsigned steps) = 0;
  // Makes a tree of `count` tasks, at most 2^18. Call while nothing runs on the device.
  virtual std::unique_ptr<CudaTree> tree(std::uint32_t count) = 0;
  // Returns the bytes per nanosecond, read and written, of a copy of `bytes` within the device.
  virtual double copy_bandwidth(std::size_t bytes) = 0;
  virtual std::vector<CudaCall> calls() = 0;
};

// Opens a peer on the device's primary context, which becomes current in the calling thread. Null, with the reason in `why`, if CUDA cannot
// be used.
std::unique_ptr<CudaPeer> open_cuda_peer(int ordinal, std::string* why);

}  // namespace dwell::bench
