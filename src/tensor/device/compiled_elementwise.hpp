// Compiled programs over the elements of tensors (program.hpp). A program that runs often is compiled instead of interpreted
// (elementwise.hpp). Results have the same bits: the same operations in the same order, each rounded by itself.
//
// The program is a type with
//   static constexpr bool wide;               whether slots have 64 bits
//   static constexpr u32 dims;                that elements have, 1 or more
//   static constexpr ProgramTensor tensor[];  what is fixed of each tensor
//   static constexpr u32 code[];              instructions
// The words of a task have the rest: addresses, sizes and strides, numbers.
#pragma once

#include <dwell/device/group.hpp>
#include <dwell/device/pack.hpp>

#include "tensor/device/element.hpp"

namespace dwell {
namespace device {

// Layout of a tensor's elements: contiguous, all at one address, or by sizes and strides.
enum class Lie : u8 { neighbours, once, strided };

struct ProgramTensor {
  ElementType type;
  Lie lie;
};

// Selects an overload.
template <u32 value>
struct Choice {};

// Places of words in a task of program P.
template <class P>
struct CompiledWords {
  // NOLINTBEGIN(bugprone-sizeof-expression): arrays, as long as P is not known
  static constexpr u32 kTensors = sizeof(P::tensor) / sizeof(P::tensor[0]);
  static constexpr u32 kInstructions = sizeof(P::code) / sizeof(P::code[0]);
  // NOLINTEND(bugprone-sizeof-expression)

  static DWELL_HOST_DEVICE u32 tensor(u32 index) { return ProgramWords::words(P::wide, P::dims, index, 0, 0); }
  static DWELL_HOST_DEVICE u32 constant(u32 index) { return ProgramWords::words(P::wide, P::dims, kTensors, kInstructions, index); }

  static DWELL_HOST_DEVICE bool is_strided() {
    for (u32 i = 0; i < kTensors; ++i)
      if (P::tensor[i].lie == Lie::strided) return true;
    return false;
  }
  // Returns whether an instruction takes a GPU more than a few instructions.
  static DWELL_HOST_DEVICE bool is_long(Instruction in) {
    if (in.code() < Instruction::kFirstOp) return false;
    switch (static_cast<TensorOp>(in.code() - Instruction::kFirstOp)) {
#define DWELL_CASE(name, operands, ...) case TensorOp::name:
      DWELL_LIGHT_OPS(DWELL_CASE)
      DWELL_COMPARISONS(DWELL_CASE)
      DWELL_LOGICAL_OPS(DWELL_CASE)
      DWELL_BITWISE_OPS(DWELL_CASE)
      case TensorOp::where: return false;
#undef DWELL_CASE
      default: return true;
    }
  }
  // Returns whether these are computed out of line.
  static DWELL_HOST_DEVICE bool computes_apart() {
#if DWELL_PARALLEL_GROUP
    u32 count = 0;
    for (u32 i = 0; i < kInstructions; ++i) count += is_long(Instruction(P::code[i])) ? 1 : 0;
    return count > 4;
#else
    return false;
#endif
  }
  static DWELL_HOST_DEVICE u32 temporaries() {
    u32 count = 0;
    for (u32 i = 0; i < kInstructions; ++i) {
      const Instruction in(P::code[i]);
      if (in.code() == static_cast<u32>(Step::keep) && in.operand() >= count) count = in.operand() + 1;
    }
    return count;
  }
};

template <bool wide>
struct SlotOf {
  using type = float;
};
template <>
struct SlotOf<true> {
  using type = u64;
};
// The type of numbers of a class, in slots of a type.
template <NumberClass number, class Slot>
struct SlotNumber {
  using type = float;
};
template <>
struct SlotNumber<NumberClass::f64, u64> {
  using type = double;
};
template <>
struct SlotNumber<NumberClass::i64, u64> {
  using type = i64;
};

// A task's operands. A CPU reads them once, since its compiler cannot prove that stores do not change the words. On CUDA that would take
// too many registers, and NVRTC 13.0 then does not terminate for some programs of 16-bit elements.
template <class P>
class CompiledOperands {
 public:
  using Slot = typename SlotOf<P::wide>::type;
  using Words = CompiledWords<P>;

