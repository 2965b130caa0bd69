#include "jit/cache/caching_compiler.hpp"

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <utility>

#include "jit/base/sha256.hpp"
#include "jit/cache/made_once.hpp"
#include "jit/cache/memory_cache.hpp"
#include "jit/cache/payloads.hpp"
#include "jit/source/embedded.hpp"

namespace dwell::jit {

namespace {

constexpr std::size_t kObjectsInMemory = 256;
constexpr std::size_t kModulesInMemory = 32;
constexpr std::size_t kImagesInMemory = 4;  // the running one, the one before, and a little more

}  // namespace

struct CachingCompiler::Memory {
  using Clock = std::chrono::steady_clock;

  MemoryCache<Object> objects{kObjectsInMemory};
  MemoryCache<Image> images{kImagesInMemory};
  MemoryCache<ModuleObject> modules{kModulesInMemory};
  std::atomic<std::uint64_t> compiled{0};
  std::atomic<std::uint64_t> linked{0};
  std::atomic<std::uint64_t> hits{0};
  std::atomic<Clock::rep> last_hit{0};

  // The value of `key` from memory, else from the files, else made, which `made` counts.
  template <class Value, class Decode, class Make>
  Value get(MemoryCache<Value>& recent, const FileCache& cache, const std::string& key, const std::string& description, Decode decode,
            Make make, std::atomic<std::uint64_t>& made) {
    return recent.get(key, [&] {
      const auto start = Clock::now();
      bool fresh = false;
      Value value = made_once(
          cache, key, description, decode, [](const Value& one) { return encode(one); },
          [&] {
            fresh = true;
            return make();
          });
      if (fresh) {
        made.fetch_add(1, std::memory_order_relaxed);
      } else {
        hits.fetch_add(1, std::memory_order_relaxed);
        last_hit.store((Clock::now() - start).count(), std::memory_order_relaxed);
      }
      return value;
    });
  }
};

CachingCompiler::CachingCompiler(std::unique_ptr<Compiler> compiler, FileCache cache)
    : compiler_(std::move(compiler)), cache_(std::move(cache)), memory_(std::make_unique<Memory>()) {}
CachingCompiler::~CachingCompiler() = default;

// `made`, if that is still what the unit's fingerprint stands for: whoever looks for it finds it under that.
template <class Made>
Made CachingCompiler::checked(Made made, const Unit& unit) const {
  if (compiler_->fingerprint(unit) != unit.fingerprint) throw IncludesChanged(unit);
  return made;
}

Object CachingCompiler::compile(const Unit& unit) {
  if (unit.fingerprint.empty()) return compiler_->compile(unit);
  const bool lto = unit.form == Form::lto || unit.options.lto;
  CacheKey parts;
  parts.add("what", "object").add("fingerprint", unit.fingerprint).add("form", lto ? "lto" : "native");
  for (const Export& one : unit.exports) parts.add("symbol", one.symbol);
  return memory_->get(
      memory_->objects, cache_, parts.finish(), "operator " + unit.name + (lto ? ", lto" : ""), decode_object,
      [&] { return checked(compiler_->compile(unit), unit); }, memory_->compiled);
}

Image CachingCompiler::link(std::span<const Opcode> table, Tier tier) {
  CacheKey parts;
  parts.add("what", "image").add("compiler", identity()).add("headers", embedded_headers_digest());
  parts.add("tier", tier == Tier::lto ? "lto" : "relocatable");
  std::set<const Object*> seen;
  std::size_t opcodes = 0;
  for (const Opcode& opcode : table) {
    parts.add("symbol", opcode.object == nullptr ? std::string_view() : opcode.symbol());
    if (opcode.object == nullptr) continue;
    ++opcodes;
    if (seen.insert(opcode.object).second) parts.add("object", sha256(opcode.object->bytes));
  }
  const std::string description =
      "image of " + std::to_string(opcodes) + (opcodes == 1 ? " operator" : " operators") + (tier == Tier::lto ? ", lto" : "");
  return memory_->get(
      memory_->images, cache_, parts.finish(), description, decode_image, [&] { return compiler_->link(table, tier); }, memory_->linked);
}

ModuleObject CachingCompiler::compile_module(const Unit& unit) {
  if (unit.fingerprint.empty()) return compiler_->compile_module(unit);
  CacheKey parts;
  parts.add("what", "module").add("fingerprint", unit.fingerprint);
  return memory_->get(
      memory_->modules, cache_, parts.finish(), "kernels of " + unit.file, decode_module,
      [&] { return checked(compiler_->compile_module(unit), unit); }, memory_->compiled);
}

CompileCounts CachingCompiler::counts() const {
  const auto value = [](const auto& count) { return count.load(std::memory_order_relaxed); };
  return {value(memory_->compiled), value(memory_->linked), value(memory_->hits), Memory::Clock::duration(value(memory_->last_hit))};
}

}  // namespace dwell::jit
