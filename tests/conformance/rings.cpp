// Rings of messages: between operators, and between operators and the host.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

// A message that says who has sent it.
struct Message {
  u32 producer;
  u32 number;
  u64 check;
  u32 more[12];

  static Message of(u32 producer, u32 number) {
    Message message{producer, number, check_of(producer, number), {}};
    for (u32 i = 0; i < 12; ++i) message.more[i] = producer * 31 + number + i;
    return message;
  }
  static u64 check_of(u32 producer, u32 number) { return (u64{producer} << 32U | number) * 0x9E3779B97F4A7C15U; }
  bool operator==(const Message& other) const { return std::memcmp(this, &other, sizeof(*this)) == 0; }
  bool right() const { return *this == of(producer, number); }
};

// The same on the device; producers that are taken aside while the ring is full, and consumers while it is empty.
constexpr const char* kSource = R"(
struct Message {
  dwell::u32 producer;
  dwell::u32 number;
  dwell::u64 check;
  dwell::u32 more[12];
};
inline dwell::u64 check_of(dwell::u32 producer, dwell::u32 number) {
  return (static_cast<dwell::u64>(producer) << 32 | number) * 0x9E3779B97F4A7C15u;
}
inline Message message_of(dwell::u32 producer, dwell::u32 number) {
  Message m;
  m.producer = producer;
  m.number = number;
  m.check = check_of(producer, number);
  for (dwell::u32 i = 0; i < 12; ++i) m.more[i] = producer * 31 + number + i;
  return m;
}
inline bool is_right(const Message& m) {
  bool right = m.check == check_of(m.producer, m.number);
  for (dwell::u32 i = 0; i < 12; ++i) right = right && m.more[i] == m.producer * 31 + m.number + i;
  return right;
}
)";

// One thread pushes messages 0 to count - 1; the task steps aside while the ring is full. Submitted with gang(1).
constexpr const char* kSend = R"(
DWELL_OPERATOR(send)(dwell::Group g, dwell::Ring<Message> ring, dwell::u32 producer, dwell::u32 count) {
  const dwell::Gang gang = g.gang();
  dwell::u32 next = gang.resume(0u);
  if (g.rank() == 0)
    while (next < count && ring.try_push(message_of(producer, next))) ++next;
  next = g.reduce(next, [](dwell::u32 a, dwell::u32 b) { return a > b ? a : b; });
  if (next < count) gang.yield(next);
})";
using Send = void(Ring<Message>, u32, u32);

// All threads push: thread t of group i sends numbers [next, count) as producer first + i * size + t, where each has sent as many.
constexpr const char* kSendEach = R"(
DWELL_OPERATOR(send_each)(dwell::Group g, dwell::Ring<Message> ring, dwell::u32 first, dwell::u32 count) {
  const dwell::u32 producer = first + g.index() * g.size() + g.rank();
  const dwell::u64 start = dwell::device::now_ns();
  for (dwell::u32 number = 0; dwell::device::any_in_group(number < count);) {
    if (ring.push_each(g, number < count, message_of(producer, number))) ++number;
    if (dwell::device::any_in_group(dwell::device::now_ns() - start > 20000000000ull)) return g.fail(98);
  }
})";
using SendEach = void(Ring<Message>, u32, u32);

// Counts messages by producer and number; cell 0 counts wrong ones. Steps aside while the ring is empty, and ends with it. Submitted with
// gang(1).
constexpr const char* kReceive = R"(
DWELL_OPERATOR(receive)(dwell::Group g, dwell::Ring<Message> ring, dwell::Span<dwell::u32> seen, dwell::u32 count) {
  ring.drain(g, [&](const Message& m, dwell::u64) {
    const dwell::u64 at = 1 + static_cast<dwell::u64>(m.producer) * count + m.number;
    if (is_right(m) && at < seen.size()) seen.atomic_add(at, 1);
    else seen.atomic_add(0, 1);
  });
  if (dwell::device::any_in_group(!ring.finished())) g.gang().yield(0u);
})";
using Receive = void(Ring<Message>, Span<u32>, u32);

constexpr const char* kClose = R"(
DWELL_OPERATOR(close_ring)(dwell::Group g, dwell::Ring<Message> ring) { if (g.rank() == 0) ring.close(); })";

