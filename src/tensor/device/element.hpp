// Programs over tensors (program.hpp), one element at a time.
#pragma once

#include "tensor/device/math.hpp"
#include "tensor/device/number.hpp"
#include "tensor/device/program.hpp"

namespace dwell {
namespace device {

// Returns the offset of an element in a tensor, in elements.
DWELL_DEVICE i32 offset_of(ProgramWords program, const u32* tensor, u32 element) {
  i32 offset = 0;
  DWELL_UNROLL_NOT
  for (u32 dim = program.dims() - 1; dim != 0; --dim) {
    const u32 size = program.size(dim);
    const u32 next = element / size;
    offset += static_cast<i32>(element - next * size) * ProgramWords::stride(tensor, dim);
    element = next;
  }
  return offset + static_cast<i32>(element) * ProgramWords::stride(tensor, 0);
}

// Converts the number of class C in `slot` to the class of T, rounded to a value of T.
template <class T, class C, class Slot>
DWELL_DEVICE void round_slot(Slot* slot) {
  put_number(slot, number_of<typename ClassOf<Slot, T>::type>(Element<T>::of(number_in<C>(*slot))));
}

// Calls f with a null pointer to the type of numbers that `number` names.
template <class F>
DWELL_DEVICE void with_number(NumberClass number, float, const F& f) {
  (void)number;
  f(static_cast<float*>(nullptr));
}
template <class F>
DWELL_DEVICE void with_number(NumberClass number, u64, const F& f) {
  switch (number) {
    case NumberClass::f64: f(static_cast<double*>(nullptr)); break;
    case NumberClass::i64: f(static_cast<i64*>(nullptr)); break;
    default: f(static_cast<float*>(nullptr)); break;
  }
}

// An operation as a function of three numbers of a class. It ignores those beyond its operands.
template <TensorOp op>
struct Operation;
#define DWELL_OPERANDS_1 a
#define DWELL_OPERANDS_2 a, b
#define DWELL_OPERANDS_3 a, b, c
#define DWELL_OPERATION(name, operands, ...)                        \
  template <>                                                       \
  struct Operation<TensorOp::name> {                                \
    template <class C>                                              \
    DWELL_DEVICE C operator()(C a, C b, C c) const {                \
      (void)a, (void)b, (void)c;                                    \
      return static_cast<C>(math::name(DWELL_OPERANDS_##operands)); \
    }                                                               \
  };
DWELL_COMPUTED_OPS(DWELL_OPERATION)
#undef DWELL_OPERATION
#undef DWELL_OPERANDS_3
#undef DWELL_OPERANDS_2
#undef DWELL_OPERANDS_1

// Calls `apply` with an operation on numbers of class C, and returns true; false when it is of another list.
#define DWELL_CASE(name, operands, ...) \
  case TensorOp::name: apply(Operation<TensorOp::name>()); return true;
// None of these calls a function, even for rare numbers, as a division does.
template <class Apply>
DWELL_DEVICE bool with_lightest(TensorOp op, const Apply& apply) {
  switch (op) {
    DWELL_LIGHT_OPS(DWELL_CASE)
    DWELL_COMPARISONS(DWELL_CASE)
    DWELL_LOGICAL_OPS(DWELL_CASE)
    default: return false;
  }
}
template <class C, class Apply>
DWELL_DEVICE bool with_light(TensorOp op, const Apply& apply, C*) {
  switch (op) {
    DWELL_LIGHT_OPS(DWELL_CASE)
    DWELL_COMPARISONS(DWELL_CASE)
    DWELL_LOGICAL_OPS(DWELL_CASE)
    DWELL_LIGHT_FLOAT_OPS(DWELL_CASE)
    default: return false;
  }
}
template <class Apply>
DWELL_DEVICE bool with_light(TensorOp op, const Apply& apply, i64*) {
  switch (op) {
    DWELL_LIGHT_OPS(DWELL_CASE)
    DWELL_COMPARISONS(DWELL_CASE)
    DWELL_LOGICAL_OPS(DWELL_CASE)
    DWELL_BITWISE_OPS(DWELL_CASE)
    default: return false;
  }
}
template <class C, class Apply>
DWELL_DEVICE bool with_heavy(TensorOp op, const Apply& apply, C*) {
  switch (op) {
    DWELL_HEAVY_OPS(DWELL_CASE)
    DWELL_FLOAT_OPS(DWELL_CASE)
    default: return false;
  }
}
template <class Apply>
DWELL_DEVICE bool with_heavy(TensorOp op, const Apply& apply, i64*) {
  switch (op) {
    DWELL_HEAVY_OPS(DWELL_CASE)
    default: return false;
  }
}
template <class Apply>
DWELL_DEVICE bool with_usual(TensorOp op, const Apply& apply) {
  switch (op) {
    DWELL_USUAL_FLOAT_OPS(DWELL_CASE)
    default: return false;
  }
}
#undef DWELL_CASE

// ---- Out of line, for what is rare or long -----------------------------------------------------------------------------------------

template <class Slot>
DWELL_DEVICE_COLD Slot load_element(const u32* words, u32 index, u32 element, NumberClass number) {
  const ProgramWords program(words);
  const u32* const tensor = program.tensor(index);
  const i32 offset = offset_of(program, tensor, element);
  Slot slot{};
  with_type(ProgramWords::type(tensor), [&](auto* type) {
    using T = typename Pointee<decltype(type)>::type;
    const T value = pointer_to_global<const T>(ProgramWords::address(tensor))[offset];
    with_number(number, Slot(), [&](auto* as) { put_number(&slot, number_of<typename Pointee<decltype(as)>::type>(value)); });
  });
  return slot;
}

template <class Slot>
DWELL_DEVICE_COLD void store_element(const u32* words, u32 index, u32 element, NumberClass number, Slot slot) {
  const ProgramWords program(words);
  const u32* const tensor = program.tensor(index);
  const i32 offset = offset_of(program, tensor, element);
  with_type(ProgramWords::type(tensor), [&](auto* type) {
    using T = typename Pointee<decltype(type)>::type;
    T* const to = pointer_to_global<T>(ProgramWords::address(tensor)) + offset;
    with_number(number, Slot(), [&](auto* as) { *to = Element<T>::of(number_in<typename Pointee<decltype(as)>::type>(slot)); });
  });
}

template <class Slot>
DWELL_DEVICE_COLD Slot round_element(NumberClass number, ElementType type, Slot slot) {
  with_type(type, [&](auto* as) {
    using T = typename Pointee<decltype(as)>::type;
    with_number(number, Slot(), [&](auto* from) { round_slot<T, typename Pointee<decltype(from)>::type>(&slot); });
  });
  return slot;
}

// Numbers of a thread. Passed by value, to stay in registers: by address they would make a round trip through local memory, behind the
// multiprocessor's L1.
template <u32 count>
struct Floats {
  float at[count];
};
template <u32 count>
struct Computed {
  Floats<count> value;
  bool known;
};

// A usual operation op(a, b, c) on all numbers of a thread at once, so none waits for another. Other operations return unknown.
template <u32 count>
DWELL_DEVICE_COLD Computed<count> compute_usual(TensorOp op, Floats<count> a, Floats<count> b, float c) {
  Computed<count> result;
  result.value = a;
  result.known = with_usual(op, [&](auto f) {
    DWELL_UNROLL
    for (u32 k = 0; k < count; ++k) result.value.at[k] = f(a.at[k], b.at[k], c);
  });
  return result;
}

// Any operation in a wide program, and a heavy one in others.
template <class Slot>
DWELL_DEVICE_COLD Slot compute_element(NumberClass number, TensorOp op, Slot a, Slot b, Slot c) {
  Slot result{};
  with_number(number, Slot(), [&](auto* as) {
    using C = typename Pointee<decltype(as)>::type;
    const auto one = [&](auto f) { put_number(&result, f(number_in<C>(a), number_in<C>(b), number_in<C>(c))); };
    if (sizeof(Slot) == 4 || !with_light(op, one, as)) with_heavy(op, one, as);
  });
  return result;
}

}  // namespace device
}  // namespace dwell
