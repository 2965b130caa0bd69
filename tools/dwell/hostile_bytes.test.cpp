// All that the tool reads of files, terminals and other processes, with bytes that nobody has meant.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <dwell/error.hpp>

#include "base/file.hpp"
#include "heap_report.hpp"
#include "image.hpp"
#include "jit/base/temporary_directory.hpp"
#include "job.hpp"
#include "json.hpp"
#include "keys.hpp"
#include "live/wire.hpp"
#include "npy.hpp"
#include "tests/unit/fuzz.hpp"
#include "tests/unit/live.hpp"
#include "top_screen.hpp"
#include "top_state.hpp"

namespace dwell::tool {
namespace {

using test::fuzz;
using test::fuzz_sample;
using test::fuzz_text;
using test::Fuzzer;
using Bytes = Fuzzer::Bytes;

constexpr const char* kJob = R"([operators.axpy]
source = "axpy.hpp"
[arrays]
x = { file = "x.npy" }
y = { like = "x", dtype = "f64" }
z = { shape = [2, 3], dtype = "u8" }
[[tasks]]
name = "one"
operator = "axpy"
args = [2.5, "x", "y", true, -3, [1.0, 2]]
[[tasks]]
operator = "axpy"
after = ["one"]
groups = 4
repeat = 10
[swap]
operator = "axpy"
source = '''other.hpp'''
after = 10
[outputs]
y = "out/y.npy"
)";

constexpr const char* kToml = R"(# all of TOML that a job does not need
a.b."c.d" = 1979-05-27T07:32:00Z
e = [ [ [ 1, 0x_f ], { f = inf, g = -nan } ], """x\
   y\u00e9""" ]
[[tasks.h.i]]
j = { k = { l = { } } }
)";

TEST(HostileBytes, OfAJobAreMistakes) {
  fuzz("jobs", 2000, {fuzz_sample(kJob), fuzz_sample(kToml)}, [](const Bytes& bytes) {
    try {
      static_cast<void>(parse_job(fuzz_text(bytes), "a/job.toml"));
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.exit(), Exit::mistake);
    }
  });
}

