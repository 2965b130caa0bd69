// Steps: recorded operations that run each time that the host calls.
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <dwell/batch.hpp>
#include <dwell/step.hpp>

#include "tensor/gang/step_calls.hpp"
#include "tests/conformance/emulated_gang.hpp"
#include "tests/conformance/gang_in_threads.hpp"
#include "tests/conformance/random_tensors.hpp"
#include "tests/conformance/tensor_test.hpp"
#include "tests/unit/sanitized.hpp"

namespace dwell::test {
namespace {

using namespace std::chrono_literals;

// A network with a state: h = tanh(w x + u h), y = v h + (b, b, ...), and the count of calls.
class StepsTest : public TensorTest {
 protected:
  static constexpr std::int64_t kIn = 16;
  static constexpr std::int64_t kHidden = 256;
  static constexpr std::int64_t kOut = 5;

  void SetUp() override {
    TensorTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    w_ = tensor({kHidden, kIn}, 0.3F);
    u_ = tensor({kHidden, kHidden}, 0.08F);
    v_ = tensor({kOut, kHidden}, 0.2F);
    x_ = tensor({1, kIn}, 1);
    b_ = tensor({1}, 1);
    h_ = tensor({1, kHidden}, 0);
    y_ = tensor({1, kOut}, 0);
    count_ = tensor({1}, 0);
    const TensorView a = tensor({1, kHidden}, 0);
    const TensorView c = tensor({1, kHidden}, 0);
    Batch batch(runtime());
    batch.note_in(list_);
    batch.mm(a, x_, w_.transpose(0, 1));
    batch.mm(c, h_, u_.transpose(0, 1));
    batch.assign(h_, ops::tanh(Expression(a) + c));
    batch.mm(y_, h_, v_.transpose(0, 1));
    batch.assign(y_, Expression(y_) + b_.expand({1, kOut}));
    batch.assign(count_, Expression(count_) + 1.0F);
    batch.flush().wait();
    for (const TensorView& view : {h_, count_}) write(view, std::vector<float>(elements_of(view), 0));
    hidden_.assign(kHidden, 0);
  }

  TensorView tensor(const Dims& shape, float scale) { return tensors_.make(runtime(), shape, scale); }
  std::size_t elements_of(const TensorView& view) { return tensors_.memory_of(view).size(); }
  std::vector<float> read(const TensorView& view) {
    std::vector<float> values(elements_of(view));
    tensors_.memory_of(view).read(values);
    return values;
  }
  void write(const TensorView& view, const std::vector<float>& values) { tensors_.memory_of(view).write(values); }

  StepSettings settings() const { return {.inputs = {x_.extent(), b_.extent()}, .outputs = {y_.extent(), count_.extent()}}; }
  static bool nothing(const TensorView::Extent&) { return false; }

  // The numbers of the next call, and the results that it should have.
  struct Call {
    std::vector<float> x = std::vector<float>(kIn);
    float b = 0;
    std::vector<float> y = std::vector<float>(kOut);
    float count = 0;
  };
  Call next_call() {
    Call call;
    for (float& value : call.x) value = tensors_.number();
    call.b = tensors_.number();
    const std::vector<float> w = read_once(w_);
    const std::vector<float> u = read_once(u_);
    const std::vector<float> v = read_once(v_);
    std::vector<double> next(kHidden);
    for (std::size_t i = 0; i < kHidden; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < kIn; ++j) sum += static_cast<double>(w[i * kIn + j]) * call.x[j];
      for (std::size_t j = 0; j < kHidden; ++j) sum += static_cast<double>(u[i * kHidden + j]) * hidden_[j];
      next[i] = std::tanh(sum);
    }
    hidden_ = next;
    for (std::size_t i = 0; i < kOut; ++i) {
      double sum = call.b;
      for (std::size_t j = 0; j < kHidden; ++j) sum += static_cast<double>(v[i * kHidden + j]) * hidden_[j];
      call.y[i] = static_cast<float>(sum);
    }
    call.count = static_cast<float>(++calls_);
    return call;
  }
  static void check(const Call& call, const std::vector<float>& y, float count) {
    for (std::size_t i = 0; i < kOut; ++i) ASSERT_NEAR(y[i], call.y[i], 1e-4) << "result " << i << " of call " << call.count;
    ASSERT_EQ(count, call.count);
  }
  void check_state() {
    EXPECT_EQ(read(count_)[0], static_cast<float>(calls_));
    const std::vector<float> h = read(h_);
    for (std::size_t i = 0; i < kHidden; ++i) ASSERT_NEAR(h[i], hidden_[i], 1e-4) << i;
  }

