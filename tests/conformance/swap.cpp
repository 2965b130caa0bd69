// Redefinition of operators while tasks run.
#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class SwapTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(SwapTest);

TEST_P(SwapTest, EachTaskRunsTheVersionOfItsSubmission) {
  Runtime runtime(options());
  auto mark = runtime.define<Mark>("mark", mark_with(1));
  auto cells = filled<u32>(runtime, 3000, 0);
  std::vector<u32> expected;
  const auto submit = [&](u32 value) {
    for (int i = 0; i < 500; ++i) {
      runtime.submit(mark, cells, static_cast<u32>(expected.size()));
      expected.push_back(value);
    }
  };
  submit(1);
  mark.redefine(mark_with(2));
  submit(2);
  mark.redefine(mark_with(3));
  submit(3);
  mark.rollback();
  submit(2);
  mark.rollback();
  submit(1);
  mark.redefine(mark_with(4));
  submit(4);
  EXPECT_EQ(read(cells), expected);
}

TEST_P(SwapTest, VersionsAreCounted) {
  Runtime runtime(options());
  auto mark = runtime.define<Mark>("mark", mark_with(1));
  const auto expect = [&](u32 version, u32 versions) {
    EXPECT_EQ(mark.version(), version);
    EXPECT_EQ(mark.versions(), versions);
  };
  expect(1, 1);
  DWELL_EXPECT_ERROR_FIELDS(mark.rollback(), errc::no_previous_version, "operator", "mark");
  expect(1, 1);
  mark.redefine(mark_with(2));
  expect(2, 2);
  mark.redefine(mark_with(3));
  expect(3, 3);
  mark.rollback();
  expect(2, 3);
  mark.rollback();
  expect(1, 3);
  DWELL_EXPECT_ERROR_FIELDS(mark.rollback(), errc::no_previous_version, "operator", "mark");
  mark.redefine(mark_with(2));
  expect(4, 4);
}

TEST_P(SwapTest, CopiesOfAHandleNameOneOperator) {
  Runtime runtime(options());
  Operator<> mark = runtime.define("mark", mark_with(1));
  const Operator<void(Span<u32>, u32)> typed(mark);
  Operator<> copy = mark;
  auto cells = filled<u32>(runtime, 2, 0);
  copy.redefine(mark_with(2));
  EXPECT_EQ(mark.version(), 2U);
  EXPECT_EQ(typed.versions(), 2U);
  runtime.submit(mark, cells, 0U);
  runtime.submit(typed, cells, 1U);
  EXPECT_THAT(read(cells), testing::Each(2U));
  mark.rollback();
  EXPECT_EQ(copy.version(), 1U);
}

TEST_P(SwapTest, TasksInFlightOrParkedRunTheOldVersion) {
  Runtime runtime(options());
  auto mark = runtime.define<Mark>("mark", mark_with(1));
  auto hold = runtime.define<Hold>("hold", kHold);
  auto cells = filled<u32>(runtime, 100, 0);
  runtime.park();
  for (u32 i = 0; i < 50; ++i) runtime.submit(mark, cells, i);
  mark.redefine(mark_with(2));
  for (u32 i = 50; i < 100; ++i) runtime.submit(mark, cells, i);
  runtime.resume();
  const std::vector<u32> result = read(cells);
  for (u32 i = 0; i < 100; ++i) ASSERT_EQ(result[i], i < 50 ? 1U : 2U);
}

TEST_P(SwapTest, ALinkedTaskRunsTheVersionOfItsSubmission) {
  Runtime runtime(options());
  auto mark = runtime.define<Mark>("mark", mark_with(1));
  auto spin = runtime.define<Spin>("spin", kSpin);
  auto cells = filled<u32>(runtime, 20, 0);
  for (u32 i = 0; i < 20; ++i) {
    runtime.submit(spin, u64{1'000'000});
    runtime.submit(mark, cells, i, link);
    mark.redefine(mark_with(i % 4 + 2));
  }
  const std::vector<u32> result = read(cells);
  for (u32 i = 0; i < 20; ++i) ASSERT_EQ(result[i], i == 0 ? 1U : (i - 1) % 4 + 2);
}

