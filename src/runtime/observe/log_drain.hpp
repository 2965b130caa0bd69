// Reads operators' log lines from the workers' rings, while the loop runs.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <dwell/log.hpp>
#include <dwell/metrics.hpp>

#include "backend/backend.hpp"
#include "base/mutex.hpp"
#include "runtime/device/keeper.hpp"
#include "runtime/observe/log_format.hpp"
#include "runtime/observe/log_memory.hpp"
#include "runtime/observe/log_sink.hpp"
#include "runtime/observe/site_limit.hpp"

namespace dwell::runtime {

// Owns the rings, and a thread that reads lines, formats them, and passes them to the sink and to LogMemory. It polls every millisecond
// while it finds lines, every ten otherwise, and not at all while the loop is off the device: the keeper wakes it (woken).
//
// A line refers to its format by an address in the image, and to its operator by an opcode. Both may be reused. So before an image is
// unloaded or opcodes change, settle() reads all existing lines, and clears the caches of formats and names. No lease writes lines with the
// old addresses or opcodes at that moment.
//
// Members may be called from any thread unless they say otherwise. Lock order: the keeper's mutex, the rings', those of `name_of`; the
// callback runs under none.
class LogDrain {
 public:
  struct Parts {
    backend::Backend& backend;
    Keeper& keeper;
    std::function<std::string(std::uint32_t)> name_of;                            // the operator behind an opcode: "add (version 2)"
    std::function<std::uint64_t(std::uint32_t)> position_of;                      // the position of a ticket, from its lower half
    std::function<std::chrono::steady_clock::time_point(std::uint64_t)> time_of;  // of the device's clock
    // Returns the node whose record was at this offset of the arena at this device time. Empty if unknown.
    std::function<NodeName(std::uint64_t offset, std::uint64_t device_ns)> node_of;
    std::uint32_t workers;  // of any lease, at most
    LogSink::Warn warn;
    std::uint64_t runtime = 0;  // as of Callback
  };
  // Throws errc::out_of_memory, and errc::invalid_argument for a file that cannot be opened.
  LogDrain(Parts parts, const Logging& logging);
  // finish()
  ~LogDrain();
  LogDrain(const LogDrain&) = delete;
  LogDrain& operator=(const LogDrain&) = delete;

  // Sets the threshold of later leases.
  void set_level(level from);
  // Called when a lease is about to work after the loop was off the device.
  void woken() noexcept;
  // See above.
  void settle() noexcept;
  // Returns when all existing lines have been passed on. Does nothing on the thread that passes them on.
  void flush();
  // Passes on all lines, and ends the thread. A second call does nothing. Must not be called on that thread.
  void finish() noexcept;
  // Returns whether this is the sink's thread.
  bool runs_here() const noexcept { return std::this_thread::get_id() == thread_.get_id(); }

  const std::shared_ptr<LogMemory>& memory() const { return memory_; }
  // Fills in the counts of lines; `metrics` must hold the device's drops already.
  void read(Metrics& metrics) const;

 private:
  using Clock = std::chrono::steady_clock;

  void work() noexcept;
  // Reads all lines and passes them on; with `last`, also all pending reports of dropped lines. Returns whether there were any.
  bool pass(bool last) noexcept;
  // Reads all lines from the rings. Counts lines beyond `most` as dropped.
  void take(std::size_t most) DWELL_REQUIRES(rings_mutex_);
  void take_from(std::uint32_t worker, std::size_t most) DWELL_REQUIRES(rings_mutex_);
  // Reads the words of the slot at this position of a worker's ring; false while it is not written.
  bool read_slot(std::uint32_t worker, std::uint32_t position, std::uint32_t* words) const;
  std::shared_ptr<const std::string> format_at(std::uint64_t address, std::uint32_t length) DWELL_REQUIRES(rings_mutex_);
  std::shared_ptr<const std::string> name_of(std::uint32_t opcode) DWELL_REQUIRES(rings_mutex_);
  void hand_over(const LogLine& line, std::string text);

  const Parts parts_;
  const std::uint32_t shift_;  // of a ring
  const bool on_host_;
  std::unique_ptr<backend::Allocation> slots_;
  std::unique_ptr<backend::Allocation> read_;  // per worker, 64 bytes apart: how many slots were read
  const std::shared_ptr<LogMemory> memory_;

  Mutex rings_mutex_;
  std::vector<std::uint32_t> position_ DWELL_GUARDED_BY(rings_mutex_);  // of the next slot, by worker
  std::vector<LogLine> taken_ DWELL_GUARDED_BY(rings_mutex_);
  std::unordered_map<std::uint64_t, std::shared_ptr<const std::string>> formats_ DWELL_GUARDED_BY(rings_mutex_);
  std::vector<std::shared_ptr<const std::string>> names_ DWELL_GUARDED_BY(rings_mutex_);  // by opcode
  bool closed_ DWELL_GUARDED_BY(rings_mutex_) = false;

  // Used by the thread only.
  LogSink sink_;
  SiteLimit limit_;
  bool missed_ = false;  // the last pass had no memory for all
  bool forked_ = false;  // a callback has returned in a forked child: the thread ends there

  std::atomic<std::uint64_t> lines_{0};
  std::atomic<std::uint64_t> limited_{0};
  struct Dropped {
    std::array<std::atomic<std::uint64_t>, device::kLogSeverities> count{};
  };
  std::vector<Dropped> dropped_;  // by worker: lines that were taken and not kept

  Mutex mutex_;
  Condition changed_;
  bool resting_ DWELL_GUARDED_BY(mutex_) = false;  // waits for woken_
  bool woken_ DWELL_GUARDED_BY(mutex_) = false;
  bool stop_ DWELL_GUARDED_BY(mutex_) = false;
  std::uint64_t asked_ DWELL_GUARDED_BY(mutex_) = 0;    // flushes
  std::uint64_t flushed_ DWELL_GUARDED_BY(mutex_) = 0;  // completed flushes
  std::thread thread_;
};

}  // namespace dwell::runtime
