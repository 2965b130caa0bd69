// The file that a flight recorder leaves, and what it says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <dwell/signature.hpp>

namespace dwell::live {

// What a worker has noted of a task that it was about to run: 16 bytes, which it stores at once.
struct FlightEntry {
  std::uint32_t number;  // of the note, of this worker, plus 1, modulo 2^32
  std::uint32_t low;     // of the word below
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

// Brings notes of one worker into their order, the oldest first: their numbers go around. Of damaged notes, whose numbers may be any, the
// order is some order.
void sort_oldest_first(std::span<FlightEntry> entries);

// An operator's version, by its opcode.
struct FlightOperator {
  static constexpr std::size_t kParameters = 15;

  char name[64];             // "add (version 2)"; empty: there is none
  std::uint32_t parameters;  // how many it has; the first kParameters of them:
  Parameter parameter[kParameters];
};
static_assert(sizeof(FlightOperator) == 128);

// An exec that was instantiated.
struct FlightExec {
  std::uint64_t offset;    // of its records in the arena
  std::uint64_t bytes;     // of these
  std::uint64_t position;  // where its launches begin, at the earliest
  std::uint64_t first;     // of its nodes, as they are counted
  std::uint32_t nodes;     // the first kNodesOfExec at most, in their order
  std::uint32_t lease;     // with `again`: the last one of which an entry may be of an exec that has lain there before
  std::uint32_t again;     // another may have
  char name[60];           // of its graph; empty: none
};
static_assert(sizeof(FlightExec) == 104);

struct FlightNode {
  static constexpr std::uint32_t kWhole = 1U << 31U;
  static constexpr std::uint32_t kSet = 1U << 31U;
  static constexpr std::size_t kWords = 15;

  std::uint32_t cell;    // of its record, in the exec's
  std::uint32_t number;  // with kWhole: the name says it all, as the node calls no operator
  char name[56];         // "left", "'loop' (while)"; empty: it has none
  std::uint32_t words;   // of its arguments, how many there are; with kSet they were others before
  std::uint32_t word[kWords];
};
static_assert(sizeof(FlightNode) == 128);

// What those whose entries have this word and this lease were, as texts that may be cut off. Written by the runtime that has failed.
struct FlightDetails {
  std::uint64_t word;  // 0: there are no more
  std::uint32_t lease;
  char name[64];        // of a node: "left: add (version 2)", "#3 (callback)"; empty: as the tables say
  char arguments[116];  // "(2.5, 0x7f00[1024])"; empty: they are not known
};
static_assert(sizeof(FlightDetails) == 192);

// How the process has ended itself, written by the handler of a signal in one store; all 0: it has not.
struct alignas(8) FlightEnd {
  static constexpr std::uint16_t kExit = 0xFFFF;  // in place of a signal: it has called exit()
  static constexpr std::uint16_t kNoWorker = 0xFFFF;

  std::uint32_t thread;  // the system's number of the thread that did it
  std::uint16_t signal;
  std::uint16_t worker;  // kNoWorker: a thread of the program's own
};
static_assert(sizeof(FlightEnd) == 8);

// The head of the file, one layout for all who read it. kFlightEntries of each worker follow at entries_at(), then the ring.
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
  char failure[896];  // why the runtime has failed; empty when it has said nothing
  // Slots of the ring are at ring_at(workers), a power of two; 0: it is not in here.
  std::uint64_t ring_slots;
  // The last of them, each at its number modulo the length of its table. The numbers are counted up before the first of a table is written
  // over (nodes), and behind what is complete (execs).
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

// What a file says.
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
  std::vector<std::vector<Task>> workers;  // the tasks that each was about to run, oldest first; the last one may have run or not
};

// Reads the file, which may be another user's and hold anything: a regular one only, and no more of it than the last tasks need. Throws
// errc::io_failed when it cannot be read, or is not one.
Flight read_flight(const std::filesystem::path& path);
// For a person, and for a terminal whatever the file held: each worker's last `most` tasks.
std::string to_string(const Flight& flight, std::size_t most = kFlightEntries);

}  // namespace dwell::live
