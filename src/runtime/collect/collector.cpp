#include "runtime/collect/collector.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>

#include "base/thread.hpp"
#include "device/heap_collect.hpp"
#include "device/heap_context.hpp"
#include "runtime/device/recorder.hpp"

namespace dwell::runtime {

namespace heap = device::heap;
namespace phase = device::heap::phase;
namespace verb = device::heap::verb;

namespace {

// How long a part of a collection visits objects, about: what `stop` waits for, and a lease at times.
constexpr std::uint32_t kSliceTicks = 1000;
constexpr std::uint64_t kPagesOfSlice = 64;  // that a group walks through
// Of a handshake, before it looks whether it is to go on.
constexpr std::chrono::milliseconds kFirstPatience{100};
constexpr std::chrono::milliseconds kMostPatience{10'000};
constexpr auto kLooks = std::chrono::milliseconds(1);
constexpr auto kLooksAtRest = std::chrono::milliseconds(20);
constexpr auto kIdle = std::chrono::milliseconds(200);                      // of a loop, before the heap is compacted
constexpr std::uint64_t kPagesToCompact = 64;                               // in use at least
constexpr std::uint64_t kPagesAtFirst = (64ULL << 20U) / heap::kPageBytes;  // that may be in use before the first collection

}  // namespace

Collector::Collector(Parts parts)
    : parts_(std::move(parts)), kernel_(parts_.kernels, CollectKernel::Work::collect), mover_(parts_.kernels, CollectKernel::Work::move) {}

Collector::~Collector() {
  stop();
  finish();
}

void Collector::finish() noexcept {
  std::jthread thread;
  {
    const Lock lock(thread_mutex_);
    thread = std::move(thread_);
  }
  thread.request_stop();
  if (thread.joinable()) thread.join();
  const Lock lock(mutex_);
  kernel_.drop();
  mover_.drop();
}

void Collector::watch() {
  const Lock lock(thread_mutex_);
  if (thread_.joinable() || stopped_.load()) return;
  thread_ = with_thread("the thread that collects the heap", nullptr,
                        [this] { return std::jthread([this](const std::stop_token& stop) { watch_heap(stop); }); });
}

void Collector::prepare() {
  if (parts_.backend.info().on_host) return;
  try {
    const Lock lock(mutex_);
    check();
    kernel_.prepare();
  } catch (const Error&) {
    static_cast<void>(0);  // the first collection will say so
  }
}

void Collector::watch_heap(const std::stop_token& stop) {
  prepare();
  auto busy = std::chrono::steady_clock::now();  // when the loop was seen at work for the last time
  bool rested = false;                           // the heap was looked at since then
  while (!stop.stop_requested() && !stopped_.load()) {
    const bool asleep = parts_.device.keeper().asleep();
    const bool wanted = parts_.heap.take_wish_to_collect();
    const auto now = std::chrono::steady_clock::now();
    if (!asleep) busy = now;
    rested = rested && asleep;
    if (!wanted && (rested || now - busy < kIdle)) {
      std::this_thread::sleep_for(asleep ? kLooksAtRest : kLooks);
      continue;
    }
    try {
      if (wanted)
        make_room();
      else
        compact_at_rest();
    } catch (const Error& error) {
      if (error.kind() == errc::closed || error.kind() == errc::device_lost || stopped_.load()) return;  // which others report
      if (parts_.warn) parts_.warn(std::string("the heap was not collected: ") + error.what());
    }
    rested = !wanted;
  }
}

HeapCollection Collector::collect() {
  const Lock lock(mutex_);
  return collect_locked();
}

HeapCollection Collector::collect_locked() {
  const auto begin = std::chrono::steady_clock::now();
  HeapCollection done;
  try {
    done = collect_now();
  } catch (const Error&) {
    // Nothing more is freed. The next collection removes all marks first.
    try {
      if (!moving_) part(verb::phase, phase::rest, 0, 1);
    } catch (const Error&) {
      static_cast<void>(0);  // the first one tells more
    }
    throw;
  }
  done.duration = std::chrono::steady_clock::now() - begin;
  ++count_;
  const Lock last(last_mutex_);
  last_ = done;
  return done;
}

HeapCollection Collector::collect_now() {
  slices_ = 0;
  if (moving_) finish_moving();
  clear_handles();
  enter(phase::clearing);
  walk(verb::clear);
  enter(phase::guarding);
  // A worker reads the phase at its first call of a lease, which may be later than its first load of a reference. So a lease that begins
  // now guards from its first task on, and so does one that began when all others did.
  handshake();
  handshake();
  enter(phase::marking);
  const auto begin = std::chrono::steady_clock::now();
  mark_roots();
  // A task may have marked an object and not listed it yet: objects found in the list cause another round of visits and another handshake.
  do {
    visit_all();
    handshake();
  } while (part(verb::look, 0, 0, 1).left != 0);
  const std::chrono::nanoseconds marking = std::chrono::steady_clock::now() - begin;
  part(verb::phase, phase::sweeping, 0, 1);
  walk(verb::sweep);
  const Told told = part(verb::phase, phase::rest, 0, 1);
  set_threshold(told.used);
  return {.marked = told.marked, .freed = told.freed, .freed_bytes = told.freed_bytes, .slices = slices_, .marking = marking};
}

HeapCompaction Collector::compact() {
  const Lock lock(mutex_);
  const auto begin = std::chrono::steady_clock::now();
  HeapCompaction done = compact_now(collect_locked());
  done.duration = std::chrono::steady_clock::now() - begin;
  return done;
}

HeapCompaction Collector::compact_now(const HeapCollection& collected) {
  const auto begin = std::chrono::steady_clock::now();
  const Told before = part(verb::look, 0, 0, 1);
  if (before.movable != 0) {
    // Without many free pages, objects of a fourth of the slabs go to the others first.
    if (parts_.heap.most_pages() - std::min<std::uint64_t>(parts_.heap.most_pages(), before.used) < before.used / 2) move_objects(75, 4);
    // The emptiest slabs first: they fill the others.
    for (const std::uint32_t hundredths : {25U, 50U, 80U}) move_objects(hundredths, 1);
  }
  const Told after = part(verb::trim, 0, 0, 1);
  set_threshold(after.used);
  return {.collected = collected,
          .moved = after.moved,
          .moved_bytes = after.moved_bytes,
          .freed_bytes = (before.used - std::min(before.used, after.used)) * heap::kPageBytes,
          .slices = slices_,
          .moving = std::chrono::steady_clock::now() - begin};
}

void Collector::make_room() {
  {
    const Lock lock(mutex_);
    const Told now = part(verb::look, 0, 0, 1);
    now.types != 0 ? static_cast<void>(collect_locked()) : set_threshold(now.used);
  }
  if (!parts_.on_pressure) return;
  const HeapStatistics now = parts_.heap.statistics();
  if (now.tables + now.used > now.reserved / 4 * 3) parts_.on_pressure(now);
}

void Collector::compact_at_rest() {
  const Lock lock(mutex_);
  const Told now = part(verb::look, 0, 0, 1);
  if (now.movable == 0 || now.used < parts_.heap.first_page() + kPagesToCompact) return;
  const auto changes = [&] {
    std::uint64_t all = 0;
    for (const HeapClassStatistics& each : parts_.heap.statistics().classes) all += each.allocations + each.frees;
    return all;
  };
  if (changes() == changes_) return;
  const HeapCollection collected = collect_locked();
  if (is_sparse()) compact_now(collected);
  changes_ = changes();
}

bool Collector::is_sparse() const {
  const HeapStatistics now = parts_.heap.statistics();
  return now.live_bytes() + now.large_bytes < now.used / 5 * 4;
}

// The order of its steps: device/heap_move.hpp.
void Collector::move_objects(std::uint32_t hundredths, std::uint32_t every) {
  moving_ = true;
  enter(phase::clearing);
  const std::uint64_t chosen = part(verb::look, 0, 0, 1).leaving;
  const std::uint32_t choice[] = {hundredths, every};
  walk(verb::choose, choice);
  if (part(verb::look, 0, 0, 1).leaving == chosen) {
    part(verb::phase, phase::rest, 0, 1);
    moving_ = false;
    return;
  }
  enter(phase::moving);
  mark_roots();
  walk(verb::move);
  finish_moving();
}

// After an error a later call finishes what an earlier one has begun: every step may be done twice.
void Collector::finish_moving() {
  walk(verb::renew);
  handshake();
  part(verb::phase, phase::rest, 0, 1);
  walk(verb::release);
  moving_ = false;
}

void Collector::set_threshold(std::uint64_t used) {
  // The next one begins when the heap has twice as many pages in use as now, and before it is full.
  const std::uint64_t most = parts_.heap.most_pages();
  const std::uint64_t next =
      std::min(std::max(used * 2, used + kPagesAtFirst), std::max(used + (most - std::min(most, used)) / 2, most / 4 * 3));
  part(verb::threshold, next, 0, 1);
}

void Collector::check() const {
  if (stopped_.load()) throw Error(errc::closed, "the runtime is closed");
}

std::uint32_t Collector::groups() const { return std::max(1U, parts_.backend.info().multiprocessors); }

Collector::Told Collector::part(std::uint32_t what, std::uint64_t first, std::uint64_t end, std::uint32_t groups,
                                std::span<const std::uint32_t> units) {
  check();
  ++slices_;
  const CollectKernel::Part part{what, kSliceTicks, first, end, units};
  return parts_.backend.info().on_host ? part_here(part) : part_there(part, groups);
}

Collector::Told Collector::part_here(const CollectKernel::Part& part) {
  if (context_ == nullptr) context_ = std::make_unique<device::Context>();
  *context_ = {};
  context_->arena = parts_.device.arena().at_rest([](const backend::Allocation& memory) { return memory.device(); });
  heap::begin(context_.get(), parts_.heap.address(), 0);
  u64 words[heap::kTold] = {};
  const device::Collect collect{part.verb, 0, 1, part.ticks, part.first, part.end, part.units.data(), part.units.size(), words};
  part.verb < verb::first_of_move ? heap::collect(context_.get(), collect) : heap::move_objects(context_.get(), collect);
  return std::bit_cast<Told>(words);
}

Collector::Told Collector::part_there(const CollectKernel::Part& part, std::uint32_t groups) {
  std::array<std::uint64_t, heap::kTold> words{};
  CollectKernel& kernel = part.verb < verb::first_of_move ? kernel_ : mover_;
  const auto run = [&](std::uint64_t arena) { kernel.run(part, groups, parts_.heap.address(), arena, words); };
  // Tasks lie in the arena, which does not move then.
  if (part.verb == verb::roots || part.verb == verb::scan)
    parts_.device.arena().at_rest([&](const backend::Allocation& memory) { run(memory.device()); });
  else
    run(0);
  return std::bit_cast<Told>(words);
}

void Collector::handshake() {
  // Each attempt waits for the tasks that run at its begin: with a fixed patience it would never see the end of tasks that take longer.
  for (auto patience = kFirstPatience; !parts_.device.keeper().outlast_tasks(patience); patience = std::min(2 * patience, kMostPatience))
    check();
}

void Collector::enter(std::uint32_t next) {
  part(verb::phase, next, 0, 1);
  handshake();
}

void Collector::walk(std::uint32_t what, std::span<const std::uint32_t> units) {
  const std::uint64_t first = parts_.heap.first_page();
  const std::uint64_t end = part(verb::look, 0, 0, 1).top;
  const std::uint64_t step = groups() * kPagesOfSlice;
  // Clearing forgets what was to be visited too, so there is always one part.
  for (std::uint64_t page = first; page == first || page < end; page += step)
    part(what, page, std::min(page + step, std::max(end, first)), groups(), units);
}

void Collector::clear_handles() {
  const std::shared_ptr<Handles> known = handles();
  const std::vector<std::uint32_t> released = known->released();
  const std::uint32_t nothing[] = {0};
  for (const std::uint32_t entry : released) part(verb::hold, entry, 0, 1, nothing);
  known->cleared(released);
}

// Numbers that are no references do no harm: the device marks objects alone.
void Collector::mark_roots() {
  std::vector<std::uint32_t> words;
  const SubmissionQueue& queue = parts_.device.queue();
  const RingView ring = parts_.device.ring();
  const std::uint64_t tail = queue.tail();
  for (std::uint64_t position = queue.reaped(); position < tail;) position += std::max(1U, ring.add_arguments(position, words));
  part(verb::roots, 0, handles()->end(), groups(), words);
  const std::uint64_t step = groups() * std::uint64_t{1} << 20U;  // bytes
  for (const auto& [offset, bytes] : parts_.graphs.places())
    for (std::uint64_t at = 0; at < bytes; at += step) part(verb::scan, offset + at, offset + std::min(bytes, at + step), groups());
}

void Collector::visit_all() {
  while (part(verb::visit, 0, 0, groups()).left != 0) {}
}

std::shared_ptr<Handles> Collector::handles() {
  const Lock lock(handles_mutex_);
  if (handles_ == nullptr) handles_ = std::make_shared<Handles>(parts_.heap.handle_entries());
  return handles_;
}

}  // namespace dwell::runtime
