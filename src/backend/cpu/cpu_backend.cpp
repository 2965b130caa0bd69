#include "backend/cpu/cpu_backend.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <dwell/error.hpp>

#include "backend/cpu/loaded_object.hpp"
#include "base/mutex.hpp"
#include "base/notes_of_worker.hpp"
#include "base/thread.hpp"
#include "device/cpu_resident.hpp"
#include "image/bundle.hpp"

namespace dwell::backend {

namespace {

// Returns whether the system clock is the cycle counter: then the counters of all processors agree.
bool counts_time() {
  static const bool does = [] {
    std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    std::string name;
    return device::kHasCycleCounter && file >> name && name == "tsc";
  }();
  return does;
}

// Set when a worker never returns: then everything it may still use is leaked.
using Abandoned = std::atomic<bool>;

void keep(std::shared_ptr<void> used) {
  struct Kept {
    Mutex mutex;
    std::vector<std::shared_ptr<void>> all DWELL_GUARDED_BY(mutex);
  };
  static auto& kept = *new Kept;  // never destroyed; reachable, so leak checkers do not report it
  const Lock lock(kept.mutex);
  kept.all.push_back(std::move(used));
}

std::uint64_t physical_memory() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// Host memory that also serves as device memory.
class CpuAllocation final : public Allocation {
 public:
  CpuAllocation(std::size_t bytes, std::shared_ptr<const Abandoned> abandoned) : abandoned_(std::move(abandoned)) {
    const std::size_t rounded = device::align_up(bytes == 0 ? 1 : bytes, 256);
    // A system that overcommits would grant more, and kill the process when it touches it.
    if (rounded <= physical_memory()) host_ = std::aligned_alloc(256, rounded);
    if (host_ == nullptr) throw Error(errc::out_of_memory, "no memory for " + std::to_string(bytes) + " bytes", {"memory", "", bytes, 0});
    std::memset(host_, 0, rounded);
    device_ = reinterpret_cast<std::uint64_t>(host_);
    bytes_ = bytes;
  }
  ~CpuAllocation() override {
    if (abandoned_->load())
      keep(std::shared_ptr<void>(host_, &std::free));
    else
      std::free(host_);
  }
  CpuAllocation(const CpuAllocation&) = delete;
  CpuAllocation& operator=(const CpuAllocation&) = delete;

 private:
  std::shared_ptr<const Abandoned> abandoned_;
};

// A range of reserved addresses; only its first bytes are backed by memory.
class CpuRegion final : public Region {
 public:
  CpuRegion(std::size_t bytes, std::size_t limit, std::shared_ptr<const Abandoned> abandoned) : abandoned_(std::move(abandoned)) {
    // Reserve less under a limit on the address space (ulimit -v).
    void* range = MAP_FAILED;
    for (reserved_ = whole_pages(limit); range == MAP_FAILED && reserved_ >= whole_pages(bytes); reserved_ = whole_pages(reserved_ / 2)) {
      range = mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (range != MAP_FAILED) break;
    }
    if (range == MAP_FAILED) throw no_memory(bytes);
    host_ = range;
    device_ = reinterpret_cast<std::uint64_t>(range);
    try {
      grow(bytes);
    } catch (...) {
      munmap(host_, reserved_);
      throw;
    }
    std::memset(host_, 0, bytes);  // touched here rather than by the first tasks
  }
  ~CpuRegion() override {
    if (!abandoned_->load()) munmap(host_, reserved_);
  }
  CpuRegion(const CpuRegion&) = delete;
  CpuRegion& operator=(const CpuRegion&) = delete;

  void grow(std::size_t bytes) override {
    if (bytes <= bytes_) return;
    const std::size_t wanted = whole_pages(bytes);
    if (wanted > reserved_ || wanted > physical_memory() || mprotect(host_, wanted, PROT_READ | PROT_WRITE) != 0) throw no_memory(bytes);
    bytes_ = wanted;
  }

 private:
  static std::size_t whole_pages(std::size_t bytes) { return device::align_up(bytes, static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))); }
  Error no_memory(std::size_t bytes) const {
    const std::size_t most = std::min<std::size_t>(reserved_, physical_memory());
    return Error(errc::out_of_memory,
                 "no memory for an arena of " + std::to_string(bytes) + " bytes: here it can have " + std::to_string(most) + " at most",
                 {"arena", "", bytes, most});
  }

  std::shared_ptr<const Abandoned> abandoned_;
  std::size_t reserved_ = 0;
};

