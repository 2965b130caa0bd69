// Maps the device's counts (device/observe.hpp) to operators and workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <dwell/metrics.hpp>

#include "backend/backend.hpp"
#include "base/mutex.hpp"
#include "runtime/device/keeper.hpp"
#include "runtime/device/task_samples.hpp"
#include "runtime/observe/mirror.hpp"

namespace dwell::runtime {

// Owns the workers' tables of counts, and the meaning of their opcodes. Members may be called from any thread.
//
// Tables only grow: for more opcodes, later leases count in a table of twice the size, and the old table's counts are added. Nothing is
// ever cleared on the device. A reused opcode starts from its cells' current values; all tasks with its old meaning are complete by then
// (ImageTable).
//
// A snapshot enqueues the copies of all tables and waits once. It copies times of used opcodes only, and reads only shards and buckets with
// a call.
class Meters {
 public:
  // `arena` outlives it, as `samples` do.
  Meters(backend::Backend& backend, Keeper& keeper, TaskSamples& samples, Arena& arena);
  Meters(const Meters&) = delete;
  Meters& operator=(const Meters&) = delete;

  // Sets what later leases record; current leases keep their setting. Throws errc::out_of_memory.
  void set(Metering metering);
  Metering metering() const;

  // Makes room for `opcodes` in later leases. Throws errc::out_of_memory.
  void reserve(std::size_t opcodes);
  // Binds the opcode to this version of an operator, with these arguments. Drops the binding if the device has failed.
  void assign(std::uint32_t opcode, std::string_view name, std::uint32_t version, const Signature& signature) noexcept;

  // Fills in operators, workers, and `queued`. Throws errc::device_lost, errc::out_of_memory.
  void read(Metrics& metrics);

 private:
  // The sum of all workers' counts of one opcode.
  struct Sum {
    std::uint64_t tasks = 0;
    std::uint64_t failures = 0;
    std::uint64_t timed = 0;
    std::uint64_t total_ns = 0;
    std::uint64_t min_ns = ~0ULL;
    std::uint64_t max_ns = 0;
    TimeHistogram times;
    std::uint64_t waits = 0;
    std::uint64_t waited_ns = 0;
    std::uint64_t longest_wait_ns = 0;
    std::uint64_t sampled = 0;
    std::uint64_t sampled_bytes = 0;
  };
  struct Table {
    std::size_t opcodes;
    std::unique_ptr<Arena::Piece> counts;  // calls, a row a worker; and failures, one row
    std::unique_ptr<Arena::Piece> times;   // null until requested
    Mirror counts_seen;
    std::optional<Mirror> times_seen;  // exists with `times`
  };
  // One version of an operator; several opcodes may stand for it.
  struct Series {
    std::string name;
    std::uint32_t version;
    std::size_t place;  // of its operator, by its first definition
    Sum closed;         // counts of former opcodes
    std::size_t open = 0;
    std::size_t row = 0;  // in the current snapshot
  };
  struct Meaning {
    Series* series = nullptr;
    Sum base;
  };
  static constexpr std::size_t kMostVersions = 16;  // listed per operator; older ones are summed

  void add_table(std::size_t opcodes) DWELL_REQUIRES(mutex_);
  void add_times(Table& table) DWELL_REQUIRES(mutex_);
  void tell_leases() DWELL_REQUIRES(mutex_);
  // Requests the cells of `count` opcodes from `first` on, by copies_.
  void want(const backend::Allocation& arena, std::size_t first, std::size_t count) DWELL_REQUIRES(mutex_);
  // Adds the cells of one opcode, except the calls, to `to`, a Sum or similar.
  template <class To>
  void add_cells(std::size_t opcode, To& to) const DWELL_REQUIRES(mutex_);
  // Returns the counts of the opcode so far.
  Sum sum_of(std::size_t opcode) DWELL_REQUIRES(mutex_);
  void read_operators(Metrics& metrics, const std::vector<std::uint64_t>& calls) DWELL_REQUIRES(mutex_);
  void look(const backend::Allocation& arena, Metrics& metrics) DWELL_REQUIRES(mutex_);
  Series& series_of(std::string_view name, std::uint32_t version) DWELL_REQUIRES(mutex_);
  void merge_old(std::string_view name) DWELL_REQUIRES(mutex_);

  backend::Backend& backend_;
  Keeper& keeper_;
  TaskSamples& samples_;
  Arena& arena_;
  const device::ArenaHeader& layout_;

  mutable Mutex mutex_;
  Metering metering_ DWELL_GUARDED_BY(mutex_) = Metering::off;
  std::vector<Table> tables_ DWELL_GUARDED_BY(mutex_);      // the last one is for new leases
  std::vector<Meaning> meanings_ DWELL_GUARDED_BY(mutex_);  // by opcode
  // By name and version. Nodes of a map stay where they are.
  std::map<std::pair<std::string, std::uint32_t>, Series> series_ DWELL_GUARDED_BY(mutex_);
  std::map<std::string, std::size_t> places_ DWELL_GUARDED_BY(mutex_);
  Mirror workers_seen_ DWELL_GUARDED_BY(mutex_);
  Mirror queue_seen_ DWELL_GUARDED_BY(mutex_);
  std::vector<backend::HostCopy> copies_ DWELL_GUARDED_BY(mutex_);  // of the current snapshot
};

}  // namespace dwell::runtime
