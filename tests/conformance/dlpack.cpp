// Import and export of tensors by DLPack.
#include <dwell/dlpack.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <dwell/batch.hpp>

#include "tests/conformance/suite.hpp"
#include "tests/unit/official_dlpack.hpp"

namespace dwell::test {
namespace {

class DlpackTest : public DeviceTest {
 protected:
  // Another library, with a runtime of its own: its memory is no buffer of the runtime under test.
  class Producer {
   public:
    explicit Producer(const Options& options, Memory memory = Memory::device)
        : runtime_(options), memory_(runtime_.allocate<float>(24, memory)) {
      std::vector<float> values(24);
      std::iota(values.begin(), values.end(), 0.0F);
      memory_.write(values);
    }

    // Exports its floats 0, 1, 2, ... from `first`.
    template <class Managed>
    Managed* make(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {}, std::uint64_t first = 0) {
      auto* const made = new Held<Managed>{{}, std::move(shape), std::move(strides), &deleted};
      DLTensor& tensor = made->managed.dl_tensor;
      tensor.data = memory_.data();
      tensor.device = {runtime_.info().device == "cpu" ? kDLCPU : memory_.memory() == Memory::host ? kDLCUDAHost : kDLCUDA, 0};
      tensor.ndim = static_cast<std::int32_t>(made->shape.size());
      tensor.dtype = {kDLFloat, 32, 1};
      tensor.shape = made->shape.data();
      tensor.strides = made->strides.empty() ? nullptr : made->strides.data();
      tensor.byte_offset = first * sizeof(float);
      made->managed.manager_ctx = made;
      made->managed.deleter = [](Managed* self) {
        auto* const held = static_cast<Held<Managed>*>(self->manager_ctx);
        ++*held->deleted;
        delete held;
      };
      if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) made->managed.version = {1, 3};
      return &made->managed;
    }
    // A latch for kHold: two words of 0.
    DLManagedTensor* make_latch() {
      memory_.write(std::vector<float>(2, 0.0F));
      DLManagedTensor* const made = make<DLManagedTensor>({2});
      made->dl_tensor.dtype = {kDLUInt, 32, 1};
      return made;
    }
    std::atomic<u32>* latch() const { return reinterpret_cast<std::atomic<u32>*>(memory_.data()); }
    std::vector<float> values() const { return read(memory_); }
    float* data() const { return memory_.data(); }

    std::atomic<int> deleted{0};

   private:
    template <class Managed>
    struct Held {
      Managed managed;
      std::vector<std::int64_t> shape;
      std::vector<std::int64_t> strides;
      std::atomic<int>* deleted;
    };

