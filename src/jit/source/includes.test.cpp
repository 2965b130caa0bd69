#include "jit/source/includes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "jit/base/temporary_directory.hpp"

namespace dwell::jit {
namespace {

namespace fs = std::filesystem;

class IncludesTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((root_.path() / name).parent_path());
    std::ofstream(root_.path() / name, std::ios::binary) << text;
  }
  std::string folder(const std::string& name) { return root_.path() / name; }
  std::optional<std::string> digest(const std::string& text) { return digest_of_includes(text, search()); }
  IncludeSearch search() {
    return {.headers = headers,
            .folders = folders,
            .system_folders =
                [this] {
                  ++asked;
                  return system;
                },
            .unnamed_files = unnamed,
            .compiler_tells = compiler_tells,
            .assembler_reads = assembler_reads};
  }
  // Returns whether writing `text` to `name` changes the digest of `source`.
  bool matters(const std::string& source, const std::string& name, const std::string& text) {
    const auto before = digest(source);
    write(name, text);
    const auto after = digest(source);
    EXPECT_TRUE(before && after);
    return before != after;
  }

  TemporaryDirectory root_;
  std::map<std::string, std::string> headers;
  std::vector<std::string> folders = {folder("one"), folder("two")};
  std::vector<std::string> system = {folder("system")};
  std::vector<std::string> unnamed;
  bool compiler_tells = false;
  bool assembler_reads = true;
  int asked = 0;
};

TEST_F(IncludesTest, SystemFoldersAreAskedForOnlyWhenNeeded) {
  EXPECT_EQ(digest("int x;\n"), "");
  EXPECT_EQ(asked, 0);
}

TEST_F(IncludesTest, ContentsOfReachableFilesMatter) {
  write("one/a.h", "#include \"b.h\"\n");
  write("one/b.h", "#include <deep/c.h>\n");
  write("two/deep/c.h", "#include <s.h>\n");
  write("system/s.h", "int s;\n");
  write("one/unused.h", "int u;\n");
  const std::string source = "#include <a.h>\n";
  EXPECT_EQ(digest(source)->size(), 64U);
  EXPECT_EQ(digest(source), digest(source));
  EXPECT_TRUE(matters(source, "one/a.h", "#include \"b.h\"\n// changed\n"));
  EXPECT_TRUE(matters(source, "one/b.h", "#include <deep/c.h>\n// changed\n"));
  EXPECT_TRUE(matters(source, "two/deep/c.h", "#include <s.h>\n// changed\n"));
  EXPECT_FALSE(matters(source, "one/unused.h", "int u; // changed\n"));
  EXPECT_FALSE(matters(source, "one/b.h", "#include <deep/c.h>\n// changed\n")) << "the same contents, written again";
}

TEST_F(IncludesTest, RewritesOfTheSameSizeAreSeen) {
  write("one/a.h", "int a = 1;\n");
  for (const char* const text : {"int a = 2;\n", "int a = 3;\n", "int a = 4;\n"})
    EXPECT_TRUE(matters("#include <a.h>\n", "one/a.h", text)) << text;
}

TEST_F(IncludesTest, RewritesWithTheOldTimeAreSeen) {
  write("one/a.h", "int a = 1;\n");
  const auto time = fs::last_write_time(folder("one/a.h"));
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  const auto before = digest("#include <a.h>\n");
  write("one/a.h", "int a = 2;\n");
  fs::last_write_time(folder("one/a.h"), time);
  EXPECT_NE(digest("#include <a.h>\n"), before);
}

TEST_F(IncludesTest, NewFilesChangeTheDigest) {
  write("two/a.h", "int a;\n");
  EXPECT_TRUE(matters("#include <a.h>\n", "one/a.h", "int a;\n")) << "it hides the one behind";
  EXPECT_TRUE(matters("#include <missing.h>\n", "two/missing.h", ""));
  EXPECT_TRUE(matters("#if __has_include(<extra.h>)\n#endif\n", "one/extra.h", ""));
  write("system/s.h", "int s;\n");
  EXPECT_TRUE(matters("#include <s.h>\n", "two/s.h", "int s;\n")) << "it hides the system's";
  fs::remove(folder("two/s.h"));
  EXPECT_NE(digest("#include <s.h>\n"), digest("#include <missing_too.h>\n"));
}

