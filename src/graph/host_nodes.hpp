// The host nodes of an exec: their callbacks, and the host's side of device/host_nodes.hpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "device/graph_layout.hpp"
#include "runtime/complete/host_calls.hpp"
#include "runtime/memory/buffers.hpp"

namespace dwell::graph {

// Reads the device's calls, runs callbacks, stores answers. Members may be called from any thread, except next.
class HostNodes final : public runtime::HostCaller {
 public:
  using Callbacks = std::vector<std::shared_ptr<const std::function<void()>>>;  // by number of the host node

  // `cells`, `names`: of the host nodes, by number. Throws errc::out_of_memory.
  HostNodes(runtime::Buffers& buffers, Callbacks callbacks, std::vector<std::uint32_t> cells, std::vector<std::string> names);

  // Writes the addresses and positions of the rings into the exec's head. No launch is in flight.
  void write(device::GraphHead& head) const;

  std::optional<runtime::HostCall> next() override;
  std::vector<runtime::HostCall> waiting() override;
  std::string name(std::uint32_t number) const override { return names_[number]; }
  void answer(const runtime::HostCall& call, runtime::Causes& causes) noexcept override;

  // Returns the exception message of the callback of the host node at `cell` in the launch at `position`; empty if it has not thrown, or
  // was forgotten.
  std::string why(std::uint64_t position, std::uint32_t cell) const;
  // Forgets the messages of launches before `position`.
  void forget(std::uint64_t position);

 private:
  struct Thrown {
    std::uint32_t launch;
    std::uint32_t cell;
    std::string text;
  };

  std::optional<runtime::HostCall> call_at(std::uint32_t at) const;

  const Callbacks callbacks_;
  const std::vector<std::uint32_t> cells_;
  const std::vector<std::string> names_;
  const std::uint32_t shift_;
  const std::shared_ptr<detail::BufferState> rings_;
  device::Quad* const calls_;
  std::atomic<std::uint32_t> called_{0};  // calls read
  mutable Mutex mutex_;
  std::uint32_t answered_ DWELL_GUARDED_BY(mutex_) = 0;
  std::vector<Thrown> thrown_ DWELL_GUARDED_BY(mutex_);
};

}  // namespace dwell::graph
