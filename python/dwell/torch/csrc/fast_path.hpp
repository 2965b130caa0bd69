// Fast paths: calls from Python to the rules of operations, past PyTorch's argument parser and dispatcher.
//
// PyTorch takes longer to find the kernel of an operation than dwell to collect it. If nothing between Python and the kernel handles a call
// (no gradient, mode, subclass, wrapper, hook or profiler), the function or method calls the operation's rule directly. In all other
// cases, and when the rule declines, PyTorch makes the call.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/string_view.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace dwell::pytorch {

// The kind of an argument that Python passed, or that a parameter takes. `tensor` is on a device whose operations are taken, `host_tensor`
// on the CPU beside a GPU.
enum class ArgumentKind : std::uint8_t { none, tensor, real, integer, boolean, dims, text, host_tensor };
// A set of kinds, a bit each.
using ArgumentKinds = std::uint8_t;
constexpr ArgumentKinds operator|(ArgumentKind a, ArgumentKind b) {
  return static_cast<ArgumentKinds>(1U << static_cast<unsigned>(a) | 1U << static_cast<unsigned>(b));
}
constexpr ArgumentKinds only(ArgumentKind kind) { return kind | kind; }
constexpr ArgumentKinds kNumbers = (ArgumentKind::real | ArgumentKind::integer) | only(ArgumentKind::boolean);

// An argument of a call, or a default value. Owns neither the tensor nor the text. Only the members of its kind are written, to save time.
struct Argument {
  static constexpr std::size_t kMostDims = 8;

  ArgumentKind kind;
  std::uint8_t count;  // dims
  union {
    const at::Tensor* tensor;
    double real;
    const char* text;
  };
  std::size_t length;                            // of the text
  std::array<std::int64_t, kMostDims> integers;  // the first is the integer or the bool
};

// Reads a parameter of a type in an operation's schema. The primary template is for types that are not read: their operations have no fast
// path.
template <class T>
struct Reader {
  static constexpr bool kReads = false;
};
template <ArgumentKinds kFitting>
struct ReaderOf {
  static constexpr bool kReads = true;
  static constexpr ArgumentKinds kFits = kFitting;
};
template <>
struct Reader<at::Tensor> : ReaderOf<only(ArgumentKind::tensor)> {
  static const at::Tensor& read(const Argument& given) { return *given.tensor; }
};
template <>
struct Reader<at::Scalar> : ReaderOf<kNumbers> {
  static at::Scalar read(const Argument& given) {
    if (given.kind == ArgumentKind::real) return given.real;
    if (given.kind == ArgumentKind::boolean) return given.integers[0] != 0;
    return given.integers[0];
  }
};
template <>
struct Reader<bool> : ReaderOf<only(ArgumentKind::boolean)> {
  static bool read(const Argument& given) { return given.integers[0] != 0; }
};
template <>
struct Reader<std::int64_t> : ReaderOf<only(ArgumentKind::integer)> {
  static std::int64_t read(const Argument& given) { return given.integers[0]; }
};
template <>
struct Reader<at::IntArrayRef> : ReaderOf<ArgumentKind::integer | ArgumentKind::dims> {
  static at::IntArrayRef read(const Argument& given) {
    return {given.integers.data(), given.kind == ArgumentKind::integer ? std::size_t{1} : std::size_t{given.count}};
  }
};
template <>
struct Reader<c10::string_view> : ReaderOf<only(ArgumentKind::text)> {
  static c10::string_view read(const Argument& given) { return {given.text, given.length}; }
};
template <class T, class Optional = std::optional<T>>
struct OptionalReader : ReaderOf<Reader<T>::kFits | only(ArgumentKind::none)> {
  static Optional read(const Argument& given) {
    if (given.kind == ArgumentKind::none) return {};
    return Reader<T>::read(given);
  }
};
template <>
struct Reader<at::OptionalIntArrayRef> : OptionalReader<at::IntArrayRef, at::OptionalIntArrayRef> {};
template <>
struct Reader<std::optional<at::Scalar>> : OptionalReader<at::Scalar> {};
template <>
struct Reader<std::optional<std::int64_t>> : OptionalReader<std::int64_t> {};
template <>
struct Reader<std::optional<c10::string_view>> : OptionalReader<c10::string_view> {};
// Result types: calls that name one are left to PyTorch.
template <>
struct Reader<std::optional<at::ScalarType>> : ReaderOf<only(ArgumentKind::none)> {
  static std::optional<at::ScalarType> read(const Argument&) { return {}; }
};
// For rules that take a pointer, null for no tensor, so that the tensor is not copied.
template <>
struct Reader<std::optional<at::Tensor>> : ReaderOf<ArgumentKind::none | ArgumentKind::tensor> {
  static const at::Tensor* read(const Argument& given) { return given.kind == ArgumentKind::none ? nullptr : given.tensor; }
};

