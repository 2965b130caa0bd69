// All members of Batch with all element types: each combination gives the right result, or is refused before anything is collected.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <dwell/element_type.hpp>

#include "tests/conformance/tensor_places.hpp"
#include "tests/conformance/tensor_test.hpp"

namespace dwell::test {
namespace {

using testing::HasSubstr;
using Type = ElementType;
using Types = std::span<const Type>;
using Views = std::span<const TensorView>;

// ---- Numbers as elements of a type -----------------------------------------------------------------------------------------------------

bool is_floating(Type type) { return type == Type::f16 || type == Type::bf16 || type == Type::f32 || type == Type::f64; }
bool is_computable(Type type) {
  return is_floating(type) || type == Type::i8 || type == Type::i16 || type == Type::i32 || type == Type::i64 || type == Type::u8 ||
         type == Type::boolean;
}

// Calls f with a number of the real type of the elements.
template <class F>
auto with_part(Type type, const F& f) {
  switch (type) {
    case Type::f16: return f(half());
    case Type::bf16: return f(bfloat16());
    case Type::f32:  // NOLINT(bugprone-branch-clone): each has a type of its own
    case Type::complex64: return f(float());
    case Type::f64:
    case Type::complex128: return f(double());
    case Type::i8: return f(std::int8_t());
    case Type::i16: return f(std::int16_t());
    case Type::i32: return f(std::int32_t());
    case Type::i64: return f(std::int64_t());
    case Type::u16: return f(std::uint16_t());
    case Type::u32: return f(std::uint32_t());
    case Type::u64: return f(std::uint64_t());
    default: return f(std::uint8_t());
  }
}
void put_number_at(Type type, std::byte* to, double value) {
  std::memset(to, 0, bytes_of(type));
  with_part(type, [&]<class T>(T part) {
    if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>)
      part = T(static_cast<float>(value));
    else
      part = static_cast<T>(value);
    std::memcpy(to, &part, sizeof(part));
  });
}
double number_at(Type type, const std::byte* from) {
  return with_part(type, [&]<class T>(T part) {
    std::memcpy(&part, from, sizeof(part));
    if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>)
      return static_cast<double>(static_cast<float>(part));
    else
      return static_cast<double>(part);
  });
}

// ---- Calls -----------------------------------------------------------------------------------------------------------------------------

// A tensor argument of a call; results come first. All elements are initially `value`.
struct CalledTensor {
  Dims shape;
  double value = 1;
};

struct TypedCall {
  std::string name;  // as in messages
  std::size_t results;
  std::vector<CalledTensor> places;
  std::size_t more_types = 0;  // type arguments that belong to no tensor
  std::function<bool(Types)> takes;
  std::function<void(Batch&, Views, Types)> run;
  std::function<double(Types, std::size_t result, std::size_t element)> expected;
};

bool all_computable(Types types) { return std::ranges::all_of(types, is_computable); }
bool all_same(Types types) {
  return std::ranges::all_of(types, [&](Type type) { return type == types[0]; });
}
bool converts(Type from, Type to) { return from == to || (is_computable(from) && is_computable(to)); }
bool is_index(Type type) { return type == Type::i32 || type == Type::i64; }
// Returns whether results computed from one type can be stored as the other.
bool fits(Type from, Type to) { return is_computable(from) && is_computable(to) && (is_floating(to) || !is_floating(from)); }
// Converts a number to the type's value: bools become 0 or 1.
double stored_as(Type type, double value) { return type == Type::boolean ? (value != 0 ? 1 : 0) : value; }

std::function<double(Types, std::size_t, std::size_t)> always(double value) {
  return [value](Types types, std::size_t result, std::size_t) { return stored_as(types[result], value); };
}

