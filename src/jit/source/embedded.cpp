#include "jit/source/embedded.hpp"

#include <algorithm>

#include "jit/base/sha256.hpp"

namespace dwell::jit {

bool is_operator_header(std::string_view name) {
  const auto is_it = [&](const EmbeddedFile& file) { return file.name == name && file.is_for_operators(); };
  return std::any_of(embedded_headers().begin(), embedded_headers().end(), is_it);
}

const std::string& embedded_headers_digest() {
  static const std::string digest = [] {
    CacheKey key;
    for (const EmbeddedFile& file : embedded_headers()) key.add(file.name, file.text);
    return key.finish();
  }();
  return digest;
}

}  // namespace dwell::jit
