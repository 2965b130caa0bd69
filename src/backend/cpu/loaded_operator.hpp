// An operator's shared object in this process.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace dwell::backend {

// A shared object loaded from memory, and one symbol of it. Unloads itself.
class LoadedOperator {
 public:
  // Throws dwell::Error with errc::link_failed when the bytes do not load or lack the symbol.
  LoadedOperator(std::span<const std::byte> object, const std::string& symbol);
  ~LoadedOperator();
  LoadedOperator(const LoadedOperator&) = delete;
  LoadedOperator& operator=(const LoadedOperator&) = delete;

  const void* entry() const noexcept { return entry_; }

 private:
  void unload();

  int file_ = -1;
  void* handle_ = nullptr;
  const void* entry_ = nullptr;
};

}  // namespace dwell::backend