TEST_P(SwapTest, TasksFlowWhileAnOperatorIsReplaced) {
  // Versions must only grow along the tickets; tasks submitted after redefine returned run the new version.
  constexpr u32 kSwaps = 12;
  Options small = options();
  small.ring_slots = 256;
  Runtime runtime(small);
  auto mark = runtime.define<Mark>("mark", mark_with(1));
  constexpr u32 kMost = 400'000;
  auto cells = filled<u32>(runtime, kMost, 0);
  std::atomic<u32> known{1};  // redefine of this value has returned
  std::atomic<u32> begun{1};  // redefine of this value has been called
  std::atomic<bool> stop{false};
  struct Seen {
    std::uint64_t position;
    u32 cell;
    u32 least;
    u32 most;
  };
  std::vector<std::vector<Seen>> seen(2);
  std::vector<std::jthread> producers;
  for (u32 me = 0; me < 2; ++me)
    producers.emplace_back([&, me] {
      for (u32 i = me; i < kMost && !stop; i += 2) {
        const u32 least = known;
        const Ticket ticket = runtime.submit(mark, cells, i);
        seen[me].push_back({ticket.position(), i, least, begun});
        if (i % 2000 < 2) std::this_thread::sleep_for(1ms);
      }
    });
  for (u32 value = 2; value <= kSwaps; ++value) {
    begun = value;
    mark.redefine(mark_with(value));
    known = value;
    std::this_thread::sleep_for(2ms);
  }
  stop = true;
  producers.clear();
  const std::vector<u32> result = read(cells);
  std::vector<Seen> all(seen[0]);
  all.insert(all.end(), seen[1].begin(), seen[1].end());
  std::sort(all.begin(), all.end(), [](const Seen& a, const Seen& b) { return a.position < b.position; });
  u32 last = 1;
  for (const Seen& task : all) {
    const u32 value = result[task.cell];
    ASSERT_GE(value, task.least) << "ticket " << task.position;
    ASSERT_LE(value, task.most) << "ticket " << task.position;
    ASSERT_GE(value, last) << "ticket " << task.position;
    last = value;
  }
  EXPECT_EQ(mark.version(), kSwaps);
  EXPECT_GE(runtime.metrics().images, kSwaps);
  EXPECT_GT(runtime.metrics().last_hand_over_ns, 0U);
}

TEST_P(SwapTest, ManySwapsLeaveRoomInTheImage) {
  // Unneeded versions are dropped, so rolling back and forth does not fill the table.
  Runtime runtime(options());
  auto mark = runtime.define<Mark>("mark", mark_with(1));
  auto cells = filled<u32>(runtime, 200, 0);
  for (u32 i = 0; i < 200; ++i) {
    if (i % 5 == 4)
      mark.rollback();
    else
      mark.redefine(mark_with(i % 3 + 1));
    runtime.submit(mark, cells, i);
  }
  u32 value = 1;
  std::vector<u32> history{1};
  std::size_t current = 1;
  const std::vector<u32> result = read(cells);
  for (u32 i = 0; i < 200; ++i) {
    if (i % 5 == 4) {
      --current;
    } else {
      history.push_back(i % 3 + 1);
      current = history.size();
    }
    value = history[current - 1];
    ASSERT_EQ(result[i], value) << i;
  }
}

TEST_P(SwapTest, AnotherSignatureIsRefused) {
  Runtime runtime(options());
  auto mark = runtime.define<Mark>("mark", mark_with(1));
  auto cells = filled<u32>(runtime, 1, 0);
  DWELL_EXPECT_ERROR(mark.redefine("DWELL_OPERATOR(mark)(dwell::Group, dwell::Span<dwell::u32>, dwell::i32) {}"), errc::signature_mismatch,
                     AllOf(HasSubstr("'mark'"), HasSubstr("(Span<u32>, u32)"), HasSubstr("(Span<u32>, i32)")));
  EXPECT_EQ(mark.version(), 1U);
  EXPECT_EQ(mark.versions(), 1U);
  runtime.submit(mark, cells, 0U).wait();
  EXPECT_EQ(read(cells)[0], 1U);
}