  explicit DWELL_DEVICE CompiledOperands(const u32* words) : words_(words) {
#if !DWELL_PARALLEL_GROUP
    for (u32 tensor = 0; tensor < Words::kTensors; ++tensor) address_[tensor] = ProgramWords::address(words + Words::tensor(tensor));
    for (u32 tensor = 0; tensor < Words::kTensors; ++tensor)
      for (u32 dim = 0; dim < P::dims; ++dim) stride_[tensor][dim] = ProgramWords::stride(words + Words::tensor(tensor), dim);
    for (u32 dim = 0; dim < P::dims; ++dim) size_[dim] = P::dims > 1 ? words[2 + dim] : 0;
#endif
  }
#if DWELL_PARALLEL_GROUP
  DWELL_DEVICE u64 address(u32 tensor) const { return ProgramWords::address(words_ + Words::tensor(tensor)); }
  DWELL_DEVICE i32 stride(u32 tensor, u32 dim) const { return ProgramWords::stride(words_ + Words::tensor(tensor), dim); }
  DWELL_DEVICE u32 size(u32 dim) const { return words_[2 + dim]; }
#else
  DWELL_DEVICE u64 address(u32 tensor) const { return address_[tensor]; }
  DWELL_DEVICE i32 stride(u32 tensor, u32 dim) const { return stride_[tensor][dim]; }
  DWELL_DEVICE u32 size(u32 dim) const { return size_[dim]; }
#endif
  DWELL_DEVICE Slot constant(u32 index) const { return slot(words_ + Words::constant(index), Slot()); }
  template <u32 tensor>
  DWELL_DEVICE i32 offset_of(u32 element) const {
    i32 offset = 0;
    DWELL_UNROLL
    for (u32 dim = P::dims - 1; dim != 0; --dim) {
      const u32 next = element / size(dim);
      offset += static_cast<i32>(element - next * size(dim)) * stride(tensor, dim);
      element = next;
    }
    return offset + static_cast<i32>(element) * stride(tensor, 0);
  }

 private:
  static DWELL_DEVICE float slot(const u32* word, float) { return bits_as<float>(word[0]); }
  static DWELL_DEVICE u64 slot(const u32* word, u64) { return word[0] | static_cast<u64>(word[1]) << 32U; }

  const u32* words_;
#if !DWELL_PARALLEL_GROUP
  u64 address_[Words::kTensors];
  i32 stride_[Words::kTensors][P::dims];
  u32 size_[P::dims];
#endif
};

// The values of a thread's current elements.
template <class Slot, u32 each>
struct Slots {
  Slot at[each];
};

#if DWELL_PARALLEL_GROUP
// Operations of more than a few instructions, done for one element after the other, out of line if a program has many. A worker runs its
// code once and must fetch it: twelve times add, mul, relu, sigmoid, div of 8 elements take 59 KB without calls, and 17 KB with calls.
template <TensorOp op, class C, class Values>
DWELL_DEVICE_COLD Values compute_apart(Values a) {
  const Operation<op> f{};
  DWELL_UNROLL
  for (u32 k = 0; k < sizeof(Values) / sizeof(a.at[0]); ++k) put_number(&a.at[k], f(number_in<C>(a.at[k]), C(), C()));
  return a;
}
template <TensorOp op, class C, class Values>
DWELL_DEVICE_COLD Values compute_apart(Values a, Values b) {
  const Operation<op> f{};
  DWELL_UNROLL
  for (u32 k = 0; k < sizeof(Values) / sizeof(a.at[0]); ++k) put_number(&a.at[k], f(number_in<C>(a.at[k]), number_in<C>(b.at[k]), C()));
  return a;
}
template <TensorOp op, class C, class Values>
DWELL_DEVICE_COLD Values compute_apart(Values a, Values b, Values c) {
  const Operation<op> f{};
  DWELL_UNROLL
  for (u32 k = 0; k < sizeof(Values) / sizeof(a.at[0]); ++k)
    put_number(&a.at[k], f(number_in<C>(a.at[k]), number_in<C>(b.at[k]), number_in<C>(c.at[k])));
  return a;
}
#endif

// Runs a program for a thread's current elements: several of a whole block, in aligned packs, or a single one, which may lie beyond the
// end.
template <class P, bool whole>
class CompiledBlock {
 public:
  using Slot = typename SlotOf<P::wide>::type;
  using Words = CompiledWords<P>;
#if DWELL_PARALLEL_GROUP
  static constexpr u32 kPack = whole ? 4 : 1;
  static constexpr u32 kEach = !whole || P::wide || Words::is_strided() || Words::temporaries() > 2 ? kPack : 2 * kPack;
#else
  static constexpr u32 kPack = 1;
  static constexpr u32 kEach = whole ? 16 : 1;  // which the compiler vectorizes
#endif
  static constexpr u32 kBlock = kEach * kGroupThreads;

