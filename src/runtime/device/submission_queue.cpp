#include "runtime/device/submission_queue.hpp"

#include <algorithm>
#include <utility>

#include <dwell/device/status.hpp>

#include "device/levels.hpp"
#include "runtime/device/sources.hpp"

namespace dwell::runtime {

using device::Header;
namespace flag = device::flag;
namespace source = device::source;

namespace {

static_assert(detail::kLink == flag::link && detail::kDrain == flag::drain && detail::kWide == flag::wide &&
              detail::kSystem == flag::system && detail::kMemory == flag::memory && detail::kHard == flag::hard &&
              detail::kAfter == flag::after && detail::kShare == flag::share && detail::kGraph == source::launch << detail::kSourceAt &&
              detail::kGang == source::gang << detail::kSourceAt && detail::kRepeated == source::repeated << detail::kSourceAt &&
              detail::kSource == Header::kSourceMask << detail::kSourceAt && detail::kNormalPriority == device::levels::kNormal &&
              detail::kLevel == Header::kLevelMask << detail::kLevelAt);
}  // namespace

SubmissionQueue::SubmissionQueue(device::Slot* ring, device::Completion* completions, device::LeaseReport& report, std::uint32_t shift,
                                 std::uint64_t first, Reaper::NameOf name_of)
    : slots_(ring, shift),
      first_(first),
      reaper_(ring, completions, shift, first, std::move(name_of)),
      cancels_(report),
      tail_(first),
      order_(slots_, reaper_) {
  number_ = submitters::open(*this);
}

SubmissionQueue::~SubmissionQueue() { submitters::close(number_); }

class SubmissionQueue::Tail {
 public:
  // `me` is the calling thread's submitter, or null.
  Tail(SubmissionQueue& queue, Submitter* me) : queue_(queue), me_(me) {
    if (me != nullptr && queue.lone_.load(std::memory_order_relaxed) == me) {
      position_ = me->enter();
      by_submitter_ = me->end.load(std::memory_order_relaxed) != 0;
      if (by_submitter_) {
        me->note_plain();
        return;
      }
      me->leave(position_);  // somebody revokes its places
    }
    queue.lock_.lock();
    queue.take_tail_back(me);
    if (me != nullptr) me->note_plain();
    if (me != nullptr && me->listed) queue.pass_over_rest(*me);
    position_ = queue.tail_.load(std::memory_order_relaxed);
  }
  Tail(const Tail&) = delete;
  Tail& operator=(const Tail&) = delete;
  ~Tail() {
    if (by_submitter_) {
      me_->word1 = queue_.order_.plain_word1();
      me_->previous_end = position_;
      me_->leave(position_);
    } else {
      queue_.tail_.store(position_, std::memory_order_release);
      queue_.lock_.unlock();
    }
  }

  std::uint64_t position() const { return position_; }

  // From here on no submitter has places before the tail.
  void stand_alone() {
    if (!by_submitter_) queue_.take_all_back();  // a submitter that has the tail is the only one with places
  }

  // Returns whether there is room for tasks of `first` and `second` slots, wherever windows end.
  bool has_room(std::uint32_t first, std::uint32_t second) {
    const std::uint32_t most = first + second + 2 * (device::kMaxSlots - 1);
    return queue_.room(position_, most) >= most;
  }

  // Reserves contiguous places in one window, with a skip entry before if the window ends too soon. Nothing if there is no room.
  std::optional<std::uint64_t> reserve(std::uint32_t slots) {
    const auto offset = static_cast<std::uint32_t>(position_ % device::kWindow);
    const std::uint32_t padding = offset + slots > device::kWindow ? device::kWindow - offset : 0;
    if (queue_.room(position_, padding + slots) < padding + slots) return std::nullopt;
    queue_.count_other(padding + slots - 1);
    if (padding != 0) queue_.skip(position_, Header{0, 0, padding, 0, queue_.order_.drains(), 0, source::pass});
    const std::uint64_t place = position_ + padding;
    position_ = place + slots;
    return place;
  }

