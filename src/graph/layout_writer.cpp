// Writes a graph's exec in its layout of device memory.
#include <array>
#include <cstring>
#include <span>

#include <dwell/device/operator.hpp>

#include "graph/layout.hpp"

namespace dwell::graph {

using detail::GraphData;
using device::Header;
using device::kCell;
using device::kFewSuccessors;
using device::kFirstRecord;
using device::kHeaderWords;
using device::kOnly;
using device::kSlotWords;
namespace flag = device::flag;
namespace source = device::source;

// Writes whole records, each byte once: a graph may be instantiated for a single launch.
class Layout::Writer {
 public:
  Writer(const Layout& layout, const GraphData& graph, std::span<const std::uint32_t> opcodes, std::uint32_t first, std::byte* to)
      : at_(layout), graph_(graph), opcodes_(opcodes), first_(first), to_(to) {}

  void write() {
    device::GraphHead head{};
    head.states = at_.states_;
    head.edges = at_.edges_;
    head.sinks = graph_.nodes.empty() ? 1 : at_.sinks_;  // the first record is a sink then
    head.start = kFirstRecord;
    std::memcpy(to_, &head, sizeof(head));
    clear(at_.states_, at_.cells_ - at_.states_);
    write_start();
    for (std::uint32_t node = 0; node < graph_.nodes.size(); ++node) write_node(node);
  }

 private:
  // Links 1 to 3 of a record.
  using Links = std::array<std::uint32_t, 3>;

  void write_start() {
    const Header header{0, 0, 1, flag::share, 0, 0, source::control};
    write_record(kFirstRecord, header, links_to(at_.starts_, true), {});
    if (at_.starts_.size() > kFewSuccessors) clear(kFirstRecord + 1, 1);
  }

  void write_node(std::uint32_t node) {
    const GraphData::NodeData& data = graph_.nodes[node];
    const std::uint32_t cell = at_.cell_[node];
    const std::uint32_t slots = slots_for(data.words);
    std::uint32_t flags = data.flags & Header::kFlagMask;
    // A node of several groups becomes one when these are shared out.
    const bool control = !data.is_alone();
    if (control) flags |= flag::share;
    if (data.is_gang()) flags |= flag::control::gang;
    if (at_.chained_[node]) flags |= flag::node::chain;
    const bool is_branch = data.op == detail::kBranch;
    if (is_branch) flags |= flag::control::branch;
    const bool is_host = data.op == detail::kHostNode;
    if (is_host) flags |= flag::control::host;
    if (data.op == detail::kClock) flags |= flag::control::clock;
    const Header header{data.groups == 0 ? 0 : opcodes_[data.op], data.groups, slots, flags, 0, 0,
                        control ? source::control : source::node};
    const std::span words = std::span(graph_.words).subspan(data.first_word, data.words);
    const GraphData::Branch* const branch = is_branch ? graph_.branch_of(node) : nullptr;
    const Links links = is_branch ? links_past(*branch) : links_to(at_.successors(node), false);
    if (data.words > detail::kMaxWords) {
      const std::uint64_t block = device::offset_of(first_ + at_.block_[node]);
      const std::uint32_t of_block[2] = {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32U) | device::kInArena};
      write_record(cell, header, links, of_block);
      std::memcpy(to_ + at_.word_at(graph_, node, 0), words.data(), words.size_bytes());
    } else {
      write_record(cell, header, links, words);
    }
    clear(cell + slots, at_.shared_cells(graph_, node));
    if (is_branch) write_choices(*branch);
    if (is_host) store(at_.word_at(graph_, node, 0), host_nodes_++);
    if (at_.in_degree_[node] > 1) {
      const device::NodeState state{device::arrivals(at_.in_degree_[node]), at_.in_degree_[node], 0};
      std::memcpy(to_ + static_cast<std::size_t>(at_.states_) * kCell + (cell - kFirstRecord) * sizeof(state), &state, sizeof(state));
    }
  }

