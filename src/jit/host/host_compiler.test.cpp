#include "jit/host/host_compiler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <thread>

#include <dwell/device.hpp>
#include <dwell/error.hpp>

#include "image/bundle.hpp"
#include "jit/base/dynamic_library.hpp"
#include "jit/base/temporary_directory.hpp"
#include "jit/object/cubin.hpp"
#include "jit/object/elf.hpp"
#include "tests/unit/expect_error.hpp"
#include "tests/unit/operators.hpp"

namespace dwell::jit {
namespace {

using testing::HasSubstr;
using testing::Not;

// One compiler for all tests: reading its version takes as long as a compilation.
HostCompiler& compiler() {
  static HostCompiler shared;
  return shared;
}

// Loads an object as the backend would, from a file, and looks up its entry.
struct Loaded {
  explicit Loaded(const image::BundleEntry& entry)
      : library(save(entry)), run(library.get<void(device::Context*, u32, const u32*)>(std::string(entry.symbol).c_str())) {}
  std::string save(const image::BundleEntry& entry) const {
    const auto path = folder.path() / "operator.so";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(entry.object.data()), static_cast<std::streamsize>(entry.object.size()));
    return path;
  }
  TemporaryDirectory folder;
  DynamicLibrary library;
  device::Entry run;
};

float run_axpy(const image::BundleEntry& entry) {
  const Loaded loaded(entry);
  device::Context context{};
  context.share = device::kWholeTask;
  float x = 10;
  float y = 1;
  std::vector<u32> words;
  const auto add_float = [&](float value) { words.push_back(std::bit_cast<u32>(value)); };
  const auto add_span = [&](const float* data) {
    const auto address = reinterpret_cast<u64>(data);
    words.insert(words.end(), {static_cast<u32>(address), static_cast<u32>(address >> 32U), 1U});
  };
  add_float(3);
  add_span(&x);
  add_span(&y);
  add_float(100);
  add_float(0);
  loaded.run(&context, 0, words.data());
  return y;
}

TEST(HostCompiler, TwoVersionsWithTheSameHelpersRunSideBySide) {
  const Object one = compiler().compile(axpy_unit("axpy_one", "2.0f"));
  const Object two = compiler().compile(axpy_unit("axpy_two", "5.0f"));
  const Opcode entries[] = {&one, nullptr, &two, &one};
  const Image image = compiler().link(entries);
  const auto opcodes = image::unpack(image.bytes).entries;
  ASSERT_EQ(opcodes.size(), 4U);
  EXPECT_EQ(run_axpy(opcodes[0]), 1 + 3 * 2 * 10 + 100);
  EXPECT_EQ(run_axpy(opcodes[2]), 1 + 3 * 5 * 10 + 100);
  EXPECT_TRUE(opcodes[1].symbol.empty());
  EXPECT_EQ(image.resources.registers, 0U);
}

TEST(HostCompiler, HelpersMayCallThemselves) {
  const Unit unit = unit_of("count",
                            "DWELL_DEVICE int nodes(int depth) { return depth == 0 ? 1 : nodes(depth - 1) + nodes(depth - 1); }\n"
                            "DWELL_OPERATOR(count)(dwell::Group, dwell::Span<int> x) { x[0] = nodes(x[0]); }\n",
                            "count_1");
  EXPECT_FALSE(compiler().compile(unit).bytes.empty());
}

TEST(HostCompiler, RefusesTierLto) {
  try {
    compiler().link({}, Tier::lto);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::unsupported);
    EXPECT_THAT(error.message(), HasSubstr("CPU"));
  }
}

TEST(HostCompiler, ReadsTheSignature) {
  const Object object = compiler().compile(axpy_unit("axpy_1"));
  EXPECT_EQ(object.entries[0].signature, expected_axpy_signature());
  EXPECT_EQ(object.entries[0].symbol, "axpy_1");
  EXPECT_EQ(object.log, "");
}

TEST(HostCompiler, ReadsUsedOperators) {
  EXPECT_EQ(compiler().compile(using_unit("user_1")).uses, expected_uses());
  EXPECT_TRUE(compiler().compile(axpy_unit("axpy_1")).uses.empty());
}

TEST(HostCompiler, ImagesContainUsedOpcodes) {
  const Object user = compiler().compile(using_unit("user_1"));
  Opcode table[] = {&user, nullptr, &user};
  table[0].uses = {7, 0};
  table[2].uses = {9, 2};
  const Image image = compiler().link(table);
  const image::Bundle bundle = image::unpack(image.bytes);
  EXPECT_EQ(bundle.uses, (std::vector<u32>{3, 5, 5, 7, 0, 9, 2}));
  const Loaded loaded(bundle.entries[2]);
  u32 out[2] = {};
  const auto address = reinterpret_cast<u64>(&out);
  const u32 words[] = {static_cast<u32>(address), static_cast<u32>(address >> 32U), 2U};
  device::Context context{};
  context.share = device::kWholeTask;
  context.uses = bundle.uses.data();
  loaded.run(&context, 2, words);
  EXPECT_EQ(out[0], 9U);
  EXPECT_EQ(out[1], 2U);
}

