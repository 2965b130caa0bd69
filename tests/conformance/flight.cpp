// What a runtime leaves behind that has failed.
#include <filesystem>

#include "live/flight.hpp"
#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class FlightRecorderTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(FlightRecorderTest);

TEST_P(FlightRecorderTest, TheErrorNamesAFileThatTellsTheLastTasks) {
  Options brief = options();
  brief.task_timeout = 200ms;
  Runtime runtime(brief);
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  const auto spins = runtime.define<void(u64)>("spins", R"(
DWELL_OPERATOR(spins)(dwell::Group, dwell::u64 ns) {
  const dwell::u64 begun = dwell::device::now_ns();
  while (dwell::device::now_ns() - begun < ns) {}
}
)");
  for (int i = 0; i < 10; ++i) runtime.submit(nothing).wait();
  const std::uint64_t position = runtime.submit(spins, 1'500'000'000ULL).position();
  const Error error = error_of([&] { runtime.wait_all(); });
  ASSERT_EQ(error.kind(), errc::task_timeout) << error.what();
  const std::string& text = error.message();
  const std::string before = "dwell post-mortem ";
  ASSERT_THAT(text, HasSubstr(before));
  const std::filesystem::path path = text.substr(text.find(before) + before.size());
  const live::Flight flight = live::read_flight(path);
  std::string arguments = "no such task";
  for (const auto& tasks : flight.workers)
    for (const live::Flight::Task& task : tasks)
      if (task.name == "spins (version 1)" && task.position == position) arguments = task.arguments;
  EXPECT_EQ(arguments, "(1500000000)") << to_string(flight);
  EXPECT_THAT(flight.failure, HasSubstr("spins"));
  std::filesystem::remove(path);
  std::this_thread::sleep_for(1500ms);  // the task ends
}

}  // namespace
}  // namespace dwell::test