  // `first`: of the block's elements; `left`: from there to the last of all.
  DWELL_DEVICE CompiledBlock(const CompiledOperands<P>& operands, u32 first, u32 left, u32 rank)
      : operands_(operands), first_(first), left_(left), rank_(rank) {}

  DWELL_DEVICE void run() { run_from(Choice<0>()); }

 private:
  using Values = Slots<Slot, kEach>;
  template <u32 index>
  static DWELL_HOST_DEVICE Instruction at() {
    return Instruction(P::code[index]);
  }
  template <u32 index>
  using Number = typename SlotNumber<at<index>().number(), Slot>::type;
  static DWELL_HOST_DEVICE u32 step_of(Instruction in) {
    return in.code() < Instruction::kFirstOp ? in.code() : static_cast<u32>(Step::compute);
  }

  // Operands of an instruction that is computed out of line; 0 for others.
  static DWELL_HOST_DEVICE u32 operands_apart(Instruction in) {
    if (!Words::computes_apart() || !Words::is_long(in)) return 0;
    if (in.kind() == OperandKind::none) return 1;
    return in.has_third() ? 3 : 2;
  }

  template <u32 index>
  DWELL_DEVICE void run_from(Choice<index>) {
    step<index>(Choice<step_of(at<index>())>());
    run_from(Choice<index + 1>());
  }
  DWELL_DEVICE void run_from(Choice<Words::kInstructions>) {}

  // ---- Steps
  template <u32 index>
  DWELL_DEVICE void step(Choice<static_cast<u32>(Step::keep)>) {
    kept_[at<index>().operand()] = sum_;
  }
  template <u32 index>
  DWELL_DEVICE void step(Choice<static_cast<u32>(Step::store)>) {
    store<at<index>().operand(), Number<index>>();
  }
  template <u32 index>
  DWELL_DEVICE void step(Choice<static_cast<u32>(Step::load)>) {
    fetch<index>(&sum_, Choice<static_cast<u32>(at<index>().kind())>());
    round<index>();
  }
  template <u32 index>
  DWELL_DEVICE void step(Choice<static_cast<u32>(Step::cast)>) {
    round<index>();
  }
  template <u32 index>
  DWELL_DEVICE void step(Choice<static_cast<u32>(Step::index)>) {
    each([&](u32 k) { put_number(&sum_.at[k], static_cast<Number<index>>(first_ + place(k))); });
    round<index>();
  }
  template <u32 index>
  DWELL_DEVICE void step(Choice<static_cast<u32>(Step::compute)>) {
    Values second{};
    fetch<index>(&second, Choice<static_cast<u32>(at<index>().kind())>());
    Values third{};
    fetch_third<index>(&third, Choice < !at<index>().has_third() ? 0 : at<index>().third_is_constant() ? 1 : 2 > ());
    if (at<index>().swapped())
      compute<index>(second, sum_, third, Choice<at<index>().code() - Instruction::kFirstOp>());
    else
      compute<index>(sum_, second, third, Choice<at<index>().code() - Instruction::kFirstOp>());
    round<index>();
  }

  template <u32 index>
  DWELL_DEVICE void compute(const Values& a, const Values& b, const Values& c, Choice<static_cast<u32>(TensorOp::where)>) {
    each([&](u32 k) { sum_.at[k] = c.at[k] != 0 ? a.at[k] : b.at[k]; });
  }
  template <u32 index, u32 op>
  DWELL_DEVICE void compute(const Values& a, const Values& b, const Values& c, Choice<op>) {
    compute_in<static_cast<TensorOp>(op), Number<index>>(a, b, c, Choice<operands_apart(at<index>())>());
  }
  template <TensorOp op, class C>
  DWELL_DEVICE void compute_in(const Values& a, const Values& b, const Values& c, Choice<0>) {
    const Operation<op> f{};
    each([&](u32 k) { put_number(&sum_.at[k], f(number_in<C>(a.at[k]), number_in<C>(b.at[k]), number_in<C>(c.at[k]))); });
  }
#if DWELL_PARALLEL_GROUP
  template <TensorOp op, class C>
  DWELL_DEVICE void compute_in(const Values& a, const Values&, const Values&, Choice<1>) {
    sum_ = compute_apart<op, C>(a);
  }
  template <TensorOp op, class C>
  DWELL_DEVICE void compute_in(const Values& a, const Values& b, const Values&, Choice<2>) {
    sum_ = compute_apart<op, C>(a, b);
  }
  template <TensorOp op, class C>
  DWELL_DEVICE void compute_in(const Values& a, const Values& b, const Values& c, Choice<3>) {
    sum_ = compute_apart<op, C>(a, b, c);
  }
#endif
  template <u32 index>
  DWELL_DEVICE void round() {
    if (!is_rounded(at<index>().number(), at<index>().result())) return;
    each([&](u32 k) { round_slot<typename TypeOf<at<index>().result()>::type, Number<index>>(&sum_.at[k]); });
  }

