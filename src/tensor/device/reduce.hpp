// Reduces rows of tensors, or replaces them by values computed from a whole row (rows.hpp).
//
// A thread works on several lanes at once. On CUDA these are neighbouring columns of a row, which one, some or all threads of a group
// share: a group takes several short rows at once. On a CPU lanes are neighbouring columns too or, where rows are closer in memory than
// columns, neighbouring rows. The order in which numbers are combined depends on the task's words alone.
#pragma once

#include <dwell/device/exchange.hpp>
#include <dwell/device/group.hpp>
#include <dwell/device/pack.hpp>

#include "tensor/device/lanes.hpp"

namespace dwell {
namespace device {

// One element at a time, out of line. `at` is in elements from the tensor's first.
template <class C>
DWELL_DEVICE_COLD C load_from_row(const u32* tensor, i32 at) {
  C number{};
  with_type(ProgramWords::type(tensor), [&](auto* type) {
    using T = typename Pointee<decltype(type)>::type;
    number = number_of<C>(pointer_to_global<const T>(ProgramWords::address(tensor))[at]);
  });
  return number;
}
template <class C>
DWELL_DEVICE_COLD void store_to_row(const u32* tensor, i32 at, C number) {
  with_type(ProgramWords::type(tensor), [&](auto* type) {
    using T = typename Pointee<decltype(type)>::type;
    pointer_to_global<T>(ProgramWords::address(tensor))[at] = Element<T>::of(number);
  });
}

// Returns the columns of a part: the same for all but the last.
DWELL_DEVICE u32 part_size(const RowsWords& words, u32 part) {
  const u32 behind = words.columns() - part * words.part_columns();
  return behind < words.part_columns() ? behind : words.part_columns();
}
// The statistics of a part.
DWELL_DEVICE u64* part_statistics(const RowsWords& words, u32 row, u32 part) {
  return pointer_to_global<u64>(words.statistics()) + 2 * (static_cast<u64>(row) * words.parts() + part);
}
// A part's contribution to a fold of its row. `of_row`: the row's result of the first pass.
template <class C>
DWELL_DEVICE_COLD C part_of_fold(const u32* task, u32 pass, u32 row, u32 part, C of_row) {
  const RowsWords words(task);
  const u64* const numbers = part_statistics(words, row, part);
  const C first = number_in<C>(numbers[0]);
  if (words.statistic() == RowStatistic::fold) return first;
  const C second = number_in<C>(numbers[1]);
  if (words.statistic() == RowStatistic::exponentials)
    return pass == 0 ? first : math::mul(second, RowMath<C>::exp(math::sub(first, of_row)));
  const C count = static_cast<C>(part_size(words, part));
  const C apart = math::sub(first, of_row);
  return pass == 0 ? math::mul(apart, count) : math::add(second, math::mul(count, math::mul(apart, apart)));
}

#if DWELL_PARALLEL_GROUP
// Returns `combine` over the values of the `slices` threads that share a row, the same in all of them.
template <class T, class Combine>
DWELL_DEVICE_COLD T over_slices(const Group& g, T value, u32 slices, bool rows_first, Combine combine) {
  T* const slots = Exchange<T>::slots(g, 0);
  if (!rows_first) {
#pragma unroll 1
    for (u32 distance = (slices < 32 ? slices : 32) / 2; distance > 0; distance /= 2)
      value = combine(value, Exchange<T>::across(value, distance));
    if (slices <= 32) return value;
    g.sync();
    if (lane() == 0) slots[g.rank() / 32] = value;
    g.sync();
    value = slots[0];
#pragma unroll 1
    for (u32 warp = 1; warp < Exchange<T>::kWarps; ++warp) value = combine(value, slots[warp]);
    return value;
  }
  if (slices == 1) return value;
  // A slice is a warp, and a row its lane. One warp at a time uses the memory.
  T all = value;
#pragma unroll 1
  for (u32 warp = 0; warp < Exchange<T>::kWarps; ++warp) {
    g.sync();
    if (warp == g.rank() / 32) slots[lane()] = value;
    g.sync();
    const T other = slots[lane()];
    all = warp == 0 ? other : combine(all, other);
  }
  return all;
}
#endif

// Computes with numbers of class C.
template <class C>
class RowMachine {
 public:
  DWELL_DEVICE RowMachine(const Group& g, const u32* words) : g_(g), words_(words) {}

