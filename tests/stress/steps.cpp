// A million calls of steps while kernels leave and follow each other, the caller pauses them, and the loop beside them parks and swaps an
// operator: each call counts once.
#include <chrono>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include <dwell/batch.hpp>
#include <dwell/step.hpp>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class StepCallsTest : public DeviceTest {
 protected:
  std::chrono::seconds limit() const override { return 300s; }
};
DWELL_ON_EVERY_DEVICE(StepCallsTest);

// A state of two numbers: the count of calls, and the sum of what they bring, modulo 2^20.
class CountedStep {
 public:
  explicit CountedStep(Runtime& runtime) {
    const TensorView number = tensor(runtime);
    count_ = tensor(runtime);
    const TensorView sum = tensor(runtime);
    OperationList list;
    Batch batch(runtime);
    batch.note_in(list);
    batch.assign(count_, Expression(count_) + 1);
    batch.assign(sum, ops::bitwise_and(Expression(sum) + number, (1 << 20) - 1));
    batch.flush().wait();
    for (Buffer<std::int64_t>& buffer : buffers_) buffer.write(std::vector<std::int64_t>{0});
    step_.emplace(runtime, list, nullptr,
                  StepSettings{.inputs = {number.extent()}, .outputs = {count_.extent(), sum.extent()}, .lease = 1ms, .idle = 100us});
  }

  void begin(std::int64_t number) {
    given_ = number;
    const std::span<const std::byte> input = std::as_bytes(std::span(&given_, 1));
    step_->begin(std::span(&input, 1));
  }
  void end() {
    std::int64_t count = 0;
    std::int64_t sum = 0;
    const std::array<std::span<std::byte>, 2> outputs{std::as_writable_bytes(std::span(&count, 1)),
                                                      std::as_writable_bytes(std::span(&sum, 1))};
    step_->end(outputs);
    calls_ += 1;
    sum_ = (sum_ + given_) & ((1 << 20) - 1);
    wrong_ += count == calls_ && sum == sum_ ? 0 : 1;
  }
  // The count is in its memory then.
  void pause() {
    step_->pause();
    std::int64_t count = 0;
    buffers_[1].read(std::span(&count, 1));
    wrong_ += count == calls_ ? 0 : 1;
  }
  int wrong() const { return wrong_; }
  std::uint64_t launches() const { return step_->launches(); }

 private:
  TensorView tensor(Runtime& runtime) {
    buffers_.push_back(runtime.allocate<std::int64_t>(1));
    return {reinterpret_cast<std::uint64_t>(buffers_.back().data()), ElementType::i64, {1}};
  }

  std::deque<Buffer<std::int64_t>> buffers_;
  TensorView count_;
  std::optional<Step> step_;
  std::int64_t given_ = 0;
  std::int64_t calls_ = 0;
  std::int64_t sum_ = 0;
  int wrong_ = 0;
};

TEST_P(StepCallsTest, EachCountsOnce) {
  const int calls = environment("DWELL_STRESS") == "short" ? 20'000 : 1'000'000;
  Runtime runtime(options());
  CountedStep one(runtime);
  CountedStep other(runtime);
  auto mark = runtime.define<Mark>("mark", mark_with(1));
  auto marks = filled<u32>(runtime, 1, 0);
  std::mt19937 random(9);
  std::uint64_t pauses = 0;
  for (int call = 0; call < calls && one.wrong() + other.wrong() == 0; ++call) {
    const auto number = static_cast<std::int64_t>(random() % 1000);
    one.begin(number);
    if (call % 3 == 0) {
      other.begin(-number);
      other.end();
    }
    one.end();
    const auto event = random() % 10'000;
    if (event < 2) std::this_thread::sleep_for(std::chrono::microseconds(random() % 400));  // the step may leave meanwhile
    if (event == 2) one.pause(), ++pauses;
    if (event == 3) other.pause(), ++pauses;
    if (event == 4) {
      runtime.park();
      one.begin(number);
      one.end();
      runtime.resume();
    }
    if (event == 5 && random() % 4 == 0) mark.redefine(mark_with(1 + static_cast<u32>(random() % 5)));
    if (event == 6) runtime.submit(mark, marks, 0U).wait();
  }
  one.pause();
  other.pause();
  EXPECT_EQ(one.wrong(), 0);
  EXPECT_EQ(other.wrong(), 0);
  EXPECT_GT(pauses, 0U);
  if (!on_cpu()) {
    EXPECT_GT(one.launches(), pauses / 2);
  }
}

}  // namespace
}  // namespace dwell::test