  // Calls a step, and checks its results.
  void call(Step& step, int times) {
    for (int i = 0; i < times; ++i) {
      const Call given = next_call();
      std::vector<float> y(kOut);
      float count = 0;
      begin(step, given);
      end(step, y, count);
      ASSERT_NO_FATAL_FAILURE(check(given, y, count));
    }
  }
  static void begin(Step& step, const Call& given) {
    const std::array<std::span<const std::byte>, 2> inputs{std::as_bytes(std::span(given.x)), std::as_bytes(std::span(&given.b, 1))};
    step.begin(inputs);
  }
  static void end(Step& step, std::vector<float>& y, float& count) {
    const std::array<std::span<std::byte>, 2> outputs{std::as_writable_bytes(std::span(y)), std::as_writable_bytes(std::span(&count, 1))};
    step.end(outputs);
  }

  tensor::gang::Plan plan(std::uint32_t members, std::uint32_t threads) {
    tensor::gang::Limits limits = limits_of_gpu(members, threads);
    const std::array<GangSlices, 4> slices{GangSlices{.memory = x_.extent()}, GangSlices{.memory = b_.extent()},
                                           GangSlices{.memory = y_.extent(), .output = true},
                                           GangSlices{.memory = count_.extent(), .output = true}};
    limits.slices = slices;
    limits.on_call = true;
    return tensor::gang::plan_of(tensor::noted_in(list_), nothing, limits);
  }

  OperationList list_;
  TensorView w_, u_, v_, x_, b_, h_, y_, count_;
  std::vector<double> hidden_;
  int calls_ = 0;

 private:
  // Weights that no test changes behind its first call.
  const std::vector<float>& read_once(const TensorView& view) {
    for (auto& [address, values] : known_)
      if (address == view.address()) return values;
    return known_.emplace_back(view.address(), read(view)).second;
  }

  RandomTensors tensors_{5};
  std::deque<std::pair<std::uint64_t, std::vector<float>>> known_;
};
DWELL_ON_EVERY_DEVICE(StepsTest);

// Memory that a gang on the CPU shares with its host, and the calls of that.
class CalledOnHost {
 public:
  CalledOnHost(const tensor::gang::Plan& plan, std::uint32_t outputs, std::chrono::nanoseconds lease, std::chrono::nanoseconds idle,
               tensor::gang::StepCalls::Launch launch)
      : inputs_(std::max(plan.arrived, 1U)),
        outputs_(outputs),
        arrivals_(std::size_t{plan.arrived} + 1),
        calls(
            {
                .control = &control_,
                .inputs = inputs_.data(),
                .outputs = outputs_.data(),
                .left = &left_,
            },
            outputs, lease, std::move(launch)) {
    memory = {.control = reinterpret_cast<u64*>(&control_),
              .inputs = reinterpret_cast<u64*>(inputs_.data()),
              .outputs = reinterpret_cast<u64*>(outputs_.data()),
              .left = &left_,
              .arrivals = arrivals_.data(),
              .lease_ns = static_cast<u64>(lease.count()),
              .idle_ns = static_cast<u64>(idle.count()),
              .kernel = 0,
              .unused = 0};
  }

