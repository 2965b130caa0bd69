#include <dwell/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace dwell {
namespace {

TEST(Error, EachCodeHasItsMessage) {
  std::set<std::string> sentences;
  const int last = static_cast<int>(errc::interrupted);
  for (int code = 0; code <= last; ++code) sentences.insert(error_category().message(code));
  EXPECT_EQ(sentences.size(), static_cast<std::size_t>(last) + 1);
  EXPECT_EQ(sentences.count("unknown error"), 0U);
  EXPECT_EQ(error_category().message(last + 1), "unknown error");
}

TEST(Error, NamesTheEventAndTheKind) {
  const Error error(errc::cancelled, "ticket 5 was cancelled");
  EXPECT_EQ(error.kind(), errc::cancelled);
  EXPECT_EQ(error.message(), "ticket 5 was cancelled");
  EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("ticket 5 was cancelled"), testing::HasSubstr("cancelled")));
  EXPECT_STREQ(error.code().category().name(), "dwell");
}

TEST(Error, IsAStandardErrorCode) {
  const std::error_code code = errc::closed;
  EXPECT_EQ(code, errc::closed);
  EXPECT_NE(code, errc::cancelled);
  EXPECT_THROW(throw Error(errc::closed, ""), std::system_error);
}

}  // namespace
}  // namespace dwell