// Calls that compute on elements of any type with operations.
void add_elementwise(std::vector<TypedCall>& calls) {
  const CalledTensor one{{2}};
  // 1 + 1; for bools 1.
  const auto two = [](Types types, std::size_t, std::size_t) {
    return stored_as(types[0], std::ranges::all_of(types.subspan(1), [](Type type) { return type == Type::boolean; }) ? 1 : 2);
  };
  calls.push_back({.name = "assign",
                   .results = 1,
                   .places = {{{2}, 0}, one},
                   .takes = [](Types t) { return converts(t[1], t[0]); },
                   .run = [](Batch& b, Views v, Types) { b.assign(v[0], v[1]); },
                   .expected = always(1)});
  calls.push_back({.name = "assign",
                   .results = 1,
                   .places = {{{2}, 0}},
                   .takes = all_computable,
                   .run = [](Batch& b, Views v, Types) { b.assign(v[0], 1.0F); },
                   .expected = always(1)});
  calls.push_back({.name = "assign",
                   .results = 1,
                   .places = {{{2}, 0}},
                   .takes = all_computable,
                   .run = [](Batch& b, Views v, Types) { b.assign(v[0], Expression::index()); },
                   .expected = [](Types, std::size_t, std::size_t element) { return static_cast<double>(element); }});
  calls.push_back({.name = "",  // assign, or the addition
                   .results = 1,
                   .places = {{{2}, 0}, one},
                   .takes = all_computable,
                   .run = [](Batch& b, Views v, Types) { b.assign(v[0], Expression(v[1]) + v[1]); },
                   .expected = two});
  calls.push_back({.name = "",  // assign, or the conversion
                   .results = 1,
                   .places = {{{2}, 0}, one},
                   .more_types = 1,
                   .takes = [](Types t) { return converts(t[1], t[2]) && converts(t[2], t[0]); },
                   .run = [](Batch& b, Views v, Types t) { b.assign(v[0], Expression(v[1]).as(t[2])); },
                   .expected = always(1)});
  calls.push_back({.name = "add",
                   .results = 1,
                   .places = {{{2}, 0}, one, one},
                   .takes = all_computable,
                   .run =
                       [](Batch& b, Views v, Types) {
                         b.apply(TensorOp::add, v[0], {v[1], v[2]});
                       },
                   .expected = two});
  calls.push_back({.name = "lt",
                   .results = 1,
                   .places = {{{2}}, one, one},
                   .takes = all_computable,
                   .run =
                       [](Batch& b, Views v, Types) {
                         b.apply(TensorOp::lt, v[0], {v[1], v[2]});
                       },
                   .expected = always(0)});
  calls.push_back({.name = "",  // where, or the condition
                   .results = 1,
                   .places = {{{2}, 0}, one, {{2}, 0}, one},
                   .takes = [](Types t) { return all_computable(t) && t[3] == Type::boolean; },
                   .run =
                       [](Batch& b, Views v, Types) {
                         b.apply(TensorOp::where, v[0], {v[1], v[2], v[3]});
                       },
                   .expected = always(1)});
  calls.push_back({.name = "",  // apply, or the addition
                   .results = 1,
                   .places = {{{2}, 0}, one},
                   .more_types = 1,
                   .takes = all_computable,
                   .run =
                       [](Batch& b, Views v, Types t) {
                         const Operand operands[] = {v[1]};
                         b.apply([](std::span<const Expression> x) { return x[0] + x[0]; }, t[2], v[0], operands);
                       },
                   .expected = [](Types t, std::size_t, std::size_t) { return stored_as(t[0], t[2] == Type::boolean ? 1 : 2); }});
  calls.push_back({.name = "",  // outer, or the product
                   .results = 1,
                   .places = {{{2, 2}, 0}, one, one},
                   .takes = all_computable,
                   .run = [](Batch& b, Views v, Types) { b.outer(v[0], v[1], v[2]); },
                   .expected = always(1)});
}

