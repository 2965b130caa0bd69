#include "jit/source/fingerprint.hpp"

#include "jit/base/sha256.hpp"
#include "jit/source/embedded.hpp"

namespace dwell::jit {

std::string fingerprint_of(const Unit& unit, std::string_view compiler, std::span<const std::string> flags, std::string_view includes) {
  CacheKey key;
  key.add("compiler", compiler).add("dwell", embedded_headers_digest());
  key.add("name", unit.name).add("text", unit.text).add("file", unit.file).add("line", std::to_string(unit.line));
  for (const Export& one : unit.exports) key.add("expression", one.expression);
  for (const std::string& flag : flags) key.add("flag", flag);
  key.add("includes", includes);
  for (const auto& [name, text] : unit.options.headers) key.add("header", name).add("text", text);
  return key.finish();
}

}  // namespace dwell::jit
