#include "graph/accesses.hpp"

namespace dwell::graph {

void Accesses::split(std::uint64_t at) {
  auto next = pieces_.upper_bound(at);
  if (next == pieces_.begin()) return;
  const auto piece = std::prev(next);
  if (piece->first == at || piece->second.end <= at) return;
  Piece upper = piece->second;
  piece->second.end = at;
  pieces_.emplace_hint(next, at, std::move(upper));
}

void Accesses::add(std::uint32_t node, std::uint64_t begin, std::uint64_t end, bool writes, std::vector<std::uint32_t>& before) {
  if (begin >= end) return;
  split(begin);
  split(end);
  std::uint64_t at = begin;
  for (auto piece = pieces_.lower_bound(begin); at < end; ++piece) {
    // What nobody has named yet becomes a piece of its own.
    if (piece == pieces_.end() || piece->first > at) {
      const std::uint64_t until = piece == pieces_.end() || piece->first > end ? end : piece->first;
      piece = pieces_.emplace_hint(piece, at, Piece{until, kNobody, {}});
    }
    Piece& of = piece->second;
    if (of.writer != kNobody && of.writer != node) before.push_back(of.writer);
    if (writes) {
      for (const std::uint32_t reader : of.readers)
        if (reader != node) before.push_back(reader);
      of.writer = node;
      of.readers.clear();
    } else {
      of.readers.push_back(node);
    }
    at = of.end;
  }
}

}  // namespace dwell::graph
