#include "live/flight.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <dwell/error.hpp>

#include "base/file.hpp"

namespace dwell::live {

namespace {

template <std::size_t N>
std::string text_of(const char (&from)[N]) {
  return std::string(from, ::strnlen(from, N));
}

std::vector<Flight::Task> tasks_of(const FlightFile& head, std::span<const FlightEntry> ring) {
  std::vector<FlightEntry> entries;
  for (const FlightEntry& entry : ring)
    if (entry.number != 0 && (entry.word() & FlightEntry::kValid) != 0) entries.push_back(entry);
  std::ranges::sort(entries, [](const FlightEntry& a, const FlightEntry& b) { return static_cast<std::int32_t>(a.number - b.number) < 0; });
  std::vector<Flight::Task> tasks;
  for (const FlightEntry& entry : entries) {
    Flight::Task task;
    task.launch = entry.is_launch();
    task.name = task.launch ? "a graph" : text_of(head.names[entry.opcode()]);
    if (task.name.empty()) task.name = "operator " + std::to_string(entry.opcode());
    task.node = entry.is_node();
    if (task.node)
      task.address = entry.address();
    else
      task.position = entry.low;
    task.lease = entry.lease;
    for (const FlightDetails& known : head.details) {
      if (known.word == 0) break;
      if (known.word != entry.word() || known.lease != entry.lease) continue;
      if (known.name[0] != 0) task.name = text_of(known.name);
      task.arguments = text_of(known.arguments);
    }
    tasks.push_back(std::move(task));
  }
  return tasks;
}

std::string hexadecimal(std::uint64_t value) {
  std::string text;
  for (; value != 0 || text.empty(); value >>= 4U) text.insert(text.begin(), "0123456789abcdef"[value & 15U]);
  return "0x" + text;
}

}  // namespace

Flight read_flight(const std::filesystem::path& path) {
  const auto refuse = [&](const std::string& why) -> Error {
    return Error(errc::io_failed, path.string() + ": " + why, {"file", path.string()});
  };
  constexpr std::size_t kLargest = std::size_t{64} << 20U;
  const std::optional<std::vector<std::byte>> bytes = read_file(path, kLargest);
  if (!bytes) throw refuse("it cannot be read");
  if (bytes->size() < FlightFile::entries_at()) throw refuse("it is no flight recorder's file: it is too short");
  const auto head = std::make_unique<FlightFile>();
  std::memcpy(head.get(), bytes->data(), sizeof(FlightFile));
  if (head->magic != FlightFile::kMagic) throw refuse("it is no flight recorder's file");
  if (head->version != FlightFile::kVersion)
    throw refuse("it is of version " + std::to_string(head->version) + ", and this program reads " + std::to_string(FlightFile::kVersion));
  if (bytes->size() < FlightFile::bytes(head->workers)) throw refuse("it is cut off");
  std::vector<FlightEntry> entries(std::size_t{head->workers} * kFlightEntries);
  if (!entries.empty()) std::memcpy(entries.data(), bytes->data() + FlightFile::entries_at(), entries.size() * sizeof(FlightEntry));
  Flight flight{head->runtime, head->pid, text_of(head->command), text_of(head->device), text_of(head->failure), {}};
  for (std::size_t worker = 0; worker < head->workers; ++worker)
    flight.workers.push_back(tasks_of(*head, std::span(entries).subspan(worker * kFlightEntries, kFlightEntries)));
  return flight;
}

std::string to_string(const Flight& flight, std::size_t most) {
  std::string text = flight.command + " (process " + std::to_string(flight.pid) + "), runtime " + std::to_string(flight.runtime) + " on " +
                     flight.device + "\n";
  text += flight.failure.empty() ? "it has said nothing of a failure: it was ended from outside, or still runs\n" : flight.failure + "\n";
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
      text += "  " + task.name +
              (unknown                  ? " (arguments unknown)"
               : task.arguments.empty() ? ""
                                        : " " + task.arguments) +
              (task.node ? ", node at " + hexadecimal(task.address) : ", ticket " + std::to_string(task.position)) + ", lease " +
              std::to_string(task.lease) + "\n";
    }
  }
  if (silent != 0) text += std::to_string(silent) + " workers have run nothing of the ring or of a graph\n";
  return text;
}

}  // namespace dwell::live
