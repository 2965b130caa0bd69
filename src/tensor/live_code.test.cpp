#include "tensor/live_code.hpp"

#include <gmock/gmock.h>

#include <vector>

#include "tensor/device/program.hpp"

namespace dwell::tensor {
namespace {

using device::Instruction;
using device::NumberClass;
using device::OperandKind;
using device::Step;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;

using Code = std::vector<std::uint32_t>;

std::uint32_t step(Step of, OperandKind kind, unsigned operand) {
  return Instruction(of, NumberClass::f32, ElementType::f32, kind, operand).bits();
}
std::uint32_t load(unsigned tensor) { return step(Step::load, OperandKind::tensor, tensor); }
std::uint32_t load_kept(unsigned temporary) { return step(Step::load, OperandKind::temporary, temporary); }
std::uint32_t store(unsigned tensor) { return step(Step::store, OperandKind::tensor, tensor); }
std::uint32_t keep(unsigned temporary) { return step(Step::keep, OperandKind::none, temporary); }
std::uint32_t add(unsigned tensor) {
  return Instruction(TensorOp::add, NumberClass::f32, ElementType::f32, OperandKind::tensor, tensor).bits();
}
std::uint32_t where_kept(unsigned tensor, unsigned temporary) {
  return Instruction(TensorOp::where, NumberClass::f32, ElementType::f32, OperandKind::tensor, tensor)
      .with_third(OperandKind::temporary, temporary)
      .bits();
}

Code live(Code code, std::uint32_t unseen = 0) {
  code.resize(keep_live_code(code, unseen));
  return code;
}

TEST(LiveCodeTest, KeepsLiveCode) {
  const Code code{load(0), add(1), store(2), add(1), store(3)};
  EXPECT_THAT(live(code), ElementsAreArray(code));
}

TEST(LiveCodeTest, LastOfTwoStoresStays) {
  EXPECT_THAT(live({load(0), add(1), store(0), add(1), store(0)}), ElementsAre(load(0), add(1), add(1), store(0)));
}

TEST(LiveCodeTest, StoreThatIsReadStays) {
  const Code code{load(0), store(2), load(1), add(2), store(2)};
  EXPECT_THAT(live(code), ElementsAreArray(code));
}

TEST(LiveCodeTest, ReadsByDeadCodeAreDead) {
  EXPECT_THAT(live({load(0), store(2), load(1), add(2), store(3), load(0), store(2)}, 1U << 3U), ElementsAre(load(0), store(2)));
}

TEST(LiveCodeTest, OperandsOfDeadStoresAreDead) {
  EXPECT_THAT(live({load(0), add(1), store(2), load(0), store(3)}, 1U << 2U), ElementsAre(load(0), store(3)));
  EXPECT_THAT(live({load(0), add(1), store(2)}, 1U << 2U), IsEmpty());
}

TEST(LiveCodeTest, AccumulatorContinuesPastADeadStore) {
  EXPECT_THAT(live({load(0), add(1), store(2), add(1), store(3)}, 1U << 2U), ElementsAre(load(0), add(1), add(1), store(3)));
}

TEST(LiveCodeTest, TemporariesLiveUntilTheirReads) {
  const Code code{load(0), keep(0), load(1), add(1), keep(1), load_kept(0), where_kept(1, 1), store(2)};
  EXPECT_THAT(live(code), ElementsAreArray(code));
  EXPECT_THAT(live({load(0), keep(0), load(1), keep(1), load_kept(1), store(2)}), ElementsAre(load(1), keep(1), load_kept(1), store(2)));
  // The second keep overwrites the first, which is never read.
  EXPECT_THAT(live({load(0), keep(0), load(1), keep(0), load_kept(0), store(2)}), ElementsAre(load(1), keep(0), load_kept(0), store(2)));
}

}  // namespace
}  // namespace dwell::tensor
