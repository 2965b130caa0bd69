#include "jit/cache/caching_compiler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <new>
#include <thread>

#include <dwell/error.hpp>

#include "base/byte_stream.hpp"
#include "jit/base/temporary_directory.hpp"
#include "jit/source/fingerprint.hpp"
#include "tests/unit/child.hpp"
#include "tests/unit/expect_error.hpp"
#include "tests/unit/operators.hpp"

namespace dwell::jit {
namespace {

using namespace std::chrono_literals;

// Requests to a stand-in compiler, which this outlives.
struct Calls {
  int compiles = 0;
  int links = 0;
  int modules = 0;
  std::string identity = "stand-in 1";
  std::string fingerprint;          // of all units; empty: each has its own
  std::function<void()> meanwhile;  // called while it compiles
  std::vector<std::string> reads;   // files that it reads and that its fingerprint omits
};

class StandIn final : public Compiler {
 public:
  explicit StandIn(Calls& calls) : calls_(calls) {}
  Object compile(const Unit& unit) override {
    ++calls_.compiles;
    if (calls_.meanwhile) calls_.meanwhile();
    if (unit.text.empty()) throw Error(errc::compile_failed, "empty");
    const auto bytes = as_bytes(unit.text);
    Object object{{{unit.exports[0].symbol, expected_axpy_signature()}}, Bytes(bytes.begin(), bytes.end()), "a warning", unit.form};
    object.unnamed_files = calls_.reads;
    for (const std::string& known : unit.unnamed_files) std::erase(object.unnamed_files, known);
    return object;
  }
  Image link(std::span<const Opcode> entries, Tier, std::uint32_t) override {
    ++calls_.links;
    Image image{{}, {1, 2, 3}};
    for (const Opcode& opcode : entries) {
      if (opcode.object != nullptr) image.bytes.insert(image.bytes.end(), opcode.object->bytes.begin(), opcode.object->bytes.end());
    }
    return image;
  }
  std::string fingerprint(const Unit& unit) override {
    std::string print = calls_.fingerprint.empty() ? unit.fingerprint : calls_.fingerprint;
    for (const std::string& file : unit.unnamed_files) {
      std::ifstream content(file);
      print.append(std::istreambuf_iterator<char>(content), {});
    }
    return print;
  }
  ModuleObject compile_module(const Unit& unit) override {
    ++calls_.modules;
    ModuleObject object;
    object.assembly = unit.text;
    for (const Export& one : unit.exports) object.expressions.emplace_back(one.expression, "symbol of " + one.expression);
    return object;
  }
  std::string identity() const override { return calls_.identity; }