  DWELL_DEVICE void run() {
#if DWELL_PARALLEL_GROUP
    const u32 rows_at_once = 1U << words_.shift();
    slices_ = kGroupThreads >> words_.shift();
    slice_ = words_.rows_first() ? g_.rank() >> words_.shift() : g_.rank() % slices_;
#else
    const u32 rows_at_once = words_.rows_first() ? kCount : 1;
#endif
#if DWELL_PARALLEL_GROUP
    const u32 tiles = (words_.rows() + rows_at_once - 1) >> words_.shift();
#else
    const u32 tiles = words_.rows() / rows_at_once + (words_.rows() % rows_at_once != 0 ? 1 : 0);
#endif
    const u32 parts = words_.phase() == RowPhase::rest && words_.result() < RowResult::softmax ? 1 : words_.parts();
    DWELL_UNROLL_NOT
    for (u32 i = g_.index(); i < tiles * parts; i += g_.count()) {
      part_ = i < tiles ? 0 : i / tiles;
      take_rows((i - part_ * tiles) * rows_at_once, rows_at_once);
      if (words_.result() == RowResult::place)
        find();
      else
        reduce();
    }
  }

 private:
  static constexpr u32 kCount = Lanes<C>::kCount;

  // ---- Who works on what -----------------------------------------------------------------------------------------------------------

  // The columns of the part.
  DWELL_DEVICE void take_part() {
    const u32 first = part_ * words_.part_columns();
    take_columns(first, first + part_size(words_, part_));
  }

#if DWELL_PARALLEL_GROUP
  DWELL_DEVICE void take_rows(u32 first, u32 count) {
    row_ = first + (words_.rows_first() ? g_.rank() % count : g_.rank() / slices_);
    has_row_ = row_ < words_.rows();
    if (!has_row_) row_ = first;
  }
  DWELL_DEVICE void take_columns(u32 first, u32 end) {
    first_ = first;
    end_ = end;
    held_ = false;
  }
  // Loads a block of the input. A thread that has one block of its row keeps it: each pass would load it again.
  DWELL_DEVICE void load_input(u32 block, Lanes<C>* to) {
    if (!held_) {
      load(RowsWords::kInput, block, &input_);
      held_ = end_ - first_ <= step();
    }
    *to = input_;
  }
  DWELL_DEVICE u32 step() const { return slices_ * kCount; }
  DWELL_DEVICE u32 row(u32) const { return row_; }
  DWELL_DEVICE u32 column(u32 block, u32 k) const { return block + slice_ * kCount + k; }
  DWELL_DEVICE bool has(u32 block, u32 k) const { return has_row_ && column(block, k) < end_; }
  // All lanes, also those without an element.
  template <class F>
  DWELL_DEVICE void each(u32, const F& f) const {
#pragma unroll
    for (u32 k = 0; k < kCount; ++k) f(k);
  }
  // f of each row.
  template <class F>
  DWELL_DEVICE PerRow<C> of_rows(const F& f) const {
    PerRow<C> numbers;
    numbers.number = f(0U);
    return numbers;
  }
  // Stores f of each row, to a tensor that has an element for each.
  template <class X, class F>
  DWELL_DEVICE void store_rows(u32 index, const F& f) const {
    const u32* const tensor = words_.tensor(index);
    if (has_row_ && slice_ == 0) store_to_row<X>(tensor, words_.row_offset(tensor, row_), f(0U));
  }
  template <class F>
  DWELL_DEVICE void each_row(const F& f) const {
    if (has_row_ && slice_ == 0) f(0U);
  }

  // Calls f for one lane after the other, not unrolled, so the lane's number is known only at run time.
  template <class F>
  DWELL_DEVICE void one_by_one(const F& f) const {
#pragma unroll 1
    for (u32 k = 0; k < kCount; ++k) f(k);
  }
  static DWELL_DEVICE C picked(const Lanes<C>& from, u32 k) {
    C number = from.at[0];
#pragma unroll
    for (u32 i = 1; i < kCount; ++i) number = i == k ? from.at[i] : number;
    return number;
  }
  static DWELL_DEVICE void put(Lanes<C>* to, u32 k, C number) {
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) to->at[i] = i == k ? number : to->at[i];
  }

