#include "live/flight.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <dwell/error.hpp>

#include "base/file.hpp"
#include "base/utf8.hpp"
#include "live/ring_words.hpp"
#include "live/value_text.hpp"

namespace dwell::live {

namespace {

template <std::size_t N>
std::string text_of(const char (&from)[N]) {
  return std::string(from, ::strnlen(from, N));
}

// The ring in a file; reads only the slots of the last tasks.
struct RingInFile {
  const File& file;
  std::uint64_t at;
  std::uint64_t slots;  // a power of two, or 0

  std::optional<device::Slot> operator()(std::uint32_t index) const {
    device::Slot slot;
    const ssize_t got = file.read_at(std::as_writable_bytes(std::span(&slot, 1)), static_cast<off_t>(at + index * sizeof(slot)));
    return got == static_cast<ssize_t>(sizeof(slot)) ? std::optional(slot) : std::nullopt;
  }
};

// Looks up entries in the tables of a file.
class Tables {
 public:
  Tables(const FlightFile& head, const RingInFile& ring) : head_(head), ring_(ring) {
    for (const FlightDetails& known : head.details) {
      if (known.word == 0) break;
      details_[{known.word, known.lease}] = &known;
    }
  }

  const FlightDetails* details_of(const FlightEntry& entry) const {
    const auto at = details_.find({entry.word(), entry.lease});
    return at == details_.end() ? nullptr : at->second;
  }

  std::string name_of(std::uint32_t opcode) const {
    const std::string name = text_of(head_.operators[opcode].name);
    return name.empty() ? "operator " + std::to_string(opcode) : name;
  }
  // Formats the arguments of the task at a position; empty when the ring no longer holds it.
  std::string arguments_of(std::uint32_t position, std::uint32_t opcode) const {
    const std::vector<std::uint32_t> words = words_at(position);
    return words.empty() ? std::string() : arguments_of(words, opcode);
  }
  std::string launch_at(std::uint32_t position) const {
    const std::vector<std::uint32_t> words = words_at(position);
    if (words.size() < 2) return "a graph";
    const std::uint64_t offset = words[0] | static_cast<std::uint64_t>(words[1]) << 32U;
    const FlightExec* const exec = find([&](const FlightExec& its) {
      return its.offset == offset && static_cast<std::int32_t>(position - static_cast<std::uint32_t>(its.position)) >= 0;
    });
    return exec == nullptr || exec->name[0] == 0 ? "a graph" : "graph '" + text_of(exec->name) + "'";
  }
  // Returns an entry's node; null if unknown.
  const FlightNode* node_of(const FlightEntry& entry) const {
    const std::uint64_t offset = entry.offset();
    const FlightExec* const exec = find([&](const FlightExec& its) {
      return offset - its.offset < its.bytes && (its.again == 0 || static_cast<std::int32_t>(entry.lease - its.lease) >= 0);
    });
    // Ambiguous: several execs have been there.
    if (exec == nullptr || (exec->again != 0 && entry.lease == exec->lease)) return nullptr;
    const std::uint64_t nodes = std::min<std::uint64_t>(exec->nodes, FlightFile::kNodesOfExec);
    for (std::uint64_t i = exec->first; i - exec->first < nodes; ++i) {
      const FlightNode& node = head_.nodes[i % FlightFile::kNodes];
      if (head_.nodes_taken - i <= FlightFile::kNodes && node.cell == (offset - exec->offset) / 64) return &node;
    }
    return nullptr;
  }
  std::string title_of(const FlightNode& node, std::uint32_t opcode) const {
    std::string name = text_of(node.name);
    if ((node.number & FlightNode::kWhole) != 0) return name;
    return (name.empty() ? "#" + std::to_string(node.number) : name) + ": " + name_of(opcode);
  }
  std::string arguments_of(const FlightNode& node, std::uint32_t opcode) const {
    if ((node.number & FlightNode::kWhole) != 0) return {};
    const std::size_t words = std::min<std::size_t>(node.words & ~FlightNode::kSet, FlightNode::kWords);
    const std::string text = arguments_of(std::span(node.word, words), opcode);
    return !text.empty() && (node.words & FlightNode::kSet) != 0 ? text + " as set last" : text;
  }