// Memory of this process that others allocated.
class CpuForeignMemory final : public Allocation {
 public:
  CpuForeignMemory(void* pointer, std::size_t bytes, std::shared_ptr<void> keep_alive, std::shared_ptr<const Abandoned> abandoned)
      : keep_alive_(std::move(keep_alive)), abandoned_(std::move(abandoned)) {
    host_ = pointer;
    device_ = reinterpret_cast<std::uint64_t>(pointer);
    bytes_ = bytes;
  }
  ~CpuForeignMemory() override {
    if (abandoned_->load()) keep(std::move(keep_alive_));
  }
  CpuForeignMemory(const CpuForeignMemory&) = delete;
  CpuForeignMemory& operator=(const CpuForeignMemory&) = delete;

 private:
  std::shared_ptr<void> keep_alive_;
  std::shared_ptr<const Abandoned> abandoned_;
};

class CpuImage final : public LoadedImage {
 public:
  explicit CpuImage(std::shared_ptr<const Abandoned> abandoned) : abandoned_(std::move(abandoned)) {}
  ~CpuImage() override {
    if (!abandoned_->load()) return;
    keep(std::make_shared<decltype(objects)>(std::move(objects)));
    keep(std::make_shared<decltype(entries)>(std::move(entries)));
    keep(std::make_shared<decltype(uses)>(std::move(uses)));
  }
  CpuImage(const CpuImage&) = delete;
  CpuImage& operator=(const CpuImage&) = delete;

  std::uint32_t max_workers(std::uint32_t) const override { return device::kMaxWorkers; }
  std::uint64_t variable(const std::string& symbol) const override {
    for (const auto& object : objects)
      if (const void* const found = object->find(symbol)) return reinterpret_cast<std::uint64_t>(found);
    return 0;
  }

  std::vector<std::shared_ptr<LoadedObject>> objects;
  std::vector<const void*> entries;
  std::vector<std::uint32_t> uses;

 private:
  std::shared_ptr<const Abandoned> abandoned_;
};

// The messages of the last kMost exceptions that operators threw, by task.
class Thrown {
 public:
  // Called in the catch handler, with the task's header.
  static void note(void* to, const u32* words) noexcept {
    const device::Header header = device::Header::from(words[0], words[1]);
    // A spawned task's failure is reported as that of its root task, without a text.
    if (header.is_spawned()) return;
    const std::uint64_t of = words[2] | (header.is_node() ? device::InFlight::kNode : 0);
    try {
      static_cast<Thrown*>(to)->add(of, text());
    } catch (const std::exception&) {  // then the failure has no text
    }
  }
  std::string find(std::uint64_t of) {
    const Lock lock(mutex_);
    const auto at = texts_.find(of);
    return at == texts_.end() ? std::string() : at->second;
  }

 private:
  static constexpr std::size_t kMost = 4096;
  static constexpr std::size_t kLongest = 1024;

  static std::string text() {
    try {
      throw;
    } catch (const std::exception& thrown) {
      return std::string(thrown.what()).substr(0, kLongest);
    } catch (...) {
      return "something that is no std::exception";
    }
  }
  void add(std::uint64_t of, std::string text) {
    const Lock lock(mutex_);
    if (texts_.insert_or_assign(of, std::move(text)).second) order_.push_back(of);
    for (; order_.size() > kMost; order_.pop_front()) texts_.erase(order_.front());
  }

  Mutex mutex_;
  std::unordered_map<std::uint64_t, std::string> texts_ DWELL_GUARDED_BY(mutex_);
  std::deque<std::uint64_t> order_ DWELL_GUARDED_BY(mutex_);  // of its keys, the oldest first
};

// An alternate stack for signal handlers: needed to report a stack overflow.
class SignalStack {
 public:
  // Goes without one when there is no memory: a worker thread cannot report an error.
  SignalStack() : memory_(new (std::nothrow) std::byte[kBytes]) {
    if (memory_ == nullptr) return;
    stack_t stack{};
    stack.ss_sp = memory_.get();
    stack.ss_size = kBytes;
    set_ = sigaltstack(&stack, nullptr) == 0;
  }
  ~SignalStack() {
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    if (set_) sigaltstack(&none, nullptr);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  static constexpr std::size_t kBytes = 65536;
  std::unique_ptr<std::byte[]> memory_;
  bool set_ = false;
};

// The worker threads: thread `i` is worker `i` of successive leases. They sleep while there is no lease.
class WorkerThreads {
 public:
  // Calls counts_time here: it allocates, and a worker thread cannot report a lack of memory.
  explicit WorkerThreads(Thrown& thrown) : thrown_(thrown), counts_time_(counts_time()) {}
  ~WorkerThreads() {
    stop_.store(true, std::memory_order_relaxed);
    started_.fetch_add(1, std::memory_order_release);
    started_.notify_all();
  }

