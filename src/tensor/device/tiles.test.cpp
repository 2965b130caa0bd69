// Products as the threads of a GPU's group compute them, one host thread for each.
#include "tensor/device/tiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor/device/thin.hpp"
#include "tensor/product.hpp"
#include "tests/unit/mma_layout.hpp"

namespace dwell::device::tiles_test {
namespace {

using test::a_element;
using test::b_element;
using test::c_element;

constexpr u32 kThreads = 128;

struct Warp {
  std::barrier<> lanes{32};
  std::array<double, 32> numbers;
  std::array<std::array<u32, 4>, 32> a;
  std::array<std::array<u32, 2>, 32> b;
};
struct Team {
  std::barrier<> threads{kThreads};
  alignas(16) std::array<u8, 8192> memory;  // like Options::scratch_bytes
  std::array<Warp, 4> warps;
};

// The part of Group that the tiles use.
class Member {
 public:
  Member(Team& team, u32 rank, u32 index, u32 count) : team_(&team), rank_(rank), index_(index), count_(count) {}
  u32 rank() const { return rank_; }
  u32 size() const { return kThreads; }
  u32 index() const { return index_; }
  u32 count() const { return count_; }
  void sync() const { team_->threads.arrive_and_wait(); }
  template <class T>
  Span<T> shared(u64 n) const {
    if (n * sizeof(T) > team_->memory.size()) return {};
    return Span<T>(reinterpret_cast<T*>(team_->memory.data()), n);
  }

 private:
  Team* team_;
  u32 rank_;
  u32 index_;
  u32 count_;
};

template <class T>
class EmulatedMma {
 public:
  EmulatedMma(Team& team, u32 rank) : warp_(&team.warps[rank / 32]), lane_(rank % 32) {}
  void operator()(float (&sums)[4], const u32 (&a)[4], const u32 (&b)[2]) const {
    std::copy(std::begin(a), std::end(a), warp_->a[lane_].begin());
    std::copy(std::begin(b), std::end(b), warp_->b[lane_].begin());
    warp_->lanes.arrive_and_wait();
    const auto number = [](u32 word, u32 i) { return static_cast<float>(T::from_bits(static_cast<u16>(word >> (i % 2 * 16)))); };
    float left[16][16];
    float right[16][8];
    for (u32 lane = 0; lane < 32; ++lane) {
      for (u32 i = 0; i < 8; ++i) left[a_element(lane, i).first][a_element(lane, i).second] = number(warp_->a[lane][i / 2], i);
      for (u32 i = 0; i < 4; ++i) right[b_element(lane, i).first][b_element(lane, i).second] = number(warp_->b[lane][i / 2], i);
    }
    for (u32 i = 0; i < 4; ++i)
      for (u32 k = 0; k < 16; ++k) sums[i] += left[c_element(lane_, i).first][k] * right[k][c_element(lane_, i).second];
    warp_->lanes.arrive_and_wait();  // all lanes have read
  }

 private:
  Warp* warp_;
  u32 lane_;
};

enum class Lie : unsigned char { rows, columns, gaps };

// A matrix in memory, with its elements as doubles.
template <class T>
struct Held {
  Held(u32 rows, u32 columns, Lie lie) : memory(std::size_t{4} * rows * columns + 16) {
    const auto r = static_cast<std::int64_t>(rows);
    const auto c = static_cast<std::int64_t>(columns);
    const Dims strides = lie == Lie::rows ? Dims{c, 1} : lie == Lie::columns ? Dims{1, r} : Dims{2 * c, 2};
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<T>(static_cast<float>(static_cast<int>(i * 37 % 17) - 8));
    view = TensorView(reinterpret_cast<u64>(memory.data()), type(), {r, c}, strides);
  }
  static ElementType type() {
    if (std::is_same_v<T, float>) return ElementType::f32;
    if (std::is_same_v<T, double>) return ElementType::f64;
    if (std::is_same_v<T, half>) return ElementType::f16;
    return std::is_same_v<T, bfloat16> ? ElementType::bf16 : ElementType::i32;
  }
  double at(u32 row, u32 column) const {
    return static_cast<double>(memory[static_cast<std::size_t>(row * view.strides()[0] + column * view.strides()[1])]);
  }

