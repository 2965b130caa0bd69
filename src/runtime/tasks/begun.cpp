#include "runtime/tasks/begun.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <dwell/device/status.hpp>

#include "device/cancels.hpp"
#include "device/graph_places.hpp"
#include "runtime/device/sources.hpp"

namespace dwell::runtime {

namespace {

namespace flag = device::flag;
using device::GraphHead;
using device::Header;
using device::Slot;
using device::Spawned;

std::string counted(std::uint64_t count, const char* one, const char* many) { return std::to_string(count) + (count == 1 ? one : many); }

}  // namespace

class BegunTasks::Search {
 public:
  Search(const Parts& parts, std::uint64_t base)
      : parts_(parts), layout_(parts.arena.layout()), base_(base), control_(all<device::Control>(layout_.control, 1).front()) {}

  Reaper::Begun run() {
    find_launches();
    find_makers();
    find_queued();
    find_gangs_in_line();
    find_kept_nodes();
    for (const auto& [base, launch] : launches_)
      if (launch.position) note(*launch.position, how_far(base, launch));
    return std::move(begun_);
  }

 private:
  // An exec that a launch owns.
  struct Launch {
    GraphHead head;
    std::optional<std::uint64_t> position;  // of a launch in the ring
    std::vector<std::uint32_t> ready;       // cells of nodes that had not run, or whose successors had not
  };

  template <class T>
  std::vector<T> copied(std::uint64_t offset, std::size_t count) const {
    std::vector<T> to(count);
    if (count != 0) parts_.backend.copy_to_host(to.data(), base_ + offset, count * sizeof(T));
    return to;
  }
  // Reads `count` elements of a part of the arena, from element `first`.
  template <class T>
  std::vector<T> all(std::uint64_t part, std::size_t count, std::size_t first = 0) const {
    return copied<T>(part + first * sizeof(T), count);
  }
  std::uint32_t index(std::uint32_t position) const { return device::index_of(position, layout_.ring_shift); }

  // Returns the task in flight whose position has these low 32 bits.
  std::optional<std::uint64_t> open(std::uint32_t low) const {
    const SubmissionQueue& queue = parts_.ring.queue();
    const std::uint64_t reaped = queue.reaped();
    const std::uint64_t position = reaped + static_cast<std::uint32_t>(low - static_cast<std::uint32_t>(reaped));
    if (position >= queue.tail() || queue.done(position)) return std::nullopt;
    return position;
  }
  template <class Call>
  void for_each_open(Call call) const {
    const SubmissionQueue& queue = parts_.ring.queue();
    for (std::uint64_t position = queue.reaped(); position < queue.tail();) {
      const std::optional<Header> header = parts_.ring.header_at(position);
      if (header && source_of(*header).is_task && !queue.done(position)) call(position, *header);
      position += header ? header->slots : 1;
    }
  }

  // Returns the exec at `base`; null when no launch owns it.
  Launch* exec_at(std::uint64_t base) {
    const auto [at, fresh] = launches_.try_emplace(base);
    if (fresh) at->second.head = copied<GraphHead>(base, 1).front();
    return static_cast<std::uint32_t>(at->second.head.pending) != 0 ? &at->second : nullptr;
  }
  // As above, for an offset inside the exec. Sets `cell`.
  Launch* exec_around(std::uint64_t offset, std::uint32_t* cell) {
    std::uint64_t base = 0;
    const auto [exec, its] = parts_.graphs.find(offset, &base);
    *cell = its;
    return exec == nullptr ? nullptr : exec_at(base);
  }
  void note(std::uint64_t position, std::string how_far) {
    begun_.insert_or_assign(position, Reaper::Progress{status::interrupted, std::move(how_far)});
  }
  void note_node(std::uint64_t offset) {
    std::uint32_t cell = 0;
    if (Launch* const launch = exec_around(offset, &cell); launch != nullptr) launch->ready.push_back(cell);
  }