 private:
  Calls& calls_;
};

class CachingCompilerTest : public testing::Test {
 protected:
  CachingCompiler make(bool files = true) {
    return CachingCompiler(std::make_unique<StandIn>(calls_), files ? FileCache(folder_.path() / "cache") : FileCache());
  }
  TemporaryDirectory folder_;
  Calls calls_;
  const Unit unit_ = axpy_unit("axpy_1");
};

void expect_equal(const Object& a, const Object& b) {
  EXPECT_EQ(a.entries[0].symbol, b.entries[0].symbol);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.entries[0].signature, b.entries[0].signature);
  EXPECT_EQ(a.log, b.log);
  EXPECT_EQ(a.form, b.form);
}

TEST_F(CachingCompilerTest, AlternatingSourcesCompileOnceEach) {
  CachingCompiler compiler = make(false);
  for (int i = 0; i < 3; ++i) {
    compiler.compile(axpy_unit("axpy_1", "1.0f"));
    compiler.compile(axpy_unit("axpy_2", "2.0f"));
  }
  EXPECT_EQ(calls_.compiles, 2);
}

TEST_F(CachingCompilerTest, TheNextProcessLoadsFromDisk) {
  const Object first = make().compile(unit_);
  const Object again = make().compile(unit_);
  expect_equal(first, again);
  EXPECT_EQ(calls_.compiles, 1);

  const Opcode entries[] = {&first, nullptr, &again};
  const Image image = make().link(entries);
  const Image relinked = make().link(entries);
  EXPECT_EQ(calls_.links, 1);
  EXPECT_EQ(image.bytes, relinked.bytes);
  EXPECT_EQ(relinked.resources.registers, 1U);
  EXPECT_EQ(relinked.resources.stack_bytes, 2U);
  EXPECT_EQ(relinked.resources.shared_bytes, 3U);
}

TEST_F(CachingCompilerTest, EveryInputIsPartOfTheKey) {
  make().compile(unit_);
  for (const auto change : {+[](Unit& unit) { unit.fingerprint += 'x'; }, +[](Unit& unit) { unit.exports[0].symbol += 'x'; }}) {
    Unit other = unit_;
    change(other);
    const int before = calls_.compiles;
    EXPECT_EQ(make().compile(other).entries[0].symbol, other.exports[0].symbol);
    EXPECT_EQ(calls_.compiles, before + 1);
  }
}

TEST_F(CachingCompilerTest, FormAndTierArePartOfTheKey) {
  Unit inlined = unit_;
  inlined.form = Form::lto;
  const Object native = make().compile(unit_);
  const Object ir = make().compile(inlined);
  EXPECT_EQ(native.form, Form::native);
  EXPECT_EQ(ir.form, Form::lto);
  expect_equal(make().compile(inlined), ir);
  EXPECT_EQ(calls_.compiles, 2);

  const Opcode entries[] = {&native};
  for (int i = 0; i < 2; ++i) {
    make().link(entries, Tier::relocatable);
    make().link(entries, Tier::lto);
  }
  EXPECT_EQ(calls_.links, 2);
}

TEST_F(CachingCompilerTest, ImagesDifferByWhatTheirOpcodesUse) {
  const Object object = make().compile(unit_);
  std::vector<Opcode> table = {&object, &object};
  for (const std::vector<std::uint32_t>& uses : {std::vector<std::uint32_t>{}, {0}, {1}, {0, 1}}) {
    table[1].uses = uses;
    make().link(table);
    make().link(table);
  }
  std::swap(table[0].uses, table[1].uses);
  make().link(table);
  EXPECT_EQ(calls_.links, 5);
}

TEST_F(CachingCompilerTest, ObjectsOfChangedIncludesAreNotCached) {
  Unit unit = unit_;
  calls_.meanwhile = [&] { calls_.fingerprint = "that of another text"; };
  EXPECT_THROW(make().compile(unit), IncludesChanged);
  calls_.fingerprint.clear();
  calls_.meanwhile = nullptr;
  make().compile(unit);
  EXPECT_EQ(calls_.compiles, 2) << "nothing was kept under the first fingerprint";

  // Compiles again with the new fingerprint, as the runtime does.
  CachingCompiler compiler = make(false);
  int changes = 0;
  calls_.fingerprint = "0";
  calls_.meanwhile = [&] {
    if (changes < 2) calls_.fingerprint = std::to_string(++changes);
  };
  const auto compile = [&](const Unit& named) { return compiler.compile(named); };
  EXPECT_NO_THROW(compile_by_fingerprint(compiler, unit, compile));
  EXPECT_EQ(unit.fingerprint, "2");
  calls_.fingerprint = "another";
  calls_.meanwhile = [&] { calls_.fingerprint = std::to_string(++changes); };
  EXPECT_THROW(compile_by_fingerprint(compiler, unit, compile), IncludesChanged);
}

TEST_F(CachingCompilerTest, SourcesWithoutFingerprintAreNotCached) {
  Unit unknown = unit_;
  unknown.fingerprint.clear();
  make().compile(unknown);
  make().compile(unknown);
  EXPECT_EQ(calls_.compiles, 2);
}

TEST_F(CachingCompilerTest, OpcodeOrderIsPartOfTheKey) {
  CachingCompiler compiler = make();
  const Object a = compiler.compile(axpy_unit("axpy_1", "1.0f"));
  const Object b = compiler.compile(axpy_unit("axpy_2", "2.0f"));
  const std::vector<std::vector<Opcode>> lists = {{&a, &b}, {&b, &a}, {&a, nullptr, &b}, {&a, &b, nullptr}, {}, {nullptr}};
  for (const auto& list : lists) compiler.link(list);
  for (const auto& list : lists) make().link(list);
  EXPECT_EQ(calls_.links, static_cast<int>(lists.size()));
}

TEST_F(CachingCompilerTest, FailuresAreNotCached) {
  CachingCompiler compiler = make();
  Unit empty = unit_;
  empty.text.clear();
  EXPECT_THROW(compiler.compile(empty), Error);
  EXPECT_THROW(compiler.compile(empty), Error);
  EXPECT_EQ(calls_.compiles, 2);
}

TEST_F(CachingCompilerTest, AFailedAllocationIsAnErrorOfOneCall) {
  CachingCompiler compiler = make();
  calls_.meanwhile = [this] {
    if (calls_.compiles == 1) throw std::bad_alloc();
  };
  DWELL_EXPECT_ERROR(compiler.compile(unit_), errc::out_of_memory, testing::HasSubstr(unit_.name));
  EXPECT_FALSE(compiler.compile(unit_).bytes.empty());
  EXPECT_EQ(calls_.compiles, 2);
}

TEST_F(CachingCompilerTest, DamagedEntriesAreCompiledAgain) {
  const Object first = make().compile(unit_);
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path() / "cache")) std::filesystem::resize_file(entry.path(), 100);
  expect_equal(make().compile(unit_), first);
  EXPECT_EQ(calls_.compiles, 2);
}