    Runtime runtime_;
    Buffer<float> memory_;
  };
};
DWELL_ON_EVERY_DEVICE(DlpackTest);

std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

TEST_P(DlpackTest, ImportedTensorsAreViews) {
  Runtime runtime(options());
  Producer producer(little());
  {
    const DlpackTensor rows = from_dlpack(runtime, producer.make<DLManagedTensor>({4, 5}, {}, 2));
    EXPECT_EQ(rows.view().address(), number(producer.data() + 2));
    EXPECT_EQ(rows.view().type(), ElementType::f32);
    EXPECT_EQ(rows.view().shape(), (Dims{4, 5}));
    EXPECT_EQ(rows.view().strides(), (Dims{5, 1}));  // without strides, rows are contiguous
    EXPECT_FALSE(rows.read_only());
    const DlpackTensor turned = from_dlpack(runtime, producer.make<DLManagedTensorVersioned>({3, 4}, {1, -6}, 19));
    EXPECT_EQ(turned.view().strides(), (Dims{1, -6}));
    EXPECT_EQ(turned.view().extent().first, number(producer.data() + 1));
    const DlpackTensor single = from_dlpack(runtime, producer.make<DLManagedTensor>({}, {}, 23));
    EXPECT_EQ(single.view().elements(), 1);

    Batch batch(runtime);
    const auto result = runtime.allocate<float>(12);
    batch.assign(TensorView(result, {3, 4}), Expression(turned.view()) + single.view());
    batch.flush().wait();
    EXPECT_EQ(read(result), (std::vector<float>{42, 36, 30, 24, 43, 37, 31, 25, 44, 38, 32, 26}));
    batch.assign(rows.view().select(0, 1), -1.0);
    batch.flush().wait();
    EXPECT_EQ(producer.deleted, 0);
  }
  EXPECT_TRUE(eventually([&] { return producer.deleted == 3; }));
  const std::vector<float> seen = producer.values();
  EXPECT_EQ(std::ranges::count(seen, -1.0F), 5);
  EXPECT_EQ(seen[7], -1.0F);
}

TEST_P(DlpackTest, TheDeleterWaitsForTasks) {
  Runtime runtime(options());
  Producer producer(little(), Memory::host);
  auto hold = runtime.define("hold", kHold);
  DlpackTensor tensor = from_dlpack(runtime, producer.make_latch());
  const Ticket ticket = runtime.submit(hold, Arguments().add(tensor.memory()));
  EXPECT_TRUE(eventually([&] { return producer.latch()[0].load() != 0; }));
  tensor = {};
  std::this_thread::sleep_for(10ms);
  EXPECT_EQ(producer.deleted, 0);
  EXPECT_FALSE(ticket.done());
  producer.latch()[1].store(1);
  EXPECT_TRUE(eventually([&] { return producer.deleted == 1; }));
}

TEST_P(DlpackTest, WithoutElementsNoDataIsNeeded) {
  Runtime runtime(options());
  Producer producer(little());
  auto* const given = producer.make<DLManagedTensor>({3, 0});
  given->dl_tensor.data = nullptr;
  DlpackTensor empty = from_dlpack(runtime, given);
  EXPECT_EQ(empty.view().shape(), (Dims{3, 0}));
  EXPECT_EQ(empty.memory().count(), 0U);
  EXPECT_EQ(producer.deleted, 0);
  empty = {};
  EXPECT_EQ(producer.deleted, 1);
  EXPECT_EQ(DlpackTensor().view().elements(), 0);
}

TEST_P(DlpackTest, ReadOnlyFlagIsRespected) {
  Runtime runtime(options());
  Producer producer(little());
  for (const std::uint64_t flags : {std::uint64_t{0}, kDLReadOnly, kDLCopied}) {
    auto* const given = producer.make<DLManagedTensorVersioned>({24});
    given->flags = flags;
    EXPECT_EQ(from_dlpack(runtime, given).read_only(), flags != 0) << flags;
  }
}

TEST_P(DlpackTest, UnsupportedTensorsAreRefusedAndDeleted) {
  Runtime runtime(options());
  Producer producer(little());
  int expected = 0;
  const auto expect_refused = [&](const std::function<void(DLTensor&)>& change, const auto& message) {
    auto* const given = producer.make<DLManagedTensor>({2, 3}, {3, 1});
    change(given->dl_tensor);
    DWELL_EXPECT_ERROR(from_dlpack(runtime, given), errc::invalid_argument, message);
    EXPECT_EQ(producer.deleted, ++expected);
  };
  const std::string device = on_cpu() ? "the runtime works on cpu" : "the runtime works on cuda:0";
  expect_refused([](DLTensor& t) { t.device = {kDLVulkan, 0}; }, AllOf(HasSubstr("a device of DLPack's type 7"), HasSubstr(device)));
  expect_refused([](DLTensor& t) { t.device = {kDLCUDA, 1}; }, AllOf(HasSubstr("lies on cuda:1"), HasSubstr(device), HasSubstr("copy it")));
  expect_refused([](DLTensor& t) { t.dtype = {kDLFloat, 32, 4}; }, AllOf(HasSubstr("32 bits in 4 lanes"), HasSubstr("in 1 lane")));
  expect_refused([](DLTensor& t) { t.dtype = {kDLFloat, 8, 1}; }, AllOf(HasSubstr("numbers of 8 bits"), HasSubstr("one of f16, bf16")));
  expect_refused([](DLTensor& t) { t.dtype = {17, 8, 1}; }, HasSubstr("DLPack's type 17 of 8 bits"));
  expect_refused([](DLTensor& t) { t.ndim = 9; }, AllOf(HasSubstr("9 dimensions"), HasSubstr("up to 8"), HasSubstr("reshape")));
  expect_refused([](DLTensor& t) { t.ndim = -1; }, HasSubstr("-1 dimensions"));
  expect_refused([](DLTensor& t) { t.shape = nullptr; }, AllOf(HasSubstr("no shape"), HasSubstr("DLTensor::shape")));
  expect_refused([](DLTensor& t) { t.data = nullptr; }, AllOf(HasSubstr("shape (2, 3)"), HasSubstr("no data")));
  expect_refused([](DLTensor& t) { t.byte_offset = 2; }, HasSubstr("not aligned for f32"));
  expect_refused([](DLTensor& t) { t.shape[0] = -2; }, HasSubstr("(-2, 3)"));
  expect_refused([](DLTensor& t) { t.shape[0] = std::int64_t{1} << 62U; }, HasSubstr("(4611686018427387904, 3)"));
  expect_refused([](DLTensor& t) { t.strides[0] = std::int64_t{1} << 62U; }, HasSubstr("beyond the addresses"));
  expect_refused([](DLTensor& t) { t.strides[0] = std::numeric_limits<std::int64_t>::min(); }, HasSubstr("beyond the addresses"));
  expect_refused([](DLTensor& t) { t.byte_offset = ~std::uint64_t{3}; }, AllOf(HasSubstr("make no address"), HasSubstr("byte_offset")));

  auto* const given = producer.make<DLManagedTensorVersioned>({24});
  given->version = {2, 4};
  DWELL_EXPECT_ERROR(from_dlpack(runtime, given), errc::invalid_argument, AllOf(HasSubstr("DLPack 2.4"), HasSubstr("version 1")));
  EXPECT_EQ(producer.deleted, ++expected);
  DWELL_EXPECT_ERROR(from_dlpack(runtime, static_cast<DLManagedTensor*>(nullptr)), errc::invalid_argument, HasSubstr("null"));
}

TEST_P(DlpackTest, ExportedTensorsKeepTheirMemory) {
  Runtime runtime(options());
  for (const Memory memory : {Memory::device, Memory::host}) {
    auto buffer = std::make_shared<Buffer<std::int16_t>>(runtime.allocate<std::int16_t>(24, memory));
    const std::weak_ptr<Buffer<std::int16_t>> alive = buffer;
    const TensorView view = TensorView(*buffer, {4, 6}).transpose(0, 1).slice(0, 5, 3, -2);
    const auto check = [&](const DLTensor& tensor) {
      EXPECT_EQ(number(tensor.data) + tensor.byte_offset, view.address());
      EXPECT_EQ(tensor.device.device_type, on_cpu() ? kDLCPU : memory == Memory::host ? kDLCUDAHost : kDLCUDA);
      EXPECT_EQ(tensor.device.device_id, 0);
      EXPECT_EQ(tensor.dtype.code, kDLInt);
      EXPECT_EQ(tensor.dtype.bits, 16);
      EXPECT_EQ(tensor.dtype.lanes, 1);
      ASSERT_EQ(tensor.ndim, 2);
      EXPECT_EQ(std::vector(tensor.shape, tensor.shape + 2), (std::vector<std::int64_t>{3, 4}));
      EXPECT_EQ(std::vector(tensor.strides, tensor.strides + 2), (std::vector<std::int64_t>{-2, 6}));
    };
    DLManagedTensor* const given = to_dlpack(runtime, view, buffer);
    DLManagedTensorVersioned* const versioned = to_dlpack_versioned(runtime, view, buffer);
    DLManagedTensorVersioned* const read_only = to_dlpack_versioned(runtime, view, std::move(buffer), true);
    check(given->dl_tensor);
    check(versioned->dl_tensor);
    EXPECT_EQ(versioned->version.major, 1U);
    EXPECT_EQ(versioned->flags, 0U);
    EXPECT_EQ(read_only->flags, kDLReadOnly);
    given->deleter(given);
    versioned->deleter(versioned);
    EXPECT_FALSE(alive.expired());
    read_only->deleter(read_only);
    EXPECT_TRUE(alive.expired());
  }
}

TEST_P(DlpackTest, ExportsCanBeImportedByAnotherRuntime) {
  Runtime runtime(options());
  Runtime other(little());
  const auto buffer = std::make_shared<Buffer<double>>(other.allocate<double>(6));
  buffer->write(std::vector<double>{1, 2, 3, 4, 5, 6});
  const DlpackTensor tensor = from_dlpack(runtime, to_dlpack_versioned(other, TensorView(*buffer, {2, 3}).transpose(0, 1), buffer));
  Batch batch(runtime);
  batch.assign(tensor.view(), Expression(tensor.view()) * 2.0 + Expression::index());
  batch.flush().wait();
  EXPECT_EQ(read(*buffer), (std::vector<double>{2, 6, 10, 9, 13, 17}));
}

}  // namespace
}  // namespace dwell::test