  void find_launches() {
    for_each_open([this](std::uint64_t position, const Header& header) {
      if (!source_of(header).launches) return;
      const std::optional<RingView::Task> task = parts_.ring.at(position);
      Launch* const launch = task ? exec_at(task->graph) : nullptr;
      if (launch == nullptr || Header::from(0, launch->head.word1).is_spawned()) return;
      if (launch->head.position == static_cast<std::uint32_t>(position)) launch->position = position;
    });
  }

  // ---- Tasks that have made others ---------------------------------------------------------------------------------------------

  void find_makers() {
    const std::uint32_t used = std::min(control_.lists.fresh, layout_.spawned_records);
    records_ = all<Spawned>(layout_.spawned, used);
    std::map<std::uint64_t, std::uint64_t> left;  // incomplete descendants, by position
    std::vector<std::uint32_t> root(used);
    for (std::uint32_t number = 1; number < used; ++number) {
      const Spawned& record = records_[number];
      if (record.parent == Spawned::kNobody) continue;
      if (record.parent == 0) {
        if ((record.words[1] & 0xFU) == 0) continue;  // never used
        if (const std::optional<std::uint64_t> task = ticket_of(number)) left.try_emplace(*task);
        const Header header = Header::from(record.words[0], record.words[1]);
        if (header.is_node()) note_node(device::offset_of(record.words[2]));
      } else if (const std::optional<std::uint64_t> task = ticket_of(root_of(number, root))) {
        ++left[*task];
      }
    }
    for (const auto& [position, count] : left)
      note(position, count == 0 ? std::string("it was to go on (Group::then)")
                                : counted(count, " task that descends from it was", " tasks that descend from it were") + " not complete");
  }

  // Returns the record of the root of the task in `number`. `known`: cached results, 0 for others.
  std::uint32_t root_of(std::uint32_t number, std::vector<std::uint32_t>& known) const {
    std::uint32_t at = number;
    while (known[at] == 0 && records_[at].parent != 0) at = records_[at].parent;
    const std::uint32_t root = known[at] != 0 ? known[at] : at;
    while (number != root && known[number] == 0) {
      known[number] = root;
      number = records_[number].parent;
    }
    return root;
  }

  // Returns the ring task from which the one with this record descends, as device::graph::find_ticket.
  std::optional<std::uint64_t> ticket_of(std::uint32_t number) {
    for (std::size_t rounds = 0; rounds < records_.size(); ++rounds) {
      while (number < records_.size() && records_[number].parent != 0) number = records_[number].parent;
      if (number >= records_.size()) return std::nullopt;
      const Spawned& record = records_[number];
      const Header header = Header::from(record.words[0], record.words[1]);
      if (!header.is_node()) return open(record.words[2]);
      std::uint32_t cell = 0;
      const Launch* const launch = exec_around(device::offset_of(record.words[2]), &cell);
      if (launch == nullptr) return std::nullopt;
      if (!Header::from(0, launch->head.word1).is_spawned()) return open(launch->head.position);
      number = launch->head.position;
    }
    return std::nullopt;
  }

  // ---- The content of the queues -------------------------------------------------------------------------------------------------

  void find_queued() {
    const device::ArenaHeader& layout = layout_;
    // The queue has megabytes, mostly unused.
    const auto look_at_places = [&](std::uint32_t place, std::uint32_t count) {
      while (count != 0) {
        const std::uint32_t first = device::index_of(place, layout.queue_shift);
        const std::uint32_t run = std::min(count, (1U << layout.queue_shift) - first);
        for (const Slot& slot : all<Slot>(layout.queue, run, first))
          if (slot.quad[0].lap == device::lap_of(place++, layout.queue_shift)) look_at(slot);
        count -= run;
      }
    };
    // Claimed places, and unclaimed ones.
    for (const std::uint64_t claim : all<std::uint64_t>(layout.claims, layout.max_workers))
      if ((claim & device::kClaimed) != 0) look_at_places(static_cast<std::uint32_t>(claim), 1);
    const std::uint32_t head = control_.head.value;
    const std::uint32_t tail = control_.tail.value;
    if (device::is_after(tail, head)) look_at_places(head, tail - head);
    const std::size_t slots = device::level_slots_of(layout.level_shift);
    const std::vector<std::uint32_t> states = all<std::uint32_t>(layout.level_states, slots);
    const std::vector<Slot> levels = all<Slot>(layout.level_slots, slots);
    for (std::size_t at = 0; at < slots; ++at)
      if (states[at] == device::levels::kFull) look_at(levels[at]);
  }