TEST_P(SwapTest, ACompileErrorNamesFileAndLineAndLeavesTheOldVersion) {
  Runtime runtime(options());
  auto mark = runtime.define<Mark>("mark", mark_with(1));
  auto cells = filled<u32>(runtime, 1, 0);
  const std::string text =
      "DWELL_OPERATOR(mark)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at) {\n"
      "  int fine = 0;\n"
      "  cells[at] = nonsense + fine;\n"
      "}\n";
  const auto at_line = [this](const std::string& file, int line) {
    const std::string number = std::to_string(line);
    return AllOf(HasSubstr("nonsense"), HasSubstr(on_cpu() ? file + ":" + number : file + "(" + number + ")"));
  };
  DWELL_EXPECT_ERROR(mark.redefine(Source(text, "my operators/mark.cu", 41)), errc::compile_failed, at_line("my operators/mark.cu", 43));
  DWELL_EXPECT_ERROR(mark.redefine(text), errc::compile_failed, at_line("mark.op", 3));
  DWELL_EXPECT_ERROR(runtime.define("other", "DWELL_OPERATOR(other)(dwell::Group) { nonsense; }"), errc::compile_failed,
                     at_line("other.op", 1));
  EXPECT_EQ(mark.version(), 1U);
  EXPECT_EQ(mark.versions(), 1U);
  runtime.submit(mark, cells, 0U).wait();
  EXPECT_EQ(read(cells)[0], 1U);
  // The name is still free.
  auto other = runtime.define("other", "DWELL_OPERATOR(other)(dwell::Group) {}");
  runtime.submit(other).wait();
}

TEST_P(SwapTest, ASourceWithoutTheOperatorIsRefused) {
  Runtime runtime(options());
  DWELL_EXPECT_ERROR(runtime.define("mark", "DWELL_OPERATOR(make)(dwell::Group) {}"), errc::operator_not_found, HasSubstr("mark"));
  DWELL_EXPECT_ERROR(runtime.define("mark", ""), errc::operator_not_found, HasSubstr("mark"));
  auto nothing = runtime.define("nothing", kNothing);
  DWELL_EXPECT_ERROR(nothing.redefine("DWELL_OPERATOR(anything)(dwell::Group) {}"), errc::operator_not_found, HasSubstr("nothing"));
  runtime.submit(nothing).wait();
}

TEST_P(SwapTest, AFailedLinkLeavesTheOldImage) {
  Runtime runtime(options());
  auto mark = runtime.define<Mark>("mark", mark_with(1));
  auto cells = filled<u32>(runtime, 1, 0);
  const std::string declared =
      "extern \"C\" dwell::u32 nowhere_to_be_found(dwell::u32);\n"
      "DWELL_OPERATOR(mark)(dwell::Group, dwell::Span<dwell::u32> cells, dwell::u32 at) "
      "{ cells[at] = nowhere_to_be_found(at); }\n";
  const std::uint64_t images = runtime.metrics().images;
  for (int i = 0; i < 2; ++i) {
    try {
      mark.redefine(declared);
      FAIL();
    } catch (const Error& error) {
      // The host compiler links while compiling.
      EXPECT_TRUE(error.kind() == errc::link_failed || error.kind() == errc::compile_failed) << error.what();
      EXPECT_THAT(error.message(), HasSubstr("nowhere_to_be_found"));
    }
  }
  EXPECT_EQ(runtime.metrics().images, images);
  EXPECT_EQ(mark.version(), 1U);
  runtime.submit(mark, cells, 0U).wait();
  EXPECT_EQ(read(cells)[0], 1U);
  mark.redefine(mark_with(5));
  runtime.submit(mark, cells, 0U).wait();
  EXPECT_EQ(read(cells)[0], 6U);
}

TEST_P(SwapTest, NamesAreChecked) {
  Runtime runtime(options());
  auto nothing = runtime.define("nothing", kNothing);
  DWELL_EXPECT_ERROR(runtime.define("nothing", kNothing), errc::invalid_argument, AllOf(HasSubstr("'nothing'"), HasSubstr("redefine")));
  for (const char* name : {"", "1st", "a-b", "a b", "a::b", "\xC3\xA4", "a.b", "a\"b", "a;b"})
    DWELL_EXPECT_ERROR(runtime.define(name, kNothing), errc::invalid_argument, HasSubstr("not a valid operator name"));
  runtime.define("_under_Score9", "DWELL_OPERATOR(_under_Score9)(dwell::Group) {}");
}

