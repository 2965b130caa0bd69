// From a call of the dispatcher to the rule of its operation.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "call.hpp"
#include "dispatch_key.hpp"
#include "fallback.hpp"
#include "fallback_reason.hpp"
#include "fast_path.hpp"
#include "recorded_constants.hpp"
#include "recording.hpp"

namespace dwell::pytorch {

// Switches dwell off while a kernel of PyTorch's runs: it calls other operations, and uses their results at once.
struct ExcludeDwell {
  c10::impl::ExcludeDispatchKeyGuard guard{the_key.both()};
};

// Whether this thread takes operations and the call would go straight to a backend's kernel: no mode, subclass or wrapper handles it.
// Records the reason if not.
inline bool is_taken(c10::DispatchKeySet keys) {
  const c10::DispatchKey key = below(keys).highestPriorityTypeId();
  if (key == c10::DispatchKey::CUDA || (key == c10::DispatchKey::CPU && takes_from_cpu())) return holds(takes(), FallbackReason::thread);
  noted = reason_not_taken(below(keys));
  return false;
}

// The kernel of `Op`, an operation of at::_ops. Passes the arguments, without those that results are written to, to `Rule::of`; if the rule
// declines, has PyTorch run the call behind what was collected on its tensors.
template <class Op, class Rule, class Schema = typename Op::schema>
struct Kernel;
template <class Op, class Rule, class Result, class... Arguments>
struct Kernel<Op, Rule, Result(Arguments...)> {
  static Result call(c10::DispatchKeySet keys, Arguments... arguments) {
    if (is_taken(keys)) {
      if constexpr (kWritten == 0) {
        if (auto taken = result(Rule::of(arguments...))) return std::move(*taken);
      } else if constexpr (kInPlace) {
        at::Tensor& self = std::get<0>(std::forward_as_tuple(arguments...));
        if (Rule::of(arguments...).write(self)) return self;
      } else if (writes(std::forward_as_tuple(arguments...), std::make_index_sequence<sizeof...(Arguments) - kWritten>(),
                        std::make_index_sequence<kWritten>())) {
        return written(std::forward_as_tuple(arguments...), std::make_index_sequence<kWritten>());
      }
    }
    static Fallbacks& fallbacks = fallbacks_of(Op::name, Op::overload_name);
    fallbacks.count(take_reason());
    (flush_for(arguments, Op::name), ...);
    const CountedFallback counted;
    const ExcludeDwell excluded;
    if (Recording::mine() == nullptr) [[likely]]
      return Op::redispatch(below(keys), std::forward<Arguments>(arguments)...);
    UnrecordedCall unrecorded = UnrecordedCall::of(Op::name, Op::overload_name);
    (unrecorded.argument(arguments), ...);
    decltype(auto) result = Op::redispatch(below(keys), std::forward<Arguments>(arguments)...);
    unrecorded.ran(result);
    return result;
  }

 private:
  // Number of last arguments that results are written to.
  static constexpr std::size_t kWritten = std::is_same_v<Result, at::Tensor&>                            ? 1
                                          : std::is_same_v<Result, std::tuple<at::Tensor&, at::Tensor&>> ? 2
                                                                                                         : 0;
  template <std::size_t... Given, std::size_t... Written>
  static bool writes(const auto& all, std::index_sequence<Given...>, std::index_sequence<Written...>) {
    return Rule::of(std::get<Given>(all)...).write(std::get<sizeof...(Given) + Written>(all)...);
  }
  template <std::size_t... Written>
  static Result written(const auto& all, std::index_sequence<Written...>) {
    return Result(std::get<sizeof...(Arguments) - kWritten + Written>(all)...);
  }
  static constexpr bool kInPlace = std::is_same_v<std::tuple_element_t<0, std::tuple<Arguments...>>, at::Tensor&>;
  template <class Taken>
  static std::optional<Result> result(Taken&& taken) {
    if constexpr (requires {
                    { taken.make() } -> std::same_as<at::Tensor>;
                  }) {
      at::Tensor made = taken.make();
      return made.defined() ? std::optional<Result>(std::move(made)) : std::nullopt;
    } else if constexpr (requires { taken.make(); }) {
      return taken.make();
    } else {
      return std::forward<Taken>(taken);
    }
  }
};

// Registers the kernel in the library of the dispatch key, or in that of the mode, whose operations have the same names.
template <class Op, class Rule>
void take(torch::Library& library) {
  std::string name = Op::name;
  name.erase(0, name.find("::") + 2);
  if (*Op::overload_name != '\0') name.append(".").append(Op::overload_name);
  if (the_key.is_of_mode) library.def(Op::schema_str);
  library.impl(name.c_str(), &Kernel<Op, Rule>::call);  // TORCH_FN would compile the boxed call of each operation anew
  offer_fast_path<Op, Rule>();
}
template <class Rule, class... Ops>
void take_all(torch::Library& library) {
  (take<Ops, Rule>(library), ...);
}

}  // namespace dwell::pytorch
