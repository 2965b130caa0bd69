#include "bench/tbb_peer.hpp"

#include <dlfcn.h>

#include <filesystem>

#include "bench/process.hpp"

namespace dwell::bench {

std::unique_ptr<TbbPeer> TbbPeer::open(int threads, std::string* why) {
  const std::string file = (std::filesystem::path(own_file()).parent_path() / "dwell_bench_tbb.so").string();
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  auto* const entry = library == nullptr ? nullptr : reinterpret_cast<decltype(&dwell_bench_tbb)>(dlsym(library, "dwell_bench_tbb"));
  if (entry == nullptr) {
    const char* const reason = dlerror();
    *why = reason != nullptr ? reason : file + " is not the module with oneTBB";
    return nullptr;
  }
  return std::unique_ptr<TbbPeer>(new TbbPeer(entry(), threads));
}

TbbPeer::~TbbPeer() { module_->close(arena_); }

}  // namespace dwell::bench
