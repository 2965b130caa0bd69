#include "base/accesses.hpp"

#include <algorithm>
#include <utility>

namespace dwell {

void Accesses::split(std::uint64_t at) {
  auto next = pieces_.upper_bound(at);
  if (next == pieces_.begin()) return;
  const auto piece = std::prev(next);
  if (piece->first == at || piece->second.end <= at) return;
  Piece upper = piece->second;
  piece->second.end = at;
  by_begin_[at] = &pieces_.emplace_hint(next, at, std::move(upper))->second;
}

// Once in so many pieces that a node pays for a few.
void Accesses::forget(Node oldest) {
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    Piece& of = piece->second;
    std::erase_if(of.readers, [&](Node reader) { return reader < oldest; });
    if (of.writer != kNobody && of.writer < oldest) of.writer = kNobody;
    if (of.writer != kNobody || !of.readers.empty()) {
      ++piece;
      continue;
    }
    by_begin_.erase(piece->first);
    piece = pieces_.erase(piece);
  }
  most_ = std::max(kFew, 2 * pieces_.size());
}

void Accesses::add(Node node, Piece& to, bool writes, std::vector<Node>& before, Node oldest) {
  if (to.writer != kNobody && to.writer != node) before.push_back(to.writer);
  if (!writes) {
    if (to.readers.size() == to.readers.capacity()) std::erase_if(to.readers, [&](Node reader) { return reader < oldest; });
    to.readers.push_back(node);
    return;
  }
  for (const Node reader : to.readers)
    if (reader != node) before.push_back(reader);
  to.writer = node;
  to.readers.clear();
}

void Accesses::add(Node node, std::uint64_t begin, std::uint64_t end, bool writes, std::vector<Node>& before, Node oldest) {
  if (begin >= end) return;
  if (pieces_.size() > most_) forget(oldest);
  const auto known = by_begin_.find(begin);
  if (known != by_begin_.end() && known->second->end == end) {
    add(node, *known->second, writes, before, oldest);
    return;
  }
  // Most often nobody has named any of it.
  const auto behind = pieces_.upper_bound(begin);
  const bool is_new =
      (behind == pieces_.end() || behind->first >= end) && (behind == pieces_.begin() || std::prev(behind)->second.end <= begin);
  if (is_new) {
    Piece& piece = pieces_.emplace_hint(behind, begin, Piece{end, kNobody, {}})->second;
    by_begin_[begin] = &piece;
    add(node, piece, writes, before, oldest);
    return;
  }
  split(begin);
  split(end);
  std::uint64_t at = begin;
  for (auto piece = pieces_.lower_bound(begin); at < end; ++piece) {
    // What nobody has named yet becomes a piece of its own.
    if (piece == pieces_.end() || piece->first > at) {
      const std::uint64_t until = piece == pieces_.end() || piece->first > end ? end : piece->first;
      piece = pieces_.emplace_hint(piece, at, Piece{until, kNobody, {}});
      by_begin_[at] = &piece->second;
    }
    add(node, piece->second, writes, before, oldest);
    at = piece->second.end;
  }
}

}  // namespace dwell
