// The interpreter of programs over the elements of tensors (program.hpp): a new expression needs no compilation.
//
// Each thread runs an instruction for several elements at once, which amortizes its decoding. The accumulator is in registers: a chain of
// operations, the usual program, touches only its tensors. On CUDA usual operations are inline, and others are calls for each element; else
// the image would be a hundred times as large. A CPU has vectorized loops for all.
#pragma once

#include <dwell/device/group.hpp>
#include <dwell/device/pack.hpp>

#include "tensor/device/element.hpp"
#include "tensor/device/plain_elementwise.hpp"

namespace dwell {
namespace device {

// Runs a program for one block of elements. Slot is float, or u64 for wide programs.
template <class Slot>
class Machine {
 public:
  // Elements that a thread works on at once.
#if DWELL_PARALLEL_GROUP
  static constexpr u32 kEach = sizeof(Slot) == 4 ? 8 : 4;
#else
  static constexpr u32 kEach = 128;
#endif
  static constexpr u32 kBlock = kEach * kGroupThreads;

  // `first`: of the block's elements.
  DWELL_DEVICE Machine(const Group& g, const u32* words, u32 first)
      : words_(words), program_(words), first_(first), left_(program_.elements() - first), rank_(g.rank()) {}

  DWELL_DEVICE void run() {
    const u32* const code = program_.code();
    const u32 instructions = program_.instructions();
    DWELL_UNROLL_NOT
    for (u32 i = 0; i < instructions; ++i) step(Instruction(code[i]));
  }

 private:
  struct Values {
    Slot at[kEach];
  };

  DWELL_DEVICE void step(Instruction in) {
    if (in.code() == static_cast<u32>(Step::keep)) {
      kept_[in.operand()] = sum_;
      return;
    }
    if (in.code() == static_cast<u32>(Step::store)) {
      store(in.operand(), in.number());
      return;
    }
    Values second;
    switch (in.kind()) {
      case OperandKind::tensor: load(in.operand(), in.number(), &second); break;
      case OperandKind::temporary: second = kept_[in.operand()]; break;
      case OperandKind::constant: fill(in.operand(), &second); break;
      default: break;
    }
    if (in.code() == static_cast<u32>(Step::load)) {
      sum_ = second;
    } else if (in.code() == static_cast<u32>(Step::index)) {
      with_number(in.number(), Slot(), [&](auto* as) {
        using C = typename Pointee<decltype(as)>::type;
        each([&](u32 k) { put_number(&sum_.at[k], static_cast<C>(first_ + place(k))); });
      });
    } else if (in.code() >= Instruction::kFirstOp) {
      if (in.swapped()) {
        const Values other = sum_;
        sum_ = second;
        second = other;
      }
      Values third;
      if (in.has_third() && in.third_is_constant()) fill(in.third(), &third);
      if (in.has_third() && !in.third_is_constant()) third = kept_[in.third()];
      const auto op = static_cast<TensorOp>(in.code() - Instruction::kFirstOp);
      if (op == TensorOp::where)
        each([&](u32 k) { sum_.at[k] = third.at[k] != 0 ? sum_.at[k] : second.at[k]; });
      else
        compute(in, op, second, third);
    }
    if (is_rounded(in.number(), in.result())) round(in.number(), in.result());
  }

  // One number for all elements.
  DWELL_DEVICE void fill(u32 index, Values* to) const {
    const u32* const word = program_.constant(index);
    const Slot value = constant(word, Slot());
    each([&](u32 k) { to->at[k] = value; });
  }
  static DWELL_DEVICE float constant(const u32* word, float) { return bits_as<float>(word[0]); }
  static DWELL_DEVICE u64 constant(const u32* word, u64) { return word[0] | static_cast<u64>(word[1]) << 32U; }

  DWELL_DEVICE bool contiguous(const u32* tensor) const { return program_.dims() == 1 && ProgramWords::stride(tensor, 0) == 1; }

#if DWELL_PARALLEL_GROUP
  // Returns the place of the thread's element k in the block: neighbouring threads have neighbouring packs of four.
  static constexpr u32 kPack = 4;
  DWELL_DEVICE u32 place(u32 k) const { return k / kPack * (kPack * kGroupThreads) + rank_ * kPack + k % kPack; }
  // Returns whether the thread has a k-th element, in the last block.
  DWELL_DEVICE bool has(u32 k) const { return place(k) < left_; }
  // A valid element: a thread without a k-th one loads the first instead.
  DWELL_DEVICE u32 element(u32 k) const { return first_ + (has(k) ? place(k) : 0); }
  template <class F>
  DWELL_DEVICE void each(const F& f) const {
#pragma unroll
    for (u32 k = 0; k < kEach; ++k) f(k);
  }

