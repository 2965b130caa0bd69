// Words of an exec that differ from what the device has.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dwell::graph {

// Keeps the last value of each word until a launch has taken it along. Not safe for several threads.
class Changes {
 public:
  // Takes the memory for so many more words, of so many more nodes, of an exec of `bytes`. Then `change` and `note` need none.
  void prepare(std::size_t bytes, std::size_t words, std::size_t nodes = 0) {
    if (place_of_.empty()) place_of_.resize(bytes / sizeof(std::uint32_t));
    make_room(words_, 2 * words);
    make_room(nodes_, nodes);
  }
  // Notes that the word at this byte of the exec changes. False when it was to change anyway.
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
  // Notes that arguments of this node are among them.
  void note(std::uint32_t node) noexcept {
    if (nodes_.empty() || nodes_.back() != node) nodes_.push_back(node);
  }
  // The device has them all.
  void clear() noexcept {
    for (std::size_t i = 0; i < words_.size(); i += 2) place_of_[words_[i]] = 0;
    words_.clear();
    nodes_.clear();
  }

  std::size_t count() const { return words_.size() / 2; }
  // Place, in words of the exec, and value, alternately.
  const std::vector<std::uint32_t>& words() const { return words_; }
  // The nodes that were noted. One may be there twice.
  std::span<const std::uint32_t> nodes() const { return nodes_; }

 private:
  template <class T>
  static void make_room(std::vector<T>& in, std::size_t more) {
    if (in.capacity() - in.size() < more) in.reserve(std::max(2 * in.capacity(), in.size() + more));
  }

  std::vector<std::uint32_t> words_;
  std::vector<std::uint32_t> place_of_;  // by word of the exec: the place of its value in words_; 0: it does not change
  std::vector<std::uint32_t> nodes_;
};

}  // namespace dwell::graph