TEST(HostileBytes, DeepOrLongJobsAreMistakes) {
  const auto repeated = [](const char* text, std::size_t times) {
    std::string all;
    while (times-- != 0) all += text;
    return all;
  };
  std::vector<std::string> jobs = {
      "x = " + repeated("[", 100'000),      "x = " + repeated("{a=", 100'000),      repeated("[a.", 100'000),
      repeated("[[a]]\n[[a.b]]\n", 10'000), "a" + repeated(".a", 100'000) + " = 1", "x = \"" + repeated("\\", 100'000)};
  std::string chain = "[arrays]\na0 = { shape = [1], dtype = 'u8' }\n";
  for (int i = 1; i < 20'000; ++i) chain += "a" + std::to_string(i) + " = { like = 'a" + std::to_string(i - 1) + "' }\n";
  jobs.push_back(chain);
  std::string circle = "[arrays]\n";
  for (int i = 0; i < 20'000; ++i) circle += "a" + std::to_string(i) + " = { like = 'a" + std::to_string((i + 1) % 20'000) + "' }\n";
  jobs.push_back(circle);
  for (const std::string& job : jobs) EXPECT_THROW(static_cast<void>(parse_job(job, "job.toml")), Failure) << job.substr(0, 40);
}

void put(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  const File file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  ASSERT_TRUE(file.write_all(bytes));
}

TEST(HostileBytes, OfAnArrayAreRefused) {
  const jit::TemporaryDirectory folder;
  const std::filesystem::path path = folder.path() / "x.npy";
  std::ostringstream array;
  write_npy(array, ElementType::f32, {2, 3}, std::vector<std::byte>(24));
  const std::string text = array.str();
  const std::string two =
      std::string("\x93NUMPY\x02\0\x46\0\0\0", 12) + "{\"descr\": '<c16', 'fortran_order': True, 'shape': (18446744073709551615L,)}\n";
  fuzz("arrays", 800, {fuzz_sample(text), fuzz_sample(two)}, [&](const Bytes& bytes) {
    put(path, bytes);
    try {
      const NpyHeader header = read_npy_header(path);
      ASSERT_LE(header.data_bytes(), bytes.size());
      std::vector<std::byte> data(header.data_bytes());
      NpyData(path, header).read(0, data);
    } catch (const std::runtime_error&) {  // it says what is wrong
    }
  });
}

TEST(HostileBytes, OfAPictureAreRefused) {
  const jit::TemporaryDirectory folder;
  const std::filesystem::path path = folder.path() / "picture";
  Image image;
  image.width = 5;
  image.height = 3;
  image.pixels.assign(45, 7);
  std::ostringstream png;
  write_png(png, image);
  // The smallest JPEG that decoders take: 1 x 1, grey.
  const std::string jpeg = "\xFF\xD8\xFF\xDB" + std::string("\0\x43\0", 3) + std::string(64, '\x01') + "\xFF\xC0" +
                           std::string("\0\x0B\x08\0\x01\0\x01\x01\x01\x11\0", 11) + "\xFF\xC4" +
                           std::string("\0\x14\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x05", 20) + "\xFF\xC4" +
                           std::string("\0\x14\x10\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20) + "\xFF\xDA" +
                           std::string("\0\x08\x01\x01\0\0\x3F\0", 8) + "\x37\xFF\xD9";
  fuzz("pictures", 400, {fuzz_sample(png.str()), fuzz_sample(jpeg)}, [&](const Bytes& bytes) {
    put(path, bytes);
    try {
      static_cast<void>(read_image(path));
    } catch (const std::runtime_error&) {  // it says what is wrong
    }
  });
}

TEST(HostileBytes, OfATerminalAreKeysOrNothing) {
  fuzz("keys", 2000, {fuzz_sample("q\x1b[A\x1bOB\x1b[5~ \x1b[1;5C")}, [](const Bytes& bytes) {
    std::string text(fuzz_text(bytes));
    static_cast<void>(take_keys(text));
  });
}

TEST(HostileBytes, OfAnotherProcessAreDrawn) {
  const Metrics first = test::metrics_after(2);
  const std::vector<Bytes> samples = {live::encode(test::metrics_after(4)), live::encode(first)};
  fuzz("top", 1500, samples, [&](const Bytes& bytes) {
    Metrics later;
    try {
      later = live::decode<Metrics>(bytes);
    } catch (const Error&) {
      return;
    }
    TopState state;
    state.runtimes = {later.runtime};
    state.runtime = later.runtime;
    Metrics before = first;
    before.runtime = later.runtime;
    before.generation = later.generation;
    state.take(before);
    state.take(later);
    state.take({test::log_line("\x1b[2J")});
    for (const Line& line : render(state, 80, 24)) EXPECT_EQ(printable(line.text()), line.text());
  });
}

TEST(HostileBytes, OfAnotherProcessAreReported) {
  const auto report = [](const auto& value) {
    std::ostringstream out;
    print_text(out, value);
    EXPECT_EQ(printable(out.str()).size(), out.str().size());
    static_cast<void>(json_text(json_of(value)));
  };
  const HeapCensus census = test::census_after(1);
  fuzz("heaps", 1500, {live::encode(test::heap_of_two()), live::encode(census)}, [&](const Bytes& bytes) {
    try {
      report(live::decode<HeapStatistics>(bytes));
    } catch (const Error&) {  // it is none
    }
    try {
      const auto later = live::decode<HeapCensus>(bytes);
      report(later);
      report(growth_of(census, later, std::chrono::seconds(1)));
    } catch (const Error&) {  // it is none
    }
  });
}

}  // namespace
}  // namespace dwell::tool