TEST(HostCompiler, ErrorsCarryTheUsersFileAndLine) {
  Unit unit = axpy_unit("axpy_1");
  unit.text.replace(unit.text.find("y[i] +="), 7, "y[i] ++ +=nonsense");
  unit.file = "some where/axpy.cu";
  unit.line = 100;
  DWELL_EXPECT_ERROR(compiler().compile(unit), errc::compile_failed,
                     testing::AllOf(HasSubstr("some where/axpy.cu:106:"), HasSubstr("nonsense"), Not(HasSubstr("dwell_operator"))));
}

TEST(HostCompiler, MissingOperatorsAreNamed) {
  Unit unit = axpy_unit("axpy_1");
  unit.name = unit.exports[0].expression = "axpi";
  DWELL_EXPECT_ERROR_FIELDS(compiler().compile(unit), errc::operator_not_found, "operator", "axpi");
}

TEST(HostCompiler, WrongParameterIsReportedInOneLine) {
  const auto message = [](const std::string& parameters) {
    const Unit unit = unit_of("a", "#include <vector>\nDWELL_OPERATOR(a)(" + parameters + ") {}\n", "a_1");
    return error_of([&] { compiler().compile(unit); }).message();
  };
  EXPECT_EQ(message("int n"), "operator a does not compile: its first parameter must be dwell::Group, it is int");
  EXPECT_EQ(message(""), "operator a does not compile: its first parameter must be dwell::Group, it has none");
  EXPECT_EQ(message("dwell::Group g, float& x"),
            "operator a does not compile: 'float& x' is a reference: take a value, or a dwell::Span to write to");
  EXPECT_THAT(message("dwell::Group g, std::vector<float> x"),
              testing::AllOf(testing::StartsWith("operator a does not compile: 'std::vector<float> x': operator arguments are copied"),
                             Not(HasSubstr("\n"))));
}

TEST(HostCompiler, UndefinedFunctionsAreNamed) {
  if (compiler().identity().find("-fsanitize") != std::string::npos)
    GTEST_SKIP() << "with sanitizers, objects may have undefined functions";
  const Unit unit =
      unit_of("a", "float elsewhere(float);\nDWELL_OPERATOR(a)(dwell::Group, dwell::Span<float> y) { y[0] = elsewhere(1); }\n", "a_1");
  DWELL_EXPECT_ERROR(compiler().compile(unit), errc::compile_failed, HasSubstr("elsewhere"));
}

TEST(HostCompiler, SourcesAreNeverPassedToAShell) {
  Unit unit = axpy_unit("axpy_1");
  unit.file = "$(touch /tmp/dwell_pwned); `x` \"'.cu";
  EXPECT_EQ(compiler().compile(unit).entries[0].symbol, "axpy_1");
}

TEST(HostCompiler, AMissingCompilerIsNamed) {
  HostCompiler missing({.compiler = "/nowhere/c++", .flags = {}});
  DWELL_EXPECT_ERROR_FIELDS(missing.compile(axpy_unit("axpy_1")), errc::compiler_unavailable, "file", "/nowhere/c++");
  EXPECT_EQ(missing.identity(), "host compiler: none");
  const Opcode none[] = {nullptr};
  EXPECT_EQ(image::unpack(missing.link(none).bytes).entries.size(), 1U);
}

// A shell script as the compiler: it answers --version and then runs `body`.
class FakeCompiler {
 public:
  explicit FakeCompiler(const std::string& body) {
    std::ofstream(file()) << "#!/bin/sh\n[ \"$1\" = --version ] && { echo fake 1.0; exit; }\n" << body << "\n";
    std::filesystem::permissions(file(), std::filesystem::perms::owner_all);
  }
  std::string file() const { return folder_.path() / "c++"; }

 private:
  TemporaryDirectory folder_;
};

