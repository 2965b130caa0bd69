// Readers of files and of other processes' data, with damaged bytes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <dwell/diagnosis.hpp>
#include <dwell/doctor.hpp>
#include <dwell/error.hpp>
#include <dwell/log.hpp>
#include <dwell/metrics.hpp>

#include "base/byte_stream.hpp"
#include "base/json_text.hpp"
#include "base/utf8.hpp"
#include "image/bundle.hpp"
#include "jit/base/temporary_directory.hpp"
#include "jit/cache/cache_entry.hpp"
#include "jit/cache/payloads.hpp"
#include "jit/host/dependencies.hpp"
#include "jit/object/cubin.hpp"
#include "jit/object/elf.hpp"
#include "jit/object/kernel_signature.hpp"
#include "jit/object/nv_info.hpp"
#include "jit/source/include_lexer.hpp"
#include "live/answer.hpp"
#include "live/channel.hpp"
#include "live/flight.hpp"
#include "live/sources.hpp"
#include "live/wire.hpp"
#include "runtime/observe/log_format.hpp"
#include "tests/unit/elf_file.hpp"
#include "tests/unit/fuzz.hpp"
#include "tests/unit/live.hpp"
#include "tests/unit/operators.hpp"
#include "tests/unit/sample_metrics.hpp"

namespace dwell {
namespace {

using test::fuzz;
using test::fuzz_sample;
using test::fuzz_text;
using test::Fuzzer;
using Bytes = Fuzzer::Bytes;

// Expects printable text.
void expect_shown(const std::string& text) { EXPECT_EQ(printable(text, "\n\t"), text); }

TEST(HostileBytes, OfOtherProcessesGiveValuesOrErrors) {
  const auto both = []<class T>(const Bytes& bytes, auto use, const T&) {
    try {
      use(live::decode<T>(bytes));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), errc::unsupported);
    }
  };
  Diagnosis circular = test::diagnosis_of_two();
  circular.cycles.emplace_back();
  fuzz("metrics", 500, {live::encode(test::metrics_after(7)), live::encode(test::sample_metrics())}, [&](const Bytes& bytes) {
    both(
        bytes, [](const Metrics& got) { expect_shown(to_openmetrics(got) + to_json(got)); }, Metrics{});
  });
  fuzz("diagnosis", 1500, {live::encode(circular)}, [&](const Bytes& bytes) {
    both(
        bytes, [](const Diagnosis& got) { static_cast<void>(to_string(got)); }, Diagnosis{});
  });
  fuzz("log", 1500, {live::encode(live::LogPage{{test::log_line("a\nb", level::error), test::log_line("")}, 42})}, [&](const Bytes& bytes) {
    both(
        bytes,
        [](const live::LogPage& page) {
          for (const LogRecord& record : page.records) expect_shown(to_string(record));
        },
        live::LogPage{});
  });
  fuzz("runtimes", 1000, {live::encode(live::RuntimeIds{1, 2, 3})}, [&](const Bytes& bytes) {
    both(
        bytes, [](const live::RuntimeIds&) {}, live::RuntimeIds{});
  });
}

// A connection; the test holds its far end.
struct Line {
  Line() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    far = File(ends[0]);
    near = File(ends[1]);
  }
  File far;
  File near;
};

TEST(HostileBytes, OnAConnectionAreFramesOrErrors) {
  ByteWriter frames;
  for (const int kind : {0, 2, 1}) {
    frames.number(static_cast<std::uint8_t>(kind));
    frames.number(std::uint32_t{8});
    frames.number(std::uint64_t{9});
  }
  fuzz("frames", 1000, {std::move(frames).take()}, [](const Bytes& bytes) {
    Line line;
    ASSERT_TRUE(line.far.write_all(std::span(bytes).first(std::min<std::size_t>(bytes.size(), 65536))));
    line.far = File();
    live::Channel channel(std::move(line.near), std::chrono::milliseconds(100));
    try {
      for (;;) {
        const live::Frame frame = channel.receive();
        if (frame.kind == live::FrameKind::failure) static_cast<void>(std::string(live::error_in(frame.bytes).what()));
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), errc::io_failed);
    }
  });
}

