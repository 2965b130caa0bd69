// Which nodes (of a graph, operations of a batch) have read and written which memory, and so which must come before another that does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

namespace dwell {

// Memory in pieces that were read and written alike. A node that reads comes behind the last one that wrote; a node that writes comes
// behind that and all that have read since. Not safe for several threads.
class Accesses {
 public:
  using Node = std::uint64_t;

  // Node `node` reads or writes [begin, end). Adds the nodes that it must come behind to `before`, some several times; those below `oldest`
  // are of no interest any more, and are forgotten now and then.
  void add(Node node, std::uint64_t begin, std::uint64_t end, bool writes, std::vector<Node>& before, Node oldest = 0);

  // Of memory, that nodes are known of.
  std::size_t pieces() const { return pieces_.size(); }

 private:
  static constexpr Node kNobody = ~Node{0};
  static constexpr std::size_t kFew = 1024;  // pieces, among which nothing is forgotten
  struct Piece {
    std::uint64_t end;
    Node writer = kNobody;
    std::vector<Node> readers;  // since then
  };
  static void add(Node node, Piece& to, bool writes, std::vector<Node>& before, Node oldest);
  void forget(Node oldest);
  // Makes `at` the begin of a piece if it lies inside one.
  void split(std::uint64_t at);

  std::map<std::uint64_t, Piece> pieces_;               // by begin; they do not overlap
  std::unordered_map<std::uint64_t, Piece*> by_begin_;  // the same: mostly memory is named as it was before
  std::size_t most_ = kFew;                             // pieces before something is forgotten
};

}  // namespace dwell
