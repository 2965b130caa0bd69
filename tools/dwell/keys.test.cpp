#include "keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dwell::tool {
namespace {

using testing::ElementsAre;

std::vector<int> keys_of(std::string bytes) { return take_keys(bytes); }

TEST(Keys, CharactersAndSequences) {
  EXPECT_THAT(keys_of("q\t\x1b[Ax\x1b[6~\x1bOB"), ElementsAre('q', '\t', key_up, 'x', key_page_down, key_down));
}

TEST(Keys, UnknownSequencesAreLeftOut) { EXPECT_THAT(keys_of("a\x1b[1;5Cb\x1b[200~c\xc3\xa4"), ElementsAre('a', 'b', 'c')); }

TEST(Keys, HalfOfASequenceWaitsForTheRest) {
  std::string bytes = "a\x1b[";
  EXPECT_THAT(take_keys(bytes), ElementsAre('a'));
  bytes += 'D';
  EXPECT_THAT(take_keys(bytes), ElementsAre(key_left));
  EXPECT_TRUE(bytes.empty());
}

}  // namespace
}  // namespace dwell::tool