void add_products(std::vector<TypedCall>& calls) {
  const auto takes = [](Types t) { return all_same(t) && is_computable(t[0]) && t[0] != Type::boolean; };
  const auto add = [&](const char* name, const std::vector<CalledTensor>& places, std::function<void(Batch&, Views)> run, double value) {
    calls.push_back({.name = name,
                     .results = 1,
                     .places = places,
                     .takes = takes,
                     .run = [run = std::move(run)](Batch& b, Views v, Types) { run(b, v); },
                     .expected = always(value)});
  };
  const CalledTensor matrix{{2, 2}};
  const CalledTensor batch{{3, 2, 2}};
  const CalledTensor vector{{2}};
  add(
      "mm", {matrix, matrix, matrix}, [](Batch& b, Views v) { b.mm(v[0], v[1], v[2]); }, 2);
  add(
      "bmm", {batch, batch, batch}, [](Batch& b, Views v) { b.bmm(v[0], v[1], v[2]); }, 2);
  add(
      "matmul", {batch, batch, matrix}, [](Batch& b, Views v) { b.matmul(v[0], v[1], v[2]); }, 2);
  add(
      "addmm", {matrix, vector, matrix, matrix}, [](Batch& b, Views v) { b.addmm(v[0], v[1], v[2], v[3]); }, 3);
  add(
      "baddbmm", {batch, vector, batch, batch}, [](Batch& b, Views v) { b.baddbmm(v[0], v[1], v[2], v[3]); }, 3);
  add(
      "mv", {vector, matrix, vector}, [](Batch& b, Views v) { b.mv(v[0], v[1], v[2]); }, 2);
  add(
      "addmv", {vector, vector, matrix, vector}, [](Batch& b, Views v) { b.addmv(v[0], v[1], v[2], v[3]); }, 3);
  add(
      "dot", {{{}}, vector, vector}, [](Batch& b, Views v) { b.dot(v[0], v[1], v[2]); }, 2);
}

// Calls that move elements.
void add_selections(std::vector<TypedCall>& calls) {
  const auto add = [&](const char* name, const std::vector<CalledTensor>& places, std::function<bool(Types)> takes,
                       std::function<void(Batch&, Views)> run, double value) {
    calls.push_back({.name = name,
                     .results = 1,
                     .places = places,
                     .takes = std::move(takes),
                     .run = [run = std::move(run)](Batch& b, Views v, Types) { run(b, v); },
                     .expected = always(value)});
  };
  const auto chosen = [](Types t) { return t[0] == t[1] && is_index(t[2]); };
  const CalledTensor index{{2}, 0};
  add(
      "index_select", {{{3, 2}, 0}, {{3, 4}}, index}, chosen, [](Batch& b, Views v) { b.index_select(v[0], v[1], 1, v[2]); }, 1);
  add(
      "embedding", {{{2, 3}, 0}, {{4, 3}}, index}, chosen, [](Batch& b, Views v) { b.embedding(v[0], v[1], v[2]); }, 1);
  add(
      "gather", {index, {{4}}, index}, chosen, [](Batch& b, Views v) { b.gather(v[0], v[1], 0, v[2]); }, 1);
  const auto added = [](Types t) { return t[0] == t[2] && is_index(t[1]) && is_computable(t[0]); };
  add(
      "scatter_add", {{{1}}, index, {{2}}}, added, [](Batch& b, Views v) { b.scatter_add(v[0], 0, v[1], v[2]); }, 3);
  add(
      "tril", {{{2, 2}, 0}, {{2, 2}}}, all_same, [](Batch& b, Views v) { b.tril(v[0], v[1], 1); }, 1);
  add(
      "triu", {{{2, 2}}, {{2, 2}}}, all_same, [](Batch& b, Views v) { b.triu(v[0], v[1], 2); }, 0);
  const auto assigned = [](Types t) { return converts(t[1], t[0]) && converts(t[2], t[0]); };
  add(
      "cat", {{{3}, 0}, {{1}}, {{2}}}, assigned, [](Batch& b, Views v) { b.cat(v[0], v.subspan(1), 0); }, 1);
  add(
      "stack", {{{2, 2}, 0}, {{2}}, {{2}}}, assigned, [](Batch& b, Views v) { b.stack(v[0], v.subspan(1), 1); }, 1);
}