  DWELL_DEVICE void load(u32 index, u32 block, Lanes<C>* to) const {
    const u32* const tensor = words_.tensor(index);
    const i32 row_at = words_.row_offset(tensor, row_);
    if (words_.column_dims() == 1 && load_usual(tensor, row_at, words_.column_stride(tensor), block, to->at)) return;
    one_by_one([&](u32 k) {
      put(to, k, load_from_row<C>(tensor, row_at + words_.column_offset(tensor, has(block, k) ? column(block, k) : first_)));
    });
  }
  // The types that are usual for a class of numbers. False for others.
  DWELL_DEVICE bool load_usual(const u32* tensor, i32 row_at, i32 stride, u32 block, float* to) const {
    switch (ProgramWords::type(tensor)) {
      case ElementType::f32: load_short<float>(tensor, row_at, stride, block, to); return true;
      case ElementType::f16: load_short<half>(tensor, row_at, stride, block, to); return true;
      case ElementType::bf16: load_short<bfloat16>(tensor, row_at, stride, block, to); return true;
      default: return false;
    }
  }
  DWELL_DEVICE bool load_usual(const u32* tensor, i32 row_at, i32 stride, u32 block, double* to) const {
    if (ProgramWords::type(tensor) != ElementType::f64) return false;
    load_short<double>(tensor, row_at, stride, block, to);
    return true;
  }
  DWELL_DEVICE bool load_usual(const u32* tensor, i32 row_at, i32 stride, u32 block, i64* to) const {
    if (ProgramWords::type(tensor) != ElementType::i64) return false;
    load_short<i64>(tensor, row_at, stride, block, to);
    return true;
  }
  // The usual types, inline: all loads are pending at once.
  template <class T>
  DWELL_DEVICE void load_short(const u32* tensor, i32 row_at, i32 stride, u32 block, C* to) const {
    const T* const from = pointer_to_global<const T>(ProgramWords::address(tensor)) + row_at;
    constexpr u32 kPack = kWidestAccess / sizeof(T) < kCount ? kWidestAccess / sizeof(T) : kCount;
    const T* const mine = from + column(block, 0);
    if (stride == 1 && has(block, kCount - 1) && pack_misalignment<kPack>(mine) == 0) {
      Pack<T, kPack> pack[kCount / kPack];
#pragma unroll
      for (u32 i = 0; i < kCount / kPack; ++i) pack[i] = reinterpret_cast<const Pack<T, kPack>*>(mine)[i];
      each(block, [&](u32 k) { to[k] = number_of<C>(pack[k / kPack].at[k % kPack]); });
    } else {
      T element[kCount];
      each(block, [&](u32 k) { element[k] = from[static_cast<i32>(has(block, k) ? column(block, k) : first_) * stride]; });
      each(block, [&](u32 k) { to[k] = number_of<C>(element[k]); });
    }
  }
  DWELL_DEVICE void store(u32 block, const Lanes<C>& from) const {
    const u32* const tensor = words_.tensor(RowsWords::kResult);
    const i32 row_at = words_.row_offset(tensor, row_);
    if (ProgramWords::type(tensor) == ElementType::f32 && words_.column_dims() == 1) {
      float* const to = pointer_to_global<float>(ProgramWords::address(tensor)) + row_at;
      const i32 stride = words_.column_stride(tensor);
      each(block, [&](u32 k) {
        if (has(block, k)) to[static_cast<i32>(column(block, k)) * stride] = static_cast<float>(from.at[k]);
      });
    } else {
      one_by_one([&](u32 k) {
        if (has(block, k)) store_to_row<C>(tensor, row_at + words_.column_offset(tensor, column(block, k)), picked(from, k));
      });
    }
  }