TEST_F(IncludesTest, QuotedNamesStartInTheFilesFolder) {
  write("one/a/a.h", "#include \"x.h\"\n");
  write("one/a/x.h", "int x;\n");
  write("one/x.h", "int x;\n");
  EXPECT_FALSE(matters("#include <a/a.h>\n", "one/x.h", "int y;\n"));
  EXPECT_TRUE(matters("#include <a/a.h>\n", "one/a/x.h", "int y;\n"));
  write("one/a/a.h", "#include <x.h>\n");
  EXPECT_TRUE(matters("#include <a/a.h>\n", "one/x.h", "int z;\n")) << "with angle brackets it does not";
  EXPECT_FALSE(matters("#include <a/a.h>\n", "one/a/x.h", "int z;\n"));
}

TEST_F(IncludesTest, HeadersInMemoryHideFilesAndAreFollowed) {
  write("one/a.h", "int a;\n");
  write("one/b.h", "int b;\n");
  headers = {{"a.h", "#include <b.h>\n"}};
  EXPECT_FALSE(matters("#include <a.h>\n", "one/a.h", "int changed;\n"));
  EXPECT_TRUE(matters("#include <a.h>\n", "one/b.h", "int changed;\n"));
  write("one/sub/x.h", "int x;\n");
  const auto under = [&] { return digest_of_includes("", {.headers = headers, .folders = {}, .current_folder = folder("one")}); };
  headers = {{"sub/a.h", "#include \"x.h\"\n"}};
  const auto before = under();
  write("one/sub/x.h", "int y;\n");
  EXPECT_NE(under(), before) << "as if the header lay below the current folder";
}

TEST_F(IncludesTest, IncludeNextFollowsEveryFile) {
  write("one/a.h", "#include_next <a.h>\n");
  write("two/a.h", "int a;\n");
  write("system/a.h", "int a;\n");
  EXPECT_TRUE(matters("#include <a.h>\n", "two/a.h", "int b;\n"));
  EXPECT_TRUE(matters("#include <a.h>\n", "system/a.h", "int b;\n"));
}