  DWELL_DEVICE void load(u32 index, NumberClass number, Values* to) const {
    const u32* const tensor = program_.tensor(index);
    if (program_.dims() == 1 && ProgramWords::stride(tensor, 0) == 0) {
      const Slot one = load_element<Slot>(words_, index, 0, number);
      each([&](u32 k) { to->at[k] = one; });
    } else if (!load_floats(tensor, to->at)) {
      each([&](u32 k) { to->at[k] = load_element<Slot>(words_, index, element(k), number); });
    }
  }
  DWELL_DEVICE void store(u32 index, NumberClass number) const {
    if (store_floats(program_.tensor(index), sum_.at)) return;
    each([&](u32 k) {
      if (has(k)) store_element<Slot>(words_, index, first_ + place(k), number, sum_.at[k]);
    });
  }
  DWELL_DEVICE void round(NumberClass number, ElementType type) {
    each([&](u32 k) { sum_.at[k] = round_element<Slot>(number, type, sum_.at[k]); });
  }
  DWELL_DEVICE void compute(Instruction in, TensorOp op, const Values& second, const Values& third) {
    const bool one_third = !in.has_third() || in.third_is_constant();
    if (compute_floats(op, sum_.at, second.at, third.at) || (one_third && compute_usual_floats(op, sum_.at, second.at, third.at))) return;
    each([&](u32 k) { sum_.at[k] = compute_element<Slot>(in.number(), op, sum_.at[k], second.at[k], third.at[k]); });
  }

  // Loads contiguous floats, the usual case. False for other tensors.
  DWELL_DEVICE bool load_floats(const u32* tensor, float* to) const {
    if (!contiguous(tensor) || ProgramWords::type(tensor) != ElementType::f32) return false;
    const float* const from = pointer_to_global<const float>(ProgramWords::address(tensor)) + first_;
    if (left_ >= kBlock && pack_misalignment<kPack>(from) == 0) {
      const Pack<float, kPack>* const packs = reinterpret_cast<const Pack<float, kPack>*>(from) + rank_;
      Pack<float, kPack> pack[kEach / kPack];
#pragma unroll
      for (u32 i = 0; i < kEach / kPack; ++i) pack[i] = packs[i * kGroupThreads];
      each([&](u32 k) { to[k] = pack[k / kPack].at[k % kPack]; });
    } else {
      each([&](u32 k) { to[k] = from[has(k) ? place(k) : 0]; });
    }
    return true;
  }
  DWELL_DEVICE bool store_floats(const u32* tensor, const float* numbers) const {
    if (!contiguous(tensor) || ProgramWords::type(tensor) != ElementType::f32) return false;
    float* const to = pointer_to_global<float>(ProgramWords::address(tensor)) + first_;
    if (left_ >= kBlock && pack_misalignment<kPack>(to) == 0) {
      Pack<float, kPack>* const packs = reinterpret_cast<Pack<float, kPack>*>(to) + rank_;
#pragma unroll
      for (u32 i = 0; i < kEach / kPack; ++i) {
        Pack<float, kPack> pack;
#pragma unroll
        for (u32 j = 0; j < kPack; ++j) pack.at[j] = numbers[i * kPack + j];
        packs[i * kGroupThreads] = pack;
      }
    } else {
      each([&](u32 k) {
        if (has(k)) to[place(k)] = numbers[k];
      });
    }
    return true;
  }
  DWELL_DEVICE bool compute_floats(TensorOp op, float* a, const float* b, const float* c) const {
    return with_light(
        op, [&](auto f) { each([&](u32 k) { a[k] = f(a[k], b[k], c[k]); }); }, static_cast<float*>(nullptr));
  }
  // With one third number for all.
  DWELL_DEVICE bool compute_usual_floats(TensorOp op, float* a, const float* b, const float* c) const {
    Floats<kEach> first;
    Floats<kEach> second;
    each([&](u32 k) { first.at[k] = a[k]; });
    each([&](u32 k) { second.at[k] = b[k]; });
    const Computed<kEach> result = compute_usual(op, first, second, c[0]);
    if (!result.known) return false;
    each([&](u32 k) { a[k] = result.value.at[k]; });
    return true;
  }
  DWELL_DEVICE bool load_floats(const u32*, u64*) const { return false; }
  DWELL_DEVICE bool store_floats(const u32*, const u64*) const { return false; }
  DWELL_DEVICE bool compute_floats(TensorOp, u64*, const u64*, const u64*) const { return false; }
  DWELL_DEVICE bool compute_usual_floats(TensorOp, u64*, const u64*, const u64*) const { return false; }
#else
  static DWELL_DEVICE u32 place(u32 k) { return k; }
  template <class F>
  DWELL_DEVICE void each(const F& f) const {
    const u32 count = left_ < kEach ? left_ : kEach;
    for (u32 k = 0; k < count; ++k) f(k);
  }

