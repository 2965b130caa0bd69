// Which nodes have read and written which memory, and so which must come before another that does.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace dwell::graph {

// Memory in pieces that were read and written alike. A node that reads comes behind the last one that wrote; a node that writes comes
// behind that and all that have read since. Not safe for several threads.
class Accesses {
 public:
  // Node `node` reads or writes [begin, end). Adds the nodes that it must come behind to `before`, some several times.
  void add(std::uint32_t node, std::uint64_t begin, std::uint64_t end, bool writes, std::vector<std::uint32_t>& before);

 private:
  static constexpr std::uint32_t kNobody = ~0U;
  struct Piece {
    std::uint64_t end;
    std::uint32_t writer = kNobody;
    std::vector<std::uint32_t> readers;  // since then
  };
  // Makes `at` the begin of a piece if it lies inside one.
  void split(std::uint64_t at);

  std::map<std::uint64_t, Piece> pieces_;  // by begin; they do not overlap
};

}  // namespace dwell::graph