 private:
  // Formats the arguments of a call of this operator; with fewer words than it takes, the first ones.
  std::string arguments_of(std::span<const std::uint32_t> words, std::uint32_t opcode) const {
    const FlightOperator& op = head_.operators[opcode];
    if (op.name[0] == 0 || (words.empty() && op.parameters != 0)) return {};
    const std::size_t known = std::min<std::size_t>(op.parameters, FlightOperator::kParameters);
    std::string text = text_of_arguments(Signature(std::vector<Parameter>(op.parameter, op.parameter + known)), words);
    if (known < op.parameters && !text.empty() && !text.ends_with("...)")) text.replace(text.size() - 1, 1, ", ...)");
    return text;
  }
  std::vector<std::uint32_t> words_at(std::uint32_t position) const {
    return ring_.slots == 0 ? std::vector<std::uint32_t>()
                            : ring_words(ring_, static_cast<std::uint32_t>(std::countr_zero(ring_.slots)), position);
  }
  // Returns the newest matching exec. The entry of the oldest may have been partly overwritten when the process ended.
  template <class Meant>
  const FlightExec* find(const Meant& meant) const {
    for (std::uint64_t age = 0; age < std::min<std::uint64_t>(head_.execs_written, FlightFile::kExecs - 1); ++age) {
      const FlightExec& exec = head_.execs[(head_.execs_written - 1 - age) % FlightFile::kExecs];
      if (meant(exec)) return &exec;
    }
    return nullptr;
  }