class RingTest : public DeviceTest {
 protected:
  void open(Options given) {
    runtime = std::make_unique<Runtime>(std::move(given));
    const std::string source = kSource;
    send = runtime->define<Send>("send", source + kSend);
    send_each = runtime->define<SendEach>("send_each", source + kSendEach);
    receive = runtime->define<Receive>("receive", source + kReceive);
    close = runtime->define<void(Ring<Message>)>("close_ring", source + kClose);
    // The first `after` of a task that has not ended is a drain, for which consumers would wait for ever.
    Latch latch(*runtime);
    auto hold = runtime->define<Hold>("hold", kHold);
    const Ticket held = runtime->submit(hold, latch.words());
    latch.await();
    const Ticket after_it = runtime->submit(hold, latch.words(), after(held));
    latch.release();
    after_it.wait();
  }
  void open() { open(options()); }

  // Whether a consumer has seen each message of `producers` once.
  static void expect_all_once(const Buffer<u32>& seen) {
    const std::vector<u32> counts = read(seen);
    EXPECT_EQ(counts[0], 0U) << "messages were wrong";
    for (std::size_t i = 1; i < counts.size(); ++i) ASSERT_EQ(counts[i], 1U) << "message " << i - 1;
  }

  // Takes messages on the host until the ring ends, and checks that each has come once, in the order of its producer.
  static void expect_in_order(RingBuffer<Message>& ring, u32 producers, u32 count) {
    std::vector<u32> next(producers);
    for (const Message& message : ring) {
      ASSERT_LT(message.producer, producers);
      ASSERT_TRUE(message.right());
      ASSERT_EQ(message.number, next[message.producer]++);
    }
    EXPECT_THAT(next, testing::Each(count));
  }

  std::unique_ptr<Runtime> runtime;
  Operator<Send> send;
  Operator<SendEach> send_each;
  Operator<Receive> receive;
  Operator<void(Ring<Message>)> close;
};
DWELL_ON_EVERY_DEVICE(RingTest);

constexpr u64 kNearWrap = (u64{1} << 32U) - 1024;  // positions of 32 bits end 1024 messages later

TEST_P(RingTest, OperatorsSendToOperators) {
  open();
  for (const std::size_t slots : {4U, 64U, 1024U})
    for (const bool checksum : {false, true}) {
      const u32 count = static_cast<u32>(slots) * (kSanitized ? 4 : 10);
      RingOptions how;
      how.checksum = checksum;
      how.first = kNearWrap;
      auto ring = runtime->ring<Message>(slots, how);
      auto seen = filled<u32>(*runtime, 1 + 4 * count, 0);
      std::vector<Ticket> senders;
      const Ticket first = runtime->submit(receive, ring, seen, count, gang(1));
      for (u32 producer = 0; producer < 4; ++producer) senders.push_back(runtime->submit(send, ring, producer, count, gang(1)));
      const Ticket second = runtime->submit(receive, ring, seen, count, gang(1));
      runtime->submit(close, ring, after(senders));
      first.wait();
      second.wait();
      expect_all_once(seen);
      EXPECT_EQ(ring.counts().damaged, 0U);
    }
}

TEST_P(RingTest, AllThreadsSend) {
  Options given = with_all_parts();
  if (on_cpu()) given.workers = 4;
  open(given);
  constexpr u32 kMessages = kSanitized ? 500 : 2'000;
  constexpr u32 kGroups = 2;
  const u32 producers = kGroups * (on_cpu() ? 1 : 128);
  RingOptions how;
  how.checksum = true;
  how.first = kNearWrap;
  auto ring = runtime->ring<Message>(1024, how);
  auto seen = filled<u32>(*runtime, 1 + producers * kMessages, 0);
  const Ticket receiver = runtime->submit(receive, ring, seen, kMessages, gang(1));
  const Ticket sender = runtime->submit(send_each, ring, 0U, kMessages, groups(kGroups));
  runtime->submit(close, ring, after(sender));
  sender.wait();
  receiver.wait();
  expect_all_once(seen);
}

TEST_P(RingTest, OperatorsSendToTheHost) {
  open();
  constexpr u32 kMessages = kSanitized ? 1'000 : 5'000;
  for (const bool checksum : {false, true}) {
    auto ring = runtime->ring<Message>(1024, {.consumers = Side::host, .checksum = checksum, .first = kNearWrap});
    std::vector<Ticket> senders;
    for (u32 producer = 0; producer < 4; ++producer) senders.push_back(runtime->submit(send, ring, producer, kMessages, gang(1)));
    runtime->submit(close, ring, after(senders));
    expect_in_order(ring, 4, kMessages);
  }
}