void add_reductions(std::vector<TypedCall>& calls) {
  const CalledTensor four{{4}};
  const auto to_floating = [](Types t) { return all_computable(t) && is_floating(t[0]); };
  const auto to_fitting = [](Types t) { return fits(t[1], t[0]); };
  struct Reduced {
    Reduction reduction;
    std::function<bool(Types)> takes;
    double value;
  };
  for (const Reduced& of :
       {Reduced{Reduction::sum, to_fitting, 4}, Reduced{Reduction::mean, to_floating, 1}, Reduced{Reduction::prod, to_fitting, 1},
        Reduced{Reduction::amax, to_fitting, 1}, Reduced{Reduction::amin, to_fitting, 1}, Reduced{Reduction::argmax, all_computable, 0},
        Reduced{Reduction::argmin, all_computable, 0}, Reduced{Reduction::any, all_computable, 1},
        Reduced{Reduction::all, all_computable, 1}, Reduced{Reduction::var, to_floating, 0}, Reduced{Reduction::stddev, to_floating, 0},
        Reduced{Reduction::norm, to_floating, 2}, Reduced{Reduction::logsumexp, to_floating, 1 + std::log(4)}})
    calls.push_back(
        {.name = std::string(name_of(of.reduction)),
         .results = 1,
         .places = {{{}}, four},
         .takes = of.takes,
         .run = [of](Batch& b, Views v, Types) { b.reduce(of.reduction, v[0], v[1], {}, of.reduction == Reduction::norm ? 2 : 0); },
         .expected = always(of.value)});
  for (const bool most : {true, false})
    calls.push_back({.name = most ? "argmax" : "argmin",
                     .results = 2,
                     .places = {{{}, 0}, {{}}, four},
                     .takes = [](Types t) { return all_computable(t) && fits(t[2], t[0]); },
                     .run = [most](Batch& b, Views v, Types) { most ? b.max(v[0], v[1], v[2], 0) : b.min(v[0], v[1], v[2], 0); },
                     .expected = [](Types, std::size_t result, std::size_t) { return result == 0 ? 1.0 : 0.0; }});
  calls.push_back(
      {.name = "cumsum",
       .results = 1,
       .places = {four, four},
       .takes = to_fitting,
       .run = [](Batch& b, Views v, Types) { b.cumsum(v[0], v[1], 0); },
       .expected = [](Types t, std::size_t, std::size_t element) { return stored_as(t[0], static_cast<double>(element) + 1); }});
  const auto add = [&](const char* name, const std::vector<CalledTensor>& places, std::function<void(Batch&, Views)> run, double value) {
    calls.push_back({.name = name,
                     .results = 1,
                     .places = places,
                     .takes = to_floating,
                     .run = [run = std::move(run)](Batch& b, Views v, Types) { run(b, v); },
                     .expected = always(value)});
  };
  add(
      "softmax", {four, four}, [](Batch& b, Views v) { b.softmax(v[0], v[1], 0); }, 0.25);
  add(
      "log_softmax", {four, four}, [](Batch& b, Views v) { b.log_softmax(v[0], v[1], 0); }, -std::log(4));
  add(
      "layer_norm", {{{4}, 0}, four, four, four}, [](Batch& b, Views v) { b.layer_norm(v[0], v[1], {4}, v[2], v[3]); }, 1);
  add(
      "rms_norm", {{{4}, 0}, four, four}, [](Batch& b, Views v) { b.rms_norm(v[0], v[1], {4}, v[2]); }, 1);
}

class TensorTypesTest : public TensorTest {
 protected:
  // Guard bytes around the elements of a tensor.
  static constexpr std::size_t kAround = 64;
  static constexpr std::byte kUntouched{0xA5};

  static std::size_t elements_of(const CalledTensor& tensor) {
    std::size_t count = 1;
    for (const std::int64_t size : tensor.shape) count *= static_cast<std::size_t>(size);
    return count;
  }
  // The elements of a tensor with their guard bytes.
  static std::vector<std::byte> bytes_of_tensor(const CalledTensor& tensor, Type type) {
    std::vector<std::byte> all(2 * kAround + elements_of(tensor) * 16, kUntouched);
    for (std::size_t i = 0; i < elements_of(tensor); ++i) put_number_at(type, all.data() + kAround + i * bytes_of(type), tensor.value);
    return all;
  }