TEST_P(SwapTest, SeveralThreadsDefineAndRedefine) {
  Runtime runtime(options());
  auto cells = filled<u32>(runtime, 300, 0);
  auto shared = runtime.define<Mark>("mark", mark_with(1));
  std::vector<std::jthread> threads;
  for (u32 me = 0; me < 3; ++me)
    threads.emplace_back([&, me] {
      const std::string name = "op" + std::to_string(me);
      const auto source = [&](u32 value) {
        std::string text = mark_with(value);
        return text.replace(text.find("mark"), 4, name);
      };
      auto mine = runtime.define<Mark>(name, source(100));
      for (u32 i = 0; i < 6; ++i) {
        runtime.submit(mine, cells, me * 100 + i);
        mine.redefine(source(101 + i % 2));
        shared.redefine(mark_with(i % 3 + 1));
        if (i % 2 == 0) shared.rollback();
      }
      runtime.submit(mine, cells, me * 100 + 6);
    });
  threads.clear();
  const std::vector<u32> result = read(cells);
  for (u32 me = 0; me < 3; ++me)
    for (u32 i = 0; i <= 6; ++i) ASSERT_EQ(result[me * 100 + i], i == 0 ? 100U : 101 + (i - 1) % 2);
  EXPECT_EQ(shared.versions(), 19U);
}

TEST_P(SwapTest, MessagesNameTheFailedVersion) {
  Runtime runtime(options());
  auto fail = runtime.define<void()>("fail", "DWELL_OPERATOR(fail)(dwell::Group g) { g.fail(1); }");
  std::vector<Ticket> tickets;
  tickets.push_back(runtime.submit(fail));
  const auto source = [](u32 code) { return "DWELL_OPERATOR(fail)(dwell::Group g) { g.fail(" + std::to_string(code) + "); }"; };
  // Long after the first version left the image and another took its place.
  for (u32 i = 2; i <= 6; ++i) {
    runtime.wait_all();
    fail.redefine(source(i));
    tickets.push_back(runtime.submit(fail));
  }
  runtime.wait_all();
  for (u32 i = 0; i < 6; ++i) {
    const std::string version = "fail (version " + std::to_string(i + 1) + ")";
    DWELL_EXPECT_ERROR(tickets[i].wait(), errc::task_failed, AllOf(HasSubstr(version), HasSubstr("code " + std::to_string(i + 1))));
  }
}

TEST_P(SwapTest, ManyOperatorsLiveInOneImage) {
  Runtime runtime(options());
  constexpr u32 kOperators = kSanitized ? 10 : 24;
  std::vector<Operator<Mark>> ops;
  for (u32 i = 0; i < kOperators; ++i) {
    std::string text = mark_with(i + 1);
    ops.push_back(runtime.define<Mark>("many" + std::to_string(i), text.replace(text.find("mark"), 4, "many" + std::to_string(i))));
  }
  auto cells = filled<u32>(runtime, 1000, 0);
  for (u32 i = 0; i < 1000; ++i) runtime.submit(ops[i * 7 % kOperators], cells, i);
  const std::vector<u32> result = read(cells);
  for (u32 i = 0; i < 1000; ++i) ASSERT_EQ(result[i], i * 7 % kOperators + 1);
}

TEST_P(SwapTest, OperatorsOfOneSourceAreDistinct) {
  // Two operators in one source; equal helpers and file-scope variables in two operators.
  Runtime runtime(options());
  const std::string text =
      "static const dwell::u32 kTable[2] = {3, 4};\n"
      "dwell::u32 helper(dwell::u32 i) { return kTable[i]; }\n"
      "DWELL_OPERATOR(one)(dwell::Group g, dwell::Span<dwell::u32> x, dwell::u32 i) { if (g.rank() == 0) x[i] = helper(0); }\n"
      "DWELL_OPERATOR(two)(dwell::Group g, dwell::Span<dwell::u32> x, dwell::u32 i) { if (g.rank() == 0) x[i] = helper(1); }\n";
  auto one = runtime.define<Mark>("one", text);
  auto two = runtime.define<Mark>("two", text);
  auto cells = filled<u32>(runtime, 3, 0);
  runtime.submit(one, cells, 0U);
  runtime.submit(two, cells, 1U);
  std::string other = text;
  one.redefine(other.replace(other.find("{3") + 1, 1, "9"));
  runtime.submit(one, cells, 2U);
  EXPECT_THAT(read(cells), testing::ElementsAre(3U, 4U, 9U));
}

}  // namespace
}  // namespace dwell::test
