// How full a heap is, in words.
#pragma once

#include <string>

#include <dwell/heap.hpp>

namespace dwell::runtime {

// Returns clauses for the message of an allocation without room: what the last such allocation asked for, where the heap's memory is, and
// the five sizes that hold most of it.
std::string room_text(const HeapStatistics& heap);

}  // namespace dwell::runtime