  // Tensors in one buffer, which is written and read at once.
  class Tensors {
   public:
    std::size_t add(const CalledTensor& tensor, Type type) {
      places_.push_back({bytes_.size() + kAround, &tensor, type});
      const std::vector<std::byte> own = bytes_of_tensor(tensor, type);
      bytes_.insert(bytes_.end(), own.begin(), own.end());
      return places_.size() - 1;
    }
    void write(Runtime& runtime) {
      buffer_ = runtime.allocate<std::byte>(bytes_.size());
      buffer_.write(bytes_);
    }
    TensorView view(std::size_t at) const {
      const Place& place = places_[at];
      return {BufferView(buffer_, place.type), place.tensor->shape, TensorView::row_major(place.tensor->shape),
              place.first / bytes_of(place.type)};
    }
    // Checks each element, and that all other bytes are unchanged.
    template <class Check>
    void expect(const Check& check) {
      std::vector<std::byte> got = read(buffer_);
      for (std::size_t at = 0; at < places_.size(); ++at) {
        const Place& place = places_[at];
        for (std::size_t i = 0; i < elements_of(*place.tensor); ++i) {
          std::byte* const element = got.data() + place.first + i * bytes_of(place.type);
          check(at, i, number_at(place.type, element));
          std::memcpy(bytes_.data() + place.first + i * bytes_of(place.type), element, bytes_of(place.type));
        }
      }
      const auto [ours, theirs] = std::ranges::mismatch(bytes_, got);
      if (ours == bytes_.end()) return;
      const std::size_t outside = static_cast<std::size_t>(ours - bytes_.begin());
      const auto behind = std::ranges::find_if(places_, [&](const Place& place) { return place.first > outside; });
      const std::size_t at = static_cast<std::size_t>(behind - places_.begin());
      ADD_FAILURE() << "memory around tensor " << (at == 0 ? 0 : at - 1) << " is written";
    }

   private:
    struct Place {
      std::size_t first;
      const CalledTensor* tensor;
      Type type;
    };
    std::vector<std::byte> bytes_;
    std::vector<Place> places_;
    Buffer<std::byte> buffer_;
  };

  // All lists of `count` types.
  static std::vector<std::vector<Type>> combinations(std::size_t count, std::span<const Type> of) {
    std::vector<std::vector<Type>> all(1);
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::vector<Type>> longer;
      for (const std::vector<Type>& one : all)
        for (const Type type : of) {
          longer.push_back(one);
          longer.back().push_back(type);
        }
      all = std::move(longer);
    }
    return all;
  }

  void expect_refused(const TypedCall& call, Types types, Views views);
  void check(const TypedCall& call);
};
DWELL_ON_EVERY_DEVICE(TensorTypesTest);

std::string text_of(const TypedCall& call, Types types) {
  std::string text = call.name + " of";
  for (const Type type : types) text += " " + std::string(name_of(type));
  return text;
}

void TensorTypesTest::expect_refused(const TypedCall& call, Types types, Views views) {
  const std::uint64_t before = batch().stats().operations;
  const Error error = error_of([&] { call.run(batch(), views, types); });
  EXPECT_TRUE(error.kind() == errc::unsupported || error.kind() == errc::invalid_argument) << text_of(call, types) << ": " << error.what();
  EXPECT_THAT(error.message(), HasSubstr(call.name));
  EXPECT_TRUE(std::ranges::any_of(types, [&](Type type) { return error.message().find(name_of(type)) != std::string::npos; }))
      << text_of(call, types) << ": " << error.message();
  EXPECT_EQ(batch().stats().operations, before) << text_of(call, types) << ": nothing is collected";
}

