// Graphs on two workers in plain memory: a fixture that launches them, and operators that record the nodes that run.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <vector>

#include "device/worker.hpp"
#include "tests/unit/bench.hpp"
#include "tests/unit/graph_plan.hpp"

namespace dwell::device {

class GraphOnWorkersTest : public testing::Test {
 protected:
  // The numbers of the nodes that have run, in order.
  static inline std::vector<u32> ran;
  static inline std::function<void(u32)> during;  // called by each operator with its number

  static void note(const Group&, const u32* arguments) {
    ran.push_back(arguments[0]);
    if (during) during(arguments[0]);
  }
  static void fail(const Group& g, const u32* arguments) {
    note(g, arguments);
    g.fail(41);
  }
  static void take_scratch(const Group& g, const u32* arguments) {
    note(g, arguments);
    EXPECT_EQ(g.shared<u32>(200).size(), 200U);  // 1024 bytes exist
  }
  static void note_group(const Group& g, const u32* arguments) {
    ran.push_back(arguments[0] + g.index());
    if (during) during(arguments[0] + g.index());
  }
  enum : u32 { kNote, kFail, kTakeScratch, kNoteGroup };

  static constexpr u32 kLaunch = 5;  // position

  // `deques`: as on the CPU; otherwise as on CUDA.
  explicit GraphOnWorkersTest(bool deques = false) : bench_(7, 2, 0, deques) {
    ran.clear();
    during = nullptr;
    entries_ = {test::entry_of<&note>(), test::entry_of<&fail>(), test::entry_of<&take_scratch>(), test::entry_of<&note_group>()};
    bench_.lease.operators = entries_.data();
    bench_.lease.lease_ticks = ~0U;
    for (u32 me = 0; me < std::size(worker_); ++me) {
      Worker& worker = worker_[me];
      bench_.set_up(&worker, me);
      worker.context.scratch = scratch_;
      worker.context.scratch_bytes = sizeof(scratch_);
    }
  }

  u32 add(u32 opcode = kNote) { return plan_.add(opcode, {static_cast<u32>(plan_.data.nodes.size())}); }
  u32 behind(std::initializer_list<u32> before, u32 opcode = kNote) {
    const u32 node = add(opcode);
    for (const u32 from : before) plan_.edge(from, node);
    return node;
  }
  u32 control_behind(std::initializer_list<u32> before) {
    const u32 node = plan_.control();
    for (const u32 from : before) plan_.edge(from, node);
    return node;
  }
  void make() { exec_.emplace(plan_, bench_); }

  void run_task(u32 me, const TaskQuads& task) {
    for (u32 i = 0; i < kMaxSlots * 4; ++i)
      std::memcpy(frame_at(&worker_[me], kFrame0)->word + i * 3, task.quad[i].word, sizeof(task.quad[i].word));
    run(bench_.lease, &worker_[me], kFrame0);
  }
  // Launches the exec on a worker. `changes`: pairs of a word's place and its value. A launch without groups is cancelled.
  void launch(u32 me = 0, const std::vector<u32>& changes = {}, u32 position = kLaunch, u32 groups = 1) {
    TaskQuads task{};
    const Header header{0, groups, 1, flag::share | flag::memory, 0, 0, source::launch};
    std::vector<u32> words{header.word0(),
                           header.word1(),
                           position,
                           static_cast<u32>(exec_->offset),
                           static_cast<u32>(exec_->offset >> 32U),
                           static_cast<u32>(changes.size() / 2)};
    words.insert(words.end(), changes.begin(), changes.end());
    for (std::size_t i = 0; i < words.size(); ++i) task.quad[i / 3].word[i % 3] = words[i];
    run_task(me, task);
  }
  // Runs at most `most` tasks of the ready queue.
  void run_ready(u32 me = 1, u32 most = ~0U) {
    TaskQuads task;
    for (u32 i = 0; i < most && ready_queue::try_take(bench_.lease, &task); ++i) {
      const Header header = Header::from(task.quad[0].word[0], task.quad[0].word[1]);
      if (header.slots > 1) sources::load_rest(bench_.lease, &task, header, task.quad[0].word[2]);
      run_task(me, task);
    }
  }
  // Makes the ready queue look full to nodes, and undoes that.
  void fill_queue() { bench_.control().tail.value += kMostQueuedNodes; }
  void empty_queue() { bench_.control().tail.value -= kMostQueuedNodes; }
  u32 queued() const { return bench_.control().tail.value - bench_.control().head.value; }
  u32 cell(u32 node) const { return exec_->layout.cell(node); }
  u32 overflow_top() const { return static_cast<u32>(exec_->head().overflow >> 32U); }
  bool complete() const { return bench_.complete(kLaunch); }
  // Expects that each of the nodes [0, count) has run once.
  static void expect_each_once(u32 count) {
    std::vector<u32> all(count);
    std::iota(all.begin(), all.end(), 0U);
    EXPECT_THAT(ran, testing::UnorderedElementsAreArray(all));
  }
  // Expects that no state of the launch is left, and that no place of the ready queue is lost.
  void expect_clean() const {
    EXPECT_EQ(exec_->head().pending, 0U);
    EXPECT_EQ(overflow_top(), 0U);
    EXPECT_EQ(bench_.control().spare_shares.value, most_spare_shares(bench_.lease.ring_shift));
    for (u32 node = 0; node < plan_.data.nodes.size(); ++node) {
      const NodeState& state = exec_->state(cell(node));
      EXPECT_EQ(state.arrivals, arrivals(state.in_degree)) << "node " << node << " is not armed for the next launch";
    }
  }

  test::Bench bench_;
  std::vector<const void*> entries_;
  Worker worker_[2]{};
  alignas(64) u8 scratch_[1024];
  test::GraphPlan plan_;
  std::optional<test::PlainExec> exec_;
};

}  // namespace dwell::device
