// The interpreter of plain programs (is_plain): contiguous floats, numbers, and functions of them. It has only what these need, so on CUDA
// all its state stays in registers. Local memory would be loaded from behind the multiprocessor's L1, which the control warp empties while
// it polls the host.
#pragma once

#include <dwell/device/group.hpp>
#include <dwell/device/pack.hpp>

#include "tensor/device/element.hpp"

namespace dwell {
namespace device {

// Offsets of the parts of a plain program, which has one dimension and narrow slots.
class PlainWords {
 public:
  explicit DWELL_DEVICE PlainWords(const u32* words)
      : tensors_(words + 2),
        code_(tensors_ + ProgramWords(words).tensors() * 3),
        constants_(code_ + ProgramWords(words).instructions()),
        elements_(words[1]),
        instructions_(ProgramWords(words).instructions()),
        packed_(ProgramWords(words).packed()) {}

  DWELL_DEVICE u32 elements() const { return elements_; }
  DWELL_DEVICE u32 instructions() const { return instructions_; }
  DWELL_DEVICE bool packed() const { return packed_; }
  DWELL_DEVICE Instruction instruction(u32 index) const { return Instruction(code_[index]); }
  DWELL_DEVICE float constant(u32 index) const { return bits_as<float>(constants_[index]); }
  DWELL_DEVICE float* address(u32 tensor) const { return pointer_to_global<float>(ProgramWords::address(tensors_ + tensor * 3)); }
  // Returns whether all elements are the same.
  DWELL_DEVICE bool is_one(u32 tensor) const { return ProgramWords::stride(tensors_ + tensor * 3, 0) == 0; }

 private:
  const u32* tensors_;
  const u32* code_;
  const u32* constants_;
  u32 elements_;
  u32 instructions_;
  bool packed_;
};

#if DWELL_PARALLEL_GROUP
DWELL_CONSTANT u32 kPlainEach = 8;
#else
DWELL_CONSTANT u32 kPlainEach = 128;
#endif

// Runs a program for one block of elements, kEach a thread at once. The variant for light programs calls no function: a function with calls
// keeps values in callee-saved registers, each of which it must save in memory on CUDA, more memory traffic than a short program's
// elements.
template <u32 kEach, bool kCalls>
class PlainMachine {
 public:
  static constexpr u32 kBlock = kEach * kGroupThreads;

  // `first`: of the block's elements.
  DWELL_DEVICE PlainMachine(const PlainWords& program, u32 first, u32 rank)
      : program_(program), first_(first), left_(program.elements() - first), rank_(rank) {}

  DWELL_DEVICE void run() const {
    float sum[kEach];  // the accumulator
    DWELL_UNROLL_NOT
    for (u32 i = 0; i < program_.instructions(); ++i) {
      const Instruction in = program_.instruction(i);
      const bool is_tensor = in.kind() == OperandKind::tensor;
      if (in.code() == static_cast<u32>(Step::store)) {
        store(in.operand(), sum);
      } else if (in.code() == static_cast<u32>(Step::load) && is_tensor) {
        // Not through `second`: a copy would wait for the load before the next one begins.
        load(in.operand(), sum);
      } else {
        float second[kEach];
        if (is_tensor)
          load(in.operand(), second);
        else
          fill(in.kind() == OperandKind::constant ? program_.constant(in.operand()) : 0, second);
        if (in.code() == static_cast<u32>(Step::load))
          each([&](u32 k) { sum[k] = second[k]; });
        else
          compute(in, sum, second);
      }
    }
  }

 private:
  static DWELL_DEVICE void fill(float value, float* to) {
    DWELL_UNROLL
    for (u32 k = 0; k < kEach; ++k) to[k] = value;
  }

