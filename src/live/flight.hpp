// The file of a flight recorder, and its reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <dwell/signature.hpp>

namespace dwell::live {

// A worker's record of a task that it was about to run: 16 bytes, stored at once.
struct FlightEntry {
  std::uint32_t number;  // the worker's count of records including this one, modulo 2^32
  std::uint32_t low;     // low half of the word below
  std::uint32_t high;
  std::uint32_t lease;  // whose number

  // position (32) | opcode (13) | ... | kLaunch | ... | kNode | kValid; of the launch of a graph no opcode; of a node its
  // record's cell in the arena instead of the position.
  static constexpr std::uint64_t kValid = 1ULL << 63U;
  static constexpr std::uint64_t kNode = 1ULL << 62U;
  static constexpr std::uint64_t kLaunch = 1ULL << 60U;
  static constexpr std::uint32_t kOpcodeMask = 0x1FFF;

  std::uint64_t word() const { return low | static_cast<std::uint64_t>(high) << 32U; }
  std::uint32_t opcode() const { return high & kOpcodeMask; }
  bool is_node() const { return (word() & kNode) != 0; }
  bool is_launch() const { return (word() & kLaunch) != 0; }
  // Of a node.
  std::uint64_t offset() const { return std::uint64_t{low} * 64; }
};
static_assert(sizeof(FlightEntry) == 16);

inline constexpr std::uint32_t kFlightEntries = 64;  // of each worker

// Sorts records of one worker, oldest first; their numbers wrap around. The order of damaged records is unspecified.
void sort_oldest_first(std::span<FlightEntry> entries);

// An operator's version, by its opcode.
struct FlightOperator {
  static constexpr std::size_t kParameters = 15;

  char name[64];             // "add (version 2)"; empty: there is none
  std::uint32_t parameters;  // their number; the first kParameters follow:
  Parameter parameter[kParameters];
};
static_assert(sizeof(FlightOperator) == 128);

// An exec that was instantiated.
struct FlightExec {
  std::uint64_t offset;    // of its records in the arena
  std::uint64_t bytes;     // of these
  std::uint64_t position;  // lower bound of its launches' positions
  std::uint64_t first;     // of its nodes, as they are counted
  std::uint32_t nodes;     // the first kNodesOfExec at most, in their order
  std::uint32_t lease;     // with `again`: the last lease whose entries may belong to an earlier exec at this place
  std::uint32_t again;     // an earlier exec may have been there
  char name[60];           // of its graph; empty: none
};
static_assert(sizeof(FlightExec) == 104);

struct FlightNode {
  static constexpr std::uint32_t kWhole = 1U << 31U;
  static constexpr std::uint32_t kSet = 1U << 31U;
  static constexpr std::size_t kWords = 15;

  std::uint32_t cell;    // of its record, in the exec's
  std::uint32_t number;  // with kWhole: the name is complete, as the node calls no operator
  char name[56];         // "left", "'loop' (while)"; empty: it has none
  std::uint32_t words;   // number of its argument words; with kSet they were changed
  std::uint32_t word[kWords];
};
static_assert(sizeof(FlightNode) == 128);

// Texts for entries with this word and lease; may be truncated. Written by the failed runtime.
struct FlightDetails {
  std::uint64_t word;  // 0: end of the table
  std::uint32_t lease;
  char name[64];        // of a node: "left: add (version 2)", "#3 (callback)"; empty: as the tables say
  char arguments[116];  // "(2.5, 0x7f00[1024])"; empty: they are not known
};
static_assert(sizeof(FlightDetails) == 192);

// How the process ended itself, written by a signal handler in one store; all 0: it did not.
struct alignas(8) FlightEnd {
  static constexpr std::uint16_t kExit = 0xFFFF;  // in place of a signal: it has called exit()
  static constexpr std::uint16_t kNoWorker = 0xFFFF;

  std::uint32_t thread;  // the system's number of the thread that did it
  std::uint16_t signal;
  std::uint16_t worker;  // kNoWorker: a thread of the program's own
};
static_assert(sizeof(FlightEnd) == 8);

// The head of the file, in one layout for all builds. kFlightEntries of each worker follow at entries_at(), then the ring.
struct FlightFile {
  static constexpr std::uint64_t kMagic = 0x746867696C66ULL;  // "flight"
  static constexpr std::uint32_t kVersion = 8;
  static constexpr std::size_t kOpcodes = FlightEntry::kOpcodeMask + 1;
  static constexpr std::size_t kDetails = 1024;
  static constexpr std::size_t kExecs = 256;
  static constexpr std::size_t kNodes = 8192;
  static constexpr std::size_t kNodesOfExec = 1024;
  static constexpr std::uint32_t kMostWorkers = 8192;
  static constexpr std::uint64_t kMostRingSlots = 1ULL << 24U;

  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t workers;
  std::uint64_t runtime;
  std::int64_t pid;
  char command[64];   // of the process
  char device[32];    // "cuda:0"
  char failure[896];  // why the runtime has failed; empty if unknown
  // The number of ring slots at ring_at(workers), a power of two; 0: the ring is not in the file.
  std::uint64_t ring_slots;
  // The last entries, each at its number modulo the length of its table. Counters are incremented before entries are overwritten (nodes),
  // and after entries are complete (execs).
  std::uint64_t execs_written;
  std::uint64_t nodes_taken;
  FlightEnd end;
  FlightOperator operators[kOpcodes];
  FlightExec execs[kExecs];
  FlightNode nodes[kNodes];
  FlightDetails details[kDetails];

  static constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }
  static constexpr std::size_t entries_at() { return aligned(sizeof(FlightFile)); }
  static constexpr std::size_t ring_at(std::uint32_t workers) {
    return entries_at() + aligned(sizeof(FlightEntry) * kFlightEntries * workers);
  }
  static constexpr std::size_t bytes(std::uint32_t workers, std::uint64_t ring_slots) { return ring_at(workers) + 64 * ring_slots; }
};

// The content of a file.
struct Flight {
  struct Task {
    std::string name;            // "add (version 2)", "left: add (version 2)"; of a launch "graph 'step'", "a graph"
    bool node = false;           // of a graph
    bool launch = false;         // of a graph
    std::uint32_t position = 0;  // of a task of the ring: the low bits of its ticket's position
    std::uint64_t offset = 0;    // of a node: of its record in the arena
    std::string arguments;       // empty: they are not known
    std::uint32_t lease = 0;
  };
  std::uint64_t runtime = 0;
  std::int64_t pid = 0;
  std::string command;
  std::string device;
  std::string failure;
  FlightEnd end{};
  std::vector<std::vector<Task>> workers;  // the tasks that each was about to run, oldest first; the last one may not have run
};

// Reads an untrusted file, possibly another user's: only a regular file, and only the parts that the last tasks need. Throws
// errc::io_failed when it cannot be read, or is no such file.
Flight read_flight(const std::filesystem::path& path);
// Formats each worker's last `most` tasks for people, safe for a terminal.
std::string to_string(const Flight& flight, std::size_t most = kFlightEntries);

}  // namespace dwell::live
