// Damaged bytes for readers of foreign data. Cases are reproducible: a suite takes a second. DWELL_FUZZ=100 makes a hundred times as many,
// DWELL_FUZZ_CASE=17 repeats one, DWELL_FUZZ_SEED=1 makes others, and DWELL_FUZZ_TELL=1 prints each case first, to find one that ends the
// process.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dwell::test {

class Fuzzer {
 public:
  using Bytes = std::vector<std::byte>;

  // `seed` and `number` determine all that it does.
  Fuzzer(std::uint64_t seed, std::uint64_t number) : random_(seed * 0x9E3779B97F4A7C15ULL + number) {}

  std::size_t below(std::size_t end) { return end == 0 ? 0 : static_cast<std::size_t>(random_() % end); }

  // Changes some bytes in place.
  void damage(std::span<std::byte> bytes) {
    if (bytes.empty()) return;
    for (std::size_t left = 1 + below(8); left != 0; --left) {
      const std::size_t at = below(bytes.size());
      switch (below(3)) {
        case 0: bytes[at] ^= static_cast<std::byte>(1U << below(8)); break;
        case 1: bytes[at] = static_cast<std::byte>(random_()); break;
        default: {
          const std::uint64_t value = number();
          const std::size_t size = std::min<std::size_t>(std::size_t{1} << below(4), bytes.size() - at);
          std::memcpy(bytes.data() + at, &value, size);
        }
      }
    }
  }

  // Changes one of `samples`, possibly its length; may insert parts of other samples.
  Bytes damaged(const std::vector<Bytes>& samples) {
    Bytes bytes = samples[below(samples.size())];
    for (std::size_t left = 1 + below(4); left != 0; --left) {
      const std::size_t at = below(bytes.size() + 1);
      const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(at);
      const std::size_t rest = std::min<std::size_t>(bytes.size() - at, 1 + below(64));
      switch (below(8)) {
        case 0: bytes.erase(from, from + static_cast<std::ptrdiff_t>(rest)); break;
        case 1: bytes.resize(at); break;
        case 2: {
          const Bytes part(from, from + static_cast<std::ptrdiff_t>(rest));
          const std::size_t to = below(bytes.size() + 1);
          for (std::size_t times = 1 + below(4); times != 0; --times)
            bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(to), part.begin(), part.end());
          break;
        }
        case 3: {
          const Bytes& other = samples[below(samples.size())];
          const std::size_t begin = below(other.size() + 1);
          const std::size_t size = below(std::min<std::size_t>(other.size() - begin, 128) + 1);
          bytes.insert(from, other.begin() + static_cast<std::ptrdiff_t>(begin), other.begin() + static_cast<std::ptrdiff_t>(begin + size));
          break;
        }
        case 4:
          // Unclosed brackets.
          bytes.insert(from, 1 + below(2000), static_cast<std::byte>("([{<\"'.#\\\n \xC3"[below(12)]));
          break;
        default: damage(bytes);
      }
    }
    return bytes;
  }

 private:
  // A number near limits.
  std::uint64_t number() {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    constexpr std::array<std::uint64_t, 10> kEdges = {0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, kMost / 2, kMost};
    return kEdges[below(kEdges.size())] + below(5) - 2;
  }

  std::mt19937_64 random_;
};

inline std::uint64_t fuzz_variable(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Calls `one` with a Fuzzer for each of `cases`, until a test fails.
template <class One>
void fuzz(std::string_view what, std::size_t cases, const One& one) {
  std::uint64_t seed = fuzz_variable("DWELL_FUZZ_SEED", 0);
  for (const char c : what) seed = seed * 31 + static_cast<unsigned char>(c);
  const std::uint64_t end = cases * fuzz_variable("DWELL_FUZZ", 1);
  const std::uint64_t only = fuzz_variable("DWELL_FUZZ_CASE", end);
  const bool tells = fuzz_variable("DWELL_FUZZ_TELL", 0) != 0;
  for (std::uint64_t number = only < end ? only : 0; number < (only < end ? only + 1 : end); ++number) {
    if (tells)
      std::fprintf(stderr, "%.*s: DWELL_FUZZ_CASE=%llu\n", static_cast<int>(what.size()), what.data(),
                   static_cast<unsigned long long>(number));
    Fuzzer fuzzer(seed, number);
    one(fuzzer);
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << what << ": DWELL_FUZZ_CASE=" << number << " repeats this case";
      return;
    }
  }
}

// As above; `read` gets damaged samples.
template <class Read>
void fuzz(std::string_view what, std::size_t cases, const std::vector<Fuzzer::Bytes>& samples, const Read& read) {
  fuzz(what, cases, [&](Fuzzer& fuzzer) { read(fuzzer.damaged(samples)); });
}

inline Fuzzer::Bytes fuzz_sample(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline std::string_view fuzz_text(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace dwell::test
