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

  // Launches it with these modifiers (flags of task.hpp); returns the launch's position. `all` has what its nodes may launch; null: nobody
  // has yet.
  std::uint64_t launch(runtime::Core& core, std::uint32_t flags, const Waits& waits, Launching* all = nullptr);
  // A node's argument words from the next launch on, which name memory there if they are a span.
  void set(std::uint32_t node, std::uint32_t first, const std::uint32_t* words, std::uint32_t count,
           std::optional<std::uint64_t> memory_at);
  void update(const GraphData& other);
  // It is where it will stay, and is known from now on by that.
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

  // The flags of a task that may launch it.
  std::uint32_t flags() const { return kMemory | system_; }

  Shell* const shell;
  GraphData graph;  // as it was instantiated, with the arguments of the next launch (see words_mutex_), but for `uses`: see uses_
  const graph::Layout layout;
  const std::vector<std::shared_ptr<ExecState>> execs;  // that its nodes may launch, and the nodes of these
  std::shared_ptr<BufferState> memory;
  std::uint64_t offset = 0;                      // in the arena, in bytes
  const std::uint32_t number;                    // see runtime::Graphs
  std::unique_ptr<graph::HostNodes> host_nodes;  // null without

 private:
  friend class Launching;
  // The following return nothing when a version has changed since there were so many changes. As launch; `groups` is 0 for one that only
  // changes the exec.
  std::optional<std::uint64_t> launch_at(runtime::Core& core, std::uint32_t flags, Waits waits, std::uint64_t switches)
      DWELL_REQUIRES(mutex_);
  std::optional<std::uint64_t> place(runtime::Core& core, std::uint32_t flags, std::uint32_t groups, Waits& waits, std::uint64_t switches)
      DWELL_REQUIRES(mutex_);
  // Orders what follows behind its last launch, and behind tasks that may launch it.
  void add_last(runtime::Core& core, Waits& waits) DWELL_REQUIRES(mutex_);
  void add_tasks(runtime::Core& core, Waits& waits) DWELL_REQUIRES(mutex_);
  // A task that may launch it is about to be placed: gives it the opcodes and arguments of now, which `waits` is for. False as above.
  bool prepare(runtime::Core& core, std::uint64_t switches, Waits& waits) DWELL_REQUIRES(mutex_);
  void note_task(std::uint64_t position) noexcept DWELL_REQUIRES(mutex_);
  // Its nodes are part of the sample of what tasks name.
  void sample(runtime::Core& core) const DWELL_REQUIRES(mutex_);
  // Writes the whole exec to the device, with the arguments and opcodes of the next launch.
  void write(runtime::Core& core) DWELL_REQUIRES(mutex_);
  // Takes the memory that set_words needs for so many words in so many nodes: what is set is set as a whole, or not at all.
  void prepare_words(std::size_t words, std::size_t nodes) DWELL_REQUIRES(mutex_, words_mutex_);
  void set_words(std::uint32_t node, std::uint32_t first, const std::uint32_t* words, std::uint32_t count) noexcept
      DWELL_REQUIRES(mutex_, words_mutex_);
  // Tells the flight recorder of the arguments that change with the next launch.
  void note_changes(runtime::Core& core) const DWELL_REQUIRES(mutex_);
  // Launches before this position have ended.
  std::uint64_t reaped() const;
  // Gives nodes the opcodes that their operators have now.
  void bind() DWELL_REQUIRES(mutex_);

  // kNone without one.
  std::uint32_t node_in(std::uint32_t cell) const { return cells_.node_at(layout, static_cast<std::uint32_t>(graph.nodes.size()), cell); }

  const graph::Cells cells_;
  // Of graph.words, which change under mutex_ as well, and of set_: who tells arguments may be called by who holds mutex_, or waits long
  // with it.
  mutable Mutex words_mutex_;
  std::vector<bool> set_ DWELL_GUARDED_BY(words_mutex_);  // by node: its arguments were others before; empty when none were
  mutable Mutex mutex_;
  graph::Uses uses_ DWELL_GUARDED_BY(mutex_);
  std::vector<std::uint32_t> opcodes_ DWELL_GUARDED_BY(mutex_);  // of graph.operators, as the device has them or will
  graph::Changes changes_ DWELL_GUARDED_BY(mutex_);
  std::uint64_t first_noted_ = 0;  // as FlightRecorder::add returned it
  std::uint32_t system_ = 0;       // kSystem when a node's results may lie in host memory
  std::optional<graph::Times> times_ DWELL_GUARDED_BY(mutex_);
  bool launched_ DWELL_GUARDED_BY(mutex_) = false;
  std::uint64_t last_ DWELL_GUARDED_BY(mutex_) = 0;                 // position of the last launch
  std::optional<std::uint64_t> changing_ DWELL_GUARDED_BY(mutex_);  // of the last one behind which it is another: tasks come after that
  std::vector<std::uint64_t> tasks_ DWELL_GUARDED_BY(mutex_);       // positions of tasks that may launch it, of those in flight at least
};

}  // namespace dwell::detail
