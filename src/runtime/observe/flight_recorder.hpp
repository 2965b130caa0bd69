// The flight recorder: the last tasks of each worker, in memory that outlives the process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <dwell/signature.hpp>

#include "backend/backend.hpp"
#include "base/mutex.hpp"
#include "device/ring.hpp"
#include "live/flight.hpp"
#include "runtime/graphs.hpp"

namespace dwell::runtime {

// Holds each worker's last records of what it was about to run (device/in_flight.hpp). Also holds the data that describes them: the ring,
// and operators and nodes, written by the host. Stored in a file in shared memory, which survives when the process is killed. Where the
// device cannot access that, it is pinned memory, written to such a file when the runtime fails. A runtime that ends normally leaves none.
// `assign`, `add`, `set_arguments` and `keep` may be called from any thread.
class FlightRecorder {
 public:
  // `ring_slots`: a power of two. `warn`, which may be empty, receives the reason if there is no file. Throws errc::out_of_memory.
  FlightRecorder(backend::Backend& backend, std::uint64_t runtime, const std::string& device, std::uint32_t workers,
                 std::uint64_t ring_slots, const std::function<void(std::string_view)>& warn);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // For Lease::flight.
  std::uint64_t device() const { return memory_->device() + live::FlightFile::entries_at(); }
  // Returns the cleared memory of the ring, accessible to host and device; null without room in shared memory.
  device::Slot* ring() const { return file_->ring_slots == 0 ? nullptr : reinterpret_cast<device::Slot*>(bytes() + ring_at()); }
  std::uint64_t device_ring() const { return memory_->device() + ring_at(); }
  // Sets the name and signature of an opcode: "add (version 2)".
  void assign(std::uint32_t opcode, std::string_view name, const Signature& signature) noexcept;
  // Adds an exec, whose launches come at `position` or later. `lease`: as in Graphs::add. Returns the number of its first node, for
  // set_arguments.
  std::uint64_t add(const Exec& exec, std::uint64_t offset, std::uint64_t bytes, std::optional<std::uint32_t> lease,
                    std::uint64_t position) noexcept;
  // Changes a node's arguments for its next launches. `first`: the number of its exec's first node.
  void set_arguments(std::uint64_t first, std::uint32_t node, std::span<const std::uint32_t> words) noexcept;
  // Details of the ring task, or the graph node, of a worker's record; empty if unknown.
  struct Details {
    std::string name;  // of a node
    std::string arguments;
  };
  using DetailsOf = std::function<Details(const live::FlightEntry& entry)>;
  // Keeps the file beyond this object, with the failure and the last tasks and their arguments. A process keeps its newest
  // live::Directory::kFlights. Returns the path; empty if there is no file.
  const std::filesystem::path& keep(std::string_view failure, const DetailsOf& details_of) noexcept;

 private:
  FlightRecorder() = default;
  void note_details(const DetailsOf& details_of) DWELL_REQUIRES(mutex_);
  std::byte* bytes() const { return static_cast<std::byte*>(memory_->host()); }
  std::size_t ring_at() const { return live::FlightFile::ring_at(file_->workers); }

  std::unique_ptr<backend::Allocation> memory_;
  std::filesystem::path path_;  // empty: no file can be created
  bool mapped_ = false;         // the memory is the file, owned by this object
  live::FlightFile* file_ = nullptr;
  Mutex mutex_;
  bool keeps_ DWELL_GUARDED_BY(mutex_) = false;
};

// Returns the details of an entry's node; none for a task of the ring, which the ring and the tables describe.
FlightRecorder::Details details_of(const live::FlightEntry& entry, Graphs& graphs,
                                   const std::function<std::string(std::uint32_t opcode)>& name_of);

}  // namespace dwell::runtime
