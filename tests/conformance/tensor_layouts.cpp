// Each operation, element type and layout gives the same bits as with contiguous elements.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/tensor_places.hpp"
#include "tests/conformance/tensor_test.hpp"

namespace dwell::test {
namespace {

using Bytes = std::vector<std::byte>;

// A layout: strides, and the index of the first element, both in elements.
struct Lying {
  Dims shape;
  Dims strides;
  std::int64_t first = 0;

  std::int64_t reach() const {
    std::int64_t reach = first + 1;
    for (std::size_t dim = 0; dim < shape.size(); ++dim) reach += std::max<std::int64_t>((shape[dim] - 1) * strides[dim], 0);
    return reach;
  }
  // The memory indices of its elements, broadcast to a shape.
  std::vector<std::size_t> places(const Dims& broadcast) const {
    std::vector<std::size_t> all;
    for_each(broadcast, [&](const std::vector<std::int64_t>& at) {
      std::int64_t place = first;
      const std::size_t skip = broadcast.size() - shape.size();
      for (std::size_t dim = 0; dim < shape.size(); ++dim) place += (shape[dim] == 1 ? 0 : at[skip + dim]) * strides[dim];
      all.push_back(static_cast<std::size_t>(place));
    });
    return all;
  }
};

struct LayoutCase {
  const char* name;
  Lying result;
  std::array<Lying, 3> operands;
};

std::vector<LayoutCase> layouts() {
  const Dims shape = {3, 5, 7};
  const Lying rows{shape, {35, 7, 1}};
  const Lying columns{shape, {1, 3, 15}};
  const Lying gaps{shape, {90, 17, 2}, 1};
  const Lying backwards{shape, {-35, -7, -1}, 104};
  const Lying number{{}, {}};
  const std::int64_t n = 1301;  // more than one block
  return {
      {"one after the other", {{n}, {1}}, {Lying{{n}, {1}}, {{n}, {1}}, {{n}, {1}}}},
      {"apart from packs", {{n}, {1}, 3}, {Lying{{n}, {1}, 1}, {{n}, {1}, 2}, {{n}, {1}}}},
      {"every second", {{n}, {2}}, {Lying{{n}, {1}}, {{n}, {2}, 1}, {{n}, {3}}}},
      {"from the end", {{n}, {-1}, n - 1}, {Lying{{n}, {1}}, {{n}, {-1}, n - 1}, {{n}, {-2}, 2 * n}}},
      {"with gaps", gaps, {gaps, rows, columns}},
      {"turned", columns, {columns, rows, gaps}},
      {"backwards", backwards, {backwards, gaps, backwards}},
      {"broadcast along all but one", rows, {rows, Lying{{5, 1}, {2, 1}}, number}},
      {"broadcast with steps of 0", gaps, {Lying{shape, {0, 1, 0}}, columns, Lying{shape, {0, 0, 1}}}},
      {"overlapping windows", rows, {Lying{shape, {1, 1, 1}}, Lying{shape, {2, 3, 1}}, Lying{shape, {1, -1, 2}, 9}}},
      {"without dimensions", number, {number, number, number}},
      {"empty", {{3, 0, 7}, {7, 7, 1}}, {Lying{{3, 0, 7}, {7, 7, 1}}, {{3, 0, 7}, {1, 3, 3}}, number}},
  };
}

// Writes a random number of `type`: small values, 0, NaN for floating point, and for integers sometimes any bits.
void put_element(ElementType type, Random& random, std::byte* to) {
  const auto put = [&](auto value) { std::memcpy(to, &value, sizeof(value)); };
  const u32 chance = random() % 16;
  const float real = chance == 0 ? 0.0F : chance == 1 ? NAN : static_cast<float>(random()) / 4294967295.0F * 12 - 6;
  const auto whole =
      static_cast<std::int64_t>(chance < 8 ? static_cast<u64>(random() % 21) - 10 : static_cast<u64>(random()) << 32U | random());
  switch (type) {
    case ElementType::f16: return put(half(real));
    case ElementType::bf16: return put(bfloat16(real));
    case ElementType::f32: return put(real);
    case ElementType::f64: return put(static_cast<double>(real));
    case ElementType::boolean: return put(static_cast<std::uint8_t>(random() % 2));
    default: std::memcpy(to, &whole, bytes_of(type));  // the lower bytes
  }
}

class TensorLayoutsTest : public TensorTest {
 protected:
  // A tensor, and the expected contents of its memory.
  struct Placed {
    Buffer<std::byte> buffer;
    Bytes memory;
    TensorView view;
  };
  Placed placed(const Lying& lying, ElementType type, Bytes memory) {
    Placed made{runtime().allocate<std::byte>(memory.size()), std::move(memory), {}};
    made.buffer.write(made.memory);
    const std::uint64_t address =
        reinterpret_cast<std::uint64_t>(made.buffer.data()) + static_cast<std::uint64_t>(lying.first) * bytes_of(type);
    made.view = TensorView(address, type, lying.shape, lying.strides);
    return made;
  }
  Placed random_operand(const Lying& lying, ElementType type) {
    Bytes memory(static_cast<std::size_t>(lying.reach()) * bytes_of(type));
    for (std::size_t at = 0; at < memory.size(); at += bytes_of(type)) put_element(type, random_, &memory[at]);
    return placed(lying, type, std::move(memory));
  }
  // The same elements, broadcast to a shape, contiguous.
  Placed dense(const Placed& of, const Lying& lying, const Dims& shape) {
    const std::size_t width = bytes_of(of.view.type());
    Bytes memory;
    for (const std::size_t place : lying.places(shape)) {
      const auto from = of.memory.begin() + static_cast<std::ptrdiff_t>(place * width);
      memory.insert(memory.end(), from, from + static_cast<std::ptrdiff_t>(width));
    }
    const auto elements = static_cast<std::int64_t>(memory.size() / width);
    return placed({{elements}, {1}}, of.view.type(), std::move(memory));
  }
  static std::optional<Expression> applied(TensorOp op, std::size_t count, const std::array<TensorView, 4>& of) {
    try {
      if (op == TensorOp::where) return Expression::of(op, of[0], of[1], of[3]);
      return count == 1   ? Expression::of(op, of[0])
             : count == 2 ? Expression::of(op, of[0], of[1])
                          : Expression::of(op, of[0], of[1], of[2]);
    } catch (const Error&) {
      return std::nullopt;  // undefined for this element type
    }
  }
  // The result of an operation in its layout, and the contiguous expected one.
  struct Result {
    const char* name;
    Placed lying;
    Placed expected;
  };