TEST(HostCompiler, SurvivesMisbehavingCompilers) {
  const auto message_of = [](const std::string& body) -> std::string {
    const FakeCompiler fake(body);
    HostCompiler host({.compiler = fake.file(), .flags = {}, .limit = std::chrono::milliseconds(1500)});
    EXPECT_THAT(host.identity(), HasSubstr("fake 1.0"));
    try {
      host.compile(axpy_unit("axpy_1"));
    } catch (const Error& error) {
      return error.message();
    }
    return "compiled";
  };
  EXPECT_THAT(message_of("echo trouble >&2; kill -KILL $$"), testing::AllOf(HasSubstr("was killed by signal 9"), HasSubstr("trouble")));
  EXPECT_THAT(message_of("echo started; sleep 60"), testing::AllOf(HasSubstr("was ended after"), HasSubstr("started")));
  EXPECT_THAT(message_of("exit 0"), HasSubstr("cannot read"));
  EXPECT_THAT(message_of("while [ $# -gt 1 ]; do [ \"$1\" = -o ] && echo garbage > \"$2\"; shift; done"), HasSubstr("no signature"));
}

TEST(HostCompiler, RemovesItsFiles) {
  const TemporaryDirectory base;
  const char* const set = getenv("XDG_RUNTIME_DIR");
  const std::string before = set == nullptr ? "" : set;
  setenv("XDG_RUNTIME_DIR", base.path().c_str(), 1);
  {
    HostCompiler host;
    host.compile(axpy_unit("axpy_1"));
    EXPECT_THROW(host.compile(unit_of("a", "nonsense", "a_1")), Error);
    EXPECT_FALSE(std::filesystem::is_empty(base.path()));
  }
  EXPECT_TRUE(std::filesystem::is_empty(base.path()));
  before.empty() ? unsetenv("XDG_RUNTIME_DIR") : setenv("XDG_RUNTIME_DIR", before.c_str(), 1);
}

// The fake compiler removes its own folder in its first call, like a cleaner of /tmp.
TEST(HostCompiler, RetriesWhenItsFolderIsRemoved) {
  const TemporaryDirectory base;
  const std::string once = base.path() / "once";
  const FakeCompiler fake("[ -e " + once + R"( ] && exec c++ "$@"; : > )" + once +
                          "\nfor last; do :; done\nrm -r \"${last%/*/*}\"\nexec c++ \"$@\"");
  HostCompiler host({.compiler = fake.file(), .flags = {}});
  EXPECT_EQ(host.compile(axpy_unit("axpy_1")).entries[0].symbol, "axpy_1");
  EXPECT_TRUE(std::filesystem::exists(once));
}

TEST(HostCompiler, CompilesFromSeveralThreads) {
  HostCompiler host;
  std::vector<std::thread> threads;
  std::vector<Object> objects(3);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    threads.emplace_back([&, i] { objects[i] = host.compile(axpy_unit("axpy_" + std::to_string(i))); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < objects.size(); ++i) EXPECT_EQ(objects[i].entries[0].symbol, "axpy_" + std::to_string(i));
}

// Untrusted files: nothing is read out of bounds (the sanitizers check this), and no signature is invented.
TEST(Elf, SurvivesDamagedFiles) {
  const Object object = compiler().compile(axpy_unit("axpy_1"));
  ASSERT_TRUE(Elf::open(object.bytes));
  EXPECT_FALSE(Elf::open({}));
  EXPECT_FALSE(read_signature(object.bytes, "other"));
  const auto use = [](std::span<const std::byte> bytes) {
    read_signature(bytes, "axpy_1");
    EXPECT_FALSE(Cubin::open(bytes));
  };
  for (std::size_t size = 0; size < object.bytes.size(); size += 61) {
    const Bytes shorter(object.bytes.begin(), object.bytes.begin() + static_cast<std::ptrdiff_t>(size));
    use(shorter);
  }
  Bytes damaged = object.bytes;
  const auto flip = [&](std::size_t at, int value) {
    const std::byte before = damaged[at];
    damaged[at] = static_cast<std::byte>(value);
    use(damaged);
    damaged[at] = before;
  };
  const std::size_t tables = damaged.size() - std::min<std::size_t>(damaged.size(), 4096);
  for (const int value : {0x00, 0x7f, 0xff}) {
    for (std::size_t at = 0; at < 64; ++at) flip(at, value);
    for (std::size_t at = 64; at < damaged.size(); at += 37) flip(at, value);
    for (std::size_t at = tables; at < damaged.size(); at += 3) flip(at, value);
  }
}

TEST(Elf, FindsSectionsAndSymbols) {
  const Object object = compiler().compile(axpy_unit("axpy_1"));
  const auto elf = Elf::open(object.bytes);
  ASSERT_TRUE(elf);
  EXPECT_NE(elf->section(".text"), nullptr);
  EXPECT_EQ(elf->section(".no such"), nullptr);
  ASSERT_NE(elf->symbol("axpy_1"), nullptr);
  EXPECT_FALSE(elf->symbol_bytes("axpy_1").empty());
  EXPECT_GE(elf->symbol_bytes("axpy_1_signature").size(), sizeof(SignatureRecord)) << "a sanitizer has more behind it";
}

}  // namespace
}  // namespace dwell::jit
