// A graph on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <dwell/buffer.hpp>
#include <dwell/detail/graph_data.hpp>
#include <dwell/ticket.hpp>

#include "base/mutex.hpp"
#include "graph/cells.hpp"
#include "graph/changes.hpp"
#include "graph/host_nodes.hpp"
#include "graph/layout.hpp"
#include "graph/times.hpp"
#include "graph/uses.hpp"
#include "runtime/graphs.hpp"

namespace dwell::runtime {
class Core;
}

namespace dwell::detail {

class Launching;

// Shared by the handles of one GraphExec.
struct ExecState final : runtime::Exec, std::enable_shared_from_this<ExecState> {
  ExecState(runtime::Core& core, Shell* of, const GraphData& from);
  ~ExecState() override;
  ExecState(const ExecState&) = delete;
  ExecState& operator=(const ExecState&) = delete;

  // Launches it with these modifiers (flags of task.hpp); returns the launch's position. `all` holds the execs that its nodes may launch;
  // null: not held yet.
  std::uint64_t launch(runtime::Core& core, std::uint32_t flags, const Waits& waits, Launching* all = nullptr);
  // Sets a node's argument words for later launches, and the memory they use if they are a span.
  void set(std::uint32_t node, std::uint32_t first, const std::uint32_t* words, std::uint32_t count,
           std::optional<std::uint64_t> memory_at);
  void update(const GraphData& other);
  // Registers it at its final offset.
  void publish(runtime::Core& core);
  // As GraphExec::measure.
  void measure(runtime::Core& core);
  NodeTime time(std::uint32_t node) const;
  std::string dot() const;
  const std::string& name() const override { return graph.graph_name; }
  std::uint32_t nodes() const override { return static_cast<std::uint32_t>(graph.nodes.size()); }
  NodeFacts facts_of(std::uint32_t node) const override;
  std::string text_of(std::uint32_t node) const override { return graph.text_of(node); }
  std::string node_at(std::uint32_t cell) const override;
  std::string name_at(std::uint32_t cell) const override;
  std::string called_at(std::uint32_t cell) const override;
  std::string title_at(std::uint32_t cell, const std::string& op) const override;
  std::string arguments_at(std::uint32_t cell) const override;
  std::vector<std::uint32_t> next_at(std::uint32_t cell, std::size_t most) const override;
  Left left(std::span<const std::uint32_t> ready) const override;
  std::string why(std::uint64_t position, std::uint32_t cell) const override;
  bool names(std::uint64_t begin, std::uint64_t end) const override;

  // Returns the flags of a task that may launch it.
  std::uint32_t flags() const { return kMemory | system_; }

  Shell* const shell;
  GraphData graph;  // as instantiated, with the arguments of the next launch (see words_mutex_), without `uses`: see uses_
  const graph::Layout layout;
  const std::vector<std::shared_ptr<ExecState>> execs;  // execs that its nodes may launch, transitively
  std::shared_ptr<BufferState> memory;
  std::uint64_t offset = 0;                      // in the arena, in bytes
  const std::uint32_t number;                    // see runtime::Graphs
  std::unique_ptr<graph::HostNodes> host_nodes;  // null without host nodes

 private:
  friend class Launching;
  // The following return nothing when a version has changed since `switches`. As launch; `groups` is 0 for a launch that only changes the
  // exec.
  std::optional<std::uint64_t> launch_at(runtime::Core& core, std::uint32_t flags, Waits waits, std::uint64_t switches)
      DWELL_REQUIRES(mutex_);
  std::optional<std::uint64_t> place(runtime::Core& core, std::uint32_t flags, std::uint32_t groups, Waits& waits, std::uint64_t switches)
      DWELL_REQUIRES(mutex_);
  // Adds its last launch, and tasks that may launch it, to `waits`.
  void add_last(runtime::Core& core, Waits& waits) DWELL_REQUIRES(mutex_);
  void add_tasks(runtime::Core& core, Waits& waits) DWELL_REQUIRES(mutex_);
  // Prepares it for a task that may launch it: sends the current opcodes and arguments to the device; `waits` receives the launches to wait
  // for. False as above.
  bool prepare(runtime::Core& core, std::uint64_t switches, Waits& waits) DWELL_REQUIRES(mutex_);
  void note_task(std::uint64_t position) noexcept DWELL_REQUIRES(mutex_);
  // Adds its nodes to the sample of arguments.
  void sample(runtime::Core& core) const DWELL_REQUIRES(mutex_);
  // Writes the whole exec to the device, with the arguments and opcodes of the next launch.
  void write(runtime::Core& core) DWELL_REQUIRES(mutex_);
  // Allocates for set_words of this many words in this many nodes, so that a change happens entirely or not at all.
  void prepare_words(std::size_t words, std::size_t nodes) DWELL_REQUIRES(mutex_, words_mutex_);
  void set_words(std::uint32_t node, std::uint32_t first, const std::uint32_t* words, std::uint32_t count) noexcept
      DWELL_REQUIRES(mutex_, words_mutex_);
  // Reports the arguments that change with the next launch to the flight recorder.
  void note_changes(runtime::Core& core) const DWELL_REQUIRES(mutex_);
  // Returns the position before which launches have ended.
  std::uint64_t reaped() const;
  // Sets the nodes' opcodes to the current ones of their operators.
  void bind() DWELL_REQUIRES(mutex_);

  // kNone without one.
  std::uint32_t node_in(std::uint32_t cell) const { return cells_.node_at(layout, static_cast<std::uint32_t>(graph.nodes.size()), cell); }

  const graph::Cells cells_;
  // Guards graph.words, which change under mutex_ as well, and set_. Separate from mutex_, since arguments may be formatted under mutex_,
  // or while it is held for long.
  mutable Mutex words_mutex_;
  std::vector<bool> set_ DWELL_GUARDED_BY(words_mutex_);  // by node: its arguments were changed; empty if none were
  mutable Mutex mutex_;
  graph::Uses uses_ DWELL_GUARDED_BY(mutex_);
  std::vector<std::uint32_t> opcodes_ DWELL_GUARDED_BY(mutex_);  // of graph.operators, as on the device or on their way
  graph::Changes changes_ DWELL_GUARDED_BY(mutex_);
  std::uint64_t first_noted_ = 0;  // from FlightRecorder::add
  std::uint32_t system_ = 0;       // kSystem when a node's results may lie in host memory
  std::optional<graph::Times> times_ DWELL_GUARDED_BY(mutex_);
  bool launched_ DWELL_GUARDED_BY(mutex_) = false;
  std::uint64_t last_ DWELL_GUARDED_BY(mutex_) = 0;                 // position of the last launch
  std::optional<std::uint64_t> changing_ DWELL_GUARDED_BY(mutex_);  // position of the last launch that changes it: tasks must come after it
  std::vector<std::uint64_t> tasks_ DWELL_GUARDED_BY(mutex_);       // positions of tasks that may launch it, at least those in flight
};

}  // namespace dwell::detail
