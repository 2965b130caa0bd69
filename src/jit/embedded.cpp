#include "jit/embedded.hpp"

#include "jit/sha256.hpp"

namespace dwell::jit {

const std::string& embedded_headers_digest() {
  static const std::string digest = [] {
    CacheKey key;
    for (const EmbeddedFile& file : embedded_headers()) key.add(file.name, file.text);
    return key.finish();
  }();
  return digest;
}

}  // namespace dwell::jit
