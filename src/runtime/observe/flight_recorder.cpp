#include "runtime/observe/flight_recorder.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <mutex>
#include <new>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <dwell/error.hpp>

#include "base/file.hpp"
#include "device/arena.hpp"
#include "live/directory.hpp"
#include "live/process.hpp"
#include "runtime/observe/end_notes.hpp"

namespace dwell::runtime {

namespace {

using live::FlightEntry;
using live::FlightFile;

static_assert(live::kFlightEntries == 1U << device::kFlightShift && sizeof(FlightEntry) == sizeof(device::Quad));
static_assert(FlightEntry::kValid == device::InFlight::kValid && FlightEntry::kNode == device::InFlight::kNode &&
              FlightEntry::kLaunch == device::InFlight::kLaunch);
static_assert(FlightEntry::kOpcodeMask == device::Header::kOpcodeMask);
static_assert(FlightFile::kMostWorkers == device::kMaxWorkers);

constexpr std::uint64_t kMostCopies = 16;  // of this library in a process
constexpr std::uint64_t kOfACopy = 1'000'000;

template <std::size_t N>
void put(char (&to)[N], std::string_view text) {
  const std::size_t count = std::min(text.size(), N - 1);
  std::copy_n(text.data(), count, to);  // an empty text may have no address, which memcpy does not take
  to[count] = 0;
}

// As above, for a computed text; does nothing without memory.
template <std::size_t N, class Make>
void put_text(char (&to)[N], const Make& make) noexcept {
  to[0] = 0;
  try {
    put(to, make());
  } catch (const std::bad_alloc&) {  // without memory the name stays empty
  }
}

void put_words(live::FlightNode& to, std::span<const std::uint32_t> words) noexcept {
  std::ranges::copy(words.first(std::min(words.size(), live::FlightNode::kWords)), to.word);
  to.words = static_cast<std::uint32_t>(words.size());
}

std::string own_command() {
  std::ifstream file("/proc/self/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

// `bytes` of the file, mapped; null with errno.
std::shared_ptr<void> mapped(const File& file, std::size_t bytes) {
  // Allocates the pages now: a later store without free memory would kill the process.
  errno = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  if (errno != 0) return nullptr;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return nullptr;
  return {memory, [bytes](void* address) { munmap(address, bytes); }};
}

std::size_t bytes_for(std::uint32_t workers, std::uint64_t ring_slots) {
  return device::align_up(FlightFile::bytes(workers, ring_slots), 4096);
}

// Keeps only the newest files: a process that fails and reopens for days must not fill the machine's memory. Leaked: runtimes may fail
// until the last static object is destroyed.
void keep_youngest(std::filesystem::path path) {
  static std::mutex mutex;
  static auto& kept = *new std::array<std::filesystem::path, live::Directory::kFlights>;
  static std::size_t next = 0;
  const std::lock_guard lock(mutex);
  std::filesystem::path& oldest = kept[next++ % kept.size()];
  if (!oldest.empty()) unlink(oldest.c_str());
  oldest = std::move(path);
}

}  // namespace

// Delegates, so that the destructor removes the file when an allocation fails here.
FlightRecorder::FlightRecorder(backend::Backend& backend, std::uint64_t runtime, const std::string& device, std::uint32_t workers,
                               std::uint64_t ring_slots, const std::function<void(std::string_view)>& warn)
    : FlightRecorder() {
  try {
    const live::Directory directory = live::Directory::make();
    const auto make = [&](std::uint64_t number) {
      path_ = directory.flight_of(live::Process::self(), number);
      return File(open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    };
    File file = make(runtime);
    // Another copy of this library in the process numbers its own runtimes: Python's and PyTorch's extensions have one each.
    for (std::uint64_t copy = 1; !file && errno == EEXIST && copy <= kMostCopies; ++copy) file = make(runtime + copy * kOfACopy);
    mapped_ = static_cast<bool>(file);
    std::shared_ptr<void> memory = file ? mapped(file, bytes_for(workers, ring_slots)) : nullptr;
    if (memory == nullptr && file) {
      // The ring is the largest part, and is optional.
      ring_slots = 0;
      static_cast<void>(ftruncate(file.get(), 0));
      memory = mapped(file, bytes_for(workers, ring_slots));
    }
    if (memory == nullptr) throw Error(errc::io_failed, path_.string() + ": " + std::strerror(errno));
    void* const address = memory.get();
    try {
      memory_ = backend.pin(address, bytes_for(workers, ring_slots), std::move(memory));
    } catch (const Error& error) {
      if (error.kind() != errc::invalid_argument && error.kind() != errc::unsupported) throw;
      // The device cannot access it: the file is written when the runtime fails.
      unlink(path_.c_str());
      mapped_ = false;
    }
  } catch (const Error& error) {
    if (mapped_) unlink(path_.c_str());
    mapped_ = false;
    path_.clear();
    if (warn) warn(std::string("no flight recorder outlives this process: ") + error.what());
  }
  if (memory_ == nullptr) memory_ = backend.allocate_host(bytes_for(workers, ring_slots));
  file_ = static_cast<FlightFile*>(memory_->host());
  file_->magic = FlightFile::kMagic;
  file_->version = FlightFile::kVersion;
  file_->workers = workers;
  file_->ring_slots = ring_slots;
  file_->runtime = runtime;
  file_->pid = getpid();
  put(file_->command, own_command());
  put(file_->device, device);
  if (mapped_) note_end_in(*file_);
}

FlightRecorder::~FlightRecorder() {
  const Lock lock(mutex_);
  if (mapped_ && file_ != nullptr) forget_end_in(*file_);
  if (mapped_ && !keeps_) unlink(path_.c_str());
}

void FlightRecorder::assign(std::uint32_t opcode, std::string_view name, const Signature& signature) noexcept {
  live::FlightOperator& to = file_->operators[opcode];
  const std::vector<Parameter>& parameters = signature.parameters();
  put(to.name, name);
  to.parameters = static_cast<std::uint32_t>(parameters.size());
  std::copy_n(parameters.begin(), std::min(parameters.size(), live::FlightOperator::kParameters), to.parameter);
}

std::uint64_t FlightRecorder::add(const Exec& exec, std::uint64_t offset, std::uint64_t bytes, std::optional<std::uint32_t> lease,
                                  std::uint64_t position) noexcept {
  const Lock lock(mutex_);
  live::FlightExec& to = file_->execs[file_->execs_written % FlightFile::kExecs];
  to.offset = offset;
  to.bytes = bytes;
  to.position = position;
  to.first = file_->nodes_taken;
  to.lease = lease.value_or(0);
  to.again = lease ? 1 : 0;
  put(to.name, exec.name());
  // If the process is killed in between, a reader of the file sees the old numbers.
  using device::Order;
  using device::Scope;
  to.nodes = std::min<std::uint32_t>(exec.nodes(), FlightFile::kNodesOfExec);
  device::store<Order::relaxed, Scope::system>(&file_->nodes_taken, to.first + to.nodes);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  for (std::uint32_t node = 0; node < to.nodes; ++node) {
    live::FlightNode& its = file_->nodes[(to.first + node) % FlightFile::kNodes];
    const Exec::NodeFacts known = exec.facts_of(node);
    its.cell = known.cell;
    its.number = node | (known.calls ? 0 : live::FlightNode::kWhole);
    if (known.calls)
      put(its.name, known.name);
    else
      put_text(its.name, [&] { return exec.text_of(node); });
    put_words(its, known.words);
  }
  device::store<Order::release, Scope::system>(&file_->execs_written, file_->execs_written + 1);
  return to.first;
}

void FlightRecorder::set_arguments(std::uint64_t first, std::uint32_t node, std::span<const std::uint32_t> words) noexcept {
  const Lock lock(mutex_);
  // Nodes of other execs may have overwritten them.
  if (node >= FlightFile::kNodesOfExec || file_->nodes_taken - (first + node) > FlightFile::kNodes) return;
  live::FlightNode& its = file_->nodes[(first + node) % FlightFile::kNodes];
  put_words(its, words);
  its.words |= live::FlightNode::kSet;
}

void FlightRecorder::note_details(const DetailsOf& details_of) {
  const auto* const entries =
      reinterpret_cast<const device::Quad*>(static_cast<const std::byte*>(memory_->host()) + FlightFile::entries_at());
  using Worker = std::array<FlightEntry, live::kFlightEntries>;
  std::vector<Worker> workers(file_->workers);
  for (std::size_t worker = 0; worker < workers.size(); ++worker) {
    for (std::size_t i = 0; i < live::kFlightEntries; ++i) {
      const device::Quad quad = device::load_quad<device::Scope::system>(entries + worker * live::kFlightEntries + i);
      workers[worker][i] = {quad.lap, quad.word[0], quad.word[1], quad.word[2]};
    }
    live::sort_oldest_first(workers[worker]);
    std::ranges::reverse(workers[worker]);
  }
  std::set<std::pair<std::uint64_t, std::uint32_t>> asked;  // a node may occur often
  std::size_t noted = 0;
  // The last task of each worker, then the one before it, and so on.
  for (std::size_t back = 0; back < live::kFlightEntries; ++back) {
    for (const Worker& worker : workers) {
      const FlightEntry& entry = worker[back];
      if (entry.number == 0 || (entry.word() & FlightEntry::kValid) == 0) continue;
      if (!asked.emplace(entry.word(), entry.lease).second) continue;
      const Details known = details_of(entry);
      if (known.name.empty() && known.arguments.empty()) continue;
      if (noted == FlightFile::kDetails) return;
      live::FlightDetails& to = file_->details[noted++];
      to.word = entry.word();
      to.lease = entry.lease;
      put(to.name, known.name);
      put(to.arguments, known.arguments);
    }
  }
}

const std::filesystem::path& FlightRecorder::keep(std::string_view failure, const DetailsOf& details_of) noexcept {
  const Lock lock(mutex_);
  put(file_->failure, failure);
  try {
    if (!keeps_) note_details(details_of);
  } catch (const std::exception&) {  // then they are not listed
  }
  if (keeps_ || path_.empty()) return path_;
  keeps_ = true;
  try {
    keep_youngest(path_);
  } catch (const std::bad_alloc&) {  // then one more file stays
  }
  if (mapped_) return path_;
  const File file(open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file || !file.write_all(std::span(static_cast<const std::byte*>(memory_->host()), memory_->bytes()))) {
    unlink(path_.c_str());
    path_.clear();
  }
  return path_;
}

FlightRecorder::Details details_of(const live::FlightEntry& entry, Graphs& graphs,
                                   const std::function<std::string(std::uint32_t opcode)>& name_of) {
  if (!entry.is_node()) return {};
  Graphs::Place place = graphs.place_of(entry.offset());
  // The entry may belong to an earlier exec at this place.
  if (place.exec == nullptr || (place.lease && !device::is_after(entry.lease, *place.lease))) return {};
  const std::uint32_t cell = place.cell(entry.offset());
  FlightRecorder::Details known{place.exec->title_at(cell, name_of(entry.opcode())), place.exec->arguments_at(cell)};
  // The exec must not be destroyed here, under the keeper's lock: the next launch releases it.
  Graphs::Flight flight;
  flight.emplace_back(0, std::move(place.exec));
  graphs.launched(0, std::move(flight));
  return known;
}

}  // namespace dwell::runtime
