// A compiled source in this process.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace dwell::backend {

// A shared object loaded from memory. Unloads itself.
class LoadedObject {
 public:
  // `name` is for messages. Throws dwell::Error with errc::link_failed when the bytes do not load.
  LoadedObject(std::span<const std::byte> bytes, const std::string& name);
  ~LoadedObject();
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;

  // The address of a symbol that it exports. Throws dwell::Error with errc::link_failed when there is none.
  const void* entry(const std::string& symbol) const;
  // As entry, but null when there is none.
  const void* find(const std::string& symbol) const noexcept;

 private:
  void unload();

  int file_ = -1;
  void* handle_ = nullptr;
};

}  // namespace dwell::backend
