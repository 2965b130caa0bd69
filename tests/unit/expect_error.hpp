// Expectations of errors.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dwell/error.hpp>

namespace dwell {

// Expects these fields in the error.
inline void expect_fields(const Error& error, const ErrorFields& wanted) {
  EXPECT_EQ(error.fields().what, wanted.what) << error.what();
  EXPECT_EQ(error.fields().which, wanted.which) << error.what();
  EXPECT_EQ(error.fields().value, wanted.value) << error.what();
  EXPECT_EQ(error.fields().limit, wanted.limit) << error.what();
}

// The Error that `call` throws; errc::ok for none.
template <class Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return Error(errc::ok, "nothing");
}

}  // namespace dwell

// Expects `statement` to throw a dwell::Error of kind `code` whose message `matches`.
#define DWELL_EXPECT_ERROR(statement, code, matches) \
  try {                                              \
    statement;                                       \
    ADD_FAILURE() << #statement " throws nothing";   \
  } catch (const dwell::Error& error) {              \
    EXPECT_EQ(error.kind(), code) << error.what();   \
    EXPECT_THAT(error.message(), matches);           \
  }

// Expects `statement` to throw a dwell::Error of kind `code` with these fields: what, which, value, limit. Trailing ones may be omitted.
#define DWELL_EXPECT_ERROR_FIELDS(statement, code, ...) \
  try {                                                 \
    statement;                                          \
    ADD_FAILURE() << #statement " throws nothing";      \
  } catch (const dwell::Error& error) {                 \
    EXPECT_EQ(error.kind(), code) << error.what();      \
    dwell::expect_fields(error, {__VA_ARGS__});         \
  }

namespace dwell {

// The same for a call of several statements.
template <class Matcher, class Call>
void expect_error(errc code, const Matcher& matches, Call call) {
  DWELL_EXPECT_ERROR(call(), code, matches);
}

}  // namespace dwell