TEST(HostileBytes, OfARequestAreAnswered) {
  live::Sources sources;
  live::Source source;
  source.runtime = 1;
  source.metrics = [] { return test::metrics_after(7); };
  source.inspect = [](std::string_view name) { return std::string(name); };
  source.logs = [](std::uint64_t after, std::size_t, std::uint64_t* next) {
    *next = after;
    return std::vector<LogRecord>();
  };
  const std::uint64_t id = sources.add(std::move(source));
  std::vector<Bytes> samples;
  for (const char* const request :
       {"runtimes", "metrics 1", "logs 1 0 100", "inspect 1 ring", "trace 1 0.5 chrome", "diagnosis 18446744073709551615"})
    samples.push_back(fuzz_sample(request));
  fuzz("requests", 2000, samples, [&](const Bytes& bytes) {
    Line line;
    live::Channel channel(std::move(line.near), std::chrono::milliseconds(100));
    live::answer(fuzz_text(bytes).substr(0, live::Channel::kLongestRequest), sources, channel);
    live::Channel back(std::move(line.far), std::chrono::milliseconds(100));
    live::Frame frame = back.receive();
    while (frame.kind == live::FrameKind::piece) frame = back.receive();
  });
  sources.remove(id);
}

// Damages one table of a flight recorder's file at a time, because most of the file is empty.
TEST(HostileBytes, OfAFlightRecorderAreShown) {
  using live::FlightEntry;
  using live::FlightFile;
  constexpr std::uint32_t kSlots = 128;
  const jit::TemporaryDirectory folder;
  const std::filesystem::path path = folder.path() / "flight";
  Bytes whole(FlightFile::bytes(2, kSlots));
  auto& head = *reinterpret_cast<FlightFile*>(whole.data());
  head.magic = FlightFile::kMagic;
  head.version = FlightFile::kVersion;
  head.workers = 2;
  head.ring_slots = kSlots;
  std::strcpy(head.operators[5].name, "add");
  head.operators[5].parameters = 2;
  head.operators[5].parameter[0] = device::Describe<float>::value;
  head.operators[5].parameter[1] = device::Describe<Span<float>>::value;
  head.execs[0] = {0x10000, 640, 3, 0, 3, 12, 1, "step"};
  head.execs_written = 1;
  head.nodes_taken = 3;
  for (std::uint32_t i = 0; i < 3; ++i) head.nodes[i] = {2 + 2 * i, i, "left", 6, {1, 2, 3, 4, 5, 6}};
  head.details[0] = {5, 12, "left: add", "(0.5)"};
  const std::span<std::byte> entries(whole.data() + FlightFile::entries_at(), 2 * live::kFlightEntries * sizeof(FlightEntry));
  for (std::uint32_t i = 0; i < 2 * live::kFlightEntries; ++i) {
    const std::uint64_t node = (0x10080 / 64) | FlightEntry::kNode;
    const std::uint64_t word = (i % 3 == 0 ? node : i % 3 == 1 ? i | FlightEntry::kLaunch : i) | 5ULL << 32U | FlightEntry::kValid;
    const FlightEntry entry{i + 1, static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32U), 12};
    std::memcpy(entries.data() + i * sizeof(entry), &entry, sizeof(entry));
  }
  std::byte* const ring = whole.data() + FlightFile::ring_at(2);
  for (std::uint32_t i = 0; i < kSlots * 4; ++i) {
    const std::uint32_t quad[4] = {1, 5U | 2U << 16U, 1, 1};
    std::memcpy(ring + i * sizeof(quad), quad, sizeof(quad));
  }
  const auto bytes_of = [](auto& table) { return std::as_writable_bytes(std::span(&table, 1)); };
  const std::span<std::byte> parts[] = {std::span(whole).first(1024), bytes_of(head.operators[5]), bytes_of(head.execs[0]),
                                        bytes_of(head.nodes[0]),      bytes_of(head.details[0]),   bytes_of(head.ring_slots),
                                        bytes_of(head.execs_written), bytes_of(head.nodes_taken),  entries,
                                        std::span(ring, kSlots * 64)};
  const File file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(file.write_all(whole));
  const auto put = [&](std::span<const std::byte> part) {
    return pwrite(file.get(), part.data(), part.size(), part.data() - whole.data()) == static_cast<ssize_t>(part.size());
  };
  fuzz("flight", 200, [&](Fuzzer& fuzzer) {
    std::vector<std::pair<std::span<std::byte>, Bytes>> before;
    for (std::size_t left = 1 + fuzzer.below(3); left != 0; --left) {
      const auto part = parts[fuzzer.below(std::size(parts))];
      before.emplace_back(part, Bytes(part.begin(), part.end()));
      // Often spares the first bytes: otherwise the rest is not read.
      fuzzer.damage(part.size() > 1024 || fuzzer.below(4) == 0 ? part : part.subspan(std::min<std::size_t>(part.size() - 1, 16)));
      ASSERT_TRUE(put(part));
    }
    try {
      expect_shown(live::to_string(live::read_flight(path)));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), errc::io_failed);
    }
    for (; !before.empty(); before.pop_back()) {
      std::ranges::copy(before.back().second, before.back().first.begin());
      ASSERT_TRUE(put(before.back().first));
    }
  });
}