  const FlightFile& head_;
  const RingInFile& ring_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, const FlightDetails*> details_;  // by word and lease
};

std::vector<Flight::Task> tasks_of(const Tables& tables, std::span<const FlightEntry> ring) {
  std::vector<FlightEntry> entries;
  for (const FlightEntry& entry : ring)
    if (entry.number != 0 && (entry.word() & FlightEntry::kValid) != 0) entries.push_back(entry);
  sort_oldest_first(entries);
  std::vector<Flight::Task> tasks;
  for (const FlightEntry& entry : entries) {
    Flight::Task task;
    task.launch = entry.is_launch();
    task.node = entry.is_node();
    if (task.node) {
      task.offset = entry.offset();
      const FlightNode* const node = tables.node_of(entry);
      task.name = node != nullptr ? tables.title_of(*node, entry.opcode()) : tables.name_of(entry.opcode());
      if (node != nullptr) task.arguments = tables.arguments_of(*node, entry.opcode());
    } else {
      task.position = entry.low;
      task.name = task.launch ? tables.launch_at(entry.low) : tables.name_of(entry.opcode());
      if (!task.launch) task.arguments = tables.arguments_of(entry.low, entry.opcode());
    }
    task.lease = entry.lease;
    if (const FlightDetails* const known = tables.details_of(entry)) {
      if (known->name[0] != 0) task.name = text_of(known->name);
      if (known->arguments[0] != 0) task.arguments = text_of(known->arguments);
    }
    tasks.push_back(std::move(task));
  }
  return tasks;
}

// Names of the signals that a process raises itself.
const char* name_of_signal(int signal) {
  switch (signal) {
    case SIGSEGV: return "SIGSEGV (memory that is not there)";
    case SIGBUS: return "SIGBUS (memory that cannot be reached)";
    case SIGFPE: return "SIGFPE (a division by 0, or the like)";
    case SIGILL: return "SIGILL (no such instruction)";
    case SIGABRT: return "SIGABRT (abort, std::terminate or an assertion)";
    default: return nullptr;
  }
}

std::string text_of_end(const Flight& flight) {
  const FlightEnd& end = flight.end;
  if (end.signal == 0) return flight.failure.empty() ? "it has said nothing of a failure: it was ended from outside, or still runs\n" : "";
  if (end.signal == FlightEnd::kExit) return "it has called exit() without closing the runtime\n";
  const char* const known = name_of_signal(end.signal);
  std::string text = std::string("it ended itself by ") + (known != nullptr ? known : "signal " + std::to_string(end.signal));
  if (end.worker >= flight.workers.size()) return text + ", in thread " + std::to_string(end.thread) + ", which is no worker\n";
  text += " in worker " + std::to_string(end.worker);
  const auto& tasks = flight.workers[end.worker];
  return text + (tasks.empty() ? "" : ", in or behind " + printable(tasks.back().name)) + "\n";
}

std::string hexadecimal(std::uint64_t value) {
  std::string text;
  for (; value != 0 || text.empty(); value >>= 4U) text.insert(text.begin(), "0123456789abcdef"[value & 15U]);
  return "0x" + text;
}

}  // namespace

void sort_oldest_first(std::span<FlightEntry> entries) {
  if (entries.empty()) return;
  // Numbers wrap around: related ones are within half the range of the first, on either side.
  const std::uint32_t least = entries.front().number - (1U << 31U);
  std::ranges::stable_sort(entries, {}, [least](const FlightEntry& entry) { return entry.number - least; });
}

Flight read_flight(const std::filesystem::path& path) {
  const auto refuse = [&](const std::string& why) -> Error {
    return Error(errc::io_failed, path.string() + ": " + why, {"file", path.string()});
  };
  std::string why;
  const File file = open_to_read(path, FileKinds::regular, &why);
  if (!file) throw refuse("it cannot be read: " + why);
  // Reads `to` at `offset`; false if the file ends before.
  const auto read = [&](std::span<std::byte> to, std::uint64_t offset) {
    const ssize_t got = file.read_at(to, static_cast<off_t>(offset));
    if (got < 0) throw refuse("it cannot be read: " + std::generic_category().message(errno));
    return static_cast<std::size_t>(got) == to.size();
  };
  const auto head = std::make_unique<FlightFile>();
  if (!read(std::as_writable_bytes(std::span(head.get(), 1)), 0)) throw refuse("it is no flight recorder's file: it is too short");
  if (head->magic != FlightFile::kMagic) throw refuse("it is no flight recorder's file");
  if (head->version != FlightFile::kVersion)
    throw refuse("it is of version " + std::to_string(head->version) + ", and this program reads " + std::to_string(FlightFile::kVersion));
  if (head->workers > FlightFile::kMostWorkers || head->ring_slots > FlightFile::kMostRingSlots)
    throw refuse("it is damaged: no runtime has " + std::to_string(head->workers) + " workers and a ring of " +
                 std::to_string(head->ring_slots) + " slots");
  struct stat status {};
  if (fstat(file.get(), &status) != 0) throw refuse("it cannot be read: " + std::generic_category().message(errno));
  if (static_cast<std::uint64_t>(status.st_size) < FlightFile::bytes(head->workers, head->ring_slots)) throw refuse("it is cut off");
  std::vector<FlightEntry> entries(std::size_t{head->workers} * kFlightEntries);
  if (!read(std::as_writable_bytes(std::span(entries)), FlightFile::entries_at())) throw refuse("it is cut off");
  const RingInFile ring{file, FlightFile::ring_at(head->workers), std::bit_floor(head->ring_slots)};
  const Tables tables(*head, ring);
  Flight flight{head->runtime, head->pid, text_of(head->command), text_of(head->device), text_of(head->failure), head->end, {}};
  for (std::size_t worker = 0; worker < head->workers; ++worker)
    flight.workers.push_back(tasks_of(tables, std::span(entries).subspan(worker * kFlightEntries, kFlightEntries)));
  return flight;
}

std::string to_string(const Flight& flight, std::size_t most) {
  std::string text = printable(flight.command) + " (process " + std::to_string(flight.pid) + "), runtime " +
                     std::to_string(flight.runtime) + " on " + printable(flight.device) + "\n";
  if (!flight.failure.empty()) text += printable(flight.failure, "\n\t") + "\n";
  text += text_of_end(flight);
  std::size_t silent = 0;
  for (std::size_t worker = 0; worker < flight.workers.size(); ++worker) {
    const auto& tasks = flight.workers[worker];
    if (tasks.empty()) {
      ++silent;
      continue;
    }
    text += "worker " + std::to_string(worker) + ", the last one below\n";
    for (std::size_t i = tasks.size() - std::min(most, tasks.size()); i < tasks.size(); ++i) {
      const Flight::Task& task = tasks[i];
      const bool unknown = task.node && task.arguments.empty() && !flight.failure.empty();
      text += "  " + printable(task.name) +
              (unknown                  ? " (arguments unknown)"
               : task.arguments.empty() ? ""
                                        : " " + printable(task.arguments)) +
              (task.node ? ", node at " + hexadecimal(task.offset) : ", ticket " + std::to_string(task.position)) + ", lease " +
              std::to_string(task.lease) + "\n";
    }
  }
  if (silent != 0) text += std::to_string(silent) + " workers have run nothing of the ring or of a graph\n";
  return text;
}

}  // namespace dwell::live