 private:
  SubmissionQueue& queue_;
  Submitter* me_;
  std::uint64_t position_ = 0;
  bool by_submitter_ = false;
};

std::optional<bool> SubmissionQueue::names(std::uint64_t position, std::uint64_t begin, std::uint64_t end) const {
  const auto word_at = [&](std::uint32_t i) { return slots_.argument(position, i); };
  const std::optional<Header> header = slots_.header(position);
  if (!header) return std::nullopt;
  if ((header->flags & flag::memory) == 0) return false;
  if (source_of(*header).launches) return launch_names_(word_at(0) | static_cast<std::uint64_t>(word_at(1)) << 32U, begin, end);
  const std::uint32_t words = header->slots * device::kSlotWords - device::kHeaderWords;
  // Only the signature shows where the spans are: any two words that form an address in the range count.
  std::uint32_t low = word_at(0);
  for (std::uint32_t i = 1; i < words; ++i) {
    const std::uint32_t high = word_at(i);
    const std::uint64_t address = low | static_cast<std::uint64_t>(high & 0xFFFFFU) << 32U;
    if (address >= begin && address < end) return true;
    low = high;
  }
  return false;
}

std::uint64_t SubmissionQueue::filled() {
  const std::lock_guard guard(lock_);
  // A submitter never goes back: an earlier value of its place is on the safe side.
  if (const Submitter* const lone = lone_.load(std::memory_order_relaxed)) return lone->place();
  std::uint64_t first = tail_.load(std::memory_order_relaxed);
  for (const Submitter* const submitter : shared_)
    if (submitter->place() < submitter->given) first = std::min(first, submitter->place());
  return first;
}

bool SubmissionQueue::reap() noexcept {
  pass_over_idle();
  reap_done();
  return reaped() == tail();
}

void SubmissionQueue::close() noexcept {
  {
    Tail tail(*this, nullptr);
    tail.stand_alone();
    closed_.store(true, std::memory_order_relaxed);
  }
  const std::uint64_t end = tail();
  for (std::uint64_t at = reaped(); at < end;) {
    if (reaper_.done(at)) {
      ++at;
      continue;
    }
    // Tasks that are not plain are written without the lock.
    std::optional<Header> header;
    spin_until([&] { return (header = slots_.header(at)).has_value(); });
    at += header->slots;
  }
}

void SubmissionQueue::complete_all(std::optional<Reaper::Begun> begun) noexcept { reaper_.complete_all(tail(), std::move(begun)); }

bool SubmissionQueue::roomy() {
  if (closed_.load(std::memory_order_relaxed)) return false;
  const std::uint64_t few = capacity() / 8;
  const std::uint64_t in_flight = tail() - reaped();
  if (capacity() - in_flight >= few) return true;
  reaper_.try_reap(tail());
  return capacity() - (tail() - reaped()) >= few;
}

std::uint64_t SubmissionQueue::submitted() {
  const std::lock_guard guard(lock_);
  std::uint64_t unused = 0;
  for (const Submitter* const submitter : shared_) unused += submitter->given - std::min(submitter->given, submitter->place());
  return tail() - first_ - not_tasks_.load(std::memory_order_relaxed) - unused;
}

// ---- The tail, and the places assigned to submitters ----

std::uint64_t SubmissionQueue::room(std::uint64_t tail, std::uint64_t wanted) {
  const auto free = [&] { return capacity() - (tail - reaped()); };
  if (closed_.load(std::memory_order_relaxed)) return 0;
  if (free() < wanted) reap_done();
  return free();
}

std::uint64_t SubmissionQueue::take(Submitter& me, std::uint64_t wanted, Clock::time_point now, std::uint64_t* first) {
  if (lone_.load(std::memory_order_relaxed) == &me) {  // its places are used up, and it continues at its position
    *first = me.place();
    const std::uint64_t free = room(*first, wanted);
    if (free == 0) return 0;
    me.end.store((*first + free) * 2, std::memory_order_relaxed);
    me.enter();
    return std::min(wanted, free);
  }
  if (me.listed) std::erase(shared_, &me);
  me.listed = false;
  take_tail_back(&me);
  // Each scan reads a cache line of every submitter, which its thread writes.
  if (now >= next_look_ || turns_ + 1 >= turns_to_tail_) pass_over_standing(now);

  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  const std::uint64_t free = room(tail, std::max<std::uint64_t>(wanted, me.size));
  if (free == 0) {
    me.was_full = true;
    return 0;
  }
  if (!me.was_full) me.size = now - me.returned < me.size * fast_pace ? std::min(me.size * 2, kMostPlaces) : 1;
  me.was_full = false;
  turns_ = last_given_ == &me ? turns_ + 1 : 1;
  last_given_ = &me;
  me.note_plain();
  me.previous_end = tail;
  me.word1 = order_.plain_word1();
  *first = tail;
  const std::uint64_t now_used = std::min(wanted, free);
  if (kHaveMembarrier && shared_.empty() && turns_ >= turns_to_tail_) {
    tail_since_ = tail;
    me.at.store(tail * 2 + 1, std::memory_order_relaxed);
    me.end.store((tail + free) * 2, std::memory_order_relaxed);
    lone_.store(&me, std::memory_order_release);
    return now_used;
  }
  const std::uint64_t given = kHaveMembarrier ? std::min(std::max<std::uint64_t>(wanted, me.size), free) : now_used;
  me.at.store(tail * 2 + 1, std::memory_order_relaxed);
  me.end.store((tail + given) * 2, std::memory_order_relaxed);
  me.given = tail + given;
  me.seen = (tail + now_used) * 2;
  me.since = me.seen_since = now;
  tail_.store(me.given, std::memory_order_release);
  if (given > now_used) {
    me.listed = true;
    shared_.push_back(&me);
    shared_count_.store(static_cast<std::uint32_t>(shared_.size()), std::memory_order_relaxed);
  }
  return now_used;
}

void SubmissionQueue::take_tail_back(const Submitter* me) {
  Submitter* lone = lone_.load(std::memory_order_relaxed);
  if (lone == nullptr || lone == me) return;
  take_back(&lone, 1);
  const std::uint64_t tail = lone->place();
  tail_.store(tail, std::memory_order_release);
  lone_.store(nullptr, std::memory_order_release);
  // Revoking is expensive: the less a submitter has used the tail, the longer until one gets it again.
  if (me == nullptr) return;
  const bool used = tail - tail_since_ > 64ULL * turns_to_tail_;
  turns_to_tail_ = used ? kFewestTurns : std::clamp(turns_to_tail_ * 2, kFewestTurns, kMostTurns);
}

void SubmissionQueue::take_back(Submitter* const* submitters, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) submitters[i]->end.store(0, std::memory_order_relaxed);
  // From here on their threads find no places, or are visibly inside.
  membarrier();
  for (std::size_t i = 0; i < count; ++i) spin_until([&] { return !submitters[i]->inside(); });
}

