#include "tensor/gang/local_memory.hpp"

#include <algorithm>
#include <vector>

namespace dwell::tensor::gang {

std::uint64_t place(std::span<Life> lives, std::uint64_t alignment) {
  std::vector<Life*> order;
  for (Life& life : lives) order.push_back(&life);
  std::ranges::stable_sort(order, [](const Life* a, const Life* b) { return a->first < b->first; });
  std::vector<const Life*> taken;  // by place
  std::uint64_t all = 0;
  for (Life* const life : order) {
    std::erase_if(taken, [&](const Life* other) { return other->last < life->first; });
    std::uint64_t at = life->shift;
    auto before = taken.begin();
    for (; before != taken.end(); ++before) {
      if (at + life->bytes <= (*before)->place) break;
      const std::uint64_t end = (*before)->place + (*before)->bytes;
      if (end > at) at = (end - std::min(end, life->shift) + alignment - 1) / alignment * alignment + life->shift;
    }
    life->place = at;
    taken.insert(before, life);
    all = std::max(all, at + life->bytes);
  }
  return all;
}

}  // namespace dwell::tensor::gang
