#include "tensor/device/operand.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tensor/device/matrix.hpp"

namespace dwell::device::operand_test {
namespace {

struct Layout {
  const char* name;
  i32 line_stride;
  i32 depth_stride;
  u32 first;  // index of the first element in the memory
};

// Loads all steps of an operand as 128 threads do, and checks shared memory.
template <class C, class Elements, class T, bool by_line>
void check(u32 lines, u32 depth, const Layout& layout) {
  constexpr u32 kPack = Operand<C, Elements>::kPack;
  constexpr u32 kDepth = Operand<C, Elements>::kDepth;
  constexpr u32 kPitch = (by_line ? kDepth : kTile) + kPack;
  alignas(16) static T memory[32768];
  for (u32 i = 0; i < std::size(memory); ++i) memory[i] = static_cast<T>(1 + i % 16381);
  const T* const from = memory + layout.first;
  const auto number = [&](u32 line, u32 d) {
    if (line >= lines || d >= depth) return C();
    return static_cast<C>(from[static_cast<i32>(line) * layout.line_stride + static_cast<i32>(d) * layout.depth_stride]);
  };
  const ElementType type = sizeof(T) == 8 ? ElementType::i64 : ElementType::i32;
  for (u32 tile = 0; tile < lines; tile += kTile) {
    std::vector<Operand<C, Elements>> threads;
    for (u32 rank = 0; rank < 128; ++rank)
      threads.emplace_back(Elements(reinterpret_cast<u64>(from), type), layout.line_stride, layout.depth_stride, lines, depth, tile, rank);
    for (u32 first = 0; first < depth; first += kDepth) {
      alignas(16) C shared[(by_line ? kTile : kDepth) * kPitch];
      for (C& each : shared) each = static_cast<C>(99);
      for (auto& thread : threads) {
        thread.fetch(first);
        thread.template put<by_line>(shared, kPitch);
      }
      for (u32 l = 0; l < kTile; ++l)
        for (u32 d = 0; d < kDepth; ++d)
          ASSERT_EQ(shared[by_line ? l * kPitch + d : d * kPitch + l], number(tile + l, first + d))
              << layout.name << ", " << lines << " lines of " << depth << ": line " << tile + l << ", number " << first + d;
    }
  }
}

template <class C, class Elements, class T, bool by_line>
void check_all() {
  const Layout layouts[] = {{"lines", 128, 1, 0},
                            {"lines off by one", 128, 1, 1},
                            {"lines of odd length", 101, 1, 0},
                            {"columns", 1, 128, 0},
                            {"columns off by one", 1, 128, 1},
                            {"columns of odd length", 1, 101, 0},
                            {"gaps", 130, 2, 3},
                            {"backwards", -128, -1, 30000},
                            {"one line for all", 0, 1, 0},
                            {"one number for all", 1, 0, 0}};
  for (const Layout& layout : layouts)
    for (const u32 lines : {1U, 3U, 32U, 33U, 100U})
      for (const u32 depth : {1U, 15U, 16U, 33U, 100U}) check<C, Elements, T, by_line>(lines, depth, layout);
}

TEST(OperandTest, FloatsOfAnyLayout) { check_all<float, TypedElements<float, float>, float, false>(); }
TEST(OperandTest, DoublesOfAnyLayout) { check_all<double, TypedElements<double, double>, double, false>(); }
TEST(OperandTest, SixteenBitsOfAnyLayout) { check_all<u16, TypedElements<u16, u16>, u16, true>(); }
TEST(OperandTest, ElementsOfARuntimeType) { check_all<u64, AnyElements<u64>, i32, false>(); }

}  // namespace
}  // namespace dwell::device::operand_test
