// How operations are taken from the dispatcher.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "call.hpp"
#include "dispatch_key.hpp"
#include "fallback.hpp"
#include "why.hpp"

namespace dwell::pytorch {

// While a kernel of PyTorch's runs: it calls others, and uses what they have done at once.
struct Aside {
  c10::impl::ExcludeDispatchKeyGuard guard{the_key.key};
};

// Beside a GPU, tensors of the host hold counts and indices, which the host looks at soon.
inline bool takes_from_cpu() {
  static const bool alone = !at::hasCUDA();
  return alone;
}

// Whether a call would go to a backend's kernel now: no mode, subclass or wrapper has a part in it. And whether this thread takes any.
inline bool is_taken(c10::DispatchKeySet keys) {
  const c10::DispatchKey key = below(keys).highestPriorityTypeId();
  if (key == c10::DispatchKey::CUDA || (key == c10::DispatchKey::CPU && takes_from_cpu())) return holds(takes(), Why::thread);
  noted = why_not_taken(below(keys));
  return false;
}

// The kernel of an operation, which is one of at::_ops: does what `Rule::of` says of its arguments without that for the result, or has
// PyTorch do it.
template <class Op, class Rule, class Schema = typename Op::schema>
struct Kernel;
template <class Op, class Rule, class Result, class... Arguments>
struct Kernel<Op, Rule, Result(Arguments...)> {
  static Result call(c10::DispatchKeySet keys, Arguments... arguments) {
    if (is_taken(keys)) {
      if constexpr (!std::is_same_v<Result, at::Tensor&>) {
        if (auto taken = result(Rule::of(arguments...))) return std::move(*taken);
      } else if constexpr (kInPlace) {
        at::Tensor& self = std::get<0>(std::forward_as_tuple(arguments...));
        if (Rule::of(arguments...).write(self)) return self;
      } else {
        const auto all = std::forward_as_tuple(arguments...);
        at::Tensor& out = std::get<sizeof...(Arguments) - 1>(all);
        const bool written = [&]<std::size_t... I>(std::index_sequence<I...>) { return Rule::of(std::get<I>(all)...).write(out); }
        (std::make_index_sequence<sizeof...(Arguments) - 1>());
        if (written) return out;
      }
    }
    static Fallbacks& fallbacks = fallbacks_of(Op::name, Op::overload_name);
    fallbacks.count(noted_why());
    (flush_for(arguments, Op::name), ...);
    const Elsewhere elsewhere;
    const Aside aside;
    return Op::redispatch(below(keys), std::forward<Arguments>(arguments)...);
  }

 private:
  static constexpr bool kInPlace = std::is_same_v<std::tuple_element_t<0, std::tuple<Arguments...>>, at::Tensor&>;
  template <class Taken>
  static std::optional<Result> result(Taken&& taken) {
    if constexpr (requires { taken.make(); }) {
      at::Tensor made = taken.make();
      return made.defined() ? std::optional<Result>(std::move(made)) : std::nullopt;
    } else {
      return std::forward<Taken>(taken);
    }
  }
};

// In a library of the key's, or in the mode's, which has an operation of its own for each, called the same.
template <class Op, class Rule>
void take(torch::Library& library) {
  std::string name = Op::name;
  name.erase(0, name.find("::") + 2);
  if (*Op::overload_name != '\0') name.append(".").append(Op::overload_name);
  if (the_key.is_of_mode) library.def(Op::schema_str);
  library.impl(name.c_str(), TORCH_FN((Kernel<Op, Rule>::call)));
}
template <class Rule, class... Ops>
void take_all(torch::Library& library) {
  (take<Ops, Rule>(library), ...);
}

}  // namespace dwell::pytorch