TEST_F(IncludesTest, SystemHeadersAreCheckedEverySecond) {
  write("one/a.h", "#include <s.h>\n");
  write("system/s.h", "#include <t.h>\n");
  write("system/t.h", "int t;\n");
  const auto before = digest("#include <s.h>\n");
  const auto through_a_header = digest("#include <a.h>\n");
  EXPECT_EQ(digest("#include <s.h>\n"), before);
  EXPECT_NE(digest("#include <t.h>\n"), before);
  write("system/t.h", "int changed;\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_NE(digest("#include <s.h>\n"), before);
  EXPECT_NE(digest("#include <a.h>\n"), through_a_header);
}

TEST_F(IncludesTest, UserFilesHideSystemFiles) {
  write("system/s.h", "#include <deep/t.h>\n#include \"u.h\"\n");
  write("system/deep/t.h", "int t;\n");
  write("system/u.h", "int u;\n");
  fs::create_directories(folder("one"));
  const std::string source = "#include <s.h>\n";
  EXPECT_FALSE(matters(source, "one/other.h", "int t;\n"));
  EXPECT_FALSE(matters(source, "one/u.h", "int u;\n")) << "found beside the header that includes it";
  EXPECT_TRUE(matters(source, "two/deep/t.h", "int t;\n"));
  EXPECT_TRUE(matters(source, "two/deep/t.h", "#include <s.h>\nint hidden;\n"));
  fs::remove_all(folder("two"));
  headers = {{"deep/t.h", "int t;\n"}};
  const auto before = digest(source);
  write("system/deep/t.h", "int changed;\n");
  EXPECT_EQ(digest(source), before) << "hidden by a header in memory";
}

TEST_F(IncludesTest, CyclesEnd) {
  write("one/a.h", "#include \"sub/b.h\"\n");
  write("one/sub/b.h", "#include \"../a.h\"\n#include \"../sub/c.h\"\n");
  write("one/sub/c.h", "#include \"../sub/b.h\"\n");
  EXPECT_TRUE(digest("#include <a.h>\n"));
}

TEST_F(IncludesTest, MacroIncludesHaveNoDigest) {
  EXPECT_FALSE(digest("#define X <a.h>\n#include X\n"));
  write("one/a.h", "#include X\n");
  EXPECT_FALSE(digest("#include <a.h>\n"));
  headers = {{"m.h", "#include X\n"}};
  EXPECT_FALSE(digest("int x;\n"));
}

TEST_F(IncludesTest, SystemMacrosNeedAReportingCompiler) {
  write("system/s.h", "#include X\n");
  for (const bool alone : {false, true}) {
    if (alone) folders.clear();
    compiler_tells = false;
    EXPECT_FALSE(digest("#include <s.h>\n"));
    EXPECT_FALSE(digest("#include <s.h>\n")) << "also what is remembered";
    compiler_tells = true;
    EXPECT_TRUE(digest("#include <s.h>\n"));
  }
}

TEST_F(IncludesTest, AssemblyReadingFilesHasNoDigest) {
  write("one/a.h", "asm(\".incbin \\\"x\\\"\");\n");
  EXPECT_FALSE(digest("#include <a.h>\n"));
  assembler_reads = false;
  EXPECT_TRUE(digest("#include <a.h>\n"));
  assembler_reads = true;
  write("system/s.h", "int f() asm(NAME(f));\n");
  EXPECT_TRUE(digest("#include <s.h>\n")) << "the system's is passed over";
}

TEST_F(IncludesTest, HugeFilesHaveNoDigest) {
  write("one/a.h", "");
  ASSERT_EQ(truncate(folder("one/a.h").c_str(), off_t{1} << 42), 0);
  EXPECT_FALSE(digest("#include <a.h>\n"));
  EXPECT_FALSE(digest("#embed <a.h>\n"));
}

TEST_F(IncludesTest, UnnamedFilesAreFound) {
  write("one/a.h", "#include <b.h>\n");
  write("two/b.h", "");
  write("two/c.h", "");
  write("system/s.h", "#include <t.h>\n");
  write("system/t.h", "");
  fs::create_hard_link(folder("two/b.h"), folder("two/other_name.h"));
  const auto among = [&](std::vector<std::string> files) { return unnamed_among(files, "#include <a.h>\n#include <s.h>\n", search()); };
  EXPECT_THAT(among({folder("one/a.h"), folder("one/../two/b.h"), folder("two/other_name.h"), folder("system/t.h")}), testing::IsEmpty());
  EXPECT_THAT(among({folder("two/c.h"), folder("gone.h")}), testing::ElementsAre(folder("two/c.h"), folder("gone.h")));
  unnamed = {folder("two/c.h")};
  EXPECT_THAT(among({folder("two/c.h")}), testing::IsEmpty());
  folders.clear();
  static_cast<void>(digest("#include <s.h>\n"));
  EXPECT_THAT(unnamed_among(std::vector{folder("system/t.h")}, "#include <s.h>\n", search()), testing::IsEmpty())
      << "also behind a header whose digest is remembered";
}

TEST_F(IncludesTest, UnnamedFilesAreFollowed) {
  write("two/config.h", "#include <deep.h>\n");
  write("two/deep.h", "int a;\n");
  const auto without = digest("int x;\n");
  unnamed = {folder("two/config.h")};
  EXPECT_NE(digest("int x;\n"), without);
  EXPECT_TRUE(matters("int x;\n", "two/config.h", "#include <deep.h>\n// changed\n"));
  EXPECT_TRUE(matters("int x;\n", "two/deep.h", "int b;\n"));
  EXPECT_TRUE(matters("int x;\n", "one/config.h", "int hides;\n")) << "a macro that says <config.h> finds this one now";
}

TEST_F(IncludesTest, AbsoluteNamesAreFollowed) {
  write("three/a.h", "int a;\n");
  EXPECT_TRUE(matters("#include \"" + folder("three/a.h") + "\"\n", "three/a.h", "int b;\n"));
  EXPECT_TRUE(digest("#include <" + folder("three") + ">\n")) << "a folder is no file";
}

}  // namespace
}  // namespace dwell::jit
