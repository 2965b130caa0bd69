#include "jit/source/fingerprint.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tests/unit/operators.hpp"

namespace dwell::jit {
namespace {

TEST(Fingerprint, CoversEveryInputAndNothingElse) {
  const Unit unit = axpy_unit("axpy_1");
  const std::vector<std::string> flags = {"-a", "-b"};
  std::set<std::string> seen = {fingerprint_of(unit, "compiler 1", flags, "1"), fingerprint_of(unit, "compiler 2", flags, "1"),
                                fingerprint_of(unit, "compiler 1", {}, "1"), fingerprint_of(unit, "compiler 1", flags, "2")};
  std::size_t expected = 4;
  for (const auto change :
       {+[](Unit& other) { other.text += ' '; }, +[](Unit& other) { other.file += 'x'; }, +[](Unit& other) { other.line = 2; },
        +[](Unit& other) { other.name += 'x'; }, +[](Unit& other) { other.exports[0].expression += "<int>"; },
        +[](Unit& other) { other.exports.push_back(other.exports[0]); },
        +[](Unit& other) {
          other.options.headers = {{"a.h", ""}};
        },
        +[](Unit& other) {
          other.options.headers = {{"a.h", "1"}};
        }}) {
    Unit other = unit;
    change(other);
    seen.insert(fingerprint_of(other, "compiler 1", flags, "1"));
    EXPECT_EQ(seen.size(), ++expected);
  }
  EXPECT_EQ(fingerprint_of(axpy_unit("axpy_2"), "compiler 1", flags, "1"), fingerprint_of(unit, "compiler 1", flags, "1"))
      << "symbols are made from it";
}

}  // namespace
}  // namespace dwell::jit