TEST_P(RingTest, TheHostSendsToOperators) {
  open();
  constexpr u32 kMessages = kSanitized ? 1'000 : 5'000;
  auto ring = runtime->ring<Message>(1024, {.producers = Side::host, .checksum = true, .first = kNearWrap});
  auto seen = filled<u32>(*runtime, 1 + 2 * kMessages, 0);
  const Ticket receiver = runtime->submit(receive, ring, seen, kMessages, gang(1));
  std::vector<std::thread> threads;
  for (u32 producer = 0; producer < 2; ++producer)
    threads.emplace_back([&ring, producer] {
      for (u32 i = 0; i < kMessages; ++i) ring.push(Message::of(producer, i));
    });
  for (std::thread& thread : threads) thread.join();
  ring.close();
  receiver.wait();
  expect_all_once(seen);
}

TEST_P(RingTest, ThreadsShareTheHostsEnd) {
  open();
  constexpr u32 kMessages = kSanitized ? 1'000 : 5'000;
  auto ring = runtime->ring<Message>(256, {.consumers = Side::host, .checksum = true, .first = kNearWrap});
  std::vector<std::atomic<u32>> seen(4 * kMessages);
  std::atomic<u32> wrong = 0;
  std::vector<std::thread> threads;
  for (u32 thread = 0; thread < 3; ++thread)
    threads.emplace_back([&, thread] {
      std::array<Message, 100> some;
      while (!ring.finished()) {
        const std::size_t count = ring.pop_many(std::span(some).first(1 + thread * 49));
        for (std::size_t i = 0; i < count; ++i) {
          const Message& message = some[i];
          if (!message.right() || message.producer >= 4 || message.number >= kMessages)
            ++wrong;
          else
            ++seen[message.producer * kMessages + message.number];
        }
        if (count == 0) std::this_thread::yield();
      }
    });
  std::vector<Ticket> senders;
  for (u32 producer = 0; producer < 4; ++producer) senders.push_back(runtime->submit(send, ring, producer, kMessages, gang(1)));
  for (const Ticket& sender : senders) sender.wait();
  ring.close();  // by the host: its tasks have ended
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0U);
  for (const std::atomic<u32>& count : seen) ASSERT_EQ(count.load(), 1U);
}

TEST_P(RingTest, ParksAndRollsInBetween) {
  Options given = options();
  given.lease = 2ms;
  open(given);
  constexpr u32 kMessages = kSanitized ? 2'000 : 20'000;
  auto there = runtime->ring<Message>(64, {.producers = Side::host, .checksum = true});
  auto back = runtime->ring<Message>(64, {.consumers = Side::host, .checksum = true});
  auto echo = runtime->define<void(Ring<Message>, Ring<Message>)>("echo", std::string(kSource) + R"(
    DWELL_OPERATOR(echo)(dwell::Group g, dwell::Ring<Message> from, dwell::Ring<Message> to) {
      bool over = false;
      if (g.rank() == 0) {
        Message message;
        while (!over) {
          dwell::RingSlot<Message> slot = to.reserve();
          if (!slot) break;
          over = from.finished();
          if (over || !from.try_pop(message)) {
            slot.discard();
            break;
          }
          *slot = message;
          slot.commit();
        }
        if (over) to.close();
      }
      if (!dwell::device::any_in_group(over)) g.gang().yield(0u);
    })");
  const Ticket ticket = runtime->submit(echo, there, back, gang(1));
  std::thread writer([&] {
    for (u32 i = 0; i < kMessages; ++i) there.push(Message::of(0, i));
    there.close();
  });
  std::thread parker([&] {
    for (int i = 0; i < 20; ++i) {
      runtime->park();
      runtime->resume();
      std::this_thread::sleep_for(1ms);
    }
  });
  expect_in_order(back, 1, kMessages);
  writer.join();
  parker.join();
  ticket.wait();
}

