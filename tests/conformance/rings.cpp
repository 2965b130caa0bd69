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
  bool right() const {
    const Message expected = of(producer, number);
    return std::memcmp(this, &expected, sizeof(*this)) == 0;
  }
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
    // The first `after` is a drain.
    auto spin = runtime->define<Spin>("spin", kSpin);
    runtime->submit(spin, u64{0}, after(runtime->submit(spin, u64{20'000'000}))).wait();
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
  constexpr u32 kCount = kSanitized ? 2'000 : 10'000;
  for (const std::size_t slots : {4U, 64U, 1024U})
    for (const bool checksum : {false, true}) {
      RingOptions how;
      how.checksum = checksum;
      how.first = kNearWrap;
      auto ring = runtime->ring<Message>(slots, how);
      auto seen = filled<u32>(*runtime, 1 + 4 * kCount, 0);
      std::vector<Ticket> senders;
      const Ticket first = runtime->submit(receive, ring, seen, kCount, gang(1));
      for (u32 producer = 0; producer < 4; ++producer) senders.push_back(runtime->submit(send, ring, producer, kCount, gang(1)));
      const Ticket second = runtime->submit(receive, ring, seen, kCount, gang(1));
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
  constexpr u32 kCount = kSanitized ? 500 : 2'000;
  constexpr u32 kGroups = 2;
  const u32 producers = kGroups * (on_cpu() ? 1 : 128);
  RingOptions how;
  how.checksum = true;
  how.first = kNearWrap;
  auto ring = runtime->ring<Message>(1024, how);
  auto seen = filled<u32>(*runtime, 1 + producers * kCount, 0);
  const Ticket receiver = runtime->submit(receive, ring, seen, kCount, gang(1));
  const Ticket sender = runtime->submit(send_each, ring, 0U, kCount, groups(kGroups));
  runtime->submit(close, ring, after(sender));
  sender.wait();
  receiver.wait();
  expect_all_once(seen);
}

TEST_P(RingTest, OperatorsSendToTheHost) {
  open();
  constexpr u32 kCount = kSanitized ? 1'000 : 5'000;
  for (const bool checksum : {false, true}) {
    auto ring = runtime->ring<Message>(1024, {.consumers = Side::host, .checksum = checksum, .first = kNearWrap});
    std::vector<Ticket> senders;
    for (u32 producer = 0; producer < 4; ++producer) senders.push_back(runtime->submit(send, ring, producer, kCount, gang(1)));
    runtime->submit(close, ring, after(senders));
    expect_in_order(ring, 4, kCount);
  }
}

TEST_P(RingTest, TheHostSendsToOperators) {
  open();
  constexpr u32 kCount = kSanitized ? 1'000 : 5'000;
  auto ring = runtime->ring<Message>(1024, {.producers = Side::host, .checksum = true, .first = kNearWrap});
  auto seen = filled<u32>(*runtime, 1 + 2 * kCount, 0);
  const Ticket receiver = runtime->submit(receive, ring, seen, kCount, gang(1));
  std::vector<std::thread> threads;
  for (u32 producer = 0; producer < 2; ++producer)
    threads.emplace_back([&ring, producer] {
      for (u32 i = 0; i < kCount; ++i) ring.push(Message::of(producer, i));
    });
  for (std::thread& thread : threads) thread.join();
  ring.close();
  receiver.wait();
  expect_all_once(seen);
}

}  // namespace
}  // namespace dwell::test