 private:
  std::uint64_t control_ = 0;
  std::uint32_t left_ = 0;
  std::vector<std::uint64_t> inputs_;
  std::vector<std::uint64_t> outputs_;
  std::vector<u64> arrivals_;

 public:
  device::StepMemory memory{};
  tensor::gang::StepCalls calls;
};

TEST_P(StepsTest, CallsHaveTheirResultsAndPassStateOn) {
  for (const std::uint32_t members : {0U, 1U, 16U}) {
    StepSettings how = settings();
    how.members = members;
    Step step(runtime(), list_, nothing, how);
    call(step, 200);
    step.pause();
    if (HasFailure()) return;
    check_state();
    call(step, 20);
    if (HasFailure()) return;
    step.pause();
    if (!on_cpu()) {
      EXPECT_GE(step.launches(), 2U);
    }
  }
  check_state();
}

TEST_P(StepsTest, CallsGoOnAsLeasesEnd) {
  StepSettings how = settings();
  how.lease = 300us;
  how.idle = 50us;
  Step step(runtime(), list_, nothing, how);
  std::mt19937 random(3);
  const int calls = kSanitized ? 200 : 3000;
  for (int i = 0; i < calls && !HasFailure(); ++i) {
    call(step, 1);
    // Some calls come when the gang leaves, or has left.
    if (random() % 10 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 120));
  }
  if (!on_cpu()) {
    EXPECT_GT(step.launches(), 5U);
  }
  step.pause();
  check_state();
}

TEST_P(StepsTest, WeightsThatChangeAreReadBehindAPause) {
  StepSettings how = settings();
  how.lease = 1ms;
  Step step(runtime(), list_, nothing, how);
  call(step, 3);
  const std::vector<float> weights = read(v_);
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    step.pause();
    const bool zero = round % 2 == 0;
    write(v_, zero ? std::vector<float>(weights.size(), 0) : weights);
    // Kernels are launched ahead meanwhile, up to the pause.
    for (int i = 0; i < 8; ++i) {
      const Call given = next_call();
      std::vector<float> y(kOut);
      float count = 0;
      begin(step, given);
      end(step, y, count);
      check(zero ? Call{.x = given.x, .b = given.b, .y = std::vector<float>(kOut, given.b), .count = given.count} : given, y, count);
      std::this_thread::sleep_for(std::chrono::microseconds(20 * (round % 5)));
    }
  }
  step.pause();
  check_state();
}

TEST_P(StepsTest, TwoStepsAtOnce) {
  Step one(runtime(), list_, nothing, settings());
  // Another one, of a sum alone.
  const TensorView a = tensor({4}, 1);
  const TensorView sum = tensor({4}, 0);
  OperationList list;
  Batch batch(runtime());
  batch.note_in(list);
  batch.assign(sum, Expression(a) + a);
  batch.flush().wait();
  Step other(runtime(), list, {}, {.inputs = {a.extent()}, .outputs = {sum.extent()}});
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    const Call given = next_call();
    begin(one, given);
    const std::array<float, 4> from{1, 2, static_cast<float>(i), -1};
    std::array<float, 4> to{};
    other(std::span<const float>(from), std::span<float>(to));
    for (std::size_t j = 0; j < 4; ++j) EXPECT_EQ(to[j], 2 * from[j]);
    while (!one.done()) {}
    std::vector<float> y(kOut);
    float count = 0;
    end(one, y, count);
    check(given, y, count);
  }
}

