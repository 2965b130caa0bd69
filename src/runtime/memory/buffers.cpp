#include "runtime/memory/buffers.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include <dwell/error.hpp>

#include "base/callback.hpp"
#include "runtime/caught.hpp"

namespace dwell::runtime {

namespace {

// Wraps the program's keep_alive so that it is dropped as a callback.
std::shared_ptr<void> called_back(std::shared_ptr<void> keep_alive, std::uint64_t runtime) {
  struct Kept {
    Kept(std::shared_ptr<void> given, std::uint64_t number) : keep_alive(std::move(given)), runtime(number) {}
    ~Kept() {
      const Callback callback(runtime, "the end of what a buffer kept alive");
      keep_alive.reset();
    }
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
    std::shared_ptr<void> keep_alive;
    const std::uint64_t runtime;
  };
  return std::make_shared<Kept>(std::move(keep_alive), runtime);
}

}  // namespace

void Buffers::check_size(std::size_t count, std::size_t element) {
  // A span has 44 bits for its size, an address 47.
  constexpr std::uint64_t kMostElements = 1ULL << 44U;
  constexpr std::uint64_t kMostBytes = 1ULL << 47U;
  if (count >= kMostElements || count > kMostBytes / element)
    throw Error(errc::invalid_argument,
                "a buffer of " + std::to_string(count) + " elements of " + std::to_string(element) +
                    " bytes is too large: the limits are 2^44 elements and 2^47 bytes",
                {"buffer", "", count, std::min(kMostElements - 1, kMostBytes / element)});
}

std::shared_ptr<detail::BufferState> Buffers::allocate(std::size_t count, std::size_t element, Memory memory) {
  check_size(count, element);
  collect();
  auto state = std::make_shared<detail::BufferState>();
  state->bytes = count * element;
  state->memory = memory;
  // Memory of the runtime's own is allocated anew only when the tasks that named it have run.
  if (memory == Memory::host || resource_ == nullptr) state->used_from = queue_.filled();
  state->prompt = memory == Memory::device && resource_ != nullptr && state->bytes != 0;
  state->allocation = state->prompt              ? from_resource(state->bytes)
                      : memory == Memory::device ? backend_.allocate(state->bytes)
                                                 : backend_.allocate_host(state->bytes);
  return enter(std::move(state));
}

std::unique_ptr<backend::Allocation> Buffers::from_resource(std::size_t bytes) {
  void* memory = nullptr;
  try {
    memory = resource_->allocate(bytes);
  } catch (const std::bad_alloc&) {  // as null
  }
  if (memory == nullptr)
    throw Error(errc::out_of_memory, "the program's memory resource has no " + std::to_string(bytes) + " bytes", {"buffer", "", bytes, 0});
  std::shared_ptr<void> kept(memory, [resource = resource_, bytes](void* at) { resource->deallocate(at, bytes); });
  constexpr std::uint64_t kAlignment = 256;
  if (reinterpret_cast<std::uint64_t>(memory) % kAlignment != 0)
    throw Error(errc::invalid_argument, "the program's memory resource has given memory that is not aligned to 256 bytes",
                {"buffer", "", bytes, 0});
  auto allocation = backend_.wrap(memory, bytes, called_back(std::move(kept), shell_ == nullptr ? 0 : shell_->lineage->runtime));
  backend_.clear(allocation->device(), bytes);
  return allocation;
}

std::shared_ptr<detail::BufferState> Buffers::own(std::unique_ptr<Arena::Piece> piece) {
  auto state = std::make_shared<detail::BufferState>();
  state->bytes = piece->bytes();
  state->memory = Memory::device;
  state->piece = true;
  state->allocation = std::move(piece);
  return enter(std::move(state));
}

std::shared_ptr<detail::BufferState> Buffers::wrap(void* pointer, std::size_t count, std::size_t element, std::size_t alignment,
                                                   std::shared_ptr<void> keep_alive) {
  check_size(count, element);
  const std::size_t bytes = count * element;
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  if (bytes == 0) return allocate(0, element, Memory::device);
  const auto refuse = [&](const std::string& why) {
    throw Error(errc::invalid_argument,
                std::to_string(bytes) + " bytes at address " + std::to_string(address) + " cannot be wrapped: " + why,
                {"buffer", "", bytes, 0});
  };
  if (pointer == nullptr) refuse("the pointer is null");
  constexpr std::uint64_t kEndOfAddresses = 1ULL << 52U;
  if (address >= kEndOfAddresses || bytes > kEndOfAddresses - address) refuse("they end beyond 2^52, where a span cannot name them");
  if (address % alignment != 0) refuse("elements of this type are aligned to " + std::to_string(alignment) + " bytes");
  collect();
  auto state = std::make_shared<detail::BufferState>();
  state->bytes = bytes;
  state->foreign = true;
  state->prompt = true;
  if (keep_alive != nullptr) keep_alive = called_back(std::move(keep_alive), shell_ == nullptr ? 0 : shell_->lineage->runtime);
  state->allocation = backend_.wrap(pointer, bytes, std::move(keep_alive));
  keeper_.memory_made();
  state->memory = state->allocation->host() != nullptr ? Memory::host : Memory::device;
  return enter(std::move(state));
}

std::shared_ptr<detail::BufferState> Buffers::pin(std::shared_ptr<std::byte> memory, std::size_t bytes) {
  collect();
  auto state = std::make_shared<detail::BufferState>();
  state->bytes = bytes;
  state->foreign = true;
  state->memory = Memory::host;
  std::byte* const at = memory.get();
  state->allocation = backend_.pin(at, bytes, std::move(memory));
  return enter(std::move(state));
}

std::shared_ptr<detail::BufferState> Buffers::enter(std::shared_ptr<detail::BufferState> state) {
  // A resource may return memory that the host can access too.
  const bool is_seen = state->memory == Memory::host || (state->prompt && state->allocation->host() != nullptr);
  state->flags = detail::kMemory | (is_seen ? detail::kSystem : 0);
  keeper_.memory_made();
  const Lock lock(mutex_);
  if (closed_) throw Error(errc::closed, "the runtime is closed");
  // Reserves room, so that releasing all buffers allocates nothing.
  if (const std::size_t most = retired_.size() + alive_.size() + 1; most > retired_.capacity()) retired_.reserve(2 * most);
  alive_.insert(state.get());
  state->shell = shell_;
  return state;
}

std::shared_ptr<backend::Allocation> Buffers::memory_of(const detail::BufferState& buffer) {
  const Lock lock(mutex_);
  if (!buffer.allocation) throw buffer.gone();
  return buffer.allocation;
}

std::uint64_t Buffers::used_from(const detail::BufferState& buffer) const {
  const Lock lock(mutex_);
  return buffer.used_from;
}

std::shared_ptr<backend::Allocation> Buffers::free_of_users(const detail::BufferState& buffer) {
  auto memory = memory_of(buffer);
  const std::uint64_t begin = memory->device();
  const std::uint64_t tail = queue_.tail();
  queue_.reap_done();
  const std::uint64_t first = std::max(queue_.reaped(), used_from(buffer));
  std::uint64_t next = std::max(first, tail);
  for (std::uint64_t position = first; position < tail; ++position) {
    if (queue_.done(position)) continue;
    const std::optional<bool> names = queue_.names(position, begin, begin + buffer.bytes);
    if (names == false) continue;
    if (names == true) wait_(position);
    if (!queue_.done(position)) next = std::min(next, position);  // the wait was omitted, or a task may still come there
  }
  {
    const Lock lock(mutex_);
    buffer.used_from = std::max(buffer.used_from, next);
  }
  for (const std::uint64_t position : blocks_.naming(begin, begin + buffer.bytes)) wait_(position);
  // Tasks that launch graphs; launches by the host were among the tasks above.
  for (const std::uint64_t position : graphs_.naming(begin, begin + buffer.bytes))
    if (position < tail && !queue_.done(position)) wait_(position);
  for (const std::uint64_t number : launches_.naming(begin, begin + buffer.bytes)) launches_.wait(number, std::nullopt);
  return memory;
}

void Buffers::write(const detail::BufferState& buffer, std::size_t offset, const void* from, std::size_t bytes) {
  const auto memory = free_of_users(buffer);
  backend_.copy_to_device(memory->device() + offset, from, bytes);
}

void Buffers::read(const detail::BufferState& buffer, std::size_t offset, void* to, std::size_t bytes) {
  const auto memory = free_of_users(buffer);
  backend_.copy_to_host(to, memory->device() + offset, bytes);
}

void Buffers::look(const detail::BufferState& buffer, std::size_t offset, void* to, std::size_t bytes) {
  const auto memory = memory_of(buffer);
  backend_.copy_to_host(to, memory->device() + offset, bytes);
}

void Buffers::check_alive(const std::vector<detail::GraphData::Use>& uses, const std::function<std::string(std::uint32_t)>& name_of) const {
  const detail::BufferUse* known = nullptr;
  const Lock lock(mutex_);
  for (const auto& [use, address, node] : uses) {
    if (use == known || use == nullptr) continue;  // null: memory known by its address only
    // Compared only: it may have been destroyed.
    const auto at = std::ranges::find_if(alive_, [&, wanted = use](const detail::BufferState* state) { return state == wanted; });
    const bool is_there = at != alive_.end() && address - (*at)->allocation->device() <= (*at)->bytes;
    if (!is_there)
      throw Error(errc::stale_handle,
                  "node " + name_of(node) + " names a buffer that has been dropped: keep buffers as long as graphs that name them",
                  {"node", name_of(node)});
    known = use;
  }
}

void* Buffers::host_address(const detail::BufferState& buffer) {
  void* const host = memory_of(buffer)->host();
  if (host == nullptr) throw Error(errc::unsupported, "the host cannot reach this buffer: allocate it as host memory, or use `read`");
  return host;
}

void Buffers::release(detail::BufferState& buffer) {
  const std::uint64_t until = queue_.tail();
  const std::uint64_t launched = launches_.next();
  {
    const Lock lock(mutex_);
    alive_.erase(&buffer);
    if (buffer.allocation) retired_.push_back(Retired{until, launched, buffer.prompt, std::move(buffer.allocation)});
  }
  // Without memory, or a thread, the next call frees it.
  static_cast<void>(failure_of(errc::out_of_memory, [&] {
    collect();
    if (buffer.prompt && !ended(until, launched))
      notifier_.when([this, until, launched] { return ended(until, launched); }, [this] { collect(); });
  }));
}

bool Buffers::ended(std::uint64_t until, std::uint64_t launched) {
  queue_.reap();
  return queue_.reaped() >= until && launches_.settled() >= launched;
}

void Buffers::collect() {
  launches_.collect();
  const std::uint64_t settled = launches_.settled();
  std::vector<Retired> unused;
  {
    const Lock lock(mutex_);
    if (retired_.empty()) return;
    unused.reserve(retired_.size());
    queue_.reap_done();
    const std::uint64_t reaped = queue_.reaped();
    std::erase_if(retired_, [&](Retired& retired) {
      if (retired.until > reaped || retired.launched > settled) return false;
      unused.push_back(std::move(retired));
      return true;
    });
  }
  // Freed outside the lock, and on a thread that may wait if freeing waits for leases.
  if (!host_memory_waits_) return;
  for (Retired& retired : unused) {
    if (retired.prompt || retired.allocation->host() == nullptr) continue;
    const std::size_t bytes = retired.allocation->bytes();
    keeper_.janitor().take(std::move(retired.allocation), bytes);
  }
}

std::pair<std::uint64_t, std::uint64_t> Buffers::count() const {
  std::pair<std::uint64_t, std::uint64_t> all{0, 0};
  const Lock lock(mutex_);
  for (const detail::BufferState* const buffer : alive_) {
    if (buffer->foreign || buffer->piece) continue;
    ++all.first;
    all.second += buffer->bytes;
  }
  return all;
}

void Buffers::close() noexcept {
  std::vector<Retired> given_up;  // outside the lock: deleters of wrapped memory may call this object
  const Lock lock(mutex_);
  closed_ = true;
  // enter has reserved the room.
  for (detail::BufferState* const buffer : alive_) retired_.push_back(Retired{0, 0, buffer->prompt, std::move(buffer->allocation)});
  alive_.clear();
  given_up.swap(retired_);
}

}  // namespace dwell::runtime