  // ---- Operands
  template <u32 index>
  DWELL_DEVICE void fetch(Values*, Choice<static_cast<u32>(OperandKind::none)>) const {}
  template <u32 index>
  DWELL_DEVICE void fetch(Values* to, Choice<static_cast<u32>(OperandKind::temporary)>) const {
    *to = kept_[at<index>().operand()];
  }
  template <u32 index>
  DWELL_DEVICE void fetch(Values* to, Choice<static_cast<u32>(OperandKind::constant)>) const {
    fill(at<index>().operand(), to);
  }
  template <u32 index>
  DWELL_DEVICE void fetch(Values* to, Choice<static_cast<u32>(OperandKind::tensor)>) const {
    constexpr u32 tensor = at<index>().operand();
    load<tensor, Number<index>>(to, Choice<static_cast<u32>(P::tensor[tensor].lie)>());
  }
  template <u32 index>
  DWELL_DEVICE void fetch_third(Values*, Choice<0>) const {}
  template <u32 index>
  DWELL_DEVICE void fetch_third(Values* to, Choice<1>) const {
    fill(at<index>().third(), to);
  }
  template <u32 index>
  DWELL_DEVICE void fetch_third(Values* to, Choice<2>) const {
    *to = kept_[at<index>().third()];
  }
  DWELL_DEVICE void fill(u32 constant, Values* to) const {
    const Slot value = operands_.constant(constant);
    each([&](u32 k) { to->at[k] = value; });
  }

  // ---- Memory
  template <u32 tensor>
  using Type = typename TypeOf<P::tensor[tensor].type>::type;

  template <u32 tensor, class C>
  DWELL_DEVICE void load(Values* to, Choice<static_cast<u32>(Lie::once)>) const {
    const C value = number_of<C>(*pointer_to_global<const Type<tensor>>(operands_.address(tensor)));
    each([&](u32 k) { put_number(&to->at[k], value); });
  }
  template <u32 tensor, class C>
  DWELL_DEVICE void load(Values* to, Choice<static_cast<u32>(Lie::strided)>) const {
    const Type<tensor>* const from = pointer_to_global<const Type<tensor>>(operands_.address(tensor));
    each([&](u32 k) { put_number(&to->at[k], number_of<C>(from[operands_.template offset_of<tensor>(element(k))])); });
  }
  template <u32 tensor, class C>
  DWELL_DEVICE void load(Values* to, Choice<static_cast<u32>(Lie::neighbours)>) const {
    const Type<tensor>* const from = pointer_to_global<const Type<tensor>>(operands_.address(tensor));
#if DWELL_PARALLEL_GROUP
    if (whole) {
      const auto* const packs = reinterpret_cast<const Pack<Type<tensor>, kPack>*>(from + first_) + rank_;
      Pack<Type<tensor>, kPack> pack[kEach / kPack];
#pragma unroll
      for (u32 i = 0; i < kEach / kPack; ++i) pack[i] = packs[i * kGroupThreads];
      each([&](u32 k) { put_number(&to->at[k], number_of<C>(pack[k / kPack].at[k % kPack])); });
      return;
    }
#endif
    // No branch, so a tensor that several instructions read is loaded once.
    each([&](u32 k) { put_number(&to->at[k], number_of<C>(from[element(k)])); });
  }

  template <u32 tensor, class C>
  DWELL_DEVICE void store() const {
    Type<tensor>* const to = pointer_to_global<Type<tensor>>(operands_.address(tensor));
    const auto value = [&](u32 k) { return Element<Type<tensor>>::of(number_in<C>(sum_.at[k])); };
    if (P::tensor[tensor].lie != Lie::neighbours) {
      each([&](u32 k) {
        if (has(k)) to[operands_.template offset_of<tensor>(first_ + place(k))] = value(k);
      });
      return;
    }
#if DWELL_PARALLEL_GROUP
    if (whole) {
      auto* const packs = reinterpret_cast<Pack<Type<tensor>, kPack>*>(to + first_) + rank_;
#pragma unroll
      for (u32 i = 0; i < kEach / kPack; ++i) {
        Pack<Type<tensor>, kPack> pack;
#pragma unroll
        for (u32 j = 0; j < kPack; ++j) pack.at[j] = value(i * kPack + j);
        packs[i * kGroupThreads] = pack;
      }
      return;
    }
#endif
    Type<tensor>* const mine = to + first_ + place(0);
    each([&](u32 k) {
      if (has(k)) mine[distance(k)] = value(k);
    });
  }