// Pushes number 0, and reserves what it does not commit: dropped, discarded, and dropped by an exception where there are some; then
// number 1.
constexpr const char* kLeaveRing = R"(
DWELL_OPERATOR(leave)(dwell::Group g, dwell::Ring<Message> ring) {
  if (g.rank() != 0) return;
  ring.push(g, message_of(7, 0));
  { dwell::RingSlot<Message> slot = ring.reserve(); }
  { dwell::RingSlot<Message> slot = ring.reserve(); slot.discard(); }
  {
    dwell::RingSlot<Message> slot = ring.reserve();
    dwell::RingSlot<Message> moved(static_cast<dwell::RingSlot<Message>&&>(slot));
    *moved = message_of(7, 1);
    moved.commit(3);
  }
})";
TEST_P(RingTest, SegmentsWithoutAMessageAreSkippedAndCounted) {
  open();
  auto leave = runtime->define<void(Ring<Message>)>("leave", std::string(kSource) + kLeaveRing);
  for (const bool checksum : {false, true}) {
    auto ring = runtime->ring<Message>(16, {.consumers = Side::host, .checksum = checksum});
    runtime->submit(leave, ring).wait();
    ring.close();
    std::vector<u32> numbers;
    for (const Message& message : ring) {
      EXPECT_TRUE(message.right());
      numbers.push_back(message.number);
    }
    EXPECT_EQ(numbers, (std::vector<u32>{0, 1}));
    EXPECT_EQ(ring.counts().abandoned, 1U);
    EXPECT_EQ(ring.counts().discarded, 1U);
    EXPECT_EQ(ring.counts().damaged, 0U);

    // The same between operators.
    auto inner = runtime->ring<Message>(16, {.checksum = checksum});
    auto seen = filled<u32>(*runtime, 1 + 8 * 2, 0);
    runtime->submit(leave, inner).wait();
    inner.close();
    runtime->submit(receive, inner, seen, 2U, gang(1)).wait();
    EXPECT_EQ(read(seen)[1 + 7 * 2], 1U);
    EXPECT_EQ(read(seen)[1 + 7 * 2 + 1], 1U);
    EXPECT_EQ(inner.counts().abandoned, 1U);
    EXPECT_EQ(inner.counts().discarded, 1U);
  }
}

TEST_P(RingTest, AnExceptionAbandonsAReservedSlot) {
  if (!on_cpu()) GTEST_SKIP() << "operators throw on a CPU only";
  open();
  auto thrower = runtime->define<void(Ring<Message>)>("thrower", std::string(kSource) + R"(
    DWELL_OPERATOR(thrower)(dwell::Group, dwell::Ring<Message> ring) {
      dwell::RingSlot<Message> slot = ring.reserve();
      throw 1;
    })");
  auto ring = runtime->ring<Message>(16, {.consumers = Side::host});
  EXPECT_EQ(runtime->submit(thrower, ring).status(), status::exception);
  runtime->submit(send, ring, 1U, 2U, gang(1)).wait();
  EXPECT_EQ(ring.pop()->number, 0U);
  EXPECT_EQ(ring.pop()->number, 1U);
  EXPECT_EQ(ring.counts().abandoned, 1U);
}

TEST_P(RingTest, MessagesOutliveAHungProducer) {
  Options given = options();
  given.task_timeout = 300ms;
  open(given);
  auto hang = runtime->define<void(Ring<Message>, Span<u32>)>("hang", std::string(kSource) + R"(
    DWELL_OPERATOR(hang)(dwell::Group g, dwell::Ring<Message> ring, dwell::Span<dwell::u32> latch) {
      using namespace dwell::device;
      if (g.rank() != 0) return;
      ring.push(g, message_of(7, 0));
      dwell::RingSlot<Message> slot = ring.reserve();
      ring.push(g, message_of(7, 1));
      for (dwell::u32 round = 0; load<Order::acquire, Scope::system>(&latch[1]) == 0; ++round) relax(round);
      slot.discard();
    })");
  auto ring = runtime->ring<Message>(64, {.consumers = Side::host, .checksum = true});
  Latch latch(*runtime);
  const Ticket ticket = runtime->submit(hang, ring, latch.words());
  DWELL_EXPECT_ERROR(ticket.wait(), errc::task_timeout, HasSubstr("hang"));
  EXPECT_EQ(ring.pop()->number, 0U);
  EXPECT_EQ(ring.pop()->number, 1U);
  EXPECT_EQ(ring.counts().abandoned, 1U);
  DWELL_EXPECT_ERROR(ring.pop(), errc::task_timeout, HasSubstr("hang"));
  latch.release();
}

