#include "runtime/observe/log_drain.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/callback.hpp"
#include "base/thread.hpp"
#include "runtime/caught.hpp"

namespace dwell::runtime {

namespace {

using device::kLogSlotQuads;
using device::kLogSlotWords;
using device::Order;
using device::Scope;

constexpr std::chrono::milliseconds kShortest{1};
constexpr std::chrono::milliseconds kLongest{10};
constexpr int kLastAttempts = 100;

constexpr std::size_t kReadBytes = 64;      // per worker, for its count of read slots
constexpr std::size_t kMostTaken = 262144;  // lines that may wait for a slow sink after settle

}  // namespace

LogDrain::LogDrain(Parts parts, const Logging& logging)
    : parts_(std::move(parts)),
      shift_(static_cast<std::uint32_t>(std::countr_zero(logging.ring_lines))),
      on_host_(parts_.backend.info().on_host),
      slots_(parts_.backend.allocate_host((std::size_t{parts_.workers} << shift_) * sizeof(device::Slot))),
      read_(parts_.backend.allocate_host(parts_.workers * kReadBytes)),
      memory_(std::make_shared<LogMemory>(logging.kept)),
      position_(parts_.workers),
      sink_(logging, parts_.warn),
      limit_(logging.per_site_per_second),
      dropped_(parts_.workers) {
  parts_.keeper.change_leases([&](device::Lease& lease) {
    lease.log_from = static_cast<u32>(logging.from);
    lease.log_shift = shift_;
    lease.log = reinterpret_cast<device::Slot*>(slots_->device());
    lease.log_read = reinterpret_cast<const u32*>(read_->device());
  });
  thread_ = with_thread("the thread of the log", nullptr, [this] { return std::thread([this] { work(); }); });
}

LogDrain::~LogDrain() { finish(); }

void LogDrain::set_level(level from) {
  parts_.keeper.change_leases([from](device::Lease& lease) { lease.log_from = static_cast<u32>(from); });
}

// ---- Rings ---------------------------------------------------------------------------------------------------------------------

bool LogDrain::read_slot(std::uint32_t worker, std::uint32_t position, std::uint32_t* words) const {
  const auto* const ring = static_cast<const device::Slot*>(slots_->host()) + (std::size_t{worker} << shift_);
  const device::Slot& slot = ring[device::index_of(position, shift_)];
  const std::uint32_t tag = device::log_tag_of(position);
  for (std::uint32_t i = 0; i < kLogSlotQuads; ++i) {
    const device::Quad quad = device::load_quad<Scope::system>(&slot.quad[i]);
    if (quad.lap != tag) return false;
    std::copy_n(quad.word, 3, words + i * 3);
  }
  return true;
}

std::shared_ptr<const std::string> LogDrain::format_at(std::uint64_t address, std::uint32_t length) {
  const auto known = formats_.find(address);
  if (known != formats_.end()) return known->second;
  // Memory of a failed device cannot be read; the host's can.
  if (!on_host_ && parts_.keeper.failed()) return nullptr;
  std::string text(length, '\0');
  if (failure_of(errc::device_lost, [&] { parts_.backend.copy_to_host(text.data(), address, text.size()); })) return nullptr;
  return formats_.try_emplace(address, std::make_shared<const std::string>(std::move(text))).first->second;
}

std::shared_ptr<const std::string> LogDrain::name_of(std::uint32_t opcode) {
  if (names_.size() <= opcode) names_.resize(opcode + 1);
  if (names_[opcode] == nullptr) names_[opcode] = std::make_shared<const std::string>(parts_.name_of(opcode));
  return names_[opcode];
}

void LogDrain::take_from(std::uint32_t worker, std::size_t most) {
  std::uint32_t words[2 * kLogSlotWords];
  std::uint32_t& at = position_[worker];
  const std::uint32_t begin = at;
  // Bounded: a worker may write as fast as this reads.
  while (at - begin < 1U << shift_) {
    if (!read_slot(worker, at, words)) break;
    const std::uint32_t slots = slots_of(words);
    if (slots == 2 && !read_slot(worker, at + 1, words + kLogSlotWords)) break;
    LogLine line;
    if (!read_line(words, line)) {
      ++at;
      continue;
    }
    if (taken_.size() >= most) {
      dropped_[worker].count[line.head.severity].fetch_add(1, std::memory_order_relaxed);
    } else {
      line.worker = worker;
      if (line.has_position) line.position = parts_.position_of(static_cast<std::uint32_t>(line.position));
      if (line.record) line.node = parts_.node_of(*line.record, line.device_ns);
      line.format = format_at(line.address, line.head.length);
      line.op = name_of(line.head.opcode);
      taken_.push_back(std::move(line));
    }
    at += slots;
  }
  if (at == begin) return;
  // Pairs with the acquire of a worker that checks for room (LogWriter): the slots have been read.
  device::store<Order::release, Scope::system>(static_cast<u32*>(read_->host()) + worker * (kReadBytes / sizeof(u32)), at);
}

void LogDrain::take(std::size_t most) {
  for (std::uint32_t worker = 0; worker < parts_.workers; ++worker) take_from(worker, most);
}

void LogDrain::settle() noexcept {
  const Lock lock(rings_mutex_);
  if (closed_) return;
  // Without memory the lines stay in the ring for the next poll.
  try {
    take(kMostTaken);
  } catch (const std::exception&) {
    static_cast<void>(no_memory());
  }
  formats_.clear();
  names_.clear();
}

// ---- The thread ----------------------------------------------------------------------------------------------------------------

void LogDrain::hand_over(const LogLine& line, std::string text) {
  LogRecord record{
      line.severity(), std::move(text), *line.op, line.position, line.has_position, line.worker, parts_.time_of(line.device_ns),
      line.node.node,  line.node.graph};
  {
    const Callback callback(parts_.runtime, "the callback of the log");
    sink_.take(record);
    if (callback.is_forked()) forked_ = true;
  }
  memory_->add(std::move(record));
}

bool LogDrain::pass(bool last) noexcept {
  bool any = false;
  const auto failure = failure_of(errc::out_of_memory, [&] {
    std::vector<LogLine> lines;
    {
      const Lock lock(rings_mutex_);
      take(~std::size_t{0});
      lines.swap(taken_);
    }
    any = !lines.empty();
    std::ranges::stable_sort(lines, {}, &LogLine::device_ns);
    const auto now = Clock::now();
    const auto tell = [this](const LogLine& like, std::uint64_t count) {
      hand_over(like, std::to_string(count) + " more lines within a second were left out: \"" + *like.format + "\"");
    };
    static_cast<void>(failure_of(errc::out_of_memory, [&] { limit_.end_seconds(now, tell); }));  // else at the next poll
    for (const LogLine& line : lines) {
      if (forked_) return;
      bool admitted = true;
      if (failure_of(errc::out_of_memory, [&] {
            admitted = limit_.admits(line, now);
            if (admitted) hand_over(line, format_line(line));
          }))
        dropped_[line.worker].count[line.head.severity].fetch_add(1, std::memory_order_relaxed);
      else
        (admitted ? lines_ : limited_).fetch_add(1, std::memory_order_relaxed);
    }
    if (last) limit_.end_seconds(Clock::time_point::max(), tell);
  });
  if (!forked_) sink_.flush();
  missed_ = failure.has_value();
  return any;
}

void LogDrain::work() noexcept {
  Lock lock(mutex_);
  auto nap = kShortest;
  for (;;) {
    const bool last = stop_;
    const std::uint64_t asked = asked_;
    bool any = false;
    bool rests = false;
    woken_ = false;
    lock.unlock();
    // Before the poll, which then finds all lines of the loop.
    rests = parts_.keeper.asleep() || parts_.keeper.failed();
    any = pass(last);
    // Lines without memory stay in the rings for the next poll. After the last poll there is none.
    for (int attempt = 1; last && missed_ && !forked_ && attempt < kLastAttempts; ++attempt) {
      std::this_thread::sleep_for(kShortest);
      any = pass(last);
    }
    if (forked_) return;
    lock.lock();
    flushed_ = last ? asked_ : asked;
    changed_.notify_all();
    if (last) return;
    nap = any ? kShortest : std::min(2 * nap, kLongest);
    if (rests && !any && !limit_.owes()) {
      resting_ = true;
      while (!woken_ && !stop_ && asked_ == flushed_) changed_.wait(lock);
      resting_ = false;
      nap = kShortest;
    }
    const auto until = Clock::now() + nap;
    while (!stop_ && asked_ == flushed_ && changed_.wait_until(lock, until) == std::cv_status::no_timeout) {}
  }
}

void LogDrain::woken() noexcept {
  const Lock lock(mutex_);
  woken_ = true;
  if (resting_) changed_.notify_all();
}

void LogDrain::flush() {
  if (runs_here()) return;
  Lock lock(mutex_);
  if (stop_) return;
  const std::uint64_t mine = ++asked_;
  changed_.notify_all();
  while (flushed_ < mine) changed_.wait(lock);
}

void LogDrain::finish() noexcept {
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  const Lock lock(rings_mutex_);
  closed_ = true;
  memory_->end();
}

void LogDrain::read(Metrics& metrics) const {
  metrics.log_lines = lines_.load(std::memory_order_relaxed);
  metrics.log_limited = limited_.load(std::memory_order_relaxed);
  for (std::size_t worker = 0; worker < metrics.workers.size(); ++worker)
    for (std::size_t i = 0; i < device::kLogSeverities; ++i) {
      std::uint64_t& its = metrics.workers[worker].log_dropped[i];
      its += dropped_[worker].count[i].load(std::memory_order_relaxed);
      metrics.log_dropped[i] += its;
    }
}

}  // namespace dwell::runtime
