#include "jit/source/embedded.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace dwell::jit {
namespace {

std::string_view text_of(std::string_view name) {
  for (const EmbeddedFile& file : embedded_headers()) {
    if (file.name == name) return file.text;
  }
  return {};
}

TEST(Embedded, ContainsTheDeviceHeaders) {
  EXPECT_NE(text_of("dwell/device.hpp").find("#include <dwell/device/group.hpp>"), std::string_view::npos);
  EXPECT_NE(text_of("dwell/device/operator.hpp").find("DWELL_EXPORT"), std::string_view::npos);
  EXPECT_FALSE(text_of("device/ring.hpp").empty());
  EXPECT_FALSE(text_of("tensor/device/reduce.hpp").empty());
  for (const EmbeddedFile& file : embedded_headers()) {
    EXPECT_EQ(file.text.data()[file.text.size()], '\0') << file.name;
    EXPECT_TRUE(file.text.ends_with('\n')) << file.name;
  }
  EXPECT_EQ(embedded_headers_digest().size(), 64U);
}

#ifdef DWELL_SOURCE_DIR
TEST(Embedded, ContainsEveryByte) {
  for (const EmbeddedFile& file : embedded_headers()) {
    const std::filesystem::path root(DWELL_SOURCE_DIR);
    std::filesystem::path path = root / "include" / file.name;
    if (!std::filesystem::exists(path)) path = root / "src" / file.name;
    std::ifstream in(path, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    EXPECT_EQ(text, file.text) << file.name;
  }
}
#endif

}  // namespace
}  // namespace dwell::jit