void TensorTypesTest::check(const TypedCall& call) {
  // All types for up to three tensors, one type of each kind for more.
  static constexpr std::array kKinds = {Type::f32, Type::bf16, Type::f64, Type::i8, Type::i64, Type::boolean, Type::u16, Type::complex128};
  const std::size_t count = call.places.size() + call.more_types;
  const std::vector<std::vector<Type>> all =
      combinations(count, count > 3 ? std::span<const Type>(kKinds) : std::span<const Type>(kElementTypes));
  std::vector<std::vector<Type>> taken;
  std::ranges::copy_if(all, std::back_inserter(taken), [&](const std::vector<Type>& types) { return call.takes(types); });
  ASSERT_FALSE(taken.empty()) << call.name;

  Tensors given;  // one of each type
  for (const CalledTensor& tensor : call.places)
    for (const Type type : kElementTypes) given.add(tensor, type);
  given.write(runtime());
  const auto view_of = [&](std::size_t at, Type type) { return given.view(at * kElementTypes.size() + static_cast<std::size_t>(type)); };
  Tensors results;
  for (const std::vector<Type>& types : taken)
    for (std::size_t i = 0; i < call.results; ++i) results.add(call.places[i], types[i]);
  results.write(runtime());

  std::size_t next = 0;
  for (const std::vector<Type>& types : all) {
    std::vector<TensorView> views;
    for (std::size_t i = 0; i < call.places.size(); ++i) views.push_back(view_of(i, types[i]));
    if (!call.takes(types)) {
      expect_refused(call, types, views);
      if (HasFailure()) return;  // one failure is enough
      continue;
    }
    for (std::size_t i = 0; i < call.results; ++i) views[i] = results.view(next++);
    call.run(batch(), views, types);
  }
  batch().flush().wait();
  given.expect([](std::size_t, std::size_t, double) {});
  results.expect([&](std::size_t at, std::size_t element, double got) {
    const std::vector<Type>& types = taken[at / call.results];
    const double wanted = call.expected(types, at % call.results, element);
    EXPECT_NEAR(got, wanted, 0.01 * std::max(1.0, std::abs(wanted)))
        << text_of(call, types) << ": element " << element << " of result " << at % call.results;
  });
}

TEST_P(TensorTypesTest, ElementwiseIsRightOrRefused) {
  std::vector<TypedCall> calls;
  add_elementwise(calls);
  for (const TypedCall& call : calls) check(call);
}
TEST_P(TensorTypesTest, ProductsAreRightOrRefused) {
  std::vector<TypedCall> calls;
  add_products(calls);
  for (const TypedCall& call : calls) check(call);
}
TEST_P(TensorTypesTest, SelectionsAreRightOrRefused) {
  std::vector<TypedCall> calls;
  add_selections(calls);
  for (const TypedCall& call : calls) check(call);
}
TEST_P(TensorTypesTest, ReductionsAreRightOrRefused) {
  std::vector<TypedCall> calls;
  add_reductions(calls);
  for (const TypedCall& call : calls) check(call);
}

// ---- Copies of elements of any type ----------------------------------------------------------------------------------------------------