  DWELL_DEVICE void compute(Instruction in, float* sum, float* second) const {
    if (in.swapped()) {
      each([&](u32 k) {
        const float first = sum[k];
        sum[k] = second[k];
        second[k] = first;
      });
    }
    const float third = in.has_third() ? program_.constant(in.third()) : 0;
    const auto op = static_cast<TensorOp>(in.code() - Instruction::kFirstOp);
    const auto all = [&](auto f) { each([&](u32 k) { sum[k] = f(sum[k], second[k], third); }); };
    if (kCalls ? with_light(op, all, static_cast<float*>(nullptr)) : with_lightest(op, all)) return;
    if (!kCalls) return;
#if DWELL_PARALLEL_GROUP
    Floats<kEach> a;
    Floats<kEach> b;
    each([&](u32 k) { a.at[k] = sum[k]; });
    each([&](u32 k) { b.at[k] = second[k]; });
    const Computed<kEach> result = compute_usual(op, a, b, third);
    each([&](u32 k) { sum[k] = result.value.at[k]; });
#else
    with_usual(op, all);
#endif
  }

#if DWELL_PARALLEL_GROUP
  // Neighbouring threads have neighbouring packs.
  static constexpr u32 kPack = kEach < 4 ? kEach : 4;
  DWELL_DEVICE u32 place(u32 k) const { return k / kPack * (kPack * kGroupThreads) + rank_ * kPack + k % kPack; }
  // Returns whether the thread has such an element, in the last block.
  DWELL_DEVICE bool has(u32 k) const { return place(k) < left_; }
  DWELL_DEVICE bool whole() const { return left_ >= kBlock && program_.packed(); }
  template <class F>
  DWELL_DEVICE void each(const F& f) const {
#pragma unroll
    for (u32 k = 0; k < kEach; ++k) f(k);
  }

  DWELL_DEVICE void load(u32 tensor, float* to) const {
    const float* const from = program_.address(tensor);
    if (program_.is_one(tensor)) {
      fill(*from, to);
    } else if (whole()) {
      const Pack<float, kPack>* const packs = reinterpret_cast<const Pack<float, kPack>*>(from + first_) + rank_;
#pragma unroll
      for (u32 i = 0; i < kEach / kPack; ++i) {
        const Pack<float, kPack> pack = packs[i * kGroupThreads];
#pragma unroll
        for (u32 j = 0; j < kPack; ++j) to[i * kPack + j] = pack.at[j];
      }
    } else {
      each([&](u32 k) { to[k] = from[first_ + (has(k) ? place(k) : 0)]; });
    }
  }
  DWELL_DEVICE void store(u32 tensor, const float* numbers) const {
    float* const to = program_.address(tensor) + first_;
    if (whole()) {
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
  }
#else
  DWELL_DEVICE u32 place(u32 k) const { return rank_ + k; }
  template <class F>
  DWELL_DEVICE void each(const F& f) const {
    const u32 count = left_ < kEach ? left_ : kEach;
    for (u32 k = 0; k < count; ++k) f(k);
  }

  DWELL_DEVICE void load(u32 tensor, float* to) const {
    const float* const from = program_.address(tensor);
    if (program_.is_one(tensor))
      fill(*from, to);
    else
      each([&](u32 k) { to[k] = from[first_ + place(k)]; });
  }
  DWELL_DEVICE void store(u32 tensor, const float* numbers) const {
    float* const to = program_.address(tensor) + first_;
    each([&](u32 k) { to[place(k)] = numbers[k]; });
  }
#endif

  const PlainWords& program_;
  const u32 first_;
  const u32 left_;  // elements from the block's first to the last of all
  const u32 rank_;
};

// Together: runs a plain program over all its elements, divided among all groups of the task. Out of line, so its registers do not count
// elsewhere.
template <u32 kEach, bool kCalls>
DWELL_DEVICE_COLD void run_plain_blocks(const Group& g, const u32* words) {
  using Machine = PlainMachine<kEach, kCalls>;
  const PlainWords program(words);
  const u32 rank = g.rank();
  const u64 stride = static_cast<u64>(g.count()) * Machine::kBlock;
  DWELL_UNROLL_NOT
  for (u64 first = static_cast<u64>(g.index()) * Machine::kBlock; first < program.elements(); first += stride)
    Machine(program, static_cast<u32>(first), rank).run();
}

// The same. In a group with few elements each thread takes one at a time: then all threads have work, and none computes several.
DWELL_DEVICE void run_plain(const Group& g, const u32* words) {
#if DWELL_PARALLEL_GROUP
  if (g.count() > 1 && PlainWords(words).elements() <= static_cast<u64>(g.count()) * (kGroupThreads * 4))
    return run_plain_blocks<1, true>(g, words);
  if (ProgramWords(words).light()) return run_plain_blocks<kPlainEach, false>(g, words);
#endif
  run_plain_blocks<kPlainEach, true>(g, words);
}

}  // namespace device
}  // namespace dwell
