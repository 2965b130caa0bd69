// Graphs on a device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <dwell/buffer.hpp>
#include <dwell/detail/graph_data.hpp>
#include <dwell/ticket.hpp>

#include "base/mutex.hpp"
#include "graph/host_nodes.hpp"
#include "graph/layout.hpp"
#include "graph/times.hpp"
#include "graph/uses.hpp"
#include "runtime/graphs.hpp"

namespace dwell::runtime {
class Core;
}

namespace dwell::detail {

// Shared by the handles of one GraphExec.
struct ExecState final : runtime::Exec, std::enable_shared_from_this<ExecState> {
  ExecState(runtime::Core& core, Shell* of, const GraphData& from);
  ~ExecState() override;
  ExecState(const ExecState&) = delete;
  ExecState& operator=(const ExecState&) = delete;

  // Launches it with these modifiers (flags of task.hpp); returns the launch's position.
  std::uint64_t launch(runtime::Core& core, std::uint32_t flags, Waits waits);
  // A node's argument words from the next launch on, which name memory there if they are a span.
  void set(std::uint32_t node, std::uint32_t first, const std::uint32_t* words, std::uint32_t count,
           std::optional<std::uint64_t> memory_at);
  void update(const GraphData& other);
  // As GraphExec::measure.
  void measure(runtime::Core& core);
  NodeTime time(std::uint32_t node) const;
  std::string dot() const;
  std::string node_at(std::uint32_t cell) const override;
  std::string why(std::uint64_t position, std::uint32_t cell) const override;
  bool names(std::uint64_t begin, std::uint64_t end) const override;

  Shell* const shell;
  GraphData graph;  // as it was instantiated, with the arguments of the next launch, but for `uses`: see uses_
  const graph::Layout layout;
  std::shared_ptr<BufferState> memory;
  std::uint64_t address = 0;
  std::unique_ptr<graph::HostNodes> host_nodes;  // null without

 private:
  std::uint64_t place(runtime::Core& core, std::uint32_t flags, Waits& waits) DWELL_REQUIRES(mutex_);
  // Writes the whole exec to the device, with the arguments and opcodes of the next launch.
  void write(runtime::Core& core) DWELL_REQUIRES(mutex_);
  void clear_changes() DWELL_REQUIRES(mutex_);
  void set_words(std::uint32_t node, std::uint32_t first, const std::uint32_t* words, std::uint32_t count) DWELL_REQUIRES(mutex_);
  // Notes that a word of the exec changes.
  void change(std::size_t at, std::uint32_t value) DWELL_REQUIRES(mutex_);
  // Launches before this position have ended.
  std::uint64_t reaped() const;
  // Gives nodes the opcodes that their operators have now.
  void bind() DWELL_REQUIRES(mutex_);

  mutable Mutex mutex_;
  graph::Uses uses_ DWELL_GUARDED_BY(mutex_);
  std::vector<std::uint32_t> opcodes_ DWELL_GUARDED_BY(mutex_);  // of graph.operators, as the device has them or will
  // Words that differ from what the device has: place in words and value, alternately.
  std::vector<std::uint32_t> changes_ DWELL_GUARDED_BY(mutex_);
  std::vector<std::uint32_t> change_of_ DWELL_GUARDED_BY(mutex_);  // by word of the exec: its place in changes_, plus 1
  std::uint32_t system_ = 0;                                       // kSystem when a node's results may lie in host memory
  std::optional<graph::Times> times_ DWELL_GUARDED_BY(mutex_);
  bool launched_ DWELL_GUARDED_BY(mutex_) = false;
  std::uint64_t last_ DWELL_GUARDED_BY(mutex_) = 0;  // position of the last launch
};

}  // namespace dwell::detail