TEST_F(CachingCompilerTest, AReadOnlyFolderLeavesTheMemoryCache) {
  // This process owns the folder, but nobody can create files in it, not even root.
  int warnings = 0;
  CachingCompiler compiler(std::make_unique<StandIn>(calls_), FileCache("/proc/self", [&](const std::string&) { ++warnings; }));
  for (int i = 0; i < 3; ++i) {
    compiler.compile(axpy_unit("axpy_1", "1.0f"));
    compiler.compile(axpy_unit("axpy_2", "2.0f"));
  }
  EXPECT_EQ(calls_.compiles, 2);
  EXPECT_EQ(warnings, 1);
}

// Requests of all processes of a race to their compilers.
struct Race {
  std::atomic<int> ready = 0;
  std::atomic<int> compiles = 0;
  std::atomic<int> links = 0;
};

// A slow compiler that counts for all processes. With `dies`, the process of the first compilation is killed.
class SlowStandIn final : public Compiler {
 public:
  SlowStandIn(Race& race, bool dies) : race_(race), dies_(dies), stand_in_(calls_) {}
  Object compile(const Unit& unit) override {
    if (race_.compiles.fetch_add(1) == 0 && dies_) raise(SIGKILL);
    std::this_thread::sleep_for(50ms);
    return stand_in_.compile(unit);
  }
  Image link(std::span<const Opcode> entries, Tier tier, std::uint32_t parts) override {
    ++race_.links;
    std::this_thread::sleep_for(50ms);
    return stand_in_.link(entries, tier, parts);
  }
  std::string fingerprint(const Unit& unit) override { return stand_in_.fingerprint(unit); }
  std::string identity() const override { return stand_in_.identity(); }

 private:
  Race& race_;
  const bool dies_;
  Calls calls_;
  StandIn stand_in_;
};

// Starts `count` processes that compile and link the same unit. Returns how many got the right result.
int race_of(int count, Race& race, const std::filesystem::path& folder, bool dies) {
  const Unit unit = axpy_unit("axpy_1");
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    children.push_back(test::start_child([&] {
      CachingCompiler compiler(std::make_unique<SlowStandIn>(race, dies), FileCache(folder));
      race.ready.fetch_add(1);
      while (race.ready < count) std::this_thread::yield();
      const Object object = compiler.compile(unit);
      const Opcode entries[] = {&object};
      const auto expected = as_bytes(unit.text);
      return std::ranges::equal(object.bytes, expected) && std::ranges::equal(compiler.link(entries).bytes, expected) ? 0 : 1;
    }));
  }
  int right = 0;
  for (const pid_t child : children) right += test::ended_well(test::end_of(child)) ? 1 : 0;
  return right;
}

TEST_F(CachingCompilerTest, SixteenProcessesShareOneCompilation) {
  const test::SharedWithChildren<Race> race;
  EXPECT_EQ(race_of(16, *race, folder_.path() / "cache", false), 16);
  EXPECT_EQ(race->compiles, 1);
  EXPECT_EQ(race->links, 1);
}