TEST_P(TensorTypesTest, CopiesKeepTheBits) {
  struct CopyLayout {
    Dims shape;
    Dims to_strides;
    std::int64_t to_first;
    Dims from_strides;  // for a shape that broadcasts to `shape`
    Dims from_shape;
    std::int64_t from_first;
  };
  // In one buffer, so that some copies read what others write.
  const CopyLayout layouts[] = {
      {{5, 7}, {7, 1}, 0, {7, 1}, {5, 7}, 100},
      {{5, 7}, {7, 1}, 0, {7, 1}, {5, 7}, 3},
      {{5, 7}, {1, 5}, 0, {7, 1}, {5, 7}, 0},
      {{5, 7}, {14, 2}, 1, {-7, -1}, {5, 7}, 134},
      {{5, 7}, {7, 1}, 0, {1}, {7}, 100},
      {{5, 7}, {7, 1}, 0, {}, {}, 10},
      {{}, {}, 20, {}, {}, 10},
      {{2, 2, 2, 2, 1, 2, 2, 2}, {1, 2, 4, 8, 99, 16, 32, 64}, 0, {64, 32, 16, 8, 7, 4, 2, 1}, {2, 2, 2, 2, 1, 2, 2, 2}, 128},
      {{3, 0}, {1, 1}, 0, {1, 1}, {3, 0}, 0},
  };
  constexpr std::size_t kElements = 256;
  Random random(3);
  for (const Type type : kElementTypes) {
    const std::size_t bytes = bytes_of(type);
    std::vector<std::byte> before(kElements * bytes);
    // Any byte; for bools 0 or 1.
    for (std::byte& one : before) one = static_cast<std::byte>(type == Type::boolean ? random() % 2 : random() % 256);
    if (type == Type::f16 || type == Type::bf16 || type == Type::f32 || type == Type::f64)  // no signalling NaNs: conversions quiet them
      for (std::size_t i = 0; i < kElements; ++i) put_number_at(type, before.data() + i * bytes, static_cast<double>(random() % 100));
    Buffer<std::byte> buffer = runtime().allocate<std::byte>(before.size());
    const BufferView memory(buffer, type);
    for (const CopyLayout& layout : layouts) {
      buffer.write(before);
      const TensorView to(memory, layout.shape, layout.to_strides, static_cast<std::size_t>(layout.to_first));
      const TensorView from(memory, layout.from_shape, layout.from_strides, static_cast<std::size_t>(layout.from_first));
      std::vector<std::byte> wanted = before;
      const TensorView all = from.expand(layout.shape);
      for_each(layout.shape, [&](const std::vector<std::int64_t>& at) {
        std::int64_t to_place = layout.to_first;
        std::int64_t from_place = layout.from_first;
        for (std::size_t dim = 0; dim < at.size(); ++dim) {
          to_place += at[dim] * to.strides()[dim];
          from_place += at[dim] * all.strides()[dim];
        }
        std::memcpy(wanted.data() + static_cast<std::size_t>(to_place) * bytes,
                    before.data() + static_cast<std::size_t>(from_place) * bytes, bytes);
      });
      batch().assign(to, from);
      batch().flush().wait();
      EXPECT_EQ(read(buffer), wanted) << name_of(type) << " " << to_string(layout.shape) << " " << to_string(layout.to_strides) << " of "
                                      << to_string(layout.from_strides);
    }
  }
}

TEST_P(TensorTypesTest, MessagesGiveAdvice) {
  Buffer<std::uint16_t> words = runtime().allocate<std::uint16_t>(8);
  Buffer<float> floats = runtime().allocate<float>(8);
  DWELL_EXPECT_ERROR(batch().assign(words, 1.0), errc::unsupported,
                     testing::AllOf(HasSubstr("assign: tensors of u16 have no operations"), HasSubstr("as i16")));
  DWELL_EXPECT_ERROR(batch().assign(floats, words), errc::unsupported, HasSubstr("assign: tensors of u16"));
  DWELL_EXPECT_ERROR(Expression(words) + 1, errc::unsupported, HasSubstr("add: tensors of u16"));
  DWELL_EXPECT_ERROR(Expression(floats).as(Type::u64), errc::unsupported, HasSubstr("a conversion of f32 to u64: tensors of u64"));
  DWELL_EXPECT_ERROR(batch().sum(floats, words), errc::unsupported, HasSubstr("sum: tensors of u16"));
}

// Bools made by a program or from foreign bytes: any byte but 0 is true.
TEST_P(TensorTypesTest, AnyByteButZeroIsTrue) {
  Buffer<std::uint8_t> bytes = filled_with<std::uint8_t>({0, 1, 2, 128, 255, 0, 254, 16});
  const TensorView truths(BufferView(bytes, Type::boolean), {8});
  EXPECT_THAT(values_of<float>(truths, 8), testing::ElementsAre(0, 1, 1, 1, 1, 0, 1, 1));
  EXPECT_THAT(values_of<std::int64_t>(Expression(truths) * 3, 8), testing::ElementsAre(0, 3, 3, 3, 3, 0, 3, 3));
  EXPECT_THAT(values_of<std::int32_t>(Expression(truths) + 0, 8), testing::ElementsAre(0, 1, 1, 1, 1, 0, 1, 1));
  Buffer<std::int64_t> sum = runtime().allocate<std::int64_t>(1);
  batch().sum(TensorView(sum).select(0, 0), truths);
  batch().flush().wait();
  EXPECT_THAT(read(sum), testing::ElementsAre(6));
}

}  // namespace
}  // namespace dwell::test