  // `fold` over the lanes of all threads that share a row.
  DWELL_DEVICE PerRow<C> over_lanes(Lanes<C>* all, RowFold fold) const {
    with_fold<C>(fold, [&](auto f) {
#pragma unroll
      for (u32 half = kCount / 2; half > 0; half /= 2) {
#pragma unroll
        for (u32 k = 0; k < half; ++k) all->at[k] = f(all->at[k], all->at[k + half]);
      }
    });
    PerRow<C> result;
    result.number = over_slices(g_, all->at[0], slices_, words_.rows_first(), Folded<C>{fold});
    return result;
  }
  DWELL_DEVICE Placed<C> over_lanes(const Lanes<C>& number, const u32* place, Better<C> better) const {
    Placed<C> best{number.at[0], place[0]};
#pragma unroll
    for (u32 k = 1; k < kCount; ++k) best = better(best, Placed<C>{number.at[k], place[k]});
    return over_slices(g_, best, slices_, words_.rows_first(), better);
  }
#else
  void take_rows(u32 first, u32 count) {
    row_ = first;
    rows_ = words_.rows() - first < count ? words_.rows() - first : count;
    across_ = words_.rows_first();
  }
  void take_columns(u32 first, u32 end) {
    first_ = first;
    end_ = end;
    // Lanes that are used, a power of two: all lanes of a row are combined pair by pair.
    lanes_ = across_ ? rows_ : kCount;
    while (!across_ && lanes_ > 1 && end - first <= lanes_ / 2) lanes_ /= 2;
  }
  u32 step() const { return across_ ? 1 : kCount; }
  u32 row(u32 k) const { return across_ ? row_ + k : row_; }
  u32 column(u32 block, u32 k) const { return across_ ? block : block + k; }
  bool has(u32 block, u32 k) const { return across_ || block + k < end_; }
  // All lanes that have an element.
  template <class F>
  void each(u32 block, const F& f) const {
    const u32 count = across_ ? rows_ : end_ - block < kCount ? end_ - block : kCount;
    for (u32 k = 0; k < count; ++k) f(k);
  }
  // Of all lanes, also those without an element: one_by_one is for statistics of parts, which cut them off.
  template <class F>
  void one_by_one(const F& f) const {
    for (u32 k = 0; k < lanes_; ++k) f(k);
  }
  static void put(Lanes<C>* to, u32 k, C number) { to->at[k] = number; }
  template <class F>
  PerRow<C> of_rows(const F& f) const {
    PerRow<C> numbers;
    if (across_) {
      for (u32 k = 0; k < rows_; ++k) numbers.number[k] = f(k);
    } else {
      const C one = f(0U);
      for (u32 k = 0; k < lanes_; ++k) numbers.number[k] = one;
    }
    return numbers;
  }
  template <class X, class F>
  void store_rows(u32 index, const F& f) const {
    const u32* const tensor = words_.tensor(index);
    for (u32 k = 0; k < (across_ ? rows_ : 1); ++k) store_to_row<X>(tensor, words_.row_offset(tensor, row_ + k), f(k));
  }
  template <class F>
  void each_row(const F& f) const {
    for (u32 k = 0; k < (across_ ? rows_ : 1); ++k) f(k);
  }

  // Returns whether the lanes are contiguous in a tensor, from `first` on; else sets `place` for each.
  bool places(const u32* tensor, u32 block, i32* first, i32* place) const {
    *first = words_.row_offset(tensor, row_) + words_.column_offset(tensor, block);
    const bool one_step = across_ ? words_.row_dims() == 1 : words_.column_dims() == 1;
    const i32 stride = across_ ? words_.row_stride(tensor) : words_.column_stride(tensor);
    if (one_step && stride == 1) return true;
    const i32 at = across_ ? words_.column_offset(tensor, block) : words_.row_offset(tensor, row_);
    if (one_step)
      each(block, [&](u32 k) { place[k] = *first + static_cast<i32>(k) * stride; });
    else if (across_)
      each(block, [&](u32 k) { place[k] = at + words_.row_offset(tensor, row_ + k); });
    else
      each(block, [&](u32 k) { place[k] = at + words_.column_offset(tensor, block + k); });
    return false;
  }
  void load_input(u32 block, Lanes<C>* to) const { load(RowsWords::kInput, block, to); }
  void load(u32 index, u32 block, Lanes<C>* to) const {
    const u32* const tensor = words_.tensor(index);
    i32 first = 0;
    i32 place[kCount];
    const bool neighbours = places(tensor, block, &first, place);
    with_type(ProgramWords::type(tensor), [&](auto* type) {
      using T = typename Pointee<decltype(type)>::type;
      const T* const from = pointer_to_global<const T>(ProgramWords::address(tensor));
      if (neighbours)
        each(block, [&](u32 k) { to->at[k] = number_of<C>(from[first + static_cast<i32>(k)]); });
      else
        each(block, [&](u32 k) { to->at[k] = number_of<C>(from[place[k]]); });
    });
  }
  void store(u32 block, const Lanes<C>& from) const {
    const u32* const tensor = words_.tensor(RowsWords::kResult);
    i32 first = 0;
    i32 place[kCount];
    const bool neighbours = places(tensor, block, &first, place);
    with_type(ProgramWords::type(tensor), [&](auto* type) {
      using T = typename Pointee<decltype(type)>::type;
      T* const to = pointer_to_global<T>(ProgramWords::address(tensor));
      if (neighbours)
        each(block, [&](u32 k) { to[first + static_cast<i32>(k)] = Element<T>::of(from.at[k]); });
      else
        each(block, [&](u32 k) { to[place[k]] = Element<T>::of(from.at[k]); });
    });
  }

