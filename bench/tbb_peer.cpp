#include "bench/tbb_peer.hpp"

#include "bench/peer_module.hpp"

namespace dwell::bench {

std::unique_ptr<TbbPeer> TbbPeer::open(int threads, std::string* why) {
  auto* const entry = find_in_module<decltype(dwell_bench_tbb)>("dwell_bench_tbb", why);
  if (entry == nullptr) return nullptr;
  return std::unique_ptr<TbbPeer>(new TbbPeer(entry(), threads));
}

TbbPeer::~TbbPeer() { module_->close(arena_); }

}  // namespace dwell::bench