TEST(HostileBytes, OfTheCacheGiveValuesOrNothing) {
  const jit::Object object{.entries = {{"axpy_1", jit::expected_axpy_signature()}, {"axpy_2", {}}},
                           .bytes = Bytes(40),
                           .log = "a warning",
                           .form = jit::Form::lto,
                           .assembly = "text",
                           .uses = {{"a", jit::expected_axpy_signature()}, {"b", {}}}};
  jit::ModuleObject module;
  module.kernels = {{"_Z1f", "f", jit::expected_axpy_signature()}};
  module.expressions = {{"f<int>", "_Z1f"}};
  const std::vector<std::string> names = {"/a", "/b c"};
  const std::vector<Bytes> samples = {encode(object), encode(jit::Image{Bytes(40), {1, 2, 3}, {{"a", {}}, {"b", {}}}}), encode(module),
                                      jit::encode(names)};
  fuzz("payloads", 5000, samples, [](const Bytes& bytes) {
    static_cast<void>(jit::decode_object(bytes));
    static_cast<void>(jit::decode_image(bytes));
    static_cast<void>(jit::decode_module(bytes));
    static_cast<void>(jit::decode_names(bytes));
  });
}

TEST(HostileBytes, OfAnEntryOfTheCacheAreRefused) {
  const jit::TemporaryDirectory folder;
  const File opened(open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::string key(64, 'a');
  const Bytes payload = fuzz_sample("the payload");
  Bytes entry = jit::entry_head(key, "operator axpy", payload);
  entry.insert(entry.end(), payload.begin(), payload.end());
  fuzz("entries", 500, {entry}, [&](const Bytes& bytes) {
    const File file(open((folder.path() / key).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    ASSERT_TRUE(file.write_all(bytes));
    const jit::FoundEntry found = jit::read_entry(opened, key);
    EXPECT_TRUE(bytes == entry || !found.payload);
    EXPECT_LE(jit::describe_entry(opened, key).size(), 512U);
  });
}

TEST(HostileBytes, OfAnImageAreExamined) {
  using jit::nv_info::Number;
  test::ElfFile cubin(jit::nv_info::kMachine);
  const auto code = static_cast<std::uint16_t>(cubin.add(".text.k", SHT_PROGBITS, Bytes(16)));
  const std::uint32_t k = cubin.symbol("k", code, jit::nv_info::kEntryPoint);
  const std::uint32_t f = cubin.symbol("_Z1fPfi", code);
  cubin.add(".nv.callgraph", SHT_PROGBITS, test::bytes_of(std::vector<std::uint32_t>{0, ~0U, k, f, f, k, 0, ~1U}));
  const auto head = [](Number number, std::uint32_t bytes) { return 4U | static_cast<std::uint32_t>(number) << 8U | bytes << 16U; };
  cubin.add(".nv.info", SHT_PROGBITS,
            test::bytes_of(std::vector<std::uint32_t>{head(Number::register_count, 8), k, 8, head(Number::frame_size, 8), f, 100}));
  cubin.add(
      ".nv.info.k", SHT_PROGBITS,
      test::bytes_of(std::vector<std::uint32_t>{head(Number::max_threads, 12), 32, 2, 1, head(Number::parameter, 12), 0, 0, 8U << 18U}));
  cubin.add(".nv.shared.k", SHT_NOBITS, {}, 3000);
  const auto object = as_bytes("an object");
  const std::vector<image::BundleEntry> operators = {{"dwell_a_0", object}, {}, {"dwell_b_0", object}};
  const std::vector<Bytes> samples = {cubin.write(), image::pack(operators, std::vector<std::uint32_t>{3, 4, 5, 0, 1})};
  fuzz("images", 3000, samples, [](const Bytes& bytes) {
    try {
      static_cast<void>(examine_image(bytes, 1024));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), errc::invalid_argument);
    }
    try {
      static_cast<void>(jit::read_kernels(bytes));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), errc::compile_failed);
    }
    static_cast<void>(jit::read_signature(bytes, "k"));
    static_cast<void>(jit::read_uses(bytes, "k"));
    static_cast<void>(jit::read_statics(bytes));
  });
}