  PerRow<C> over_lanes(Lanes<C>* all, RowFold fold) const {
    if (!across_)
      with_fold<C>(fold, [&](auto f) {
        // Four from the first to the last, as PyTorch adds them: where terms cancel, the order shows.
        if (lanes_ == 4) {
          all->at[0] = f(f(f(all->at[0], all->at[1]), all->at[2]), all->at[3]);
          return;
        }
        for (u32 half = lanes_ / 2; half > 0; half /= 2)
          for (u32 k = 0; k < half; ++k) all->at[k] = f(all->at[k], all->at[k + half]);
      });
    return of_rows([&](u32 k) { return all->at[k]; });
  }
#endif

  // ---- Statistics ------------------------------------------------------------------------------------------------------------------

  // Returns how often a statistic passes over a row's elements: once or twice.
  DWELL_DEVICE u32 passes() const {
    if (words_.statistic() != RowStatistic::fold) return 2;
    return words_.result() == RowResult::running && words_.phase() == RowPhase::whole ? 0 : 1;
  }
  DWELL_DEVICE RowFold fold_of(u32 pass) const {
    if (words_.statistic() == RowStatistic::fold) return words_.fold();
    return pass == 0 && words_.statistic() == RowStatistic::exponentials ? RowFold::max : RowFold::sum;
  }
  DWELL_DEVICE RowMap map_of(u32 pass) const {
    if (words_.statistic() == RowStatistic::fold) return words_.map();
    if (pass == 0) return has_reference() ? RowMap::difference : RowMap::none;
    return words_.statistic() == RowStatistic::moments ? RowMap::difference_squared : RowMap::exp_difference;
  }
  DWELL_DEVICE C real_parameter() const { return Converted<C>::of(bits_as<double>(words_.parameter())); }

  // Returns the fold of a pass over this task's columns, or over the parts of a row.
  DWELL_DEVICE PerRow<C> fold(u32 pass, bool of_parts, const PerRow<C>& given) {
    const RowFold fold = fold_of(pass);
    const C none = neutral_of<C>(fold);
    Lanes<C> all;
#if DWELL_PARALLEL_GROUP
    each(0, [&](u32 k) { all.at[k] = none; });
#pragma unroll 1
#else
    for (u32 k = 0; k < lanes_; ++k) all.at[k] = none;
#endif
    for (u32 block = first_; block < end_; block += step()) {
      Lanes<C> some;
      if (of_parts) {
        one_by_one([&](u32 k) {
          put(&some, k, has(block, k) ? part_of_fold<C>(words_.words(), pass, row(k), column(block, k), given.at(k)) : none);
        });
      } else {
        load_input(block, &some);
        with_map<C>(map_of(pass), real_parameter(), [&](auto f) { each(block, [&](u32 k) { some.at[k] = f(some.at[k], given.at(k)); }); });
#if DWELL_PARALLEL_GROUP
        each(block, [&](u32 k) { some.at[k] = has(block, k) ? some.at[k] : none; });
#endif
      }
      with_fold<C>(fold, [&](auto f) { each(block, [&](u32 k) { all.at[k] = f(all.at[k], some.at[k]); }); });
    }
    return over_lanes(&all, fold);
  }

  // Returns the number to subtract before exponentials, of a row or its part. For a logarithm not an infinite maximum: infinity minus
  // itself is NaN.
  DWELL_DEVICE C subtracted(C most) const {
    const bool infinite = most == RowMath<C>::infinity() || most == RowMath<C>::least();
    return infinite && words_.result() == RowResult::log ? C(0) : most;
  }

  // A variance's mean is computed of differences from the row's first element: if all elements are equal, the mean is that element, and the
  // variance is 0. On a CPU other means are computed so, too.
  DWELL_DEVICE bool has_reference() const {
#if DWELL_PARALLEL_GROUP
    return words_.result() == RowResult::variance || words_.result() == RowResult::deviation;
#else
    return words_.statistic() == RowStatistic::moments;
#endif
  }
  // The first element of this task's columns, or the mean of the first part.
  DWELL_DEVICE C reference(u32 k, bool of_parts) const {
    if (!has_reference() || first_ >= end_) return C(0);
    if (of_parts) return number_in<C>(part_statistics(words_, row(k), 0)[0]);
    const u32* const tensor = words_.tensor(RowsWords::kInput);
    return load_from_row<C>(tensor, words_.row_offset(tensor, row(k)) + words_.column_offset(tensor, first_));
  }