  void check(const LayoutCase& of, ElementType type) {
    const Dims& shape = of.result.shape;
    std::array<Placed, 4> operands;
    std::array<Placed, 4> alike;
    std::array<TensorView, 4> views;
    std::array<TensorView, 4> flat;
    for (std::size_t i = 0; i < 4; ++i) {
      const Lying& lying = of.operands[std::min<std::size_t>(i, 2)];  // the condition has the layout of the third operand
      operands[i] = random_operand(lying, i == 3 ? ElementType::boolean : type);
      alike[i] = dense(operands[i], lying, shape);
      views[i] = operands[i].view;
      flat[i] = alike[i].view;
    }
    const std::vector<std::size_t> places = of.result.places(shape);
    std::vector<Result> results;
    const auto add = [&](const char* name, TensorOp op, std::size_t count) {
      const std::optional<Expression> expression = applied(op, count, views);
      if (!expression) return;
      const std::size_t width = bytes_of(expression->type());
      const auto reach = static_cast<std::size_t>(of.result.reach());
      results.push_back({name, placed(of.result, expression->type(), Bytes(reach * width, std::byte{77})),
                         placed({{static_cast<std::int64_t>(places.size())}, {1}}, expression->type(), Bytes(places.size() * width))});
      batch().assign(results.back().lying.view, *expression);
      batch().assign(results.back().expected.view, *applied(op, count, flat));
    };
#define DWELL_ADD(name, count, ...) add(#name, TensorOp::name, count);
    DWELL_TENSOR_OPS(DWELL_ADD)
#undef DWELL_ADD
    ASSERT_GT(results.size(), 18U);
    batch().flush().wait();
    for (Result& result : results) {
      const std::size_t width = bytes_of(result.lying.view.type());
      const Bytes expected = read(result.expected.buffer);
      Bytes& memory = result.lying.memory;  // the expected contents: nothing else has changed
      for (std::size_t i = 0; i < places.size(); ++i) std::copy_n(&expected[i * width], width, &memory[places[i] * width]);
      EXPECT_EQ(read(result.lying.buffer), memory) << result.name << " of " << name_of(type);
    }
  }

 private:
  Random random_{12};
};
DWELL_ON_EVERY_DEVICE(TensorLayoutsTest);

TEST_P(TensorLayoutsTest, OperationsGiveTheSameBitsInEachLayout) {
  for (const ElementType type : {ElementType::f16, ElementType::bf16, ElementType::f32, ElementType::f64, ElementType::i8, ElementType::i16,
                                 ElementType::i32, ElementType::i64, ElementType::u8, ElementType::boolean})
    for (const LayoutCase& of : layouts()) {
      SCOPED_TRACE(of.name);
      check(of, type);
      if (HasFailure()) return;
    }
}

}  // namespace
}  // namespace dwell::test