void SubmissionQueue::pass_over_rest(Submitter& submitter) {
  submitter.end.store(0, std::memory_order_relaxed);
  submitter.size = 1;
  pass_over(submitter.place(), submitter.given);
  submitter.listed = false;
  std::erase(shared_, &submitter);
  shared_count_.store(static_cast<std::uint32_t>(shared_.size()), std::memory_order_relaxed);
}

void SubmissionQueue::take_all_back() {
  if (shared_.empty()) return;
  take_back(shared_.data(), shared_.size());
  while (!shared_.empty()) pass_over_rest(*shared_.back());
}

bool SubmissionQueue::pass_over_standing(Clock::time_point now) {
  next_look_ = now + kIdle;
  std::erase_if(shared_, [](Submitter* submitter) {
    const std::uint64_t at = submitter->at.load(std::memory_order_relaxed);
    submitter->listed = at % 2 != 0 || at / 2 < submitter->given;
    return !submitter->listed;
  });
  // Moves idle submitters to the end.
  const auto standing = std::partition(shared_.begin(), shared_.end(), [&](Submitter* submitter) {
    const std::uint64_t at = submitter->at.load(std::memory_order_relaxed);
    const bool stands =
        (at == submitter->seen && now - submitter->seen_since > kIdle) || now - submitter->since > 2 * submitter->size * fast_pace;
    if (at != submitter->seen) {
      submitter->seen = at;
      submitter->seen_since = now;
    }
    return !stands;
  });
  const auto first = static_cast<std::size_t>(standing - shared_.begin());
  shared_count_.store(static_cast<std::uint32_t>(shared_.size()), std::memory_order_relaxed);
  if (first == shared_.size()) return false;
  const std::uint64_t others = not_tasks_.load(std::memory_order_relaxed);
  take_back(shared_.data() + first, shared_.size() - first);
  while (shared_.size() > first) pass_over_rest(*shared_.back());
  return not_tasks_.load(std::memory_order_relaxed) != others;
}