  DWELL_DEVICE void reduce() {
    const bool rest = words_.phase() == RowPhase::rest;
    if (rest)
      take_columns(0, words_.result() == RowResult::running ? part_ : words_.parts());
    else
      take_part();
    PerRow<C> given = of_rows([&](u32 k) { return reference(k, rest); });
    PerRow<C> first = given;
    PerRow<C> second = given;
    DWELL_UNROLL_NOT
    for (u32 pass = 0; pass < passes(); ++pass) {
      const PerRow<C> result = fold(pass, rest, given);
      if (pass == 0) {
        const C count = static_cast<C>(rest ? words_.columns() : end_ - first_);
        const bool mean = words_.statistic() == RowStatistic::moments;
        first = of_rows([&](u32 k) {
          const C number = mean ? RowMath<C>::quotient(result.at(k), count) : result.at(k);
          return has_reference() ? math::add(given.at(k), number) : number;
        });
        given = of_rows([&](u32 k) { return mean ? first.at(k) : subtracted(first.at(k)); });
      }
      second = result;
    }
#if !DWELL_PARALLEL_GROUP
    if (words_.statistic() == RowStatistic::moments && words_.phase() == RowPhase::whole) overflow(&first, &second);
#endif
    if (words_.phase() == RowPhase::parts) {
      each_row([&](u32 k) {
        u64* const numbers = part_statistics(words_, row(k), part_);
        put_number(&numbers[0], first.at(k));
        put_number(&numbers[1], second.at(k));
      });
    } else if (words_.result() < RowResult::softmax) {
      store_rows<C>(RowsWords::kResult, [&](u32 k) { return number_of_row(first.at(k), second.at(k), given.at(k)); });
    } else {
      if (rest) take_part();
      if (words_.result() == RowResult::running)
        scan(first);
      else
        replace(first, second);
    }
  }

#if !DWELL_PARALLEL_GROUP
  // Moments that are too large for their type, or of infinities, become what PyTorch makes of them on a CPU: it adds one element to those
  // before it (Welford, Technometrics 4, 1962). Of rows that are replaced it adds vectors of 32 bytes, to those elements that fill none:
  // where there are no such vectors or no such elements, a mean whose square is infinite is multiplied by 0.
  void overflow(PerRow<C>* mean, PerRow<C>* squares) const {
    u32 vector = 1;
    with_type(ProgramWords::type(words_.tensor(RowsWords::kInput)),
              [&](auto* type) { vector = 32 / sizeof(typename Pointee<decltype(type)>::type); });
    const bool lone = words_.columns() < vector || words_.columns() % vector == 0;
    for (u32 k = 0; k < (across_ ? rows_ : 1); ++k) {
      const bool vectors = words_.result() == RowResult::layer_norm;
      const C size = mean->at(k);
      if (vectors ? math::mul(size, size) < RowMath<C>::infinity() : squares->at(k) < RowMath<C>::infinity()) continue;
      C now = 0;
      C sum = 0;
      for (u32 i = first_; i < end_; ++i) {
        const u32* const tensor = words_.tensor(RowsWords::kInput);
        const C number = load_from_row<C>(tensor, words_.row_offset(tensor, row(k)) + words_.column_offset(tensor, i));
        const C apart = math::sub(number, now);
        now = math::add(now, RowMath<C>::quotient(apart, static_cast<C>(i - first_ + 1)));
        sum = math::add(sum, math::mul(apart, math::sub(number, now)));
      }
      const C none = math::sub(RowMath<C>::infinity(), RowMath<C>::infinity());
      if (vectors && !(math::mul(now, now) < RowMath<C>::infinity())) sum = lone || now != now ? none : RowMath<C>::infinity();
      if (vectors && !(now < RowMath<C>::infinity() && now > RowMath<C>::least())) now = none;
      // All lanes of a row have its numbers.
      for (u32 lane = across_ ? k : 0; lane < (across_ ? k + 1 : lanes_); ++lane) {
        mean->of(lane) = now;
        squares->of(lane) = sum;
      }
    }
  }
#endif