  // Runs a lease on `lease.workers` threads, on each after earlier leases. Throws errc::out_of_memory when threads cannot be created.
  void start(const device::Lease& lease) {
    while (threads_.size() < lease.workers) {
      const auto me = static_cast<std::uint32_t>(threads_.size());
      with_thread("worker " + std::to_string(me) + " of " + std::to_string(lease.workers), "lower the option workers", [&] {
        return threads_.emplace_back([this, me, next = started_.load(std::memory_order_relaxed)] { serve(me, next); }).get_id();
      });
    }
    running_.fetch_add(lease.workers, std::memory_order_relaxed);
    const std::uint32_t number = started_.load(std::memory_order_relaxed);
    {
      const Lock lock(mutex_);
      leases_[number % device::kMostLeases] = lease;
    }
    started_.store(number + 1, std::memory_order_release);  // pairs with the acquire in serve
    started_.notify_all();
  }

  // Returns once all threads have left all leases.
  void wait() {
    for (std::uint32_t running = running_.load(std::memory_order_acquire); running != 0; running = running_.load(std::memory_order_acquire))
      running_.wait(running, std::memory_order_acquire);
  }

 private:
  void serve(std::uint32_t me, std::uint32_t next) {
    const SignalStack handlers;
    device::Worker worker{};
    worker.clock.counts = counts_time_;
    worker.threw = Thrown::note;
    worker.threw_to = &thrown_;
    std::unique_ptr<std::uint8_t, decltype(&std::free)> scratch(nullptr, &std::free);
    std::size_t scratch_bytes = 0;
    for (;; ++next) {
      std::uint32_t started = started_.load(std::memory_order_acquire);
      while (started == next) {
        started_.wait(next, std::memory_order_acquire);
        started = started_.load(std::memory_order_acquire);
      }
      if (stop_.load(std::memory_order_relaxed)) return;
      // Skip leases that later ones have overwritten: the thread slept through them because they had fewer workers.
      if (started - next > device::kMostLeases) next = started - device::kMostLeases;
      device::Lease lease;
      {
        const Lock lock(mutex_);
        lease = leases_[next % device::kMostLeases];
      }
      if (me >= lease.workers) continue;
      if (scratch_bytes < lease.scratch_bytes) {
        scratch_bytes = device::align_up(lease.scratch_bytes, 64);
        scratch.reset(static_cast<std::uint8_t*>(std::aligned_alloc(64, scratch_bytes)));
      }
      if (scratch == nullptr) lease.scratch_bytes = 0;
      notes_of_worker = lease.flight == nullptr ? nullptr : lease.flight + (std::size_t{me} << device::kFlightShift);
      device::CpuWorker(lease, &worker, scratch.get(), me).serve();
      if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_all();
    }
  }

  Thrown& thrown_;
  const bool counts_time_;
  Mutex mutex_;
  device::Lease leases_[device::kMostLeases] DWELL_GUARDED_BY(mutex_) = {};  // the last ones
  std::atomic<std::uint32_t> started_{0};                                    // leases
  std::atomic<std::uint32_t> running_{0};                                    // pairs of worker and unfinished lease
  std::atomic<bool> stop_{false};
  std::vector<std::jthread> threads_;  // last: joined before the members they use are destroyed
};

// Processors that this process may run on (taskset, cgroups), if the system reports them.
unsigned usable_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<unsigned>(CPU_COUNT(&set));
  return std::max(1U, std::thread::hardware_concurrency());
}

std::string processor_name() {
  std::string name = "CPU";
  if (std::FILE* file = std::fopen("/proc/cpuinfo", "re")) {
    char line[256];
    while (std::fgets(line, sizeof(line), file) != nullptr) {
      if (std::strncmp(line, "model name", 10) != 0) continue;
      if (const char* colon = std::strchr(line, ':')) name = colon + 2;
      while (!name.empty() && (name.back() == '\n' || name.back() == ' ')) name.pop_back();
      break;
    }
    std::fclose(file);
  }
  return name;
}

// Copies one aligned word by one store, which pairs with loads of device code that acquire. Returns false, and copies nothing, for other
// sizes and addresses.
template <class Word>
bool store_word(std::uint64_t to, const void* from, std::size_t bytes) {
  if (bytes != sizeof(Word) || to % sizeof(Word) != 0) return false;
  Word word;
  std::memcpy(&word, from, sizeof(word));
  __atomic_store_n(reinterpret_cast<Word*>(to), word, __ATOMIC_RELEASE);
  return true;
}

// As store_word, by one load. Pairs with stores that release, of device code.
template <class Word>
bool load_word(void* to, std::uint64_t from, std::size_t bytes) {
  if (bytes != sizeof(Word) || from % sizeof(Word) != 0) return false;
  const Word word = __atomic_load_n(reinterpret_cast<const Word*>(from), __ATOMIC_ACQUIRE);
  std::memcpy(to, &word, sizeof(word));
  return true;
}

