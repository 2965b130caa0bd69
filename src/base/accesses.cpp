#include "base/accesses.hpp"

#include <algorithm>
#include <utility>

namespace dwell {

bool Accesses::is_forgotten(const Piece& piece, Node oldest) {
  return (piece.writer == kNobody || piece.writer < oldest) && (piece.readers.empty() || piece.readers.back() < oldest);
}

Accesses::Pieces::iterator Accesses::insert(Pieces::iterator hint, std::uint64_t begin, std::uint64_t end) {
  if (spare_.empty()) {
    hint = pieces_.emplace_hint(hint, begin, Piece{});
  } else {
    spare_.back().key() = begin;
    hint = pieces_.insert(hint, std::move(spare_.back()));
    spare_.pop_back();
  }
  hint->second.end = end;
  known(begin) = &*hint;
  return hint;
}

Accesses::Pieces::iterator Accesses::erase(Pieces::iterator piece) {
  if (known(piece->first) == &*piece) known(piece->first) = nullptr;
  piece->second.writer = kNobody;
  piece->second.readers.clear();
  const auto next = std::next(piece);
  spare_.push_back(pieces_.extract(piece));
  return next;
}

void Accesses::split(std::uint64_t at) {
  const auto next = pieces_.upper_bound(at);
  if (next == pieces_.begin()) return;
  const auto piece = std::prev(next);
  if (piece->first == at || piece->second.end <= at) return;
  Piece& upper = insert(next, at, std::exchange(piece->second.end, at))->second;
  upper.writer = piece->second.writer;
  upper.readers = piece->second.readers;
}

// Once in so many pieces that a node pays for a few.
void Accesses::forget(Node oldest) {
  for (auto piece = pieces_.begin(); piece != pieces_.end();) piece = is_forgotten(piece->second, oldest) ? erase(piece) : std::next(piece);
  most_ = std::max(kFew, 2 * pieces_.size());
}

void Accesses::add(Node node, Piece& to, bool writes, std::vector<Node>& before, Node oldest) {
  const auto comes_behind = [&](Node other) {
    if (other != node && other >= oldest) before.push_back(other);
  };
  if (to.writer != kNobody) comes_behind(to.writer);
  if (!writes) {
    if (to.readers.size() == to.readers.capacity()) std::erase_if(to.readers, [&](Node reader) { return reader < oldest; });
    to.readers.push_back(node);
    return;
  }
  for (const Node reader : to.readers) comes_behind(reader);
  to.writer = node;
  to.readers.clear();
}

void Accesses::add(Node node, std::uint64_t begin, std::uint64_t end, bool writes, std::vector<Node>& before, Node oldest) {
  if (begin >= end) return;
  const auto is_all = [&](const Pieces::value_type& piece) { return piece.first == begin && piece.second.end == end; };
  if (Pieces::value_type* const piece = known(begin); piece != nullptr && is_all(*piece))
    return add(node, piece->second, writes, before, oldest);

  if (pieces_.size() > most_) forget(oldest);
  auto piece = pieces_.upper_bound(begin);
  if (piece != pieces_.begin() && std::prev(piece)->second.end > begin) --piece;
  if (piece != pieces_.end() && is_all(*piece)) {
    known(begin) = &*piece;
    return add(node, piece->second, writes, before, oldest);
  }
  // Pieces that only old nodes have named go, so that memory which is used anew is one piece again.
  bool is_named = false;
  while (piece != pieces_.end() && piece->first < end) {
    const bool forgotten = is_forgotten(piece->second, oldest);
    is_named = is_named || !forgotten;
    piece = forgotten ? erase(piece) : std::next(piece);
  }
  if (!is_named) return add(node, insert(piece, begin, end)->second, writes, before, oldest);

  split(begin);
  split(end);
  piece = pieces_.lower_bound(begin);
  for (std::uint64_t at = begin; at < end; ++piece) {
    // What nobody has named yet becomes a piece of its own.
    if (piece == pieces_.end() || piece->first > at)
      piece = insert(piece, at, piece == pieces_.end() || piece->first > end ? end : piece->first);
    add(node, piece->second, writes, before, oldest);
    at = piece->second.end;
  }
}

}  // namespace dwell
