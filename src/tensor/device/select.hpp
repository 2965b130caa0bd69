// Elements that an index chooses (selection.hpp). An index that does not exist fails the task with status::index_out_of_range, and
// nothing is read or written there.
#pragma once

#include <dwell/device/group.hpp>
#include <dwell/device/pack.hpp>
#include <dwell/device/span_atomic.hpp>

#include "tensor/device/number.hpp"
#include "tensor/device/selection.hpp"

namespace dwell {
namespace device {

// Offsets of a place (SelectionWords).
struct Offsets {
  i32 to;  // in elements from the address of each tensor
  i32 from;
  i32 index;
  u32 last;    // its coordinate in the last dimension
  u32 before;  // and in the one before that
};

// Of a number in the order of rows, in the first `dims` dimensions.
DWELL_DEVICE Offsets offsets_at(SelectionWords all, u32 dims, u32 number) {
  Offsets at{};
  DWELL_UNROLL_NOT
  for (u32 dim = dims; dim-- > 0;) {
    const u32 next = number / all.size(dim);
    const u32 coordinate = number - next * all.size(dim);
    at.to += static_cast<i32>(coordinate) * all.stride(SelectionWords::to, dim);
    at.from += static_cast<i32>(coordinate) * all.stride(SelectionWords::from, dim);
    at.index += static_cast<i32>(coordinate) * all.stride(SelectionWords::index, dim);
    if (dim + 1 == dims) at.last = coordinate;
    if (dim + 2 == dims) at.before = coordinate;
    number = next;
  }
  return at;
}

template <class T>
DWELL_DEVICE T* selection_pointer(SelectionWords all, SelectionWords::Tensor which) {
  return pointer_to_global<T>(all.address(which));
}

// Computes the offset for an index. False, and fails the task, if it is out of range.
template <class Index>
DWELL_DEVICE bool offset_of_index(const Group& g, SelectionWords all, Index index, i32* offset) {
  if (static_cast<u64>(static_cast<i64>(index)) >= all.limit()) {
    g.fail(status::index_out_of_range);
    return false;
  }
  *offset = static_cast<i32>(index) * all.step();
  return true;
}

// Calls f with a null pointer to the type of the elements of an index.
template <class F>
DWELL_DEVICE void with_index(SelectionWords all, const F& f) {
  if (all.wide_index())
    f(static_cast<i64*>(nullptr));
  else
    f(static_cast<i32*>(nullptr));
}
// Calls f with a null pointer to a type of so many bytes.
template <class F>
DWELL_DEVICE void with_bytes(SelectionWords all, const F& f) {
  switch (all.log_bytes()) {
    case 0: f(static_cast<u8*>(nullptr)); break;
    case 1: f(static_cast<u16*>(nullptr)); break;
    case 2: f(static_cast<u32*>(nullptr)); break;
    case 3: f(static_cast<u64*>(nullptr)); break;
    default: f(static_cast<Pack<u64, 2>*>(nullptr)); break;
  }
}

// The type in which numbers of type T are added: integers modulo 2^64.
template <class C>
struct Summed {
  using type = C;
};
template <>
struct Summed<i64> {
  using type = u64;
};
template <class T>
DWELL_DEVICE T added(T a, T b) {
  using C = typename Summed<typename ClassOf<u64, T>::type>::type;
  return Element<T>::of(number_of<C>(a) + number_of<C>(b));
}

DWELL_DEVICE bool is_kept(SelectionWords all, u32 row, u32 column) {
  const i64 from_diagonal = static_cast<i64>(column) - row - all.diagonal();
  return all.kind() == SelectionKind::lower ? from_diagonal <= 0 : from_diagonal >= 0;
}

#if DWELL_PARALLEL_GROUP

template <class T>
DWELL_DEVICE_COLD void gather(const Group& g, const u32* words) {
  const SelectionWords all(words);
  T* const to = selection_pointer<T>(all, SelectionWords::to);
  const T* const from = selection_pointer<const T>(all, SelectionWords::from);
  for (const u64 number : g.range(all.places())) {
    const Offsets at = offsets_at(all, all.dims(), static_cast<u32>(number));
    with_index(all, [&](auto* as) {
      i32 offset = 0;
      const auto index = selection_pointer<typename Pointee<decltype(as)>::type>(all, SelectionWords::index)[at.index];
      if (offset_of_index(g, all, index, &offset)) to[at.to] = from[at.from + offset];
    });
  }
}

// All places at once, in any order.
DWELL_DEVICE_COLD void scatter_add_atomically(const Group& g, const u32* words) {
  const SelectionWords all(words);
  for (const u64 number : g.range(all.places())) {
    const Offsets at = offsets_at(all, all.dims(), static_cast<u32>(number));
    i32 offset = 0;
    bool exists = false;
    with_index(all, [&](auto* as) {
      exists =
          offset_of_index(g, all, selection_pointer<typename Pointee<decltype(as)>::type>(all, SelectionWords::index)[at.index], &offset);
    });
    if (!exists) continue;
    const auto add = [&](auto* as) {
      using T = typename Pointee<decltype(as)>::type;
      add_word(selection_pointer<T>(all, SelectionWords::to) + at.to + offset, selection_pointer<T>(all, SelectionWords::from)[at.from],
               Order::relaxed, Scope::device);
    };
    switch (all.type()) {
      case ElementType::f64: add(static_cast<double*>(nullptr)); break;
      case ElementType::i32: add(static_cast<i32*>(nullptr)); break;
      case ElementType::i64: add(static_cast<i64*>(nullptr)); break;
      default: add(static_cast<float*>(nullptr)); break;
    }
  }
}

// Only places along the last dimension can collide: one thread processes them in order.
DWELL_DEVICE_COLD void scatter_add_in_order(const Group& g, const u32* words) {
  const SelectionWords all(words);
  const u32 last = all.dims() - 1;
  const u32 rows = all.size(last);
  for (const u64 number : g.range(all.places() / rows)) {
    Offsets at = offsets_at(all, last, static_cast<u32>(number));
#pragma unroll 1
    for (u32 row = 0; row < rows; ++row) {
      i32 offset = 0;
      bool exists = false;
      with_index(all, [&](auto* as) {
        exists =
            offset_of_index(g, all, selection_pointer<typename Pointee<decltype(as)>::type>(all, SelectionWords::index)[at.index], &offset);
      });
      if (exists)
        with_type(all.type(), [&](auto* as) {
          using T = typename Pointee<decltype(as)>::type;
          T* const to = selection_pointer<T>(all, SelectionWords::to) + at.to + offset;
          *to = added<T>(*to, selection_pointer<T>(all, SelectionWords::from)[at.from]);
        });
      at.from += all.stride(SelectionWords::from, last);
      at.index += all.stride(SelectionWords::index, last);
    }
  }
}

template <class T>
DWELL_DEVICE_COLD void triangle(const Group& g, const u32* words) {
  const SelectionWords all(words);
  T* const to = selection_pointer<T>(all, SelectionWords::to);
  const T* const from = selection_pointer<const T>(all, SelectionWords::from);
  for (const u64 number : g.range(all.places())) {
    const Offsets at = offsets_at(all, all.dims(), static_cast<u32>(number));
    to[at.to] = is_kept(all, at.before, at.last) ? from[at.from] : T();
  }
}

// Together: divided among all groups of the task.
DWELL_DEVICE void run_selection(const Group& g, const u32* words) {
  const SelectionWords all(words);
  if (all.kind() == SelectionKind::gather)
    with_bytes(all, [&](auto* as) { gather<typename Pointee<decltype(as)>::type>(g, words); });
  else if (all.kind() != SelectionKind::scatter_add)
    with_bytes(all, [&](auto* as) { triangle<typename Pointee<decltype(as)>::type>(g, words); });
  else if (all.atomic())
    scatter_add_atomically(g, words);
  else
    scatter_add_in_order(g, words);
}

#else

// Calls f(place, count) for runs of places along the last of `dims` dimensions, which make up this group's part of `places`.
template <class F>
DWELL_DEVICE void each_run(const Group& g, SelectionWords all, u32 dims, u32 places, const F& f) {
  const Block mine = block_of(places, g.index(), g.count());
  u32 left = static_cast<u32>(mine.size());
  for (u32 number = static_cast<u32>(mine.first()); left != 0;) {
    const Offsets at = offsets_at(all, dims, number);
    const u32 there = dims == 0 ? 1 : all.size(dims - 1) - at.last;
    const u32 count = there < left ? there : left;
    f(at, count);
    number += count;
    left -= count;
  }
}

// Copies elements of one run. `to` and `from` are the same elements, or do not overlap.
template <class T>
DWELL_DEVICE void copy_run(T* to, i32 to_stride, const T* from, i32 from_stride, u32 count) {
  if (to_stride == 1 && from_stride == 1) {
    __builtin_memmove(to, from, count * sizeof(T));
    return;
  }
  for (i64 j = 0; j < count; ++j) to[j * to_stride] = from[j * from_stride];
}
// Adds them.
template <class T>
DWELL_DEVICE void add_run(T* to, i32 to_stride, const T* from, i32 from_stride, u32 count) {
  if (to_stride == 1 && from_stride == 1) {
    DWELL_INDEPENDENT_STEPS
    for (u32 j = 0; j < count; ++j) to[j] = added<T>(to[j], from[j]);
    return;
  }
  for (i64 j = 0; j < count; ++j) to[j * to_stride] = added<T>(to[j * to_stride], from[j * from_stride]);
}

template <class T, class Index>
void gather(const Group& g, SelectionWords all) {
  T* const to = selection_pointer<T>(all, SelectionWords::to);
  const T* const from = selection_pointer<const T>(all, SelectionWords::from);
  const Index* const index = selection_pointer<const Index>(all, SelectionWords::index);
  const u32 last = all.dims() - 1;
  const i32 to_stride = all.stride(SelectionWords::to, last);
  const i32 from_stride = all.stride(SelectionWords::from, last);
  const i32 index_stride = all.stride(SelectionWords::index, last);
  each_run(g, all, all.dims(), all.places(), [&](Offsets at, u32 count) {
    i32 offset = 0;
    if (index_stride == 0) {
      if (!offset_of_index(g, all, index[at.index], &offset)) return;
      copy_run(to + at.to, to_stride, from + at.from + offset, from_stride, count);
      return;
    }
    for (u32 j = 0; j < count; ++j) {
      const i64 step = j;
      if (offset_of_index(g, all, index[at.index + step * index_stride], &offset))
        to[at.to + step * to_stride] = from[at.from + step * from_stride + offset];
    }
  });
}

// Only places along the last dimension can collide, in a column: one thread processes those of a column in order.
template <class T, class Index>
void scatter_add(const Group& g, SelectionWords all) {
  T* const to = selection_pointer<T>(all, SelectionWords::to);
  const T* const from = selection_pointer<const T>(all, SelectionWords::from);
  const Index* const index = selection_pointer<const Index>(all, SelectionWords::index);
  const u32 last = all.dims() - 1;
  const u32 rows = all.size(last);
  const auto stride = [&](SelectionWords::Tensor which) { return last == 0 ? 0 : all.stride(which, last - 1); };
  const i32 to_stride = stride(SelectionWords::to);
  const i32 from_stride = stride(SelectionWords::from);
  const i32 index_stride = stride(SelectionWords::index);
  each_run(g, all, last, all.places() / rows, [&](Offsets at, u32 count) {
    for (u32 row = 0; row < rows; ++row) {
      i32 offset = 0;
      if (index_stride == 0) {
        if (offset_of_index(g, all, index[at.index], &offset)) add_run(to + at.to + offset, to_stride, from + at.from, from_stride, count);
      } else {
        for (u32 j = 0; j < count; ++j) {
          const i64 step = j;
          if (!offset_of_index(g, all, index[at.index + step * index_stride], &offset)) continue;
          T* const sum = to + at.to + step * to_stride + offset;
          *sum = added<T>(*sum, from[at.from + step * from_stride]);
        }
      }
      at.from += all.stride(SelectionWords::from, last);
      at.index += all.stride(SelectionWords::index, last);
    }
  });
}

template <class T>
void triangle(const Group& g, SelectionWords all) {
  T* const to = selection_pointer<T>(all, SelectionWords::to);
  const T* const from = selection_pointer<const T>(all, SelectionWords::from);
  const u32 last = all.dims() - 1;
  each_run(g, all, all.dims(), all.places(), [&](Offsets at, u32 count) {
    const i32 to_stride = all.stride(SelectionWords::to, last);
    copy_run(to + at.to, to_stride, from + at.from, all.stride(SelectionWords::from, last), count);
    // Elements that are not kept are at one end.
    for (u32 j = 0; j < count; ++j)
      if (!is_kept(all, at.before, at.last + j)) to[at.to + static_cast<i64>(j) * to_stride] = T();
  });
}

DWELL_DEVICE void run_selection(const Group& g, const u32* words) {
  const SelectionWords all(words);
  if (all.kind() == SelectionKind::gather)
    with_bytes(all, [&](auto* as) {
      with_index(all, [&](auto* of) { gather<typename Pointee<decltype(as)>::type, typename Pointee<decltype(of)>::type>(g, all); });
    });
  else if (all.kind() == SelectionKind::scatter_add)
    with_type(all.type(), [&](auto* as) {
      with_index(all, [&](auto* of) { scatter_add<typename Pointee<decltype(as)>::type, typename Pointee<decltype(of)>::type>(g, all); });
    });
  else
    with_bytes(all, [&](auto* as) { triangle<typename Pointee<decltype(as)>::type>(g, all); });
}

#endif

}  // namespace device
}  // namespace dwell
