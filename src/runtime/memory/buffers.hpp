// The memory of handles, from its allocation until the last task and launch that use it have run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <dwell/buffer.hpp>
#include <dwell/detail/graph_data.hpp>
#include <dwell/memory_resource.hpp>

#include "backend/backend.hpp"
#include "base/mutex.hpp"
#include "runtime/complete/notifier.hpp"
#include "runtime/device/arena.hpp"
#include "runtime/device/keeper.hpp"
#include "runtime/device/submission_queue.hpp"
#include "runtime/generation/shell.hpp"
#include "runtime/graphs.hpp"
#include "runtime/kernels/launches.hpp"
#include "runtime/memory/blocks.hpp"

namespace dwell::detail {

// Memory that a Buffer names.
struct BufferState : BufferUse {
  std::shared_ptr<backend::Allocation> allocation;  // guarded by Buffers; null after the end of the runtime
  std::size_t bytes = 0;
  Memory memory = Memory::device;
  bool foreign = false;  // not allocated by the runtime
  bool piece = false;    // of the arena
  bool prompt = false;   // its memory is released as soon as nothing in flight uses it
  // No task in flight before this position names it by an address among its own arguments, nor does a later submission there. Guarded by
  // Buffers.
  mutable std::uint64_t used_from = 0;

  BufferState() = default;
  BufferState(const BufferState&) = delete;
  BufferState& operator=(const BufferState&) = delete;
  ~BufferState();
  // Returns why it has no memory.
  Error gone() const {
    return shell->gone("buffer of " + std::to_string(bytes) + " bytes", foreign ? "wrap it again" : "allocate it again");
  }
};

}  // namespace dwell::detail

namespace dwell::runtime {

// The buffers of one runtime. Members may be called from any thread.
class Buffers {
 public:
  // Waits for a task, as Ends::wait.
  using Wait = std::function<void(std::uint64_t position)>;

  Buffers(backend::Backend& backend, SubmissionQueue& queue, Keeper& keeper, Launches& launches, Notifier& notifier, const Graphs& graphs,
          detail::Shell* shell, Wait wait, std::shared_ptr<MemoryResource> resource = nullptr)
      : backend_(backend),
        queue_(queue),
        keeper_(keeper),
        launches_(launches),
        notifier_(notifier),
        blocks_(backend, queue, keeper),
        graphs_(graphs),
        shell_(shell),
        wait_(std::move(wait)),
        resource_(std::move(resource)),
        host_memory_waits_(backend.info().host_memory_waits) {}

  std::shared_ptr<detail::BufferState> allocate(std::size_t count, std::size_t element, Memory memory);
  // Takes ownership of a piece of the arena, which is freed as the memory of a buffer. Throws errc::closed.
  std::shared_ptr<detail::BufferState> own(std::unique_ptr<Arena::Piece> piece);
  // Wraps foreign memory, see Runtime::wrap. `alignment`: of an element.
  std::shared_ptr<detail::BufferState> wrap(void* pointer, std::size_t count, std::size_t element, std::size_t alignment,
                                            std::shared_ptr<void> keep_alive);
  // Makes memory of this process accessible to the device.
  std::shared_ptr<detail::BufferState> pin(std::shared_ptr<std::byte> memory, std::size_t bytes);
  // write and read wait for the tasks and launches in flight that use the buffer. These three throw errc::stale_handle when the runtime is
  // closed meanwhile.
  void write(const detail::BufferState& buffer, std::size_t offset, const void* from, std::size_t bytes);
  void read(const detail::BufferState& buffer, std::size_t offset, void* to, std::size_t bytes);
  // As read, without waiting.
  void look(const detail::BufferState& buffer, std::size_t offset, void* to, std::size_t bytes);
  // Returns the buffer's address on the host. Throws errc::unsupported if it has none.
  void* host_address(const detail::BufferState& buffer);
  // Throws errc::stale_handle, naming the node, when a graph uses a dropped buffer.
  void check_alive(const std::vector<detail::GraphData::Use>& uses, const std::function<std::string(std::uint32_t)>& name_of) const;
  // Takes a buffer's memory, and frees it when the last task that uses it has run: foreign memory soon after, the runtime's own at a later
  // call.
  void release(detail::BufferState& buffer);
  // Frees unused memory.
  void collect();
  // Returns the number and the bytes of buffers of the runtime's own memory outside of the arena.
  std::pair<std::uint64_t, std::uint64_t> count() const;
  // Memory of arguments that do not fit into the ring.
  Blocks& blocks() { return blocks_; }
  // Frees the memory of all buffers, which outlive the runtime without it.
  void close() noexcept;

 private:
  std::shared_ptr<backend::Allocation> memory_of(const detail::BufferState& buffer);
  std::uint64_t used_from(const detail::BufferState& buffer) const;
  // Waits until no task in flight uses the buffer, and returns its memory. Looks at each task at most once for a buffer, and at none from
  // before its allocation.
  std::shared_ptr<backend::Allocation> free_of_users(const detail::BufferState& buffer);

  // Throws errc::invalid_argument for a size beyond that of a span.
  static void check_size(std::size_t count, std::size_t element);
  // Allocates cleared memory from the program's resource; the allocation's destructor returns it there. Throws as MemoryResource::allocate
  // says.
  std::unique_ptr<backend::Allocation> from_resource(std::size_t bytes);
  // Registers a new buffer.
  std::shared_ptr<detail::BufferState> enter(std::shared_ptr<detail::BufferState> state);
  // Returns whether all tasks before `until` and launches before `launched` have ended.
  bool ended(std::uint64_t until, std::uint64_t launched);

  struct Retired {
    std::uint64_t until;     // tasks before this position may use it
    std::uint64_t launched;  // and launches before this number
    bool prompt;             // as BufferState::prompt
    std::shared_ptr<backend::Allocation> allocation;
  };

  backend::Backend& backend_;
  SubmissionQueue& queue_;
  Keeper& keeper_;
  Launches& launches_;
  Notifier& notifier_;
  Blocks blocks_;
  const Graphs& graphs_;
  detail::Shell* const shell_;
  const Wait wait_;
  const std::shared_ptr<MemoryResource> resource_;  // null: the backend's own memory
  const bool host_memory_waits_;
  mutable Mutex mutex_;  // guards BufferState::allocation too
  bool closed_ DWELL_GUARDED_BY(mutex_) = false;
  std::vector<Retired> retired_ DWELL_GUARDED_BY(mutex_);
  std::set<detail::BufferState*> alive_ DWELL_GUARDED_BY(mutex_);
};

}  // namespace dwell::runtime