bool SubmissionQueue::rest_slowly() {
  Submitter* const me = CurrentSubmitter::mine.queue == number_ ? CurrentSubmitter::mine.submitter : submitters::find(number_);
  if (me == nullptr || me->at.load(std::memory_order_relaxed) >= me->end.load(std::memory_order_relaxed)) return false;
  const std::lock_guard guard(lock_);
  if (!me->listed) return false;
  pass_over_rest(*me);
  return true;
}

bool SubmissionQueue::pass_over_idle_slowly() {
  if (!lock_.try_lock()) return false;  // its holder scans too, or somebody will soon
  const std::lock_guard guard(lock_, std::adopt_lock);
  return pass_over_standing(Clock::now());
}

Submitter* SubmissionQueue::add() {
  if (unused_.empty()) {
    submitters_.reserve(submitters_.size() + 1);
    unused_.reserve(submitters_.size() + 1);  // so that remove never fails
    {
      const std::lock_guard guard(lock_);
      shared_.reserve(submitters_.size() + 1);
    }
    unused_.push_back(submitters_.emplace_back(std::make_unique<Submitter>()).get());
  }
  Submitter* const submitter = unused_.back();
  unused_.pop_back();
  return submitter;
}

void SubmissionQueue::remove(Submitter& submitter) {
  const std::lock_guard guard(lock_);
  if (lone_.load(std::memory_order_relaxed) == &submitter) {
    tail_.store(submitter.place(), std::memory_order_release);
    lone_.store(nullptr, std::memory_order_release);
  }
  if (submitter.listed) pass_over_rest(submitter);
  if (last_given_ == &submitter) last_given_ = nullptr;
  submitter.end.store(0, std::memory_order_relaxed);
  submitter.any = submitter.was_full = false;
  submitter.previous_end = submitter.place();
  submitter.size = 1;
  unused_.push_back(&submitter);
}