TEST_P(RingTest, DamagedMessagesAreSkippedAndReported) {
  open();
  // From the host: the memory of a committed message stays known.
  auto there = runtime->ring<Message>(16, {.producers = Side::host, .checksum = true, .first = kNearWrap});
  for (u32 i = 0; i < 5; ++i) {
    RingSlot<Message> slot = there.reserve();
    Message* const message = &*slot;
    *message = Message::of(0, i);
    slot.commit();
    if (i == 3) message->more[5] ^= 1U;
  }
  there.close();
  auto seen = filled<u32>(*runtime, 1 + 5, 0);
  runtime->submit(receive, there, seen, 5U, gang(1)).wait();
  EXPECT_EQ(read(seen), (std::vector<u32>{0, 1, 1, 1, 0, 1}));
  EXPECT_EQ(there.counts().damaged, 1U);
  EXPECT_EQ(there.counts().damaged_at, kNearWrap + 3);

  auto damage = runtime->define<void(Ring<Message>)>("damage", std::string(kSource) + R"(
    DWELL_OPERATOR(damage)(dwell::Group g, dwell::Ring<Message> ring) {
      if (g.rank() != 0) return;
      for (dwell::u32 i = 0; i < 5; ++i) {
        dwell::RingSlot<Message> slot = ring.reserve();
        Message* const message = &*slot;
        *message = message_of(0, i);
        slot.commit();
        if (i % 2 == 1) message->check ^= 1;
      }
      ring.close();
    })");
  auto back = runtime->ring<Message>(16, {.consumers = Side::host, .checksum = true});
  runtime->submit(damage, back).wait();
  std::vector<u32> numbers;
  for (const Message& message : back) numbers.push_back(message.number);
  EXPECT_EQ(numbers, (std::vector<u32>{0, 2, 4}));
  EXPECT_EQ(back.counts().damaged, 2U);
  EXPECT_EQ(back.counts().damaged_at, 3U);
}

TEST_P(RingTest, AFullRingRefusesAndIsFilledAgain) {
  open();
  auto fill = runtime->define<void(Ring<Message>, Span<u32>)>("fill", std::string(kSource) + R"(
    DWELL_OPERATOR(fill)(dwell::Group g, dwell::Ring<Message> ring, dwell::Span<dwell::u32> pushed) {
      if (g.rank() != 0) return;
      dwell::u32 count = 0;
      while (ring.try_push(message_of(0, count))) ++count;
      pushed[0] = count;
      ring.push(g, message_of(0, 0));
    })");
  auto pushed = runtime->allocate<u32>(1);
  for (const std::size_t slots : {1U, 2U, 8U, 32U, 64U, 4096U}) {
    auto ring = runtime->ring<Message>(slots, {.consumers = Side::host, .first = (u64{1} << 32U) - slots});
    for (int round = 0; round < 5; ++round) {
      EXPECT_EQ(runtime->submit(fill, ring, pushed).status(), status::ring_full);
      const std::size_t count = read(pushed)[0];
      EXPECT_LE(count, slots);
      EXPECT_GT(count, slots - std::max<std::size_t>(slots / 32, 1));
      const std::size_t some = round % 2 == 0 ? count : count / 2 + 1;
      std::vector<Message> messages(some);
      ASSERT_EQ(ring.pop_many(messages), some);
      if (slots <= 32) {
        EXPECT_EQ(runtime->submit(fill, ring, pushed).status(), status::ring_full);
        EXPECT_EQ(read(pushed)[0], some);  // each message is a block
      }
      std::vector<Message> rest(slots);
      static_cast<void>(ring.pop_many(rest));
    }
    ring.close();
    EXPECT_EQ(runtime->submit(fill, ring, pushed).status(), status::ring_closed);
    EXPECT_EQ(ring.pop(), std::nullopt);
    EXPECT_TRUE(ring.finished());
  }
}