TEST_F(CachingCompilerTest, AKilledCompilerBlocksNoOther) {
  const test::SharedWithChildren<Race> race;
  EXPECT_EQ(race_of(4, *race, folder_.path() / "cache", true), 3);
  EXPECT_EQ(race->compiles, 2);
  EXPECT_EQ(race->links, 1);
}

TEST_F(CachingCompilerTest, WithoutAFolderEachProcessCompiles) {
  const test::SharedWithChildren<Race> race;
  EXPECT_EQ(race_of(4, *race, "/proc/version", false), 4);
  EXPECT_EQ(race->compiles, 4);
}

TEST_F(CachingCompilerTest, MemoryIsBounded) {
  CachingCompiler compiler = make(false);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 1000; ++i) compiler.compile(axpy_unit("axpy_" + std::to_string(i)));
  }
  EXPECT_EQ(calls_.compiles, 2000);
}

TEST_F(CachingCompilerTest, AModuleIsCompiledOncePerFingerprint) {
  Unit unit{"kernels", "text", "mine.cu", 1, {{"f<int>", ""}, {"g", ""}}};
  CachingCompiler compiler = make();
  calls_.fingerprint = "of both";
  unit.fingerprint = compiler.fingerprint(unit);
  EXPECT_EQ(compiler.compile_module(unit).expressions[1].second, "symbol of g");
  EXPECT_EQ(compiler.compile_module(unit).assembly, "text");
  EXPECT_EQ(make().compile_module(unit).expressions[0].second, "symbol of f<int>") << "from the file";
  EXPECT_EQ(calls_.modules, 1);
  unit.exports.pop_back();
  unit.fingerprint = calls_.fingerprint = "of one";
  EXPECT_EQ(compiler.compile_module(unit).expressions.size(), 1U);
  EXPECT_EQ(calls_.modules, 2);
  unit.fingerprint.clear();
  compiler.compile_module(unit);
  EXPECT_EQ(calls_.modules, 3) << "what cannot be told is not kept";
  EXPECT_EQ(calls_.compiles, 0);
}

// Like a header that includes a file named by a macro of the user.
TEST_F(CachingCompilerTest, UnnamedFilesJoinTheFingerprint) {
  const std::string file = folder_.path() / "config.h";
  std::ofstream(file) << "one";
  calls_.reads = {file};
  calls_.fingerprint = "text";
  Unit unit = unit_;
  const auto define = [&](CachingCompiler compiler) {
    static_cast<void>(compile_by_fingerprint(compiler, unit, [&](const Unit& named) { return compiler.compile(named); }));
    return unit.fingerprint;
  };
  EXPECT_EQ(define(make()), "textone");
  EXPECT_EQ(calls_.compiles, 2) << "the first one shows what is read";
  EXPECT_EQ(define(make()), "textone");
  EXPECT_EQ(calls_.compiles, 2) << "the next process knows it";
  std::ofstream(file) << "two";
  EXPECT_EQ(define(make()), "texttwo");
  EXPECT_EQ(calls_.compiles, 3);
  std::ofstream(file) << "one";
  define(make());
  EXPECT_EQ(calls_.compiles, 3);
  CachingCompiler compiler = make(false);
  EXPECT_EQ(compiler.fingerprint(unit), "text");
  EXPECT_THROW(compiler.compile(unit), IncludesChanged) << "without a cache on disk too";
  EXPECT_EQ(compiler.fingerprint(unit), "textone");
}

TEST_F(CachingCompilerTest, LaterUnnamedFilesAreAdded) {
  const std::string one = folder_.path() / "one.h";
  const std::string two = folder_.path() / "two.h";
  calls_.fingerprint = "text";
  CachingCompiler compiler = make();
  Unit unit = unit_;
  const auto define = [&] {
    static_cast<void>(compile_by_fingerprint(compiler, unit, [&](const Unit& named) { return compiler.compile(named); }));
    return unit.fingerprint;
  };
  std::ofstream(one) << "1";
  std::ofstream(two) << "2";
  calls_.reads = {one};
  EXPECT_EQ(define(), "text1");
  calls_.reads = {two, one};
  std::ofstream(one) << "3";
  EXPECT_EQ(define(), "text32");
}

}  // namespace
}  // namespace dwell::jit