// The same operations elsewhere: state of a step's own.
TEST_P(StepsTest, MovedOperationsLeaveTheirMemoryAlone) {
  constexpr std::uint64_t kAlignment = 256;
  const TensorView own = tensor({kHidden + kAlignment / sizeof(float)}, 0);
  const TensorView::Extent from = h_.extent();
  const std::uint64_t to = own.address() + (from.first - own.address()) % kAlignment;
  const std::array<MovedMemory, 1> moves{MovedMemory{.from = from, .to = to}};
  const OperationList list = list_.moved(moves);
  EXPECT_EQ(list.size(), list_.size());
  Step step(runtime(), list, nothing, settings());
  call(step, 20);
  step.pause();
  const std::vector<float> memory = read(own);
  const std::span<const float> state = std::span(memory).subspan((to - own.address()) / sizeof(float), kHidden);
  for (std::size_t i = 0; i < state.size(); ++i) ASSERT_NEAR(state[i], hidden_[i], 1e-4) << i;
  for (const float value : read(h_)) ASSERT_EQ(value, 0);
  const std::array<MovedMemory, 1> shifted{MovedMemory{.from = from, .to = to + 4}};
  try {
    static_cast<void>(list_.moved(shifted));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::invalid_argument) << error.message();
  }
}

TEST_P(StepsTest, AnyBitsPass) {
  const TensorView from = tensor({70}, 1);
  const TensorView to = tensor({70}, 0);
  OperationList list;
  Batch batch(runtime());
  batch.note_in(list);
  batch.assign(to, Expression(from));
  batch.flush().wait();
  Step step(runtime(), list, {}, {.inputs = {from.extent()}, .outputs = {to.extent()}});
  std::vector<std::uint32_t> bits(70);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint32_t>(i * 0x9E3779B9U);
  bits[3] = 0xFFFFFFFFU;
  bits[4] = 0x7F800000U;
  bits[5] = 0xFF800001U;
  bits[6] = 0x80000000U;
  std::vector<std::uint32_t> back(70);
  step(std::span<const std::uint32_t>(bits), std::span<std::uint32_t>(back));
  EXPECT_EQ(back, bits);
}

TEST_P(StepsTest, WrongCallsAreRefusedAndCostNothing) {
  Step step(runtime(), list_, nothing, settings());
  const auto message = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), errc::invalid_argument);
      return error.message();
    }
    return std::string("no error");
  };
  const std::vector<float> x(kIn);
  const std::array<std::span<const std::byte>, 1> one{std::as_bytes(std::span(x))};
  const std::array<std::span<const std::byte>, 2> small{std::as_bytes(std::span(x)), std::as_bytes(std::span(x))};
  std::array<std::span<std::byte>, 0> none{};
  EXPECT_EQ(message([&] { step.begin(one); }), "a step has 2 inputs, 1 were given");
  EXPECT_EQ(message([&] { step.begin(small); }), "input 1 of a step has 4 bytes, 64 were given");
  EXPECT_EQ(message([&] { step.end(none); }), "no call of the step has begun");
  EXPECT_EQ(message([&] { static_cast<void>(step.done()); }), "no call of the step has begun");
  EXPECT_EQ(message([&] { Step(runtime(), list_, nothing, {.inputs = {x_.extent()}}); }),
            "StepSettings::outputs: a step has one output at least");
  EXPECT_EQ(message([&] {
              Step(runtime(), list_, nothing, {.inputs = {x_.extent(), x_.extent()}, .outputs = {y_.extent()}});
            }),
            "slices of a program: two inputs overlap");
  EXPECT_EQ(message([&] { Step(runtime(), list_, nothing, {.outputs = {y_.extent()}, .idle = -1ms}); }),
            "a step's lease and idle time are 0, for the default, or above");
  const Call given = next_call();
  begin(step, given);
  EXPECT_EQ(message([&] { step.pause(); }), "a call of the step is under way: end it first");
  EXPECT_EQ(message([&] { begin(step, given); }), "a call of the step is under way: end it first");
  EXPECT_EQ(message([&] { step.end(none); }), "a step has 2 outputs, 0 were given");
  std::vector<float> y(kOut);
  float count = 0;
  end(step, y, count);
  check(given, y, count);
}

