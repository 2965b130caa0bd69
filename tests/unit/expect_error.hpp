// Errors, as tests expect them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dwell/error.hpp>

// Expects `statement` to throw a dwell::Error of kind `code` whose message `matches`.
#define DWELL_EXPECT_ERROR(statement, code, matches) \
  try {                                              \
    statement;                                       \
    ADD_FAILURE() << #statement " throws nothing";   \
  } catch (const dwell::Error& error) {              \
    EXPECT_EQ(error.kind(), code) << error.what();   \
    EXPECT_THAT(error.message(), matches);           \
  }