std::uint64_t SubmissionQueue::switch_aliases(std::span<const Switch> switches) {
  Tail tail(*this, submitters::find(number_));
  tail.stand_alone();  // a task at a place assigned before would run the new opcode before others with the old one
  for (const auto& [alias, opcode] : switches) alias->store(opcode, std::memory_order_relaxed);
  switches_.store(switches_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  return tail.position();
}

void SubmissionQueue::count_other(std::uint64_t slots) {
  not_tasks_.store(not_tasks_.load(std::memory_order_relaxed) + slots, std::memory_order_relaxed);
}

// ---- Slots ----

void SubmissionQueue::pass_over(std::uint64_t first, std::uint64_t last) {
  if (first >= last) return;
  count_other(last - first);
  for (std::uint32_t slots = 0; first < last; first += slots) {
    const std::uint64_t in_window = device::kWindow - first % device::kWindow;
    slots = static_cast<std::uint32_t>(std::min<std::uint64_t>({last - first, in_window, device::kMaxSlots}));
    skip(first, Header{0, 0, slots, 0, order_.drains(), 0, source::pass});
  }
}

void SubmissionQueue::skip(std::uint64_t position, const Header& header, std::uint32_t word2) {
  complete_rest(position, header.slots);
  slots_.write_entry(position, header, word2);
}

void SubmissionQueue::write(std::uint64_t position, const TaskHead& head, const detail::Task& task, const WaitingFor& list) {
  complete_rest(position, head.header.slots);
  slots_.write(position, head, task, list);
}

void SubmissionQueue::complete_rest(std::uint64_t position, std::uint32_t slots) {
  for (std::uint32_t slot = 1; slot < slots; ++slot) reaper_.complete_here(position + slot, status::ok);
}

void SubmissionQueue::write_slots(std::uint64_t first, const detail::FirstSlot* slots, std::size_t count, std::uint32_t opcode,
                                  std::uint32_t word1) {
  if (stamped_below_.load(std::memory_order_relaxed) != 0) {
    for (std::size_t i = 0; i < count; ++i)
      if (is_sampled(first + i)) take_sample(first + i, opcode, slots[i]);
  }
  slots_.write_plain(first, slots, count, opcode, word1);
}

bool SubmissionQueue::try_submit(const std::atomic<std::uint32_t>& alias, const detail::Task& task, std::uint64_t* position,
                                 std::uint64_t switches) {
  if (task.plain() && switches == kAnySwitches) return try_submit_plain(alias, &task.first, 1, position) != 0;
  *position = kNoRoom;
  return place(task, &alias, switches, position);
}

bool SubmissionQueue::try_launch(const detail::Task& task, std::uint64_t switches, std::uint64_t* position) {
  *position = kNoRoom;
  return place(task, nullptr, switches, position);
}

bool SubmissionQueue::place(const detail::Task& task, const std::atomic<std::uint32_t>* alias, std::uint64_t switches,
                            std::uint64_t* position) {
  constexpr std::uint32_t kOrder = detail::kLink | detail::kHard | detail::kDrain | detail::kAfter;
  WaitingFor tasks;
  if (task.waits != nullptr) {
    for (std::uint32_t i = 0; i < task.waits->count; ++i)
      tasks.add(task.waits->position[i] & detail::kPosition,
                (task.waits->any_result >> i & 1U) != 0 ? WaitingFor::Kind::hard : WaitingFor::Kind::soft);
    order_.drop_ended(tasks);
    const bool plain = tasks.count == 0 && task.words <= detail::kFirstSlotWords &&
                       (task.flags & ((kOrder & ~detail::kAfter) | detail::kSource | detail::kLevel)) == 0;
    if (plain && alias != nullptr && switches == kAnySwitches) return try_submit_plain(*alias, &task.first, 1, position) != 0;
  }
  Submitter* const me = submitters::mine(*this, number_);
  std::optional<std::uint64_t> place;
  std::optional<std::uint64_t> gate_place;
  TaskHead first;
  TaskHead gate;
  WaitingFor before_gate;
  {
    Tail tail(*this, me);
    if (switches != kAnySwitches && switches != switches_.load(std::memory_order_relaxed)) {
      *position = kSwitched;
      return false;
    }
    // The first task of a thread is not linked.
    const bool links = (task.flags & flag::link) != 0 && (me == nullptr || me->any);
    const std::uint32_t list = tasks.count != 0 ? tasks.quads(links ? 1 : 0) : 0;
    std::uint32_t slots = RingSlots::slots_for(RingSlots::first_free_quad(task.words) + list);
    if (slots > device::kMaxSlots) {
      // A task with no group waits before this one, which is linked to it.
      const std::uint32_t gate_slots = RingSlots::slots_for(RingSlots::first_free_quad(0) + list);
      slots = RingSlots::slots_for(RingSlots::first_free_quad(task.words));
      if (!tail.has_room(gate_slots, slots)) return false;
      gate_place = tail.reserve(gate_slots);
      count_other(1);
    }
    place = tail.reserve(slots);
    if (!place) return false;
    // From here on the remaining ones are within a ring's length, and keep their slots until this task is complete.
    order_.drop_ended(tasks);
    bool drains = order_.needs_drain(tasks);
    if (links || tasks.count != 0) order_.track();
    if (links && me == nullptr) drains = true;  // the thread's previous task is unknown: a drain is stronger
    if (links && me != nullptr) order_.wait_for_previous(*me, (task.flags & flag::hard) != 0, tasks, drains);
    const std::uint32_t opcode = alias != nullptr ? alias->load(std::memory_order_relaxed) : 0;
    const bool wanted = (task.flags & flag::drain) != 0;
    if (drains || wanted) tail.stand_alone();
    if (gate_place) {
      before_gate = std::exchange(tasks, {});
      const std::uint32_t gate_slots = RingSlots::slots_for(RingSlots::first_free_quad(0) + list);
      gate = order_.head(*gate_place, Header{opcode, 0, gate_slots, flag::wide | (drains ? flag::drain : 0), 0}, 0, before_gate);
      tasks.add(*gate_place, WaitingFor::Kind::soft);
      drains = false;
    }
    const std::uint32_t level = (task.flags & detail::kLevel) >> detail::kLevelAt;
    const std::uint32_t flags =
        (task.flags & Header::kFlagMask & ~kOrder) | (drains || wanted ? flag::drain : 0) | (level != 0 ? flag::ranked : 0);
    const std::uint32_t its_source = (task.flags & detail::kSource) >> detail::kSourceAt;
    first = order_.head(*place, Header{opcode, task.groups, slots, flags, 0, level, its_source}, task.words, tasks);
    if (task.groups == 0)
      count_other(1);  // the runtime's own
    else if (me != nullptr)
      me->note(*place, order_.tracks());
  }
  if (gate_place) write(*gate_place, gate, detail::Task{}, before_gate);
  if (alias != nullptr && is_sampled(*place)) take_sample(*place, first.header.opcode, task.first, task.rest);
  write(*place, first, task, tasks);
  *position = *place;
  return true;
}

std::size_t SubmissionQueue::try_submit_plain(const std::atomic<std::uint32_t>& alias, const detail::FirstSlot* slots, std::size_t count,
                                              std::uint64_t* last) {
  if (count == 0) return 0;
  Submitter* const me = CurrentSubmitter::mine.queue == number_ ? CurrentSubmitter::mine.submitter : submitters::mine(*this, number_);
  if (me == nullptr) {  // the thread ends: one at a time
    Tail tail(*this, nullptr);
    const std::optional<std::uint64_t> place = tail.reserve(1);
    if (!place) return 0;
    write_slots(*place, slots, 1, alias.load(std::memory_order_relaxed), order_.plain_word1());
    *last = *place;
    return 1;
  }
  std::uint64_t first = me->enter();
  const std::uint64_t end = me->end.load(std::memory_order_relaxed) / 2;
  std::uint64_t places = std::min<std::uint64_t>(count, end - std::min(end, first));
  std::uint32_t opcode = alias.load(std::memory_order_relaxed);
  if (places == 0) {
    me->leave(first);
    // Before the lock, so that waiting for it does not count as the thread's own pace.
    const Clock::time_point now = Clock::now();
    {
      const std::lock_guard guard(lock_);
      places = take(*me, count, now, &first);
      // Inside the lock: switch_aliases does not revoke, and so does not wait for, places that are all used at once.
      opcode = alias.load(std::memory_order_relaxed);
    }
    me->returned = Clock::now();
    if (places == 0) return 0;
  }
  write_slots(first, slots, places, opcode, me->word1);
  me->leave(first + places);
  *last = first + places - 1;
  return places;
}

bool SubmissionQueue::try_submit_gate(const std::atomic<std::uint32_t>& alias, std::uint64_t* position) {
  Tail tail(*this, submitters::find(number_));
  const std::optional<std::uint64_t> place = tail.reserve(1);
  if (!place) return false;
  count_other(1);
  order_.track();
  // The worker acquires what the host had seen when it opened the gate.
  constexpr std::uint32_t kFlags = flag::wide | flag::memory | flag::system;
  WaitingFor nothing;
  write(*place, order_.head(*place, Header{alias.load(std::memory_order_relaxed), 0, 1, kFlags, 0, 0, source::gate}, 0, nothing),
        detail::Task{}, nothing);
  *position = *place;
  return true;
}

bool SubmissionQueue::try_submit_request(std::uint32_t level, std::uint64_t* position) {
  Tail tail(*this, submitters::find(number_));
  const std::optional<std::uint64_t> place = tail.reserve(1);
  if (!place) return false;
  count_other(1);
  const std::uint32_t flags = flag::wide | (level != 0 ? flag::ranked : 0);
  WaitingFor nothing;
  write(*place, order_.head(*place, Header{0, 0, 1, flags, 0, level}, 0, nothing), detail::Task{}, nothing);
  *position = *place;
  return true;
}

bool SubmissionQueue::cancel(std::uint64_t position) {
  Reaper::Cancel how = Reaper::Cancel::done;
  cancels_.add(position, [&] {
    how = reaper_.cancel(position);
    return how == Reaper::Cancel::asked;
  });
  return how != Reaper::Cancel::done;
}

std::optional<std::uint64_t> SubmissionQueue::try_end_burst(std::uint32_t lease) {
  Tail tail(*this, submitters::find(number_));
  const std::optional<std::uint64_t> position = tail.reserve(1);
  if (!position) return {};
  count_other(1);
  tail.stand_alone();
  WaitingFor nothing;
  Header header = order_.head(*position, Header{0, 0, 1, flag::pass::burst, 0, 0, source::pass}, 0, nothing).header;
  header.flags = flag::pass::burst;  // nothing links to it
  skip(*position, header, lease);
  return position;
}

bool SubmissionQueue::try_close_lease(std::uint32_t lease, bool at_once) {
  Tail tail(*this, submitters::find(number_));
  const std::optional<std::uint64_t> position = tail.reserve(1);
  if (!position) return false;
  count_other(1);
  skip(*position, Header{0, at_once ? 1U : 0U, 1, flag::pass::close, order_.drains(), 0, source::pass}, lease);
  return true;
}

}  // namespace dwell::runtime
