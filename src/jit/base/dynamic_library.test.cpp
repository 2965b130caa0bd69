#include "jit/base/dynamic_library.hpp"

#include <gtest/gtest.h>

namespace dwell::jit {
namespace {

TEST(DynamicLibrary, FindsSymbolsAndItsPath) {
  const DynamicLibrary library("libm.so.6");
  EXPECT_EQ(library.get<double(double)>("floor")(2.5), 2.0);
  EXPECT_EQ(library.find<void()>("dwell_no_such_symbol"), nullptr);
  EXPECT_TRUE(library.file().is_absolute());
}

TEST(DynamicLibrary, ErrorsNameFileAndSymbol) {
  try {
    const DynamicLibrary library("/nowhere/libabsent.so", DynamicLibrary::Scope::local, errc::compiler_unavailable);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::compiler_unavailable);
    EXPECT_NE(error.message().find("/nowhere/libabsent.so"), std::string::npos);
  }
  try {
    DynamicLibrary("libm.so.6").get<void()>("dwell_no_such_symbol");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::io_failed);
    EXPECT_NE(error.message().find("libm.so.6"), std::string::npos);
    EXPECT_NE(error.message().find("dwell_no_such_symbol"), std::string::npos);
  }
}

TEST(DynamicLibrary, Moves) {
  DynamicLibrary first("libm.so.6");
  DynamicLibrary second = std::move(first);
  EXPECT_NE(second.find<double(double)>("floor"), nullptr);
  EXPECT_EQ(first.find<double(double)>("floor"), nullptr);  // NOLINT(bugprone-use-after-move): an emptied library finds nothing
}

}  // namespace
}  // namespace dwell::jit
