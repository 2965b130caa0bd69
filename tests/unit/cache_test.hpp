// A cache in its own folder.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/byte_stream.hpp"
#include "jit/base/sha256.hpp"
#include "jit/base/temporary_directory.hpp"
#include "jit/cache/file_cache.hpp"

namespace dwell::test {

class CacheTest : public testing::Test {
 protected:
  std::filesystem::path folder() const { return root_.path() / "a" / "dwell"; }
  jit::FileCache cache(std::uint64_t max_bytes = jit::FileCache::kDefaultMaxBytes) {
    return jit::FileCache(
        folder(), [this](const std::string& text) { warnings_.push_back(text); }, max_bytes);
  }
  static std::string key_of(int number) { return jit::CacheKey().add("test", std::to_string(number)).finish(); }
  // The names of all files in the folder.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    if (!std::filesystem::exists(folder())) return names;
    for (const auto& entry : std::filesystem::directory_iterator(folder())) names.push_back(entry.path().filename().string());
    return names;
  }

  jit::TemporaryDirectory root_;
  const std::string key_ = key_of(0);
  std::vector<std::string> warnings_;
};

}  // namespace dwell::test
