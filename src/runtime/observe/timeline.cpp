#include "runtime/observe/timeline.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "base/callback.hpp"
#include "base/thread.hpp"
#include "runtime/caught.hpp"
#include "runtime/observe/device_memory.hpp"

namespace dwell::runtime {

namespace {

using device::Event;
using device::Header;

// Pause between two reads of the rings: an overloaded trace leaves the host two thirds of a processor. Missed events are dropped.
constexpr std::chrono::nanoseconds kLeastRest = std::chrono::milliseconds(1);
constexpr std::chrono::nanoseconds kMostRest = std::chrono::milliseconds(50);
constexpr int kRest = 2;             // times the duration of the last read
constexpr double kMostError = 1000;  // ns: the clock is read again beyond this error

std::int64_t end_of(const TraceEvent& event) { return event.begin_ns + event.took_ns; }

// Sorts events by their ends: workers' events, followed by the host's. The former may be many, but are nearly sorted.
void put_in_order(std::vector<TraceEvent>& events, std::vector<TraceEvent>::iterator host) {
  if (!std::ranges::is_sorted(events.begin(), host, {}, end_of)) std::ranges::sort(events.begin(), host, {}, end_of);
  std::ranges::sort(host, events.end(), {}, end_of);
  std::ranges::inplace_merge(events.begin(), host, events.end(), {}, end_of);
}

}  // namespace

void Timeline::tell_leases(bool on) {
  parts_.keeper.change_leases([&](device::Lease& lease) {
    const std::uint64_t events = lease.arena + events_->offset();
    lease.timeline = on ? reinterpret_cast<Event*>(events) : nullptr;
    lease.timeline_counts = on ? reinterpret_cast<u32*>(events + bytes_of_rings()) : nullptr;
    lease.timeline_shift = kShift;
    if (on)
      lease.timed |= device::timed::timeline;
    else
      lease.timed &= ~device::timed::timeline;
  });
  parts_.keeper.outlast_tasks(std::chrono::seconds(1));
}

Timeline::~Timeline() {
  static_cast<void>(failure_of(errc::io_failed, [this] { stop(); }));
}

void Timeline::start(Sink sink) {
  const Lock lock(mutex_);
  if (thread_.joinable()) throw Error(errc::invalid_argument, "a trace is being taken already: one runtime takes one at a time");
  if (copied_ == nullptr) {
    const std::size_t bytes = bytes_of_rings() + (parts_.workers + 1) / 2 * sizeof(std::uint64_t);
    events_ = parts_.arena.take_cleared(bytes);
    copied_ = parts_.backend.allocate_host(bytes);
  }
  parts_.clock.align(kMostError);
  sink_ = std::move(sink);
  begun_ns_ = HostEvents::now();
  failure_ = nullptr;
  over_.store(false, std::memory_order_relaxed);
  names_.clear();
  indices_.clear();
  node_names_ = 0;
  held_.clear();
  looked_ns_ = 0;
  arrows_ = NodeArrows();
  begun_.clear();
  stops_ = false;
  static_cast<void>(parts_.host.take(of_host_));
  parts_.host.want(true);
  try {
    begin_reading();
    tell_leases(true);
    arrows_.miss(0, HostEvents::now());  // for leases that do not record events yet
    thread_ = with_thread("the thread of a trace", nullptr, [this] { return std::thread([this] { run(); }); });
  } catch (...) {
    parts_.host.want(false);
    static_cast<void>(failure_of(errc::device_lost, [this] { tell_leases(false); }));
    throw;
  }
}

void Timeline::stop() {
  Lock lock(mutex_);
  if (!thread_.joinable()) return;
  ended_ns_ = HostEvents::now();
  // Leases that have ended have written all.
  static_cast<void>(failure_of(errc::device_lost, [this] { tell_leases(false); }));
  parts_.host.want(false);
  stops_ = true;
  changed_.notify_all();
  std::thread thread = std::move(thread_);
  lock.unlock();
  thread.join();
  if (over()) std::rethrow_exception(failure_);
}

void Timeline::begin_reading() {
  last_of_thread_.clear();
  readers_.assign(parts_.workers, Reader{});
  for (const std::uint32_t worker : copy(true)) readers_[worker].next = newest_of(worker);
}

void Timeline::run() noexcept {
  std::chrono::nanoseconds rest = kLeastRest;
  for (bool last = false; !last && !over();) {
    std::int64_t ended_ns = 0;
    {
      Lock lock(mutex_);
      if (!stops_) changed_.wait_until(lock, std::chrono::steady_clock::now() + rest);
      last = stops_;
      ended_ns = ended_ns_;
    }
    const auto begun = std::chrono::steady_clock::now();
    const pid_t process = getpid();
    try {
      if (last) arrows_.miss(ended_ns, std::numeric_limits<std::int64_t>::max());
      pass_on(last);
    } catch (...) {
      // A piece may be lost with its names: later pieces would not match.
      failure_ = std::current_exception();
      over_.store(true, std::memory_order_release);
      parts_.host.want(false);
    }
    if (process != getpid()) return;  // the writer has forked: the child has nothing to do here
    rest = std::clamp<std::chrono::nanoseconds>(kRest * (std::chrono::steady_clock::now() - begun), kLeastRest, kMostRest);
  }
  // Discards later events of threads, and frees the memory of up to a million events.
  for (int i = 0; i < 2; ++i) {
    static_cast<void>(parts_.host.take(of_host_));
    of_host_ = std::vector<HostEvents::Event>();
  }
}

std::vector<std::uint32_t> Timeline::copy(bool all) {
  return parts_.arena.at_rest([&](const backend::Allocation& arena) { return copy(arena, all); });
}

std::vector<std::uint32_t> Timeline::copy(const backend::Allocation& arena, bool all) {
  const auto copy_part = [&](std::uint64_t offset, std::uint64_t bytes) {
    read_words(parts_.backend, arena, events_->offset() + offset,
               static_cast<std::uint64_t*>(copied_->host()) + offset / sizeof(std::uint64_t), bytes / sizeof(std::uint64_t));
  };
  copy_part(bytes_of_rings(), copied_->bytes() - bytes_of_rings());
  const auto* const counts = reinterpret_cast<const std::uint32_t*>(static_cast<const std::byte*>(copied_->host()) + bytes_of_rings());
  std::vector<std::uint32_t> fresh;
  for (std::uint32_t worker = 0; worker < parts_.workers; ++worker)
    if (all || counts[worker] != readers_[worker].next) fresh.push_back(worker);
  if (fresh.size() > kFew) {
    copy_part(0, bytes_of_rings());
  } else {
    for (const std::uint32_t worker : fresh) copy_part(worker * (sizeof(Event) << kShift), sizeof(Event) << kShift);
  }
  return fresh;
}

void Timeline::pass_on(bool all) {
  Trace piece;
  const std::int64_t looks = HostEvents::now();
  // A failed device has no more events, but the host's are still useful.
  const auto failure = failure_of(errc::device_lost, [&] {
    if (!all) parts_.clock.align(kMostError);
    names_of_opcodes_.clear();
    const std::vector<std::uint32_t> fresh = copy(all);
    // After the copy, so that no event has a later position; read once, since the submitting thread writes it constantly.
    tail_ = parts_.queue.tail();
    for (const std::uint32_t worker : fresh) read(worker, piece);
  });
  if (failure && failure->kind() == errc::out_of_memory) throw Error(*failure);
  release(all ? std::numeric_limits<std::int64_t>::max() : looked_ns_, piece);
  looked_ns_ = looks;
  const auto of_workers = static_cast<std::ptrdiff_t>(piece.events.size());
  add_host(piece);
  piece.names = names_;
  piece.clock_error_ns = parts_.clock.error_ns();
  piece.device = parts_.device;
  piece.runtime = parts_.runtime;
  put_in_order(piece.events, piece.events.begin() + of_workers);
  const Callback callback(parts_.runtime, "the writer of a trace");
  sink_(piece);
}

const Event* Timeline::ring_of(std::uint32_t worker) const {
  return static_cast<const Event*>(copied_->host()) + (static_cast<std::size_t>(worker) << kShift);
}

std::uint32_t Timeline::newest_of(std::uint32_t worker) const {
  std::uint32_t newest = readers_[worker].next;
  for (std::uint32_t index = 0; index < kEvents; ++index) {
    const std::uint32_t lap = ring_of(worker)[index].quad[0].lap;
    const std::uint32_t number = (lap - 1) << kShift | index;
    if (lap != 0 && device::is_after(number + 1, newest)) newest = number + 1;
  }
  return newest;
}

void Timeline::read(std::uint32_t worker, Trace& piece) {
  const Event* const ring = ring_of(worker);
  const std::uint32_t newest = newest_of(worker);
  Reader& reader = readers_[worker];
  // During the copy the worker's threads may overwrite the oldest events, which are then torn.
  const std::uint32_t oldest = newest + kWriters - kEvents;
  if (device::is_after(oldest, reader.next)) {
    piece.dropped += oldest - reader.next;
    reader.next = oldest;
    reader.misses = true;
  }
  for (; reader.next != newest; ++reader.next) {
    const Event& one = ring[reader.next & (kEvents - 1)];
    const std::uint32_t lap = device::lap_of(reader.next, kShift);
    const std::uint32_t first = one.quad[0].lap;
    const std::uint32_t second = one.quad[1].lap;
    if (device::is_after(first, lap) || device::is_after(second, lap)) {  // overwritten while this was copied
      ++piece.dropped;
      reader.misses = true;
      continue;
    }
    if (first != lap || second != lap) break;  // one of several threads writes it: the next time
    const TraceEvent event = event_of(one, worker);
    if (event.kind <= TraceEvent::Kind::group || event.kind == TraceEvent::Kind::begin) {
      if (reader.misses) arrows_.miss(reader.last_ns, event.begin_ns);
      reader.misses = false;
      reader.last_ns = end_of(event);
    }
    if (end_of(event) >= begun_ns_) held_.push_back(event);  // not of an earlier timeline
  }
}

void Timeline::release(std::int64_t end_ns, Trace& piece) {
  // By their ends; the begin of a launch precedes other events of the same time. Sorts keys, since events are large.
  order_.clear();
  for (const TraceEvent& event : held_)
    if (end_of(event) <= end_ns) order_.emplace_back(end_of(event), event.kind != TraceEvent::Kind::begin, &event);
  std::ranges::sort(order_);
  // Calls that had ended at the last read are complete, except calls of a task with running groups.
  parts_.queue.reap_done();
  const std::vector<std::uint64_t> failed = parts_.queue.failed_positions();
  Graphs::Place place;
  // The clock may have been read again between two copies, with its error before and after.
  arrows_.set_error(std::llround(2 * parts_.clock.error_ns()));
  for (const auto& [end, behind, held] : order_) {
    TraceEvent event = *held;
    if (event.kind == TraceEvent::Kind::task || event.kind == TraceEvent::Kind::group || event.kind == TraceEvent::Kind::complete)
      event.failed = std::ranges::binary_search(failed, event.id);
    if (event.kind == TraceEvent::Kind::node) arrows_.add(event, look_up(event, place), piece.arrows);
    if (event.kind == TraceEvent::Kind::begin) {
      arrows_.add(event, look_up_launch(event), piece.arrows);
      event.took_ns = 1;  // in some formats arrows lead to no instant
    }
    if (event.kind == TraceEvent::Kind::complete) {
      if (const auto launch = begun_.extract(event.id); !launch.empty()) event.name = name_of_launch("complete", launch.mapped());
      event.took_ns = 1;
    }
    piece.events.push_back(event);
  }
  std::erase_if(held_, [end_ns](const TraceEvent& event) { return end_of(event) <= end_ns; });
}

namespace {

// A node as arrows know it, of the exec of this number.
NodeArrows::Node known_as(const Exec& exec, std::uint32_t number, std::uint32_t cell) {
  const auto key = [&](std::uint32_t of) { return static_cast<std::uint64_t>(number) << 32U | of; };
  NodeArrows::Node known{key(cell), {}};
  for (const std::uint32_t next : exec.next_at(cell, NodeArrows::kEach)) known.next.push_back(key(next));
  return known;
}

}  // namespace

NodeArrows::Node Timeline::look_up_launch(TraceEvent& event) {
  const auto number = static_cast<std::uint32_t>(event.number);
  const auto exec = parts_.graphs.numbered(number);
  if (exec == nullptr) return {};
  event.name = name_of_launch("begin", exec->name());
  if (!exec->name().empty()) {
    if (begun_.size() == kMostBegun) begun_.clear();  // of dropped events
    begun_[event.id] = exec->name();
  }
  return known_as(*exec, number, device::kFirstRecord);
}

std::uint32_t Timeline::name_of_launch(const char* what, const std::string& graph) {
  if (graph.empty()) return TraceEvent::kNoName;
  return node_name(std::string(what) + ' ' + graph, TraceEvent::kNoName);
}

NodeArrows::Node Timeline::look_up(TraceEvent& event, Graphs::Place& place) {
  const std::uint64_t offset = event.id * device::kCell;
  if (!place.holds(offset)) place = parts_.graphs.place_of(offset);
  // An exec placed there later had not run yet.
  if (place.exec == nullptr || place.since.time_since_epoch() > std::chrono::nanoseconds(event.begin_ns)) return {};
  const std::uint32_t cell = place.cell(offset);
  const std::string node = place.exec->name_at(cell);
  if (!node.empty()) event.name = node_name(node + ": " + names_[event.name], event.name);
  return known_as(*place.exec, place.number, cell);
}

TraceEvent Timeline::event_of(const Event& from, std::uint32_t worker) {
  TraceEvent event;
  const std::uint64_t begun = from.quad[0].word[0] | static_cast<std::uint64_t>(from.quad[0].word[1]) << 32U;
  event.begin_ns = parts_.clock.to_host(begun);
  event.took_ns = from.quad[0].word[2];
  event.worker = worker;
  const auto& [what, word1, word2] = from.quad[1].word;
  const Header header = Header::from(what, word1);
  if (what == Event::kStay) {
    event.kind = TraceEvent::Kind::lease;
    event.id = word1;
  } else if (what == Event::kFetch) {
    event.kind = TraceEvent::Kind::fetch;
    event.id = position_of(word1);
    event.count = word2;
  } else if (what == Event::kTake) {
    event.kind = TraceEvent::Kind::take;
    event.id = id_of(header, word2);
  } else if (what == Event::kBegin) {
    event.kind = TraceEvent::Kind::begin;
    event.id = position_of(word1);
    event.number = word2;  // of the exec, until it is released
  } else if (what == Event::kComplete) {
    event.kind = TraceEvent::Kind::complete;
    event.id = position_of(word1);
    event.count = word2;
  } else if (what == Event::kBarrier) {
    event.kind = TraceEvent::Kind::barrier;
    const std::uint32_t barrier = word2 & ~Event::kOfNode;
    event.id = barrier != word2 ? word1 : position_of(word1);
    event.name = name(barrier == 0                   ? "sync"
                      : barrier < Event::kNeighbours ? "sync, barrier " + std::to_string(barrier - 1)
                                                     : "sync_neighbours");
  } else {
    event.kind = header.is_spawned()                         ? TraceEvent::Kind::spawned
                 : header.is_node()                          ? TraceEvent::Kind::node
                 : (header.flags & device::flag::share) != 0 ? TraceEvent::Kind::group
                                                             : TraceEvent::Kind::task;
    event.id = id_of(header, word2);
    event.name = name_of_opcode(header.opcode);
  }
  return event;
}

std::uint64_t Timeline::id_of(const Header& header, std::uint32_t word2) const {
  if (header.is_spawned()) return word2;
  if (header.is_node()) return word2;
  return position_of(word2);
}

std::uint64_t Timeline::position_of(std::uint32_t low) const {
  return tail_ - static_cast<std::uint32_t>(static_cast<std::uint32_t>(tail_) - low);
}

std::uint32_t Timeline::name_of_opcode(std::uint32_t opcode) {
  if (opcode >= names_of_opcodes_.size()) names_of_opcodes_.resize(opcode + 1, TraceEvent::kNoName);
  std::uint32_t& known = names_of_opcodes_[opcode];
  if (known == TraceEvent::kNoName) known = name(parts_.name_of(opcode));
  return known;
}

std::uint32_t Timeline::name(const std::string& text) {
  if (const auto at = indices_.find(text); at != indices_.end()) return at->second;
  const auto index = static_cast<std::uint32_t>(names_.size());
  names_.push_back(text);
  indices_.emplace(text, index);
  return index;
}

std::uint32_t Timeline::node_name(const std::string& text, std::uint32_t otherwise) {
  const bool fresh = !indices_.contains(text);
  if (fresh && node_names_++ >= kMostNodeNames) return otherwise;
  return name(text);
}

void Timeline::add_host(Trace& piece) {
  piece.dropped += parts_.host.take(of_host_);
  const HostEvents::Details none;
  for (const HostEvents::Event& one : of_host_) {
    TraceEvent event;
    event.begin_ns = one.begin_ns;
    event.took_ns = one.took_ns;
    event.id = one.id;
    event.thread = one.thread;
    event.count = one.count;
    event.kind = one.kind;
    event.failed = one.failed;
    const auto& [name, after] = one.details != nullptr ? *one.details : none;
    if (event.kind == TraceEvent::Kind::launch)
      event.name = name_of_launch("launch", name);
    else if (!name.empty())
      event.name = this->name(name);
    piece.events.push_back(event);
    if (event.kind != TraceEvent::Kind::submit) continue;
    for (const std::uint64_t from : after)
      if ((from & detail::kLaunch) == 0) piece.arrows.push_back({from & detail::kPosition, event.id, false});
    const auto [last, first] = last_of_thread_.try_emplace(event.thread, 0);
    if (one.linked && !first) piece.arrows.push_back({last->second, event.id, false});
    last->second = event.id + event.count - 1;
  }
}

}  // namespace dwell::runtime