  void look_at(const Slot& slot) {
    const std::uint32_t* const words = slot.quad[0].word;
    const Header header = Header::from(words[0], words[1]);
    if (header.is_spawned()) return;
    if (header.is_node()) return note_node(device::offset_of(words[2]));
    if ((header.flags & (flag::share | flag::wide)) != (flag::share | flag::wide) || header.groups == 0) return;
    const std::optional<std::uint64_t> position = open(words[2]);
    if (!position) return;
    if (header.is_gang()) return note_gang(*position);
    const device::Wide wide = all<device::Wide>(layout_.wide, 1, index(words[2])).front();
    if (wide.next == 0 || wide.next >= device::cancels::kAllDrawn) return;
    // All drawn groups have ended. The rest may be shares without a group.
    if (wide.next >= header.groups)
      begun_.insert_or_assign(*position, Reaper::Progress{wide.status, ""});
    else
      note(*position, std::to_string(wide.next) + " of its " + std::to_string(header.groups) + " groups had run");
  }

  // For a gang that was shared out: before, its saved state is another task's.
  void note_gang(std::uint64_t position) {
    const std::uint32_t at = index(static_cast<std::uint32_t>(position));
    if (all<device::GangState>(layout_.gang_states, 1, at).front().resumed != 0) note(position, "it had yielded");
  }

  void find_gangs_in_line() {
    for_each_open([this](std::uint64_t position, const Header& header) {
      if (!source_of(header).needs_all) return;
      const auto low = static_cast<std::uint32_t>(position);
      const device::Quad head = all<Slot>(layout_.held, 1, index(low)).front().quad[0];
      const bool held = head.lap == device::lap_of(low, layout_.ring_shift) && head.word[2] == low;
      if (held && (head.word[1] & flag::share << 4U) != 0) note_gang(position);
    });
  }

  void find_kept_nodes() {
    if (launches_.empty()) return;
    for (const device::NodeDeque& deque : all<device::NodeDeque>(layout_.deques, layout_.max_deques))
      for (std::uint64_t at = deque.oldest; at != deque.newest; ++at)
        note_node(device::offset_of(deque.node[at % device::NodeDeque::kMost] & ~device::kPoisoned));
  }

  std::string how_far(std::uint64_t base, const Launch& launch) const {
    const auto [exec, cell] = parts_.graphs.find(base);
    // Nodes in the overflow cannot be identified.
    if (exec == nullptr || launch.head.overflow >> 32U != 0) return "some of its nodes may have run";
    const Exec::Left left = exec->left(launch.ready);
    return "at most " + std::to_string(left.nodes) + " of its " + counted(left.all, " node was", " nodes were") + " not complete";
  }

  const Parts& parts_;
  const device::ArenaHeader& layout_;
  const std::uint64_t base_;  // address of the arena
  const device::Control control_;
  std::vector<Spawned> records_;
  std::map<std::uint64_t, Launch> launches_;  // by the exec's begin
  Reaper::Begun begun_;
};

Reaper::Begun BegunTasks::find() const {
  const SubmissionQueue& queue = parts_.ring.queue();
  if (queue.reaped() == queue.tail()) return {};
  return parts_.arena.at_rest([this](const backend::Allocation& memory) { return Search(parts_, memory.device()).run(); });
}

}  // namespace dwell::runtime