class CpuBackend final : public Backend {
 public:
  ~CpuBackend() override {
    // Joining the thread of a worker that never returns would hang the program.
    if (!abandoned_->load()) return;
    static_cast<void>(threads_.release());
    keep(std::move(thrown_));
  }

  DeviceInfo info() const override {
    const unsigned processors = usable_processors();
    DeviceInfo info;
    info.device = "cpu";
    info.name = processor_name();
    info.target = "host";
    info.default_workers = processors > 1 ? processors - 1 : 1;
    info.default_lease_ns = 100'000'000;
    info.default_idle_ns = 100'000;
    info.on_host = true;
    info.memory_bytes = physical_memory();
    return info;
  }

  std::unique_ptr<Allocation> allocate(std::size_t bytes) override { return std::make_unique<CpuAllocation>(bytes, abandoned_); }
  std::unique_ptr<Region> reserve(std::size_t bytes, std::size_t limit) override {
    return std::make_unique<CpuRegion>(bytes, limit, abandoned_);
  }
  std::unique_ptr<Allocation> allocate_host(std::size_t bytes) override { return allocate(bytes); }
  std::unique_ptr<Allocation> wrap(void* pointer, std::size_t bytes, std::shared_ptr<void> keep_alive) override {
    return std::make_unique<CpuForeignMemory>(pointer, bytes, std::move(keep_alive), abandoned_);
  }
  void copy_to_device(std::uint64_t to, const void* from, std::size_t bytes) override {
    if (store_word<std::uint32_t>(to, from, bytes) || store_word<std::uint64_t>(to, from, bytes)) return;
    if (bytes != 0) std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  }
  void copy_to_host(void* to, std::uint64_t from, std::size_t bytes) override {
    if (load_word<std::uint32_t>(to, from, bytes) || load_word<std::uint64_t>(to, from, bytes)) return;
    if (bytes != 0) std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  }
  void copy_on_device(std::uint64_t to, std::uint64_t from, std::size_t bytes) override {
    copy_to_device(to, reinterpret_cast<const void*>(from), bytes);
  }
  void clear(std::uint64_t at, std::size_t bytes) override {
    if (bytes != 0) std::memset(reinterpret_cast<void*>(at), 0, bytes);
  }

  std::unique_ptr<LoadedImage> load(std::span<const std::byte> image) override {
    auto program = std::make_unique<CpuImage>(abandoned_);
    std::map<const std::byte*, std::shared_ptr<LoadedObject>> objects;  // by their address in the image
    std::map<std::string, std::weak_ptr<LoadedObject>> loaded;
    image::Bundle bundle = image::unpack(image);
    program->uses = std::move(bundle.uses);
    for (const image::BundleEntry& entry : bundle.entries) {
      if (entry.symbol.empty()) {
        program->entries.push_back(nullptr);
        continue;
      }
      const std::string symbol(entry.symbol);
      std::shared_ptr<LoadedObject>& object = objects[entry.object.data()];
      if (!object) {
        // A symbol contains a digest of its content: reuse an object that an earlier image has loaded.
        if (const auto at = loaded_.find(symbol); at != loaded_.end()) object = at->second.lock();
        if (!object) object = std::make_shared<LoadedObject>(entry.object, symbol);
        program->objects.push_back(object);
      }
      loaded.emplace(symbol, object);
      program->entries.push_back(object->entry(symbol));
    }
    loaded_ = std::move(loaded);
    return program;
  }

  void start(LoadedImage& program, const device::Lease& lease) override {
    const auto& image = static_cast<const CpuImage&>(program);
    device::Lease with_tables = lease;
    with_tables.operators = image.entries.data();
    with_tables.uses = image.uses.data();
    threads_->start(with_tables);
  }

  void finish() override { threads_->wait(); }
  std::string fault() override { return {}; }
  std::string thrown(std::uint64_t of) override { return thrown_->find(of); }
  void abandon() override { abandoned_->store(true); }

 private:
  std::map<std::string, std::weak_ptr<LoadedObject>> loaded_;  // of the last image, by symbol
  std::shared_ptr<Thrown> thrown_ = std::make_shared<Thrown>();
  std::unique_ptr<WorkerThreads> threads_ = std::make_unique<WorkerThreads>(*thrown_);
  std::shared_ptr<Abandoned> abandoned_ = std::make_shared<Abandoned>(false);
};

}  // namespace

std::unique_ptr<Backend> open_cpu() { return std::make_unique<CpuBackend>(); }

}  // namespace dwell::backend
