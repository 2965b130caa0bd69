#include "runtime/observe/flight_recorder.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <span>
#include <utility>

#include <dwell/error.hpp>

#include "base/file.hpp"
#include "device/arena.hpp"
#include "live/directory.hpp"
#include "live/process.hpp"

namespace dwell::runtime {

namespace {

using live::FlightEntry;
using live::FlightFile;

static_assert(live::kFlightEntries == 1U << device::kFlightShift && sizeof(FlightEntry) == sizeof(device::Quad));
static_assert(FlightEntry::kValid == device::InFlight::kValid && FlightEntry::kNode == device::InFlight::kNode);
static_assert(FlightEntry::kOpcodeMask == device::Header::kOpcodeMask);

template <std::size_t N>
void put(char (&to)[N], std::string_view text) {
  const std::size_t count = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), count);
  to[count] = 0;
}

std::string own_command() {
  std::ifstream file("/proc/self/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

// The file, mapped; null with the reason.
std::shared_ptr<void> mapped(const std::filesystem::path& path, std::size_t bytes, std::string* why) {
  const File file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  void* memory = MAP_FAILED;
  // Its pages are taken now: later there might be none, and the process would be killed at a store.
  if (file && posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)) == 0)
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) {
    *why = std::strerror(errno);
    if (file) unlink(path.c_str());
    return nullptr;
  }
  return {memory, [bytes](void* address) { munmap(address, bytes); }};
}

}  // namespace

FlightRecorder::FlightRecorder(backend::Backend& backend, std::uint64_t runtime, const std::string& device, std::uint32_t workers,
                               const std::function<void(std::string_view)>& warn) {
  const std::size_t bytes = device::align_up(FlightFile::bytes(workers), 4096);
  try {
    path_ = live::Directory::make().flight_of(live::Process::self(), runtime);
    if (backend.info().on_host) {
      std::string why;
      std::shared_ptr<void> memory = mapped(path_, bytes, &why);
      if (memory == nullptr) throw Error(errc::io_failed, path_.string() + ": " + why);
      void* const address = memory.get();
      memory_ = backend.wrap(address, bytes, std::move(memory));
      mapped_ = true;
    }
  } catch (const Error& error) {
    if (!path_.empty()) unlink(path_.c_str());
    path_.clear();
    if (warn) warn(std::string("no flight recorder outlives this process: ") + error.what());
  }
  if (memory_ == nullptr) memory_ = backend.allocate_host(bytes);
  file_ = static_cast<FlightFile*>(memory_->host());
  file_->magic = FlightFile::kMagic;
  file_->version = FlightFile::kVersion;
  file_->workers = workers;
  file_->runtime = runtime;
  file_->pid = getpid();
  put(file_->command, own_command());
  put(file_->device, device);
}

FlightRecorder::~FlightRecorder() {
  if (mapped_ && !keeps_) unlink(path_.c_str());
}

void FlightRecorder::assign(std::uint32_t opcode, std::string_view name) noexcept {
  if (opcode < FlightFile::kOpcodes) put(file_->names[opcode], name);
}

const std::filesystem::path& FlightRecorder::keep(std::string_view failure) noexcept {
  put(file_->failure, failure);
  keeps_ = true;
  if (mapped_ || path_.empty()) return path_;
  const File file(open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file || !file.write_all(std::span(static_cast<const std::byte*>(memory_->host()), memory_->bytes()))) {
    unlink(path_.c_str());
    path_.clear();
  }
  return path_;
}

}  // namespace dwell::runtime
