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

// Where workers keep the last notes of what they were about to run (device/in_flight.hpp), and beside it what tells more of that: the ring,
// and operators and nodes, written by the host. It is a file in shared memory, which the system keeps when the process is killed; where the
// device does not reach that, pinned memory that becomes such a file when the runtime fails. A runtime that ends well leaves none.
// `assign`, `add`, `set_arguments` and `keep` may be called from any thread.
class FlightRecorder {
 public:
  // `ring_slots`: a power of two. `warn`, which may be empty, hears why there is no file. Throws errc::out_of_memory.
  FlightRecorder(backend::Backend& backend, std::uint64_t runtime, const std::string& device, std::uint32_t workers,
                 std::uint64_t ring_slots, const std::function<void(std::string_view)>& warn);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // For Lease::flight.
  std::uint64_t device() const { return memory_->device() + live::FlightFile::entries_at(); }
  // The memory of the ring, cleared, as the host and the device reach it; null where there is no room for it in shared memory.
  device::Slot* ring() const { return file_->ring_slots == 0 ? nullptr : reinterpret_cast<device::Slot*>(bytes() + ring_at()); }
  std::uint64_t device_ring() const { return memory_->device() + ring_at(); }
  // From now on the opcode stands for this: "add (version 2)".
  void assign(std::uint32_t opcode, std::string_view name, const Signature& signature) noexcept;
  // An exec has been instantiated, whose launches come at `position` or behind. `lease`: as of Graphs::add. Returns the number of its first
  // node, for set_arguments.
  std::uint64_t add(const Exec& exec, std::uint64_t offset, std::uint64_t bytes, std::optional<std::uint32_t> lease,
                    std::uint64_t position) noexcept;
  // A node of the exec whose first one has that number has other arguments from its next launch on.
  void set_arguments(std::uint64_t first, std::uint32_t node, std::span<const std::uint32_t> words) noexcept;
  // What is known (still) of the task of the ring, or the node of a graph, that a worker has noted: empty texts for what is not.
  struct Details {
    std::string name;  // of a node
    std::string arguments;
  };
  using DetailsOf = std::function<Details(const live::FlightEntry& entry)>;
  // Keeps the file although the object goes, and notes why, and what the last tasks were, and with what arguments: the youngest
  // live::Directory::kFlights that the process keeps. Its path; empty when there is no file.
  const std::filesystem::path& keep(std::string_view failure, const DetailsOf& details_of) noexcept;

 private:
  FlightRecorder() = default;
  void note_details(const DetailsOf& details_of) DWELL_REQUIRES(mutex_);
  std::byte* bytes() const { return static_cast<std::byte*>(memory_->host()); }
  std::size_t ring_at() const { return live::FlightFile::ring_at(file_->workers); }

  std::unique_ptr<backend::Allocation> memory_;
  std::filesystem::path path_;  // empty: no file can be made
  bool mapped_ = false;         // the memory is the file, which is this object's
  live::FlightFile* file_ = nullptr;
  Mutex mutex_;
  bool keeps_ DWELL_GUARDED_BY(mutex_) = false;
};

// Returns the details of an entry's node; none for a task of the ring, which the ring and the tables describe.
FlightRecorder::Details details_of(const live::FlightEntry& entry, Graphs& graphs,
                                   const std::function<std::string(std::uint32_t opcode)>& name_of);

}  // namespace dwell::runtime
