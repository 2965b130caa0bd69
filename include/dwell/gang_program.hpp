// Recorded operations on tensors, compiled as one program of a gang.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <dwell/runtime.hpp>
#include <dwell/tensor.hpp>
#include <dwell/ticket.hpp>

namespace dwell {

class OperationList;

namespace tensor {
struct Noted;
struct GangState;
const Noted& noted_in(const OperationList& list);
}  // namespace tensor

// Memory that operations name, and its new place: the same address modulo 256.
struct MovedMemory {
  TensorView::Extent from;
  std::uint64_t to = 0;
};

// Operations that a batch has submitted, in order: Batch::note_in fills it, GangProgram compiles it. A handle: copies name the same list.
class OperationList {
 public:
  OperationList();
  std::size_t size() const noexcept;
  // Returns a list of the same operations on other memory: tensors that begin in a `from` lie at its `to` there. Each tensor lies within
  // one `from`, or outside of all. Throws errc::invalid_argument for a place of another alignment.
  OperationList moved(std::span<const MovedMemory> moves) const;

 private:
  friend class Batch;
  friend class GangProgram;
  friend class Step;
  friend const tensor::Noted& tensor::noted_in(const OperationList& list);
  std::shared_ptr<tensor::Noted> state_;
};

// Memory that stands for slices of a tensor, another one in each run of the operations: run i has the bytes from `first` + i * `stride` on.
// Addresses, the stride and the size of the memory are multiples of 4 bytes; it has 48 KiB at most. No operation names memory of the slices
// themselves. The tensor lives as long as the program and its runs.
struct GangSlices {
  TensorView::Extent memory;  // that the operations name
  std::uint64_t first = 0;
  std::int64_t stride = 0;
  bool output = false;  // the run's result goes to the slice; else the slice comes to the memory before the run
};

struct GangSettings {
  std::uint32_t members = 0;  // of the gang; 0: as many as the plan finds best. On a CPU always one
  // Runs of the operations in one run of the program, one behind the other: what they only read is loaded once, and what they hand on to
  // the next run stays in the members.
  std::uint32_t repeats = 1;
  std::vector<GangSlices> slices = {};  // inputs and outputs of each run
  // Workers of the resident loop are the members, so that a graph has the program as a node (Graph::add), and `launch` makes a task of it.
  // A member's memory is Options::scratch_bytes, and there are as many members as workers at most. On a CPU each program runs in the loop.
  bool in_loop = false;
};

// Runs the operations of a list on the memory that they name, as one program. On CUDA it is an ordinary kernel: a gang of thread blocks,
// its members, which are all on the device at once. With GangSettings::in_loop it is a gang of the loop's workers: a task, or a node of a
// graph (Graph::add). On the CPU it is a task. Each member runs most steps on its own copies of small
// tensors, so dependent steps cross no member. Members share large products and large tensors out (docs/loops.md).
//
// Elementwise operations give the bits that the batch's tasks give. Sums of products and of rows are added in another order, the same in
// each run of the same plan; on a CPU it depends on the width of the processor's vectors too.
//
// Members may be called from any thread; runs of one program must not overlap: they are ordered by their stream, by their tickets, or by
// the edges of a graph. Launches of one exec do not overlap; those of two execs with the same program may.
class GangProgram {
 public:
  // Plans and compiles; waits for the compiler. `needed`: whether someone may read this memory behind a run; other results are not stored.
  // The memory that the operations name must live as long as the program and its runs. Throws errc::unsupported with the reason if the
  // operations do not fit a gang: an operation without a form (an index, 16-bit products, long rows), tensors beyond a member's memory, and
  // for a single member an operation that is too large (docs/loops.md has the limits). In the loop the reason may be
  // Options::scratch_bytes; it tells how many bytes would do. Throws errc::closed, errc::out_of_memory, and as
  // Runtime::compile. errc::invalid_argument for no repeats, and for slices that are not as GangSlices says.
  GangProgram(Runtime& runtime, const OperationList& operations, const std::function<bool(const TensorView::Extent&)>& needed,
              const GangSettings& settings = {});
  ~GangProgram();
  GangProgram(GangProgram&&) noexcept;
  GangProgram& operator=(GangProgram&&) noexcept;
  GangProgram(const GangProgram&) = delete;
  GangProgram& operator=(const GangProgram&) = delete;

  // Runs the program once and returns at once. On CUDA in the user's stream (LaunchConfig::stream; null: the runtime's), behind what the
  // stream has; on the CPU and in the loop behind all tasks that have been submitted. Throws as the launch of a kernel, and as
  // Runtime::submit; errc::invalid_argument for a stream with GangSettings::in_loop.
  Ticket launch(void* stream = nullptr) const;

  // Runs the program once in the user's stream, also while that is captured into a CUDA graph: cheaper, without a ticket (PreparedLaunch:
  // the caller keeps the program until the stream has passed the run). On CUDA alone, and not in the loop; throws errc::unsupported
  // elsewhere.
  void enqueue(void* stream) const;

  // Runs the program once in the calling thread, and returns when it has run: cheaper than a task, which another thread takes up. It is
  // behind no task: the caller has waited for those that use the same memory. Metrics and traces do not show it. On a CPU alone; throws
  // errc::unsupported elsewhere, and errc::stale_handle once the runtime is closed, which the caller must not do during the run.
  void run() const;

  std::uint32_t members() const noexcept;
  // The steps of a run that each member takes, exchanges and copies included, as often as they are taken.
  std::uint32_t steps() const noexcept;
  // The C++ text that was compiled. Valid as long as the program.
  const std::string& source() const noexcept;

 private:
  friend class Graph;
  std::unique_ptr<tensor::GangState> state_;
};

}  // namespace dwell