TEST_P(RingTest, ClosingAFullRing) {
  open();
  auto ring = runtime->ring<Message>(8, {.producers = Side::host});
  for (u32 i = 0; i < 8; ++i) ASSERT_TRUE(ring.try_push(Message::of(0, i)));
  EXPECT_FALSE(ring.try_push(Message::of(0, 8)));
  std::thread waits([&] { DWELL_EXPECT_ERROR(ring.push(Message::of(0, 8)), errc::closed, HasSubstr("the ring is closed")); });
  std::this_thread::sleep_for(5ms);
  ring.close();
  waits.join();
  ring.close();
  auto seen = filled<u32>(*runtime, 1 + 8, 0);
  runtime->submit(receive, ring, seen, 8U, gang(1)).wait();
  expect_all_once(seen);
  EXPECT_FALSE(ring.try_push(Message::of(0, 9)));
}

TEST_P(RingTest, PeekLeavesTheMessage) {
  open();
  auto ring = runtime->ring<Message>(8, {.consumers = Side::host});
  EXPECT_EQ(ring.peek(), std::nullopt);
  runtime->submit(send, ring, 1U, 2U, gang(1)).wait();
  EXPECT_EQ(ring.peek()->number, 0U);
  EXPECT_EQ(ring.peek()->number, 0U);
  EXPECT_EQ(ring.pop()->number, 0U);
  EXPECT_EQ(ring.peek()->number, 1U);
  std::vector<u64> positions;
  EXPECT_EQ(ring.take(5, [&](const Message&, u64 position) { positions.push_back(position); }), 1U);
  EXPECT_EQ(positions, (std::vector<u64>{1}));
}

TEST_P(RingTest, MisuseIsRefused) {
  open();
  DWELL_EXPECT_ERROR(runtime->ring<u32>(100), errc::invalid_argument, AllOf(HasSubstr("100 slots"), HasSubstr("128")));
  DWELL_EXPECT_ERROR(runtime->ring<u32>(0), errc::invalid_argument, HasSubstr("power of two"));
  DWELL_EXPECT_ERROR(runtime->ring<u32>(std::size_t{1} << 40U), errc::invalid_argument, HasSubstr("2^30"));
  DWELL_EXPECT_ERROR(runtime->ring<u32>(16, {.producers = Side::host, .consumers = Side::host}), errc::invalid_argument,
                     HasSubstr("Side::device"));
  DWELL_EXPECT_ERROR(runtime->ring<u32>(16, {.first = 8}), errc::invalid_argument, HasSubstr("first"));
  DWELL_EXPECT_ERROR(runtime->byte_ring(32), errc::invalid_argument, HasSubstr("power of two"));
  DWELL_EXPECT_ERROR(runtime->byte_ring(1024, {.message_bytes = 513}), errc::invalid_argument, HasSubstr("512 bytes"));
  auto inner = runtime->ring<Message>(16);
  DWELL_EXPECT_ERROR(inner.try_push(Message::of(0, 0)), errc::unsupported, HasSubstr("RingOptions::producers"));
  DWELL_EXPECT_ERROR(inner.try_pop(), errc::unsupported, HasSubstr("RingOptions::consumers"));
  RingBuffer<Message> empty;
  DWELL_EXPECT_ERROR(empty.try_pop(), errc::invalid_argument, HasSubstr("the ring is empty"));
  DWELL_EXPECT_ERROR(runtime->submit(close, empty), errc::invalid_argument, HasSubstr("empty"));
  auto numbers = runtime->ring<u32>(16);
  const Operator<> untyped = runtime->define("end_ring", std::string(kSource) + R"(
    DWELL_OPERATOR(end_ring)(dwell::Group g, dwell::Ring<Message> ring) { if (g.rank() == 0) ring.close(); })");
  DWELL_EXPECT_ERROR(runtime->submit(untyped, numbers), errc::signature_mismatch,
                     AllOf(HasSubstr("Ring<struct of 64 bytes>"), HasSubstr("Ring<u32>")));
  // An end that is the host's.
  auto there = runtime->ring<Message>(16, {.producers = Side::host});
  auto push_one = runtime->define<void(Ring<Message>)>("push_one", std::string(kSource) + R"(
    DWELL_OPERATOR(push_one)(dwell::Group g, dwell::Ring<Message> ring) { if (g.rank() == 0) ring.push(g, message_of(0, 0)); })");
  const Ticket refused = runtime->submit(push_one, there);
  DWELL_EXPECT_ERROR(refused.wait(), errc::task_failed, HasSubstr("producers are on the host"));
  EXPECT_EQ(refused.status(), status::ring_refused);
}

