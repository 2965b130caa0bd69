// The atomics of the loop; operators have those of Span (span_atomic.hpp). Every access names its order and its scope; the caller says what
// it pairs with. Sixteen-byte accesses are single-copy atomic: a reader sees all of a quad or none of it.
//
// A platform defines, in a header of its own:
//   load, store                        of words of 4 or 8 bytes
//   fetch_add, fetch_or, fetch_and, exchange, compare_exchange
//                                      at device scope, which is where all shared counters live. Each returns the value before;
//                                      compare_exchange stores `value` if that was `expected`
//   add, maximize                      the same without the value before, which on CUDA needs no answer from memory. A release at device
//                                      scope relies on a fence of the caller where it has effects to order
//   fence                              orders everything the calling thread has seen (its group's writes included, after Group::sync)
//   before
//                                      its next relaxed store: the release half of a fence-store pair, of which the reader acquires the
//                                      store
//   load_quad, acquire_quad, store_quad
//                                      of quads. acquire_quad acquires at system scope: the loads that follow see all that was stored
//                                      before
//   load_word, store_word, exchange_word, compare_exchange_word, add_word
//                                      of elements of spans, in global or shared memory, whose order and scope are constants where these
//                                      are called; min_word and max_word too with DWELL_ATOMIC_ARITHMETIC
// Host code, which is of the CPU's platform, also has load_words and store_halves.
#pragma once

#include <dwell/device/platform.hpp>

#if DWELL_ON_CUDA
#include <dwell/device/platform/cuda_atomic.hpp>
#else
#include <dwell/device/platform/cpu_atomic.hpp>
#endif
