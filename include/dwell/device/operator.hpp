// How an operator's source becomes an entry of the image.
#pragma once

#include <dwell/device/group.hpp>
#include <dwell/device/indices.hpp>
#include <dwell/device/signature.hpp>
#include <dwell/device/span.hpp>

// Defines an operator: DWELL_OPERATOR(axpy)(dwell::Group g, float a, dwell::Span<const float> x, dwell::Span<float> y) { ... }
// The first parameter is the group that runs the task; the others are copied from the task. The body runs once per group, with all its
// threads.
#define DWELL_OPERATOR(name) DWELL_DEVICE_FUNCTION void dwell_operator_##name

namespace dwell {
namespace device {

// An operator's entry in the image. Takes its worker's context, its opcode, and the task's arguments as 32-bit words.
#if DWELL_SHARED_MEMORY
// Shared-memory addresses, which take one register each, and loads without a check of the address space.
using ContextArgument = u32;
using WordsArgument = u32;
template <class T>
DWELL_DEVICE T* pointer_to(u32 argument) {
  return pointer_to_shared<T>(argument);
}
#else
using ContextArgument = Context*;
using WordsArgument = const u32*;
template <class T>
DWELL_DEVICE T* pointer_to(T* argument) {
  return argument;
}
#endif
using Entry = void (*)(ContextArgument context, u32 opcode, WordsArgument arguments);

// Words of arguments that travel in the ring. More lie in a block, of which the task holds the address alone; of a node of a graph the
// block's offset in the arena, and kInArena.
DWELL_CONSTANT u32 kMaxRingWords = 93;
DWELL_CONSTANT u32 kInArena = 1U << 31U;  // in the second word
DWELL_DEVICE const u32* block_of(const Context& context, const u32* task) {
  const u64 at = task[0] | static_cast<u64>(task[1] & ~kInArena) << 32U;
  return pointer_to_global<const u32>((task[1] & kInArena) != 0 ? context.arena + at : at);
}

// How a value travels in a task: as whole 32-bit words, without padding between arguments. A span takes three words: 52 bits of
// address and 44 of size.
template <class T>
struct Wire {
  static constexpr u32 words = (sizeof(T) + 3) / 4;
  static DWELL_DEVICE T read(const u32* from) {
    union {
      T value;
      u32 word[words];
    } both;
    DWELL_UNROLL_AT_MOST(words, kMaxRingWords)
    for (u32 i = 0; i < words; ++i) both.word[i] = from[i];
    return both.value;
  }
  static DWELL_DEVICE void write(u32* to, const T& value) {
    u32 word[words] = {};
    copy_bytes(word, &value, sizeof(T));
    for (u32 i = 0; i < words; ++i) to[i] = word[i];
  }
};
template <class T>
struct Wire<Span<T>> {
  static constexpr u32 words = 3;
  static DWELL_DEVICE Span<T> read(const u32* from) {
    const u64 address = static_cast<u64>(from[0]) | (static_cast<u64>(from[1] & 0xFFFFFU) << 32U);
    const u64 size = static_cast<u64>(from[2]) | (static_cast<u64>(from[1] >> 20U) << 32U);
    return Span<T>(pointer_to_global<T>(address), size);
  }
  static DWELL_DEVICE void write(u32* to, const Span<T>& value) {
    const u64 address = address_in_global(value.data());
    to[0] = static_cast<u32>(address);
    to[1] = static_cast<u32>(address >> 32U) | static_cast<u32>(value.size() >> 32U) << 20U;
    to[2] = static_cast<u32>(value.size());
  }
};

// A structure taken by reference stays among the task's arguments, which all threads of the group read. For large ones, or those indexed at
// run time.
template <class T>
struct Wire<const T&> {
  static_assert(alignof(T) <= 4, "arguments of a task are aligned to 4 bytes: take the structure by value");
  static constexpr u32 words = Wire<T>::words;
  static DWELL_DEVICE const T& read(const u32* from) { return *reinterpret_cast<const T*>(from); }
};

// Tells the collector of an argument, if it is a reference to an object (heap.hpp). Called by all threads of the group.
template <class T>
struct KeepArgument {
  static DWELL_DEVICE void note(Context*, const u32*) {}
};

template <class... Parameters>
struct WordsBefore;
template <>
struct WordsBefore<> {
  static DWELL_HOST_DEVICE u32 of(u32) { return 0; }
};
template <class First, class... Rest>
struct WordsBefore<First, Rest...> {
  static DWELL_HOST_DEVICE u32 of(u32 index) { return index == 0 ? 0 : Wire<First>::words + WordsBefore<Rest...>::of(index - 1); }
};

template <u32... Each>
struct SumOf {
  static constexpr u32 value = 0;
};
template <u32 First, u32... Rest>
struct SumOf<First, Rest...> {
  static constexpr u32 value = First + SumOf<Rest...>::value;
};

// Reads the arguments of an operator from a task and calls it.
template <class Function>
struct Export;
template <class... Parameters>
struct Export<void(Group, Parameters...)> {
  static constexpr SignatureRecord signature = signature_of<Parameters...>();
  static constexpr u32 kWords = SumOf<Wire<Parameters>::words...>::value;

  template <u32... Index>
  static DWELL_DEVICE void call(void (*function)(Group, Parameters...), Context* context, u32 opcode, const u32* arguments,
                                Indices<Index...>) {
#if DWELL_CHECKED && !DWELL_EXCEPTIONS
    begin_checks(address_in_shared(context));
#endif
    const u32* const from = kWords > kMaxRingWords ? block_of(*context, arguments) : arguments;
    const int noted[] = {0, (KeepArgument<Parameters>::note(context, from + WordsBefore<Parameters...>::of(Index)), 0)...};
    static_cast<void>(noted);
    function(Group(context, opcode), Wire<Parameters>::read(from + WordsBefore<Parameters...>::of(Index))...);
  }
  static constexpr u32 count = sizeof...(Parameters);
};

}  // namespace device
}  // namespace dwell

// Makes an operator, or an instance of an operator template, an entry with the external name `symbol`, and emits its signature as
// `symbol`_signature. Its name as in DWELL_OPERATOR follows, with template arguments (which may hold commas). The compiler adds
// this line behind the user's source.
#define DWELL_EXPORT(symbol, ...)                                                                                                        \
  DWELL_EXPORT_CONSTANT(dwell::SignatureRecord, symbol##_signature) =                                                                    \
      dwell::device::Export<decltype(dwell_operator_##__VA_ARGS__)>::signature;                                                          \
  DWELL_EXPORT_FUNCTION void symbol(dwell::device::ContextArgument context, dwell::u32 opcode, dwell::device::WordsArgument arguments) { \
    using Self = dwell::device::Export<decltype(dwell_operator_##__VA_ARGS__)>;                                                          \
    Self::call(dwell_operator_##__VA_ARGS__, dwell::device::pointer_to<dwell::device::Context>(context), opcode,                         \
               dwell::device::pointer_to<const dwell::u32>(arguments), dwell::device::MakeIndices<Self::count>());                       \
  }
