// A cached object equals the result of a compilation now, for every input of a compilation.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "jit/base/temporary_directory.hpp"
#include "jit/cache/caching_compiler.hpp"
#include "jit/host/host_compiler.hpp"
#include "jit/source/fingerprint.hpp"
#include "tests/unit/operators.hpp"

namespace dwell::jit {
namespace {

namespace fs = std::filesystem;

// Sets an environment variable for its lifetime.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

class InputsTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() / name; }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << text;
  }
  // The result for `text` in a process that starts now.
  struct Got {
    Bytes bytes;
    std::string fingerprint;
    std::uint64_t compiled = 0;
  };
  Got define(const std::string& text, const CompileOptions& options) {
    CachingCompiler compiler(std::make_unique<HostCompiler>(), FileCache(path("cache")));
    Unit unit = unit_with(options, text);
    const Object object = compile_by_fingerprint(compiler, unit, [&](const Unit& named) { return compiler.compile(named); });
    return {object.bytes, unit.fingerprint, compiler.counts().compiled};
  }
  // Checks that the object of `text`, which reads `file`, comes from the cache, and changes with the file.
  void expect_kept_and_followed(const std::string& text, const CompileOptions& options, const std::string& file, const std::string& one,
                                const std::string& two) {
    write(file, one);
    const Got first = define(text, options);
    const Got again = define(text, options);
    EXPECT_EQ(again.compiled, 0U);
    EXPECT_TRUE(again.bytes == first.bytes);
    write(file, two);
    const Got changed = define(text, options);
    EXPECT_FALSE(changed.bytes == first.bytes);
    write(file, one);
    EXPECT_EQ(define(text, options).fingerprint, first.fingerprint);
  }
  // Checks that the object of `text` is not cached, because its inputs are unknown.
  void expect_not_kept(const std::string& text, const CompileOptions& options = {}) {
    EXPECT_EQ(HostCompiler().fingerprint(unit_with(options, text)), "");
  }
  std::string body(const std::string& value) { return "DWELL_OPERATOR(a)(dwell::Group, dwell::Span<int> x) { x[0] = " + value + "; }\n"; }

  TemporaryDirectory folder_;
};

TEST_F(InputsTest, MacroIncludesOfSystemHeadersAreFollowed) {
  const Variable system("CPATH", path("system"));
  write("system/library.h", "#ifdef LIBRARY_CONFIG\n#include LIBRARY_CONFIG\n#endif\n");
  const std::string text = "#include <library.h>\n" + body("VALUE");
  expect_kept_and_followed(text, {.defines = {{"LIBRARY_CONFIG", "<my_config.h>"}}, .include_paths = {folder_.path()}}, "my_config.h",
                           "#define VALUE 1\n", "#define VALUE 2\n");
  expect_kept_and_followed(text, {.defines = {{"LIBRARY_CONFIG", '"' + path("other config.h") + '"'}}}, "other config.h",
                           "#define VALUE 1\n", "#define VALUE 2\n");
}

TEST_F(InputsTest, HeadersWithCarriageReturnsAreFollowed) {
  write("mac.h", "// an old one\r#include \"inner.h\"\r");
  expect_kept_and_followed("#include <mac.h>\n" + body("VALUE"), {.include_paths = {folder_.path()}}, "inner.h", "#define VALUE 1\n",
                           "#define VALUE 2\n");
}

TEST_F(InputsTest, FilesReadOnlyByTheAssemblerAreFollowed) {
  if (HostCompiler().identity().find("clang") != std::string::npos) GTEST_SKIP() << "clang's assembler does not tell what it reads";
  const auto function = [](const std::string& value) {
    return ".pushsection .text\nfrom_assembly: mov $" + value + ", %eax\nret\n.popsection\n";
  };
  // No word of the source shows that it is assembly.
  const std::string text = "#define JOIN(a, b) a##b\n#define TEXT(a) #a\nJOIN(as, m)(TEXT(.include) \" \\\"" + path("value.s") +
                           "\\\"\");\nextern \"C\" int from_assembly();\n" + body("from_assembly()");
  expect_kept_and_followed(text, {}, "value.s", function("1"), function("2"));
  expect_kept_and_followed(text, {.debug = true}, "value.s", function("1"), function("2"));
}

TEST_F(InputsTest, SourcesWithUnknownInputsAreNotCached) {
  expect_not_kept("asm(\".include \\\"a.s\\\"\");\n" + body("1"));
  expect_not_kept("asm(\".inc\" \"bin \\\"a.s\\\"\");\n" + body("1"));
  expect_not_kept("QUIET(\"nop\");\n" + body("1"), {.defines = {{"QUIET", "asm"}}});
  expect_not_kept("#include NAME\n" + body("1"), {.defines = {{"NAME", "<cstdint>"}}});
  expect_not_kept(body("1"), {.flags = {"-T" + path("script.ld")}});
}

TEST_F(InputsTest, RewritesWithTheOldTimeAreSeen) {
  write("value.h", "#define VALUE 1\n");
  const auto time = fs::last_write_time(path("value.h"));
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  HostCompiler compiler;
  const Unit unit = unit_with({.include_paths = {folder_.path()}}, "#include <value.h>\n" + body("VALUE"));
  const std::string first = compiler.fingerprint(unit);
  EXPECT_EQ(compiler.fingerprint(unit), first);
  write("value.h", "#define VALUE 2\n");
  fs::last_write_time(path("value.h"), time);
  EXPECT_NE(compiler.fingerprint(unit), first);
}

TEST_F(InputsTest, AnOrdinarySourceIsCompiledOnce) {
  const std::string text = "#include <cstdint>\n#include <vector>\n" + body("static_cast<int>(std::vector<std::uint8_t>(3).size())");
  EXPECT_EQ(define(text, {}).compiled, 1U);
  EXPECT_EQ(define(text, {.include_paths = {folder_.path()}}).compiled, 1U);
  EXPECT_EQ(define(text, {.debug = true}).compiled, 1U);
  EXPECT_EQ(define(text, {}).compiled, 0U);
}

}  // namespace
}  // namespace dwell::jit
