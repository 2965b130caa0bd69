// Which nodes (of a graph, operations of a batch) have read and written which memory, and so which must come before another that does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace dwell {

// Memory in pieces that were read and written alike. A node that reads comes behind the last one that wrote; a node that writes comes
// behind that and all that have read since. Takes no memory for pieces that it has room for from others. Not safe for several threads.
class Accesses {
 public:
  using Node = std::uint64_t;

  // Node `node`, none of those before being larger, reads or writes [begin, end). Adds the nodes that it must come behind to `before`, some
  // several times; those below `oldest` are of no interest any more, and never will be again.
  void add(Node node, std::uint64_t begin, std::uint64_t end, bool writes, std::vector<Node>& before, Node oldest = 0);

  // Of memory, that nodes are known of.
  std::size_t pieces() const { return pieces_.size(); }

 private:
  static constexpr Node kNobody = ~Node{0};
  static constexpr std::size_t kFew = 1024;  // pieces, among which nothing is forgotten
  static constexpr unsigned kLogKnown = 12;
  struct Piece {
    std::uint64_t end = 0;
    Node writer = kNobody;
    std::vector<Node> readers = {};  // since then
  };
  using Pieces = std::map<std::uint64_t, Piece>;  // by begin; they do not overlap

  static bool is_forgotten(const Piece& piece, Node oldest);
  static void add(Node node, Piece& to, bool writes, std::vector<Node>& before, Node oldest);
  Pieces::value_type*& known(std::uint64_t begin) { return known_[begin * 0x9E3779B97F4A7C15U >> (64 - kLogKnown)]; }
  Pieces::iterator insert(Pieces::iterator hint, std::uint64_t begin, std::uint64_t end);
  Pieces::iterator erase(Pieces::iterator piece);
  void forget(Node oldest);
  // Makes `at` the begin of a piece if it lies inside one.
  void split(std::uint64_t at);

  Pieces pieces_;
  std::vector<Pieces::node_type> spare_;  // of pieces that are gone
  // Some, by a hash of their begin: mostly memory is named as it was before.
  std::array<Pieces::value_type*, std::size_t{1} << kLogKnown> known_ = {};
  std::size_t most_ = kFew;  // pieces before something is forgotten
};

}  // namespace dwell