  std::vector<T> memory;
  TensorView view;
};

// Calls `run(member, words)` on all threads of all groups.
template <class F>
void run_groups(const tensor::Operation& operation, const F& run) {
  for (u32 index = 0; index < operation.groups; ++index) {
    Team team;
    std::vector<std::jthread> threads;
    for (u32 rank = 0; rank < kThreads; ++rank)
      threads.emplace_back([&, rank] { run(team, Member(team, rank, index, operation.groups), operation.words.data()); });
  }
}

template <class T, class F>
void check(u32 m, u32 n, u32 k, Lie of_a, Lie of_b, const F& run) {
  const Held<T> a(m, k, of_a);
  const Held<T> b(k, n, of_b);
  const Held<T> bias(1, n, Lie::rows);
  Held<T> to(m, n, Lie::gaps);
  const auto columns = static_cast<std::int64_t>(n);
  const TensorView all = bias.view.expand({static_cast<std::int64_t>(m), columns});
  const tensor::Operation operation =
      tensor::operation_of({.to = to.view, .a = a.view, .b = b.view, .bias = &all, .beta = -1, .alpha = 2}, true, 3);
  run_groups(operation, run);
  for (u32 i = 0; i < m; ++i)
    for (u32 j = 0; j < n; ++j) {
      double sum = 0;
      for (u32 d = 0; d < k; ++d) sum += a.at(i, d) * b.at(d, j);
      ASSERT_EQ(to.at(i, j), static_cast<double>(static_cast<T>(static_cast<float>(2 * sum - bias.at(0, j)))))
          << m << " x " << n << " x " << k << " at " << i << ", " << j;
    }
}

template <class C, class Elements, class T>
void check_tiles() {
  const auto run = [](Team&, const Member& me, const u32* words) { multiply_plain_tiles<C, Elements>(me, words); };
  check<T>(33, 40, 35, Lie::rows, Lie::rows, run);
  check<T>(9, 64, 16, Lie::columns, Lie::columns, run);
  check<T>(70, 9, 1, Lie::gaps, Lie::rows, run);
}

TEST(TilesTest, PlainTiles) {
  check_tiles<float, TypedElements<float, float>, float>();
  check_tiles<double, TypedElements<double, double>, double>();
  check_tiles<u64, AnyElements<u64>, i32>();
  check_tiles<float, AnyElements<float>, half>();
}

template <class T>
void check_short_tiles() {
  const auto run = [](Team& team, const Member& me, const u32* words) {
    multiply_short_tiles<T>(me, words, EmulatedMma<T>(team, me.rank()));
  };
  check<T>(33, 40, 70, Lie::rows, Lie::rows, run);
  check<T>(9, 64, 32, Lie::columns, Lie::columns, run);
  check<T>(70, 9, 1, Lie::gaps, Lie::rows, run);
}

TEST(TilesTest, TilesOfSixteenBits) {
  check_short_tiles<half>();
  check_short_tiles<bfloat16>();
}

class EmulatedLanes {
 public:
  EmulatedLanes(Team& team, u32 rank) : warp_(&team.warps[rank / 32]), lane_(rank % 32) {}
  template <class C>
  C operator()(C value, u32 distance) const {
    warp_->numbers[lane_] = value;
    warp_->lanes.arrive_and_wait();
    const C other = static_cast<C>(warp_->numbers[lane_ ^ distance]);
    warp_->lanes.arrive_and_wait();  // all lanes have read
    return other;
  }

