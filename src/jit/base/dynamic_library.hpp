// A shared library opened at run time.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include <dwell/error.hpp>

namespace dwell::jit {

// Owns a handle of dlopen; closes it at the end of its life. Move-only. Looking up symbols is safe from several threads.
class DynamicLibrary {
 public:
  // `global`: libraries opened later may use its symbols.
  enum class Scope { local, global };

  // Opens `path`, a file or a name for the loader to search. Throws dwell::Error with `failure`; the message holds the loader's text,
  // which names the file.
  explicit DynamicLibrary(const std::string& path, Scope scope = Scope::local, errc failure = errc::io_failed);
  ~DynamicLibrary();
  DynamicLibrary(DynamicLibrary&& other) noexcept : name_(std::move(other.name_)), handle_(std::exchange(other.handle_, nullptr)) {}
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(name_, other.name_);
    return *this;
  }

  // The symbol `name` as a pointer to T, a function type or an object type; null when there is none.
  template <class T>
  T* find(const char* name) const noexcept {
    return reinterpret_cast<T*>(address(name));
  }
  // As above, but throws dwell::Error with `failure`, naming library and symbol, when there is none.
  template <class T>
  T* get(const char* name, errc failure = errc::io_failed) const {
    void* const found = address(name);
    if (found == nullptr) throw Error(failure, name_ + " has no symbol " + name);
    return reinterpret_cast<T*>(found);
  }

  // Returns the file that the loader found, symbolic links resolved; the name it was opened by if that is unknown.
  std::filesystem::path file() const;

 private:
  void* address(const char* name) const noexcept;

  std::string name_;
  void* handle_ = nullptr;  // last: nothing may fail once the library is open
};

}  // namespace dwell::jit
