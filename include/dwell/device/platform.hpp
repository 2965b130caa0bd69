// The one header that tells platforms apart. Each has a header in platform/, which defines what is listed here, and one of atomics
// (atomic.hpp). Other device code asks for a capability by name; none tests for a compiler or a machine.
//
// Device code is compiled three ways: by NVRTC for a GPU (a worker is a thread block), and by g++ and clang++ for the CPU (a worker
// is one thread). NVRTC has no standard library headers, so platform/types.hpp names the fixed-width types. The headers of this folder are
// C++14, because an operator may ask for that (CompileOptions::standard).
//
// A platform defines, of the language:
//   DWELL_DEVICE             marks a function that becomes part of its caller
//   DWELL_DEVICE_COLD        one that is off every fast path: out of line, so that its registers do not count there
//   DWELL_DEVICE_HELPER      what DWELL_DEVICE is in the text of an operator (jit/source), whose helpers may call themselves
//   DWELL_HOST_DEVICE        one for both sides, and for constants
//   DWELL_CONSTEVAL          one that the compiler alone calls, from C++20 on
//   DWELL_DEVICE_FUNCTION    an ordinary function of the device
//   DWELL_EXPORT_FUNCTION    one that others find by its name
//   DWELL_EXPORT_CONSTANT    (type, name): begins such a constant
//   DWELL_OFFSET_OF          (type, member): offsetof, a constant
//   DWELL_RACY               a function that copies what others may change meanwhile, and whose caller then drops the copy
//   DWELL_UNROLL, DWELL_UNROLL_BY_4, DWELL_UNROLL_NOT, DWELL_UNROLL_AT_MOST(count, most)
//                            stand before a loop whose steps the compiler is to repeat: all, four at a time, none, all or else four
//   DWELL_INDEPENDENT_STEPS  stands before a loop whose steps do not depend on each other through memory, even where pointers might alias
//
// Capabilities, 0 or 1:
//   DWELL_PARALLEL_GROUP     a group has several threads, in warps of kLanes lanes
//   DWELL_CONTROL_WARP       a worker has a warp beside its group, which takes tasks and looks at clocks while the group runs one
//   DWELL_SHARED_MEMORY      what a worker keeps lies in memory of its own, with addresses of 32 bits
//   DWELL_LINKED_OPERATORS   the loop and its operators are linked into one program: each finds the other's symbols
//   DWELL_FENCES             a fence orders the stores behind it, which are relaxed; elsewhere they release by themselves
//   DWELL_ATOMIC_ARITHMETIC  atomic instructions add floating-point numbers, and take minima and maxima of integers
//   DWELL_DEQUES             a worker keeps ready nodes of graphs in a deque, from which others steal
//   DWELL_EXCEPTIONS         an operator can throw
//   DWELL_HAS_MATH           the language has sqrtf, exp, fminf and their like without a declaration
//   DWELL_NAMES_MISTAKES     the compiler names the function whose call makes a constant none
//   DWELL_REFUSES_MISTAKES   the assembler refuses nonsense in code that is not left out as unreachable
//   DWELL_ASYNC_COPIES       copies from global to shared memory run asynchronously
//   DWELL_CONVERTS_BFLOAT16  the target rounds a float to a bfloat16 by itself
//   DWELL_CRC32C             the processor may have an instruction for CRC32C
//   DWELL_HAS_MMA            the target's warps multiply matrices of 16-bit numbers, in tiles of 16 x 8 x 16
//
// And in namespace dwell the constants
//   kGroupThreads, kLanes    threads that run an operator together (a group); lanes that run the control code together
// and in dwell::device the functions
//   thread_rank              of the caller in its worker: those of the group come first. Read anew each time: a loop that inlines operators
//                            would else keep it across all of them, in local memory, from where it takes longer
//   lane, ballot, all_lanes, broadcast, sync_lanes
//                            the caller's lane; a bit for each lane of which the predicate holds; whether it holds for all; the value of
//                            one lane; orders shared memory between them. Called by all lanes together
//   active_lanes, lanes_with, broadcast_in, or_in, sync_in
//                            the lanes that are at the same place in divergent code, as bits; of these, those with the caller's value; the
//                            value of one of them; the bits of all; orders memory between them
//   fetch_or_in_group, fetch_and_in_group, fence_warp
//                            atomics of a word that the group shares; orders memory between lanes of one warp in different branches
//   sync_group, any_in_group a barrier of the group; one that tells whether the predicate holds for one of its threads
//   replace_in_group         stores a value where another stands, at most once among the threads of the group
//   copy_bytes, bits_as      memcpy; the same bits as another type: std::bit_cast
//   pointer_to_global, address_in_global
//                            from the address of global memory that the host has named to a pointer, and back. The compiler cannot know
//                            that it is global: it would load and store as if it might be the group's shared memory
//   pointer_to_shared, address_in_shared
//                            the same of shared memory, where there is some
//   load_settled             a word of global memory whose last change the caller has acquired, or that may be an older one; from the cache
//                            that is nearest, where a relaxed load goes to one that all workers share
//   prefetch, prefetch_to_write
//                            ask for the line at an address, where one thread walks through memory
//   leading_zeros, trailing_zeros, ones
//                            of bits, which for the first two are not 0
//   float_of_half, half_of_float
//                            of the bits of IEEE 754's binary16
//   truncated                the i32 or i64 that a float or a double becomes, toward zero: the nearest that there is, and of NaN the least
//   has_crc32c, crc32c_by_instruction
//                            with DWELL_CRC32C: whether this processor has it; the next state of a checksum after some words
//   now_ns                   nanoseconds of a clock that all workers of a device share; only differences mean anything
//   kHasCycleCounter, cycle_counter
//                            without a control warp: whether there is a counter of cycles at a steady rate; its value, else 0
//   relax, pause_briefly     tell the processor that the caller polls for the `round`-th time; the same between looks at what takes
//                            microseconds or longer
#pragma once

#if defined(__CUDACC__)
#define DWELL_ON_CUDA 1
#include <dwell/device/platform/cuda.hpp>
#else
#define DWELL_ON_CUDA 0
#include <dwell/device/platform/cpu.hpp>
#endif

namespace dwell {
namespace device {

// Whether two types are the same: std::is_same, which NVRTC does not have.
template <class A, class B>
DWELL_CONSTANT bool kSame = false;
template <class A>
DWELL_CONSTANT bool kSame<A, A> = true;

template <class T>
struct RemoveConst {
  using type = T;
  static constexpr bool was_const = false;
};
template <class T>
struct RemoveConst<const T> {
  using type = T;
  static constexpr bool was_const = true;
};

// The clock of now_ns() in ticks of 1024 ns, in 32 bits: differences of up to 73 minutes mean something.
DWELL_CONSTANT u32 kTickShift = 10;
DWELL_DEVICE u32 now_ticks() { return static_cast<u32>(now_ns() >> kTickShift); }

}  // namespace device
}  // namespace dwell