TEST_P(StepsTest, AClosedRuntimeIsAnError) {
  Step step(runtime(), list_, nothing, settings());
  call(step, 2);
  runtime().close();
  try {
    begin(step, next_call());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::stale_handle) << error.message();
  }
}

// The device's text on the CPU, all threads of a few members in turns, with short leases.
TEST_P(StepsTest, EmulatedMembersAnswerCalls) {
  if (!on_cpu()) GTEST_SKIP() << "the emulation is of a GPU";
  if (kSanitized) GTEST_SKIP() << "it has stacks of its own";
  for (const std::uint32_t members : {1U, 3U, 4U}) {
    const tensor::gang::Plan called = plan(members, 0);
    EmulatedGang gang(runtime(), called, members);
    std::deque<std::uint32_t> launched;
    CalledOnHost host(called, kOut + 1, 30ms, 10ms, [&](std::uint32_t number) { launched.push_back(number); });
    Call given;
    const auto begin_next = [&] {
      given = next_call();
      host.calls.put(0, std::as_bytes(std::span(given.x)));
      host.calls.put(kIn, std::as_bytes(std::span(&given.b, 1)));
      host.calls.begin();
    };
    constexpr int kCalls = 40;
    int rests = 0;
    int answered = 0;
    begin_next();
    while (!launched.empty()) {
      host.memory.kernel = launched.front();
      launched.pop_front();
      gang.run(
          [&] {
            if (answered == kCalls || !host.calls.done()) return false;
            if (rests != 0) {
              --rests;
              return true;
            }
            std::vector<float> y(kOut);
            float count = 0;
            host.calls.get(0, std::as_writable_bytes(std::span(y)));
            host.calls.get(kOut, std::as_writable_bytes(std::span(&count, 1)));
            check(given, y, count);
            static_cast<void>(host.calls.look_ahead());
            if (++answered == kCalls || HasFailure())
              answered = kCalls, host.calls.leave();
            else
              begin_next();
            rests = answered % 7 == 0 ? 20 : 0;
            return true;
          },
          &host.memory);
      // The kernel has left: a call that it did not take brings the next one.
      if (answered != kCalls && launched.empty()) {
        if (host.calls.done()) rests = 0, begin_next();
        static_cast<void>(host.calls.done());
      }
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_EQ(answered, kCalls);
    EXPECT_GT(host.calls.launched(), 1U);
    check_state();
    if (HasFailure()) return;
  }
}

// Members that are threads, behind the host's side of calls. The kernels run one behind the other, as in a stream.
TEST_P(StepsTest, MembersInThreadsAnswerCalls) {
  if (!on_cpu()) GTEST_SKIP() << "a GPU has members of its own";
  if (kThreadSanitized) GTEST_SKIP() << "words are ordered by their values, of which it knows nothing";
  for (const std::uint32_t members : {1U, 2U, 5U}) {
    GangInThreads gang(runtime(), plan(members, 1));
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::uint32_t> launched;
    bool over = false;
    CalledOnHost host(gang.plan(), kOut + 1, 2ms, 500us, [&](std::uint32_t number) {
      const std::lock_guard lock(mutex);
      launched.push_back(number);
      changed.notify_all();
    });
    std::thread stream([&] {
      for (;;) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return over || !launched.empty(); });
        if (launched.empty()) return;
        device::StepMemory memory = host.memory;
        memory.kernel = launched.front();
        launched.pop_front();
        lock.unlock();
        gang.run(&memory);
      }
    });
    std::atomic<bool> is_called{true};
    std::thread ahead([&] {
      while (is_called) {
        static_cast<void>(host.calls.look_ahead());
        std::this_thread::sleep_for(host.calls.between_looks());
      }
    });
    std::mt19937 random(members);
    for (int i = 0; i < (kSanitized ? 50 : 400) && !HasFailure(); ++i) {
      const Call given = next_call();
      host.calls.put(0, std::as_bytes(std::span(given.x)));
      host.calls.put(kIn, std::as_bytes(std::span(&given.b, 1)));
      host.calls.begin();
      while (!host.calls.done()) std::this_thread::yield();
      std::vector<float> y(kOut);
      float count = 0;
      host.calls.get(0, std::as_writable_bytes(std::span(y)));
      host.calls.get(kOut, std::as_writable_bytes(std::span(&count, 1)));
      check(given, y, count);
      if (random() % 10 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 1200));
    }
    host.calls.leave();
    const std::uint32_t last = host.calls.launched();
    std::this_thread::sleep_for(1ms);
    EXPECT_EQ(host.calls.launched(), last);
    is_called = false;
    ahead.join();
    {
      const std::lock_guard lock(mutex);
      over = true;
      changed.notify_all();
    }
    stream.join();
    EXPECT_TRUE(host.calls.have_left());
    EXPECT_GT(host.calls.launched(), 1U);
    check_state();
    if (HasFailure()) return;
  }
}