  void write_record(std::uint32_t cell, const Header& header, const Links& links, std::span<const std::uint32_t> arguments) {
    std::uint32_t payload[device::kMaxSlots * kSlotWords];
    payload[0] = header.word0();
    payload[1] = header.word1();
    payload[2] = first_ + cell;
    std::uint32_t words = kHeaderWords;
    for (const std::uint32_t argument : arguments) payload[words++] = argument;
    while (words < header.slots * kSlotWords) payload[words++] = 0;
    std::byte* to = to_ + static_cast<std::size_t>(cell) * kCell;
    const std::uint32_t link[4] = {cell, links[0], links[1], links[2]};
    for (std::uint32_t i = 0; i < header.slots * 4; ++i, to += sizeof(device::Quad)) {
      const std::uint32_t quad[4] = {i < 4 ? link[i] : 0, payload[3 * i], payload[3 * i + 1], payload[3 * i + 2]};
      std::memcpy(to, quad, sizeof(quad));
    }
  }

  Links links_to(std::span<const std::uint32_t> successors, bool from_start) {
    Links link{static_cast<std::uint32_t>(successors.size()), 0, 0};
    if (successors.size() > 2) {
      link[1] = edge_;
      for (const std::uint32_t node : successors) store_edge(edge_to(node, from_start));
    } else {
      for (std::size_t i = 0; i < successors.size(); ++i) link[1 + i] = edge_to(successors[i], from_start);
    }
    return link;
  }
  // Links of a branch when no body runs.
  Links links_past(const GraphData::Branch& branch) const { return {1, at_.cell_[branch.end] | kOnly, 0}; }

  void write_choices(const GraphData::Branch& branch) {
    std::span<const std::uint32_t> successors = at_.successors(branch.node);
    const std::uint32_t choices = edge_;
    edge_ += branch.values() * device::kChoiceWords;
    std::vector<Links> of_body;
    for (const GraphData::Body& body : branch.bodies) {
      of_body.push_back(links_to(successors.first(body.sources), false));
      successors = successors.subspan(body.sources);
    }
    of_body.push_back(links_past(branch));
    const std::uint32_t next = std::exchange(edge_, choices);
    for (std::uint32_t value = 0; value < branch.values(); ++value)
      for (const std::uint32_t word : of_body[branch.body_for(value)]) store_edge(word);
    edge_ = next;
    const std::size_t record = static_cast<std::size_t>(at_.cell_[branch.node]) * kCell;
    store(record + payload_at(kHeaderWords + device::kBranchLast), branch.values() - 1);
    store(record + payload_at(kHeaderWords + device::kBranchChoices), choices);
  }

  std::uint32_t edge_to(std::uint32_t successor, bool from_start) const {
    const std::uint32_t node = successor & ~kOnly;
    return at_.cell_[node] | (from_start || (successor & kOnly) != 0 || at_.in_degree_[node] == 1 ? kOnly : 0);
  }
  void store_edge(std::uint32_t value) { store(static_cast<std::size_t>(at_.edges_) * kCell + sizeof(value) * edge_++, value); }
  void store(std::size_t at, std::uint32_t value) { std::memcpy(to_ + at, &value, sizeof(value)); }
  void clear(std::uint32_t cell, std::uint32_t cells) {
    std::memset(to_ + static_cast<std::size_t>(cell) * kCell, 0, static_cast<std::size_t>(cells) * kCell);
  }

  const Layout& at_;
  const GraphData& graph_;
  std::span<const std::uint32_t> opcodes_;
  std::uint32_t first_;  // the exec's first cell
  std::byte* to_;
  std::uint32_t edge_ = 0;  // index of the next edge
  std::uint32_t host_nodes_ = 0;
};

void Layout::write(const GraphData& graph, std::span<const std::uint32_t> opcodes, std::uint32_t first, std::byte* to) const {
  Writer(*this, graph, opcodes, first, to).write();
}

}  // namespace dwell::graph
