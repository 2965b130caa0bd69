#include "graph/host_nodes.hpp"

#include <unistd.h>

#include <bit>
#include <exception>
#include <new>
#include <utility>

#include "device/host_nodes.hpp"
#include "runtime/caught.hpp"

namespace dwell::graph {

using device::Quad;
using device::Scope;

HostNodes::HostNodes(runtime::Buffers& buffers, Callbacks callbacks, std::vector<std::uint32_t> cells, std::vector<std::string> names)
    : callbacks_(std::move(callbacks)),
      cells_(std::move(cells)),
      names_(std::move(names)),
      shift_(static_cast<std::uint32_t>(std::bit_width(callbacks_.size() - 1))),
      rings_(buffers.allocate(device::host_nodes::rings_bytes(shift_), 1, Memory::host)),
      calls_(static_cast<Quad*>(rings_->allocation->host())) {}

void HostNodes::write(device::GraphHead& head) const {
  head.calls = rings_->allocation->device();
  head.calls_shift = shift_;
  // No launch is in flight: all calls are answered, and the answers read.
  head.called = head.answered = called_.load(std::memory_order_relaxed);
}

std::optional<runtime::HostCall> HostNodes::call_at(std::uint32_t at) const {
  const Quad call = device::load_quad<Scope::system>(calls_ + device::index_of(at, shift_));
  const std::uint32_t lap = device::lap_of(at, shift_);
  if (call.lap != lap || call.word[1] != lap) return std::nullopt;
  return runtime::HostCall{call.word[0], call.word[2]};
}

std::optional<runtime::HostCall> HostNodes::next() {
  const std::uint32_t at = called_.load(std::memory_order_relaxed);
  const std::optional<runtime::HostCall> call = call_at(at);
  if (call) called_.store(at + 1, std::memory_order_relaxed);
  return call;
}

std::vector<runtime::HostCall> HostNodes::waiting() {
  std::vector<runtime::HostCall> all;
  for (std::uint32_t at = called_.load(std::memory_order_relaxed);; ++at) {
    const std::optional<runtime::HostCall> call = call_at(at);
    if (!call) return all;
    all.push_back(*call);
  }
}

void HostNodes::answer(const runtime::HostCall& call, runtime::Causes& causes) noexcept {
  const pid_t process = getpid();
  std::exception_ptr thrown;
  const std::optional<Error> error = runtime::failure_of(errc::invalid_argument, [&] {
    try {
      (*callbacks_[call.number])();
    } catch (...) {
      thrown = std::current_exception();
      throw;
    }
  });
  if (process != getpid()) return;  // the callback has forked, and the memory may be shared
  if (error) causes.note(call.launch, error->message(), std::move(thrown));
  const std::uint32_t cell = cells_[call.number];
  const Lock lock(mutex_);
  if (error) {
    try {
      thrown_.push_back({call.launch, cell, error->message()});
    } catch (const std::bad_alloc&) {
      // The launch's error has no text then.
    }
  }
  const std::uint32_t at = answered_++;
  // Releases the callback's writes. Pairs with device::host_nodes::read_answer.
  device::store_quad<Scope::system>(calls_ + (1U << shift_) + device::index_of(at, shift_),
                                    Quad{device::lap_of(at, shift_), {cell, error ? 1U : 0U, 0}});
}

std::string HostNodes::why(std::uint64_t position, std::uint32_t cell) const {
  const Lock lock(mutex_);
  for (const Thrown& thrown : thrown_)
    if (thrown.launch == static_cast<std::uint32_t>(position) && thrown.cell == cell) return thrown.text;
  return {};
}

void HostNodes::forget(std::uint64_t position) {
  const Lock lock(mutex_);
  std::erase_if(thrown_, [&](const Thrown& thrown) { return device::is_after(static_cast<std::uint32_t>(position), thrown.launch); });
}

}  // namespace dwell::graph