// Where the result of a call is. `number`: returned as a Python number, read from a tensor on the host.
enum class ResultIn : std::uint8_t { its_own, first_argument, last_argument, number };

// An operation with a fast path.
struct FastPath {
  static constexpr std::size_t kMostParameters = 6;

  const char* name = "";  // aten::add
  const char* overload = "";
  ResultIn result_in = ResultIn::its_own;
  std::size_t parameters = 0;
  std::array<ArgumentKinds, kMostParameters> fits{};
  // Takes the call and sets `result` if it is a new tensor. Returns false to decline. Arguments have the parameters' kinds.
  bool (*attempt)(const Argument* const* arguments, at::Tensor& result) = nullptr;
  bool at_once = false;  // runs at once instead of being collected; when it declines, other candidates are tried
};
// Adds a path. Call it before `open_fast_paths`.
void offer(const FastPath& path);
// Installs the paths in PyTorch's functions and methods. Call it once, when everything is loaded. Does nothing if the extension was built
// without Python's headers.
void open_fast_paths();
// Switches the paths on or off; they are on after `open_fast_paths`. For comparisons.
void use_fast_paths(bool use);
// Returns whether the extension was built with them.
bool has_fast_paths();
// Number of calls by a fast path.
std::uint64_t fast_calls();

template <class Op, class Rule, class Schema = typename Op::schema>
struct Offered;
template <class Op, class Rule, class Result, class... Arguments>
struct Offered<Op, Rule, Result(Arguments...)> {
  static constexpr std::size_t kCount = sizeof...(Arguments);
  static constexpr bool kWrites = std::is_same_v<Result, at::Tensor&>;
  static constexpr bool kInPlace = kWrites && std::is_same_v<std::tuple_element_t<0, std::tuple<Arguments...>>, at::Tensor&>;
  template <std::size_t kAt>
  using Parameter = Reader<std::remove_cvref_t<std::tuple_element_t<kAt, std::tuple<Arguments...>>>>;
  using ForRule = std::make_index_sequence<kCount - (kWrites && !kInPlace ? 1 : 0)>;
  template <std::size_t... I>
  static constexpr bool calls(std::index_sequence<I...>) {
    return requires(const Argument& given) { Rule::of(Parameter<I>::read(given)...); };
  }
  static constexpr bool reads() {
    if constexpr ((std::is_same_v<Result, at::Tensor> || kWrites) && kCount <= FastPath::kMostParameters &&
                  (Reader<std::remove_cvref_t<Arguments>>::kReads && ...))
      return calls(ForRule());
    else
      return false;
  }
  static constexpr bool kReads = reads();

  static bool attempt(const Argument* const* given, at::Tensor& result) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      const auto of = [&] { return Rule::of(Parameter<I>::read(*given[I])...); };
      if constexpr (kInPlace) {
        return of().write(*given[0]->tensor);
      } else if constexpr (kWrites) {
        return of().write(*given[kCount - 1]->tensor);
      } else {
        return keep(made(of()), result);
      }
    }
    (ForRule());
  }

  static auto made(auto&& taken) {
    if constexpr (requires { taken.make(); })
      return taken.make();
    else
      return std::forward<decltype(taken)>(taken);
  }
  static bool keep(at::Tensor made, at::Tensor& result) {
    result = std::move(made);
    return result.defined();
  }
  static bool keep(std::optional<at::Tensor> made, at::Tensor& result) { return made && keep(std::move(*made), result); }

  static void offer_it() {
    FastPath path{Op::name, Op::overload_name,
                  kInPlace  ? ResultIn::first_argument
                  : kWrites ? ResultIn::last_argument
                            : ResultIn::its_own,
                  kCount};
    path.fits = {Reader<std::remove_cvref_t<Arguments>>::kFits...};
    path.attempt = &attempt;
    offer(path);
  }
};

// Offers a path for an operation of at::_ops, if all its parameters can be read.
template <class Op, class Rule>
void offer_fast_path() {
  if constexpr (Offered<Op, Rule>::kReads) Offered<Op, Rule>::offer_it();
}
template <class Rule, class... Ops>
void offer_all() {
  (offer_fast_path<Ops, Rule>(), ...);
}

}  // namespace dwell::pytorch