TEST_P(RingTest, UseAfterTheEndOfTheRuntime) {
  open();
  auto there = runtime->ring<Message>(16, {.producers = Side::host});
  auto back = runtime->ring<Message>(16, {.consumers = Side::host});
  runtime->submit(send, back, 0U, 3U, gang(1)).wait();
  runtime->close();
  DWELL_EXPECT_ERROR(there.try_push(Message::of(0, 0)), errc::closed, HasSubstr("closed"));
  DWELL_EXPECT_ERROR(there.push(Message::of(0, 0)), errc::closed, HasSubstr("closed"));
  for (u32 i = 0; i < 3; ++i) EXPECT_EQ(back.pop()->number, i);
  DWELL_EXPECT_ERROR(back.pop(), errc::closed, HasSubstr("no message is left"));
  DWELL_EXPECT_ERROR(back.close(), errc::stale_handle, HasSubstr("ring of 16 slots"));
}

// ---- Bytes ----

// Pushes `count` messages of pseudo-random sizes: each byte follows from its place, the size and the number.
constexpr const char* kBytes = R"(
inline dwell::u32 size_of(dwell::u32 number, dwell::u32 most) { return number * 2654435761u % (most + 1); }
inline dwell::u8 byte_of(dwell::u32 number, dwell::u32 place) { return static_cast<dwell::u8>(number * 7 + place * 13); }
)";
u32 size_of(u32 number, u32 most) { return number * 2654435761U % (most + 1); }
u8 byte_of(u32 number, u32 place) { return static_cast<u8>(number * 7 + place * 13); }

constexpr const char* kSendBytes = R"(
DWELL_OPERATOR(send_bytes)(dwell::Group g, dwell::ByteRing ring, dwell::u32 most, dwell::u32 count) {
  const dwell::Gang gang = g.gang();
  dwell::u32 next = gang.resume(0u);
  if (g.rank() == 0)
    for (; next < count; ++next) {
      const dwell::u32 size = size_of(next, most);
      dwell::ByteSlot slot = ring.reserve(size);
      if (!slot) break;
      for (dwell::u32 i = 0; i < size; ++i) slot.bytes()[i] = byte_of(next, i);
      slot.commit(static_cast<dwell::u8>(next));
    }
  next = g.reduce(next, [](dwell::u32 a, dwell::u32 b) { return a > b ? a : b; });
  if (next < count) return gang.yield(next);
  if (g.rank() == 0) ring.close();
})";
// Checks them, and fails with the number of the first wrong one + 1.
constexpr const char* kReceiveBytes = R"(
DWELL_OPERATOR(receive_bytes)(dwell::Group g, dwell::ByteRing ring, dwell::u32 most, dwell::u32 count) {
  const dwell::Gang gang = g.gang();
  dwell::u32 next = gang.resume(0u);
  bool over = false;
  if (g.rank() == 0)
    for (;;) {
      over = ring.finished();
      const dwell::ByteMessage message = ring.try_pop();
      if (!message) break;
      bool right = message.bytes().size() == size_of(next, most) && message.type() == static_cast<dwell::u8>(next);
      for (dwell::u32 i = 0; right && i < message.bytes().size(); ++i) right = message.bytes()[i] == byte_of(next, i);
      ++next;
      if (!right) g.fail(static_cast<dwell::i32>(next));
    }
  over = dwell::device::any_in_group(over);
  next = g.reduce(next, [](dwell::u32 a, dwell::u32 b) { return a > b ? a : b; });
  if (!over) return gang.yield(next);
  if (next != count) g.fail(99999);
})";