  DWELL_DEVICE C number_of_row(C first, C second, C given) const {
    const C count = static_cast<C>(words_.columns());
    switch (words_.result()) {
      case RowResult::mean: return RowMath<C>::quotient(first, count);
      case RowResult::root: return RowMath<C>::sqrt(first);
      case RowResult::power: return RowMath<C>::pow(first, RowMath<C>::quotient(C(1), real_parameter()));
      case RowResult::variance:
      case RowResult::deviation: {
        const C degrees = count - real_parameter();
        const C variance = RowMath<C>::quotient(second, degrees > 0 ? degrees : C(0));
        return words_.result() == RowResult::variance ? variance : RowMath<C>::sqrt(variance);
      }
      case RowResult::log: return math::add(RowMath<C>::log(second), given);
      default: return first;
    }
  }

  // ---- Rows that are replaced ------------------------------------------------------------------------------------------------------

  DWELL_DEVICE void replace(const PerRow<C>& first, const PerRow<C>& second) {
    const RowResult result = words_.result();
    const C count = static_cast<C>(words_.columns());
    // The number to subtract from each element, and the divisor, factor or second subtrahend for the rest.
    const PerRow<C> less = of_rows([&](u32 k) { return result == RowResult::rms_norm ? C(0) : first.at(k); });
    const PerRow<C> then = of_rows([&](u32 k) {
      if (result == RowResult::softmax) return second.at(k);
      if (result == RowResult::log_softmax) return RowMath<C>::log(second.at(k));
      const C square = RowMath<C>::quotient(result == RowResult::layer_norm ? second.at(k) : first.at(k), count);
      return RowMath<C>::quotient(C(1), RowMath<C>::sqrt(math::add(square, real_parameter())));
    });
    DWELL_UNROLL_NOT
    for (u32 block = first_; block < end_; block += step()) {
      Lanes<C> all;
      load_input(block, &all);
      if (result == RowResult::softmax) {
        each(block, [&](u32 k) { all.at[k] = RowMath<C>::quotient(RowMath<C>::exp(math::sub(all.at[k], less.at(k))), then.at(k)); });
      } else if (result == RowResult::log_softmax) {
        each(block, [&](u32 k) { all.at[k] = math::sub(math::sub(all.at[k], less.at(k)), then.at(k)); });
      } else {
        each(block, [&](u32 k) { all.at[k] = math::mul(math::sub(all.at[k], less.at(k)), then.at(k)); });
        DWELL_UNROLL_NOT
        for (u32 operand = RowsWords::kThird; operand <= RowsWords::kFourth; ++operand) {
          const bool weights = operand == RowsWords::kThird;
          if (!(weights ? words_.third() : words_.fourth())) continue;
          // Biases without weights are in the weights' place.
          Lanes<C> other;
          load(operand - (weights || words_.third() ? 0 : 1), block, &other);
          each(block, [&](u32 k) { all.at[k] = weights ? math::mul(all.at[k], other.at[k]) : math::add(all.at[k], other.at[k]); });
        }
      }
      store(block, all);
    }
  }

  // Replaces each element by the sum of all up to it, earlier parts included.
  DWELL_DEVICE void scan(PerRow<C> before) const {
    DWELL_UNROLL_NOT
    for (u32 block = first_; block < end_; block += step()) {
      Lanes<C> all;
      load(RowsWords::kInput, block, &all);
#if DWELL_PARALLEL_GROUP
      each(block, [&](u32 k) { all.at[k] = has(block, k) ? all.at[k] : C(0); });
#pragma unroll
      for (u32 k = 1; k < kCount; ++k) all.at[k] = math::add(all.at[k - 1], all.at[k]);
      const C sum = scan_slices(all.at[kCount - 1], &before.number);
      each(block, [&](u32 k) { all.at[k] = math::add(sum, all.at[k]); });
#else
      if (across_) {
        each(block, [&](u32 k) { all.at[k] = before.of(k) = math::add(before.at(k), all.at[k]); });
      } else {
        // Each block has its own sum, as exact as sums of parallel threads.
        C sum = 0;
        each(block, [&](u32 k) { all.at[k] = sum = math::add(sum, all.at[k]); });
        const C start = before.at(0);
        each(block, [&](u32 k) { all.at[k] = math::add(start, all.at[k]); });
        before.of(0) = math::add(start, sum);
      }
#endif
      store(block, all);
    }
  }
#if DWELL_PARALLEL_GROUP
  // Returns `before` plus the sums of earlier threads, and adds those of all threads to `before`. A row has one thread or the whole group.
  DWELL_DEVICE C scan_slices(C mine, C* before) const {
    const C start = *before;
    if (slices_ == 1) {
      *before = math::add(start, mine);
      return start;
    }
    C up_to = mine;
    for (u32 distance = 1; distance < 32; distance *= 2) {
      const C other = Exchange<C>::from_below(up_to, distance);
      if (lane() >= distance) up_to = math::add(other, up_to);
    }
    const C below = Exchange<C>::from_below(up_to, 1);
    C* const slots = Exchange<C>::slots(g_, 0);
    g_.sync();
    if (lane() == 31) slots[g_.rank() / 32] = up_to;
    g_.sync();
    C in_front = start;
    C all = start;
    for (u32 warp = 0; warp < Exchange<C>::kWarps; ++warp) {
      if (warp < g_.rank() / 32) in_front = math::add(in_front, slots[warp]);
      all = math::add(all, slots[warp]);
    }
    *before = all;
    return lane() == 0 ? in_front : math::add(in_front, below);
  }
#endif

