// Graphs of operators without a runtime, and their execs in plain memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <dwell/detail/graph_data.hpp>

#include "graph/layout.hpp"
#include "runtime/generation/shell.hpp"
#include "runtime/program/definition.hpp"
#include "tests/unit/bench.hpp"

namespace dwell::test {

struct GraphPlan {
  detail::GraphData data;

  // Adds a node of the operator with this opcode. Returns its number.
  std::uint32_t add(std::uint32_t opcode, const std::vector<std::uint32_t>& words = {}, std::uint32_t groups = 1,
                    const std::string& name = "") {
    know(opcode + 1);
    if (!name.empty()) data.names.push_back(name);
    data.nodes.push_back({static_cast<std::uint32_t>(data.words.size()), static_cast<std::uint32_t>(words.size()), opcode,
                          name.empty() ? detail::kNoName : static_cast<std::uint32_t>(data.names.size() - 1),
                          static_cast<std::uint16_t>(groups), 0});
    data.words.insert(data.words.end(), words.begin(), words.end());
    return static_cast<std::uint32_t>(data.nodes.size() - 1);
  }
  // Adds a control node or a host node. Returns its number.
  std::uint32_t control(std::uint32_t what = detail::kNoOperator) {
    data.nodes.push_back({static_cast<std::uint32_t>(data.words.size()), 0, what, detail::kNoName, 0, 0});
    return static_cast<std::uint32_t>(data.nodes.size() - 1);
  }
  // Adds a conditional node. Edges lead to its `node` and from its `end`.
  detail::GraphData::Branch branch(detail::BranchKind kind, const std::uint32_t& value, const std::vector<const GraphPlan*>& bodies) {
    static detail::Shell shell{nullptr, 0};
    static const detail::BufferUse use{&shell, 0};
    std::vector<const detail::GraphData*> graphs;
    for (const GraphPlan* const body : bodies) {
      know(static_cast<std::uint32_t>(body->data.operators.size()));
      graphs.push_back(&body->data);
    }
    const auto address = reinterpret_cast<std::uint64_t>(&value);
    return data.branches[data.add("branch", kind, detail::SliceParts(&use, detail::SpanWords::of(address, 1)), graphs)];
  }
  void edge(std::uint32_t before, std::uint32_t behind) { data.edges.emplace_back(before, behind); }

 private:
  // Adds the first `count` operators, which all plans share.
  void know(std::uint32_t count) {
    static std::vector<std::shared_ptr<detail::OperatorState>> all;
    while (all.size() < count) {
      all.push_back(std::make_shared<detail::OperatorState>());
      all.back()->name = "op" + std::to_string(all.size() - 1);
    }
    while (data.operators.size() < count) data.operators.push_back(all[data.operators.size()]);
  }
};

// An exec as laid out in the arena. The opcode of operator i is i.
struct PlainExec {
  // In its own memory at offset 0, for inspection.
  explicit PlainExec(const GraphPlan& plan)
      : layout(plan.data),
        own(static_cast<std::byte*>(std::aligned_alloc(256, (layout.bytes() + 255) / 256 * 256)), &std::free),
        memory(own.get()) {
    write(plan);
  }
  // In the arena of a bench, for launches.
  PlainExec(const GraphPlan& plan, Bench& bench) : layout(plan.data), own(nullptr, &std::free), memory(bench.take(layout.bytes())) {
    offset = static_cast<std::uint64_t>(memory - reinterpret_cast<std::byte*>(bench.lease.arena));
    write(plan);
  }

  device::GraphHead& head() const { return *reinterpret_cast<device::GraphHead*>(memory); }
  device::Slot& record(std::uint32_t cell) const { return reinterpret_cast<device::Slot*>(memory)[cell]; }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(memory); }
  // By cell.
  device::NodeState& state(std::uint32_t cell) const {
    return reinterpret_cast<device::NodeState*>(memory + head().states * device::kCell)[cell - device::kFirstRecord];
  }
  std::uint32_t edge(std::uint32_t i) const { return reinterpret_cast<const std::uint32_t*>(memory + head().edges * device::kCell)[i]; }
  device::Header header(std::uint32_t cell) const {
    const device::Quad& quad = record(cell).quad[0];
    return device::Header::from(quad.word[0], quad.word[1]);
  }
  // The cells of a record's successors, with kOnly.
  std::vector<std::uint32_t> successors(std::uint32_t cell) const {
    const device::Slot& from = record(cell);
    const std::uint32_t count = from.quad[1].lap;
    std::vector<std::uint32_t> all{from.quad[2].lap, from.quad[3].lap};
    if (count <= 2) {
      all.resize(count);
      return all;
    }
    all.clear();
    for (std::uint32_t i = 0; i < count; ++i) all.push_back(edge(from.quad[2].lap + i));
    return all;
  }

  // The successors of a branch for a value.
  std::vector<std::uint32_t> choice(std::uint32_t cell, std::uint32_t value) const {
    const auto argument = [&](std::uint32_t word) {
      const std::uint32_t at = device::kHeaderWords + word;
      return record(cell).quad[at / 3].word[at % 3];
    };
    const std::uint32_t at = argument(device::kBranchChoices) + std::min(value, argument(device::kBranchLast)) * device::kChoiceWords;
    std::vector<std::uint32_t> all{edge(at + 1), edge(at + 2)};
    if (edge(at) <= 2) {
      all.resize(edge(at));
      return all;
    }
    all.clear();
    for (std::uint32_t i = 0; i < edge(at); ++i) all.push_back(edge(edge(at + 1) + i));
    return all;
  }

  graph::Layout layout;
  std::unique_ptr<std::byte, decltype(&std::free)> own;
  std::byte* memory;
  std::uint64_t offset = 0;  // in its arena

 private:
  void write(const GraphPlan& plan) const {
    std::vector<std::uint32_t> opcodes(plan.data.operators.size());
    for (std::uint32_t i = 0; i < opcodes.size(); ++i) opcodes[i] = i;
    std::memset(memory, 0xA5, layout.bytes());  // simulates used memory
    layout.write(plan.data, opcodes, static_cast<std::uint32_t>(offset / device::kCell), memory);
  }
};

}  // namespace dwell::test