  DWELL_DEVICE void load(u32 index, NumberClass number, Values* to) const {
    const u32* const tensor = program_.tensor(index);
    with_type(ProgramWords::type(tensor), [&](auto* type) {
      using T = typename Pointee<decltype(type)>::type;
      const T* const from = pointer_to_global<const T>(ProgramWords::address(tensor));
      with_number(number, Slot(), [&](auto* as) {
        using C = typename Pointee<decltype(as)>::type;
        if (contiguous(tensor))
          each([&](u32 k) { put_number(&to->at[k], number_of<C>(from[first_ + k])); });
        else
          each([&](u32 k) { put_number(&to->at[k], number_of<C>(from[offset_of(program_, tensor, first_ + k)])); });
      });
    });
  }
  DWELL_DEVICE void store(u32 index, NumberClass number) const {
    const u32* const tensor = program_.tensor(index);
    with_type(ProgramWords::type(tensor), [&](auto* type) {
      using T = typename Pointee<decltype(type)>::type;
      T* const to = pointer_to_global<T>(ProgramWords::address(tensor));
      with_number(number, Slot(), [&](auto* as) {
        using C = typename Pointee<decltype(as)>::type;
        if (contiguous(tensor))
          each([&](u32 k) { to[first_ + k] = Element<T>::of(number_in<C>(sum_.at[k])); });
        else
          each([&](u32 k) { to[offset_of(program_, tensor, first_ + k)] = Element<T>::of(number_in<C>(sum_.at[k])); });
      });
    });
  }
  DWELL_DEVICE void round(NumberClass number, ElementType type) {
    with_type(type, [&](auto* to) {
      using T = typename Pointee<decltype(to)>::type;
      with_number(number, Slot(),
                  [&](auto* as) { each([&](u32 k) { round_slot<T, typename Pointee<decltype(as)>::type>(&sum_.at[k]); }); });
    });
  }
  DWELL_DEVICE void compute(Instruction in, TensorOp op, const Values& second, const Values& third) {
    with_number(in.number(), Slot(), [&](auto* as) {
      using C = typename Pointee<decltype(as)>::type;
      const auto all = [&](auto f) {
        each([&](u32 k) { put_number(&sum_.at[k], f(number_in<C>(sum_.at[k]), number_in<C>(second.at[k]), number_in<C>(third.at[k]))); });
      };
      if (!with_light(op, all, as)) with_heavy(op, all, as);
    });
  }
#endif

  Values sum_;  // the accumulator
  Values kept_[kMaxTemporaries];
  const u32* const words_;
  const ProgramWords program_;
  const u32 first_;
  const u32 left_;  // elements from the block's first to the last of all
  const u32 rank_;
};

// Out of line, so that its registers count once, however many operators call it.
template <class Slot>
DWELL_DEVICE_COLD void run_in_slots(const Group& g, const u32* words) {
  const u32 block = Machine<Slot>::kBlock;
  const u32 elements = ProgramWords(words).elements();
  DWELL_UNROLL_NOT
  for (u64 first = static_cast<u64>(g.index()) * block; first < elements; first += static_cast<u64>(g.count()) * block)
    Machine<Slot>(g, words, static_cast<u32>(first)).run();
}

// Together: runs a program (program.hpp) over all its elements, divided among all groups of the task.
DWELL_DEVICE void run_program(const Group& g, const u32* words) {
  if (ProgramWords(words).plain())
    run_plain(g, words);
  else if (ProgramWords(words).wide())
    run_in_slots<u64>(g, words);
  else
    run_in_slots<float>(g, words);
}

}  // namespace device
}  // namespace dwell