  // ---- Places ----------------------------------------------------------------------------------------------------------------------

  DWELL_DEVICE void find() {
    const bool rest = words_.phase() == RowPhase::rest;
    if (rest)
      take_columns(0, words_.parts());
    else
      take_part();
    const bool most = words_.statistic() == RowStatistic::most;
    Lanes<C> best;
    u32 place[kCount];
    for (u32 k = 0; k < kCount; ++k) {
      best.at[k] = C(0);
      place[k] = kNowhere;
    }
    DWELL_UNROLL_NOT
    for (u32 block = first_; block < end_; block += step()) {
      Lanes<C> some;
      if (!rest) load(RowsWords::kInput, block, &some);
      each(block, [&](u32 k) {
        if (!has(block, k)) return;
        u32 at = column(block, k);
        if (rest) {
          const u64* const numbers = part_statistics(words_, row(k), at);
          some.at[k] = number_in<C>(numbers[0]);
          at = static_cast<u32>(numbers[1]);
        }
        const bool better = place[k] == kNowhere || is_better(most, some.at[k], best.at[k]);
        best.at[k] = better ? some.at[k] : best.at[k];
        place[k] = better ? at : place[k];
      });
    }
#if DWELL_PARALLEL_GROUP
    const Placed<C> found = over_lanes(best, place, Better<C>{most});
    keep_found([&](u32) { return found; });
#else
    if (!across_)
      for (u32 k = 1; k < lanes_; ++k) {
        const Placed<C> found = Better<C>{most}(Placed<C>{best.at[0], place[0]}, Placed<C>{best.at[k], place[k]});
        best.at[0] = found.number;
        place[0] = found.place;
      }
    keep_found([&](u32 k) { return Placed<C>{best.at[k], place[k]}; });
#endif
  }
  template <class F>
  DWELL_DEVICE void keep_found(const F& found) const {
    if (words_.phase() == RowPhase::parts) {
      each_row([&](u32 k) {
        u64* const numbers = part_statistics(words_, row(k), part_);
        put_number(&numbers[0], found(k).number);
        numbers[1] = found(k).place;
      });
      return;
    }
    store_rows<i64>(RowsWords::kResult, [&](u32 k) { return static_cast<i64>(found(k).place); });
    if (words_.third()) store_rows<C>(RowsWords::kThird, [&](u32 k) { return found(k).number; });
  }

  const Group g_;
  const RowsWords words_;
  u32 part_ = 0;
  u32 row_ = 0;    // of the thread's lanes, the first one
  u32 first_ = 0;  // columns
  u32 end_ = 0;
#if DWELL_PARALLEL_GROUP
  u32 slices_ = 1;  // threads that share a row
  u32 slice_ = 0;   // which of them this is
  bool has_row_ = false;
  bool held_ = false;  // the thread's block of the input
  Lanes<C> input_;
#else
  u32 rows_ = 1;
  u32 lanes_ = 1;
  bool across_ = false;  // lanes are rows, not columns
#endif
};

// Out of line, so that its registers count once.
template <class C>
DWELL_DEVICE_COLD void run_rows_of(const Group& g, const u32* words) {
  RowMachine<C>(g, words).run();
}

// Together: a reduction, divided among all groups of the task.
DWELL_DEVICE void run_rows(const Group& g, const u32* words) {
  switch (RowsWords(words).number()) {
    case NumberClass::f64: run_rows_of<double>(g, words); break;
    case NumberClass::i64: run_rows_of<i64>(g, words); break;
    default: run_rows_of<float>(g, words); break;
  }
}

}  // namespace device
}  // namespace dwell