TEST(HostileBytes, OfSourcesAndRulesAreRead) {
  const std::vector<Bytes> samples = {
      fuzz_sample(
          "#include <a.h>\n#if __has_include(\"b\" ) // x \\\n y\n#include_next <c>\nasm volatile(\"nop\" : : );\nR\"x(#include <d>)x\"\n"),
      fuzz_sample("a.o: /a/b\\ c.h \\\n  d\\#e $$f \\\\ g\n"),
      fuzz_sample("u8R\"delimiter(\n)delimiter\" 'a' '\\'' 0x1'0 /* */ %:import <q>\n")};
  fuzz("sources", 5000, samples, [](const Bytes& bytes) {
    static_cast<void>(jit::inclusions_of(fuzz_text(bytes)));
    static_cast<void>(jit::prerequisites_of(fuzz_text(bytes)));
  });
}

TEST(HostileBytes, OfALogAreLines) {
  const std::vector<Bytes> formats = {fuzz_sample("x={} y={:.3f} {{}} {:#010x}"), fuzz_sample("{:*^+#99.99g}{:s}{:c}{:>20p}{:99999}")};
  fuzz("formats", 2000, [&](Fuzzer& fuzzer) {
    const Bytes format = fuzzer.damaged(formats);
    std::vector<std::uint32_t> words(40, 0x41414141);
    fuzzer.damage(std::as_writable_bytes(std::span(words)));
    const auto types = static_cast<std::uint32_t>(fuzzer.below(~0U));
    const std::string text = runtime::format_line(fuzz_text(format), static_cast<std::uint32_t>(fuzzer.below(9)), types, words.data());
    EXPECT_EQ(valid_utf8(text), text);
    EXPECT_LT(text.size(), 200'000U);
    runtime::LogLine line;
    if (runtime::read_line(words.data(), line)) static_cast<void>(runtime::format_line(line));
  });
}

TEST(HostileBytes, AreValidInJson) {
  fuzz("json", 800,
       {fuzz_sample("gr\xC3\xB6\xC3\x9F"
                    "er \"x\" \\ \n\x1b[2J \xE2\x82\xAC \xF0\x9F\x98\x80")},
       [](const Bytes& bytes) {
         JsonText json;
         json.value(fuzz_text(bytes));
         expect_shown(json.text());
       });
}

}  // namespace
}  // namespace dwell
