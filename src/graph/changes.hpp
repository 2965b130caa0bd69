// Words of an exec that differ from the device's copy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dwell::graph {

// Keeps the last value of each word until a launch carries it to the device. Not thread-safe.
class Changes {
 public:
  // Allocates for this many more words, of this many more nodes, of an exec of `bytes`. Then `change` and `note` allocate nothing.
  void prepare(std::size_t bytes, std::size_t words, std::size_t nodes = 0) {
    if (place_of_.empty()) place_of_.resize(bytes / sizeof(std::uint32_t));
    make_room(words_, 2 * words);
    make_room(nodes_, nodes);
  }
  // Records a new value of the word at this byte of the exec. False if it had a pending change already.
  bool change(std::size_t at, std::uint32_t value) noexcept {
    std::uint32_t& place = place_of_[at / sizeof(std::uint32_t)];
    if (place != 0) {
      words_[place] = value;
      return false;
    }
    words_.push_back(static_cast<std::uint32_t>(at / sizeof(std::uint32_t)));
    words_.push_back(value);
    place = static_cast<std::uint32_t>(words_.size() - 1);
    return true;
  }
  // Records that arguments of this node change.
  void note(std::uint32_t node) noexcept {
    if (nodes_.empty() || nodes_.back() != node) nodes_.push_back(node);
  }
  // Clears all changes: the device has them.
  void clear() noexcept {
    for (std::size_t i = 0; i < words_.size(); i += 2) place_of_[words_[i]] = 0;
    words_.clear();
    nodes_.clear();
  }

  std::size_t count() const { return words_.size() / 2; }
  // Pairs of place, in words of the exec, and value.
  const std::vector<std::uint32_t>& words() const { return words_; }
  // The recorded nodes. May contain duplicates.
  std::span<const std::uint32_t> nodes() const { return nodes_; }

 private:
  template <class T>
  static void make_room(std::vector<T>& in, std::size_t more) {
    if (in.capacity() - in.size() < more) in.reserve(std::max(2 * in.capacity(), in.size() + more));
  }

  std::vector<std::uint32_t> words_;
  std::vector<std::uint32_t> place_of_;  // by word of the exec: the index of its value in words_; 0: unchanged
  std::vector<std::uint32_t> nodes_;
};

}  // namespace dwell::graph