 private:
  Warp* warp_;
  u32 lane_;
};

template <class Elements>
void run_stream(Team& team, const Member& me, const u32* words) {
  const EmulatedLanes lanes(team, me.rank());
  ASSERT_EQ(ProductWords(words).way(), ProductWay::stream);
  if (ProductWords(words).m() == 1)
    multiply_stream<1, Elements>(me, words, lanes);
  else
    multiply_stream<kThinRowsAtOnce, Elements>(me, words, lanes);
}

// Slices within a warp, and in several; b's rows in memory beside each other, and its columns.
template <class T, class Elements>
void check_stream(bool all_shapes) {
  for (const Lie lie : {Lie::rows, Lie::columns}) {
    check<T>(1, 256, 1100, Lie::rows, lie, run_stream<Elements>);
    check<T>(8, 20, 600, Lie::rows, lie, run_stream<Elements>);
    if (!all_shapes) continue;
    check<T>(1, 40, 72, Lie::rows, lie, run_stream<Elements>);
    check<T>(1, 4, 2052, Lie::gaps, lie, run_stream<Elements>);
    check<T>(2, 132, 48, Lie::columns, lie, run_stream<Elements>);
  }
}

TEST(TilesTest, Streams) {
  check_stream<float, TypedElements<float, float>>(true);
  check_stream<half, ShortElements>(false);
  check_stream<bfloat16, ShortElements>(false);
}

TEST(TilesTest, StreamsOfSeveralGroups) {
  check<float>(1, 1024, 512, Lie::rows, Lie::rows, run_stream<TypedElements<float, float>>);
  check<float>(3, 1028, 512, Lie::rows, Lie::columns, run_stream<TypedElements<float, float>>);
}

template <class C, class Elements, class T>
void check_thin(bool all_shapes) {
  const auto run = [](Team&, const Member& me, const u32* words) {
    ASSERT_EQ(ProductWords(words).way(), ProductWay::thin);
    multiply_thin<C, Elements>(me, words);
  };
  check<T>(1, 41, 70, Lie::rows, Lie::rows, run);
  check<T>(4, 33, 200, Lie::columns, Lie::columns, run);
  if (!all_shapes) return;
  check<T>(8, 33, 300, Lie::rows, Lie::rows, run);
  check<T>(150, 2, 9, Lie::rows, Lie::gaps, run);
  check<T>(1, 1, 1500, Lie::rows, Lie::columns, run);
}

TEST(TilesTest, FewRows) {
  check_thin<float, TypedElements<float, float>, float>(true);
  check_thin<double, TypedElements<double, double>, double>(false);
  check_thin<float, ShortElements, half>(false);
  check_thin<float, ShortElements, bfloat16>(false);
  check_thin<u64, AnyElements<u64>, i32>(false);
}

// Two matrices of the same shape and strides have the same sums, aligned or not.
TEST(TilesTest, StreamsAddUpInTheOrderOfOtherProducts) {
  for (const u32 m : {1U, 6U})
    for (const bool across : {false, true}) {
      constexpr std::int64_t kN = 72;
      constexpr std::int64_t kK = 1200;
      std::vector<float> a(m * kK);
      alignas(16) static std::array<float, kN * kK + 4> memory;
      std::vector<float> sums[2];
      for (std::size_t i = 0; i < a.size(); ++i) a[i] = 1.0F / static_cast<float>(i % 61 + 3);
      for (const std::size_t shift : {0U, 1U}) {
        for (std::size_t i = 0; i < kN * kK; ++i) memory[i + shift] = 1.0F / static_cast<float>(i % 127 + 1) - 0.1F;
        sums[shift].resize(m * kN);
        const auto address = [](const float* at) { return reinterpret_cast<u64>(at); };
        const TensorView b = across ? TensorView(address(memory.data() + shift), ElementType::f32, {kK, kN})
                                    : TensorView(address(memory.data() + shift), ElementType::f32, {kN, kK}).transpose(0, 1);
        const TensorView of_a(address(a.data()), ElementType::f32, {m, kK});
        const TensorView to(address(sums[shift].data()), ElementType::f32, {m, kN});
        const tensor::Operation operation = tensor::operation_of({.to = to, .a = of_a, .b = b}, true, 3);
        run_groups(operation, [&](Team& team, const Member& me, const u32* words) {
          if (shift == 0)
            run_stream<TypedElements<float, float>>(team, me, words);
          else
            multiply_thin<float, TypedElements<float, float>>(me, words);
        });
      }
      ASSERT_EQ(sums[0], sums[1]) << m << " rows, across: " << across;
    }
}

TEST(TilesTest, ResultsOfThreads) {
  const auto run = [](Team&, const Member& me, const u32* words) {
    ASSERT_EQ(ProductWords(words).way(), ProductWay::single);
    multiply_singly<float, TypedElements<float, float>>(me, words);
  };
  check<float>(8, 8, 8, Lie::rows, Lie::rows, run);
  check<float>(8, 16, 32, Lie::columns, Lie::gaps, run);
  check<float>(3, 5, 1, Lie::gaps, Lie::columns, run);
}

}  // namespace
}  // namespace dwell::device::tiles_test