TEST_P(RingTest, BytesOfAnySize) {
  Runtime bytes(options());
  auto send_bytes = bytes.define<void(ByteRing, u32, u32)>("send_bytes", std::string(kBytes) + kSendBytes);
  auto receive_bytes = bytes.define<void(ByteRing, u32, u32)>("receive_bytes", std::string(kBytes) + kReceiveBytes);
  constexpr u32 kMessages = kSanitized ? 500 : 3'000;
  for (const u32 most : {0U, 64U, 1000U}) {
    RingOptions how;
    how.checksum = true;
    how.message_bytes = std::max(most, 1U);
    constexpr std::size_t kBytesOfRing = 4096;
    how.first = (u64{1} << 32U) - kBytesOfRing / 64;
    {
      auto ring = bytes.byte_ring(kBytesOfRing, how);
      const Ticket sender = bytes.submit(send_bytes, ring, most, kMessages, gang(1));
      const Ticket receiver = bytes.submit(receive_bytes, ring, most, kMessages, gang(1));
      sender.wait();
      receiver.wait();
    }
    {
      RingOptions to_host = how;
      to_host.consumers = Side::host;
      auto ring = bytes.byte_ring(kBytesOfRing, to_host);
      const Ticket sender = bytes.submit(send_bytes, ring, most, kMessages, gang(1));
      u32 next = 0;
      while (const ByteMessage message = ring.pop()) {
        ASSERT_EQ(message.bytes().size(), size_of(next, most));
        ASSERT_EQ(message.type(), static_cast<u8>(next));
        for (u32 i = 0; i < message.bytes().size(); ++i) ASSERT_EQ(message.bytes()[i], byte_of(next, i));
        ++next;
      }
      EXPECT_EQ(next, kMessages);
      sender.wait();
    }
    {
      RingOptions from_host = how;
      from_host.producers = Side::host;
      auto ring = bytes.byte_ring(kBytesOfRing, from_host);
      const Ticket receiver = bytes.submit(receive_bytes, ring, most, kMessages, gang(1));
      for (u32 i = 0; i < kMessages; ++i) {
        std::vector<std::byte> message(size_of(i, most));
        for (u32 k = 0; k < message.size(); ++k) message[k] = std::byte{byte_of(i, k)};
        ring.push(message, static_cast<u8>(i));
      }
      ring.close();
      receiver.wait();
      DWELL_EXPECT_ERROR(ring.push(std::vector<std::byte>(most + 2)), errc::invalid_argument, HasSubstr("RingOptions::message_bytes"));
    }
  }
}

// ---- As arguments ----

TEST_P(RingTest, NodesAndTasksOfOperatorsTakeRings) {
  open();
  auto ring = runtime->ring<Message>(64, {.consumers = Side::host});
  const Operator<> put = runtime->define("put", std::string(kSource) + R"(
    DWELL_OPERATOR(put)(dwell::Group g, dwell::Ring<Message> ring, dwell::u32 number) {
      if (g.rank() == 0) ring.push(g, message_of(number, number));
    })");
  auto make = runtime->define<void(Ring<Message>)>("make", std::string(kSource) + R"(
    DWELL_USES(put, dwell::Ring<Message>, dwell::u32)
    DWELL_OPERATOR(make)(dwell::Group g, dwell::Ring<Message> ring) {
      g.spawn(uses::put, ring, 1);
      g.then(uses::put, ring, 2);
    })");
  Graph graph;
  const Node first = graph.add(put, ring, 3U);
  graph.add(make, ring).after(first);
  const GraphExec exec = runtime->instantiate(graph);
  runtime->launch(exec).wait();
  const Graph captured = runtime->capture([&] { runtime->submit(put, ring, 4U); });
  runtime->launch(runtime->instantiate(captured)).wait();
  std::vector<u32> numbers;
  for (std::optional<Message> message; (message = ring.try_pop());) {
    EXPECT_EQ(message->check, Message::check_of(message->producer, message->number));
    numbers.push_back(message->number);
  }
  EXPECT_EQ(numbers, (std::vector<u32>{3, 1, 2, 4}));
  Arguments arguments;
  arguments.add(ring).add(5U);
  runtime->submit(put, arguments).wait();
  EXPECT_EQ(ring.pop()->number, 5U);
}

TEST_P(RingTest, ADroppedRingLivesAsLongAsItsTasks) {
  open();
  Latch latch(*runtime);
  const auto hold = runtime->define<Hold>("hold_again", std::string(kHold).replace(std::string(kHold).find("(hold)"), 6, "(hold_again)"));
  Ticket ticket;
  {
    auto ring = runtime->ring<Message>(64);
    const Ticket held = runtime->submit(hold, latch.words());
    ticket = runtime->submit(send, ring, 0U, 30U, gang(1), after(held));
  }
  auto other = runtime->ring<Message>(64);  // collects
  latch.release();
  ticket.wait();
  EXPECT_EQ(other.counts().damaged, 0U);
}

}  // namespace
}  // namespace dwell::test