  // ---- The thread's elements
  // Neighbouring threads have neighbouring packs.
  static DWELL_HOST_DEVICE u32 distance(u32 k) { return k / kPack * (kPack * kGroupThreads) + k % kPack; }
  DWELL_DEVICE u32 place(u32 k) const { return rank_ * kPack + distance(k); }
  DWELL_DEVICE bool has(u32 k) const { return whole || place(k) < left_; }
  // A valid element: a thread without a k-th one loads the first instead.
  DWELL_DEVICE u32 element(u32 k) const { return first_ + (has(k) ? place(k) : 0); }
  template <class F>
  static DWELL_DEVICE void each(const F& f) {
    DWELL_UNROLL
    for (u32 k = 0; k < kEach; ++k) f(k);
  }

  Values sum_;  // the accumulator
  Values kept_[kMaxTemporaries];
  const CompiledOperands<P>& operands_;
  const u32 first_;
  const u32 left_;
  const u32 rank_;
};

#if DWELL_PARALLEL_GROUP
// Returns not 0 when a tensor from `index` on has unaligned packs of contiguous elements.
template <class P, u32 tensors>
DWELL_DEVICE u32 misalignment_of(const CompiledOperands<P>&, Choice<tensors>, Choice<tensors>) {
  return 0;
}
template <class P, u32 index, u32 tensors>
DWELL_DEVICE u32 misalignment_of(const CompiledOperands<P>& operands, Choice<index>, Choice<tensors>) {
  using T = typename TypeOf<P::tensor[index].type>::type;
  const u32 own = P::tensor[index].lie == Lie::neighbours
                      ? static_cast<u32>(operands.address(index)) & (pack_alignment<T>(CompiledBlock<P, true>::kPack) - 1)
                      : 0;
  return own | misalignment_of(operands, Choice<index + 1>(), Choice<tensors>());
}

// Runs the elements from `first` on, one a thread at a time. Out of line, so whole blocks take no more registers than they need.
template <class P>
DWELL_DEVICE_COLD void run_parts(const u32* words, u32 first, u32 stride, u32 rank) {
  const CompiledOperands<P> operands(words);
  const u32 elements = ProgramWords(words).elements();
#pragma unroll 1
  for (u32 at = first; at < elements; at += stride) CompiledBlock<P, false>(operands, at, elements - at, rank).run();
}
#endif

// Together: runs program P over all elements, divided among all groups of the task.
template <class P>
DWELL_DEVICE void run_compiled(const Group& g, const u32* words) {
  const CompiledOperands<P> operands(words);
  const u32 elements = ProgramWords(words).elements();
#if DWELL_PARALLEL_GROUP
  const u32 block = CompiledBlock<P, true>::kBlock;
  const bool packed = misalignment_of(operands, Choice<0>(), Choice<CompiledWords<P>::kTensors>()) == 0;
  const u32 whole = packed ? elements / block * block : 0;  // elements in whole blocks
  const u32 stride = g.count() * block;
  // Below 2^31 and 2^26, so that no sum overflows.
#pragma unroll 1
  for (u32 first = g.index() * block; first < whole; first += stride) CompiledBlock<P, true>(operands, first, block, g.rank()).run();
  const u32 part = CompiledBlock<P, false>::kBlock;
  const u32 first = whole + g.index() * part;
  if (first < elements) run_parts<P>(words, first, g.count() * part, g.rank());
#else
  const u64 share = (static_cast<u64>(elements) + g.count() - 1) / g.count();
  const u32 first = static_cast<u32>(share * g.index() < elements ? share * g.index() : elements);
  const u32 end = static_cast<u32>(share < elements - first ? first + share : elements);
  const u32 block = CompiledBlock<P, true>::kBlock;
  u32 at = first;
  for (; end - at >= block; at += block) CompiledBlock<P, true>(operands, at, block, 0).run();
  for (; at < end; ++at) CompiledBlock<P, false>(operands, at, 1, 0).run();
#endif
}

}  // namespace device
}  // namespace dwell
