#include "jit/cache/caching_compiler.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <new>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "jit/base/sha256.hpp"
#include "jit/cache/made_once.hpp"
#include "jit/cache/memory_cache.hpp"
#include "jit/cache/payloads.hpp"
#include "jit/source/embedded.hpp"

namespace dwell::jit {

namespace {

constexpr std::size_t kObjectsInMemory = 256;
constexpr std::size_t kModulesInMemory = 32;
constexpr std::size_t kImagesInMemory = 4;  // the running one, the previous one, and some spare
constexpr std::size_t kUnnamedInMemory = 4096;

std::string unnamed_key(const std::string& fingerprint) {
  return CacheKey().add("what", "unnamed files").add("fingerprint", fingerprint).finish();
}

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
  Mutex unnamed_mutex;
  // Keyed by the fingerprint that does not cover these files.
  std::unordered_map<std::string, std::vector<std::string>> unnamed DWELL_GUARDED_BY(unnamed_mutex);

  void note_unnamed(const std::string& fingerprint, const std::vector<std::string>& files) {
    const Lock lock(unnamed_mutex);
    if (unnamed.size() >= kUnnamedInMemory) unnamed.clear();
    unnamed.insert_or_assign(fingerprint, files);
  }

  // Returns the value of `key` from memory, else from files, else from `make`; `made` counts the last.
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

namespace {

// Returns the result of `call`. Turns std::bad_alloc into errc::out_of_memory; later calls may succeed.
template <class Call>
auto with_memory(const char* what, const std::string& name, Call call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    throw Error(errc::out_of_memory, std::string(what) + name + " needs more memory than there is");
  }
}

}  // namespace

std::vector<std::string> CachingCompiler::unnamed_files(const std::string& fingerprint) const {
  {
    const Lock lock(memory_->unnamed_mutex);
    if (const auto known = memory_->unnamed.find(fingerprint); known != memory_->unnamed.end()) return known->second;
  }
  std::vector<std::string> files;
  if (const auto payload = cache_.load(unnamed_key(fingerprint))) files = decode_names(*payload).value_or(files);
  memory_->note_unnamed(fingerprint, files);
  return files;
}

std::string CachingCompiler::fingerprint(const Unit& unit) {
  return with_memory("reading the includes of ", unit.file, [&] {
    std::string first = compiler_->fingerprint(unit);
    std::vector<std::string> files = first.empty() ? std::vector<std::string>() : unnamed_files(first);
    if (files.empty()) return first;
    Unit more = unit;
    more.unnamed_files = std::move(files);
    return compiler_->fingerprint(more);
  });
}

// Returns the object that `compile` makes. Throws IncludesChanged if the unit's fingerprint does not cover all files it read.
template <class Compile>
auto CachingCompiler::checked(const Unit& unit, Compile compile) {
  const std::string first = compiler_->fingerprint(unit);
  Unit more = unit;
  more.unnamed_files = first.empty() ? std::vector<std::string>() : unnamed_files(first);
  auto made = compile(more);
  if (!made.unnamed_files.empty()) {
    std::vector<std::string>& files = more.unnamed_files;
    std::ranges::move(made.unnamed_files, std::back_inserter(files));
    std::ranges::sort(files);
    files.erase(std::unique(files.begin(), files.end()), files.end());
    memory_->note_unnamed(first, files);
    cache_.store(unnamed_key(first), encode(files), "files that " + (unit.program ? unit.file : "operator " + unit.name) + " reads");
    throw IncludesChanged(unit);
  }
  if (fingerprint(unit) != unit.fingerprint) throw IncludesChanged(unit);
  return made;
}

Object CachingCompiler::compile(const Unit& unit) {
  return with_memory("compiling operator ", unit.name, [&] {
    if (unit.fingerprint.empty()) return compiler_->compile(unit);
    const bool lto = unit.form == Form::lto || unit.options.lto;
    CacheKey parts;
    parts.add("what", "object").add("fingerprint", unit.fingerprint).add("form", lto ? "lto" : "native");
    for (const Export& one : unit.exports) parts.add("symbol", one.symbol);
    return memory_->get(
        memory_->objects, cache_, parts.finish(), "operator " + unit.name + (lto ? ", lto" : ""), decode_object,
        [&] { return checked(unit, [this](const Unit& one) { return compiler_->compile(one); }); }, memory_->compiled);
  });
}

Image CachingCompiler::link(std::span<const Opcode> table, Tier tier, std::uint32_t loop_parts) {
  return with_memory("linking the image", {}, [&] {
    CacheKey parts;
    parts.add("parts", std::to_string(loop_parts))
        .add("what", "image")
        .add("compiler", identity())
        .add("headers", embedded_headers_digest());
    parts.add("tier", tier == Tier::lto ? "lto" : "relocatable");
    std::set<const Object*> seen;
    std::size_t opcodes = 0;
    for (const Opcode& opcode : table) {
      parts.add("symbol", opcode.object == nullptr ? std::string_view() : opcode.symbol());
      if (opcode.object == nullptr) continue;
      ++opcodes;
      for (const std::uint32_t use : opcode.uses) parts.add("use", std::to_string(use));
      if (seen.insert(opcode.object).second) parts.add("object", sha256(opcode.object->bytes));
    }
    const std::string description =
        "image of " + std::to_string(opcodes) + (opcodes == 1 ? " operator" : " operators") + (tier == Tier::lto ? ", lto" : "");
    return memory_->get(
        memory_->images, cache_, parts.finish(), description, decode_image, [&] { return compiler_->link(table, tier, loop_parts); },
        memory_->linked);
  });
}

ModuleObject CachingCompiler::compile_module(const Unit& unit) {
  return with_memory("compiling the kernels of ", unit.file, [&] {
    if (unit.fingerprint.empty()) return compiler_->compile_module(unit);
    CacheKey parts;
    parts.add("what", "module").add("fingerprint", unit.fingerprint);
    return memory_->get(
        memory_->modules, cache_, parts.finish(), "kernels of " + unit.file, decode_module,
        [&] { return checked(unit, [this](const Unit& one) { return compiler_->compile_module(one); }); }, memory_->compiled);
  });
}

CompileCounts CachingCompiler::counts() const {
  const auto value = [](const auto& count) { return count.load(std::memory_order_relaxed); };
  return {value(memory_->compiled), value(memory_->linked), value(memory_->hits), Memory::Clock::duration(value(memory_->last_hit))};
}

}  // namespace dwell::jit
