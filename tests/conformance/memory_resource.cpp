// Device memory of buffers from a pool of the program.
#include <dwell/memory_resource.hpp>

#include <map>
#include <mutex>
#include <new>
#include <stdexcept>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

// Allocates from another runtime on the same device, and fills the memory with 0xAB.
class Pool final : public MemoryResource {
 public:
  explicit Pool(const Options& options) : others_(options) {}

  void* allocate(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    ++asked;
    if (refusal == "bad_alloc") throw std::bad_alloc();
    if (refusal == "null") return nullptr;
    if (refusal == "other") throw std::runtime_error("the pool is closed");
    auto memory = others_.allocate<u8>(bytes + 256);
    memory.write(std::vector<u8>(bytes + 256, 0xAB));
    u8* const address = memory.data() + (refusal == "misaligned" ? 4 : 0);
    alive_.emplace(address, std::pair(bytes, std::move(memory)));
    return address;
  }
  void deallocate(void* memory, std::size_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto at = alive_.find(memory);
    if (at == alive_.end() || at->second.first != bytes) return void(++wrong);
    alive_.erase(at);
  }

  std::size_t alive() {
    const std::lock_guard lock(mutex_);
    return alive_.size();
  }
  bool has(const void* address) {
    const std::lock_guard lock(mutex_);
    return alive_.contains(const_cast<void*>(address));
  }

  int asked = 0;
  int wrong = 0;  // deallocations of unknown memory, or with another size
  std::string refusal;

 private:
  Runtime others_;
  std::mutex mutex_;
  std::map<void*, std::pair<std::size_t, Buffer<u8>>> alive_;
};

class MemoryResourceTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    pool_ = std::make_shared<Pool>(little());
  }
  Options pooled() const {
    Options all = options();
    all.device_memory = pool_;
    return all;
  }
  std::shared_ptr<Pool> pool_;
};
DWELL_ON_EVERY_DEVICE(MemoryResourceTest);

TEST_P(MemoryResourceTest, BuffersGetClearedMemoryFromIt) {
  Runtime runtime(pooled());
  auto add = runtime.define<Add>("add", kAdd);
  {
    auto buffer = runtime.allocate<u32>(1000);
    EXPECT_TRUE(pool_->has(buffer.data()));
    EXPECT_EQ(buffer.memory(), Memory::device);
    EXPECT_THAT(read(buffer), testing::Each(0U));
    runtime.submit(add, buffer, 999U, 4U).wait();
    EXPECT_EQ(read(buffer)[999], 4U);
    EXPECT_EQ(runtime.metrics().buffers, 1U) << "it counts as the runtime's";
  }
  EXPECT_EQ(pool_->alive(), 0U);
  EXPECT_EQ(pool_->wrong, 0);
  EXPECT_EQ(pool_->asked, 1) << "nothing else comes from it";
}

TEST_P(MemoryResourceTest, HostAndEmptyBuffersDoNotUseIt) {
  Runtime runtime(pooled());
  auto host = runtime.allocate<u32>(10, Memory::host);
  auto empty = runtime.allocate<u32>(0);
  EXPECT_EQ(pool_->asked, 0);
}

TEST_P(MemoryResourceTest, MemoryIsReleasedAfterItsTasks) {
  Runtime runtime(pooled());
  auto hold = runtime.define<Hold>("hold", kHold);
  auto add = runtime.define<Add>("add", kAdd);
  auto gate = runtime.allocate<u32>(2, Memory::host);
  auto buffer = runtime.allocate<u32>(4);
  const std::span<u32> words = gate.host();
  runtime.submit(hold, gate);
  EXPECT_TRUE(eventually([&] { return std::atomic_ref(words[0]).load() != 0; }));
  const Ticket ticket = runtime.submit(add, buffer, 0U, 1U, link);
  buffer = {};
  EXPECT_EQ(pool_->alive(), 1U) << "a task still names it";
  std::atomic_ref(words[1]).store(1);
  EXPECT_TRUE(eventually([&] { return pool_->alive() == 0; })) << "soon, without a call";
  EXPECT_TRUE(ticket.done());
  EXPECT_EQ(pool_->wrong, 0);
}

TEST_P(MemoryResourceTest, CloseReleasesAll) {
  Runtime runtime(pooled());
  auto buffer = runtime.allocate<u32>(4);
  runtime.close();
  EXPECT_EQ(pool_->alive(), 0U);
  EXPECT_EQ(pool_->wrong, 0);
}

TEST_P(MemoryResourceTest, ItsFailuresReachTheCaller) {
  Runtime runtime(pooled());
  for (const char* const refusal : {"bad_alloc", "null"}) {
    pool_->refusal = refusal;
    DWELL_EXPECT_ERROR(runtime.allocate<u32>(4), errc::out_of_memory, HasSubstr("memory resource has no 16 bytes"));
  }
  pool_->refusal = "misaligned";
  DWELL_EXPECT_ERROR(runtime.allocate<u32>(4), errc::invalid_argument, HasSubstr("aligned to 256"));
  EXPECT_EQ(pool_->alive(), 0U) << "it has it back";
  pool_->refusal = "other";
  EXPECT_THROW(runtime.allocate<u32>(4), std::runtime_error);
  pool_->refusal = "";
  EXPECT_THAT(read(runtime.allocate<u32>(4)), testing::Each(0U)) << "and the runtime goes on";
}

TEST_P(MemoryResourceTest, MemoryThatTheDeviceDoesNotReachIsRefused) {
  class Host final : public MemoryResource {
   public:
    void* allocate(std::size_t bytes) override { return std::aligned_alloc(256, (bytes + 255) / 256 * 256); }
    void deallocate(void* memory, std::size_t) noexcept override {
      std::free(memory);
      ++back;
    }
    std::atomic<int> back{0};
  };
  const auto host = std::make_shared<Host>();
  Options all = options();
  all.device_memory = host;
  Runtime runtime(all);
  if (on_cpu()) {
    EXPECT_THAT(read(runtime.allocate<u32>(4)), testing::Each(0U));
  } else {
    DWELL_EXPECT_ERROR(runtime.allocate<u32>(4), errc::invalid_argument, HasSubstr("cudaHostRegister"));
  }
  EXPECT_EQ(host->back, 1);
}

}  // namespace
}  // namespace dwell::test