// Nothing but a barrier tells member 0 that the others have read a call's inputs.
TEST_P(StepsTest, EmulatedMembersThatExchangeNothingAnswerCalls) {
  if (!on_cpu()) GTEST_SKIP() << "the emulation is of a GPU";
  if (kSanitized) GTEST_SKIP() << "it has stacks of its own";
  constexpr std::size_t kNumbers = 40;
  const TensorView x = tensor({kNumbers}, 0);
  const TensorView sum = tensor({kNumbers}, 0);
  const TensorView twice = tensor({kNumbers}, 0);
  OperationList list;
  Batch batch(runtime());
  batch.note_in(list);
  batch.assign(sum, Expression(sum) + x);
  batch.assign(twice, Expression(sum) * 2.0F);
  batch.flush().wait();
  // Two warps: of the members that answer, none is slow at times.
  tensor::gang::Limits limits = limits_of_gpu(3, 64);
  // Both results come from members that take turns.
  const std::array<GangSlices, 3> slices{GangSlices{.memory = x.extent()}, GangSlices{.memory = sum.extent(), .output = true},
                                         GangSlices{.memory = twice.extent(), .output = true}};
  limits.slices = slices;
  limits.on_call = true;
  const tensor::gang::Plan called = tensor::gang::plan_of(tensor::noted_in(list), nothing, limits);
  ASSERT_EQ(called.members, 3U);
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    EmulatedGang gang(runtime(), called, seed);
    bool launched = false;
    CalledOnHost host(called, 2 * kNumbers, 10s, 10s, [&](std::uint32_t) { launched = true; });
    const std::vector<float> before = read(sum);
    std::vector<float> numbers(kNumbers);
    const auto begin = [&](int call) {
      for (std::size_t i = 0; i < kNumbers; ++i) numbers[i] = static_cast<float>(call * static_cast<int>(i + 1));
      host.calls.put(0, std::as_bytes(std::span(numbers)));
      host.calls.begin();
    };
    constexpr int kCalls = 30;
    int call = 1;
    begin(call);
    ASSERT_TRUE(launched);
    host.memory.kernel = 1;
    gang.run(
        [&] {
          if (call > kCalls || !host.calls.done()) return false;
          std::vector<float> results(2 * kNumbers);
          const int sum_of_calls = call * (call + 1) / 2;
          host.calls.get(0, std::as_writable_bytes(std::span(results)));
          for (std::size_t i = 0; i < kNumbers; ++i) {
            const float wanted = before[i] + static_cast<float>(sum_of_calls * static_cast<int>(i + 1));
            EXPECT_EQ(results[i], wanted) << "call " << call;
            EXPECT_EQ(results[kNumbers + i], 2 * wanted) << "call " << call;
          }
          if (++call > kCalls || HasFailure())
            call = kCalls + 1, host.calls.leave();
          else
            begin(call);
          return true;
        },
        &host.memory);
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace dwell::test
