#include "jit/caching_compiler.hpp"

#include <list>
#include <mutex>
#include <set>
#include <unordered_map>

#include "image/byte_stream.hpp"
#include "jit/embedded.hpp"
#include "jit/sha256.hpp"

namespace dwell::jit {

namespace {

constexpr std::size_t kObjectsInMemory = 256;
constexpr std::size_t kModulesInMemory = 32;
constexpr std::size_t kImagesInMemory = 4;  // the running one, the one before, and a little more

// The last `capacity` values that were used, by key.
template <class Value>
class Recent {
 public:
  explicit Recent(std::size_t capacity) : capacity_(capacity) {}

  const Value* find(const std::string& key) {
    const auto at = index_.find(key);
    if (at == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, at->second);
    return &order_.front().second;
  }
  void keep(const std::string& key, Value value) {
    if (find(key) != nullptr) return;
    order_.emplace_front(key, std::move(value));
    index_.emplace(key, order_.begin());
    if (order_.size() <= capacity_) return;
    index_.erase(order_.back().first);
    order_.pop_back();
  }

 private:
  std::size_t capacity_;
  std::list<std::pair<std::string, Value>> order_;  // most recently used first
  std::unordered_map<std::string, typename std::list<std::pair<std::string, Value>>::iterator> index_;
};

void write(image::ByteWriter& writer, const Signature& signature) {
  writer.number(static_cast<std::uint32_t>(signature.parameters().size()));
  for (const Parameter& parameter : signature.parameters()) {
    writer.number(static_cast<std::uint8_t>(parameter.kind));
    writer.number(static_cast<std::uint8_t>(parameter.element));
    writer.number(parameter.bytes);
  }
}

Signature read_signature(image::ByteReader& reader) {
  const auto count = reader.number<std::uint32_t>();
  std::vector<Parameter> parameters;
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    const auto kind = static_cast<Kind>(reader.number<std::uint8_t>());
    const auto element = static_cast<Kind>(reader.number<std::uint8_t>());
    parameters.push_back({kind, element, reader.number<u16>()});
  }
  return Signature(std::move(parameters));
}

Bytes encode(const Object& object) {
  image::ByteWriter writer;
  writer.number(static_cast<std::uint32_t>(object.entries.size()));
  for (const Entry& entry : object.entries) {
    writer.counted(entry.symbol);
    write(writer, entry.signature);
  }
  writer.counted(object.log);
  writer.number(static_cast<std::uint8_t>(object.form));
  writer.counted(object.bytes);
  return std::move(writer).take();
}

std::optional<Object> decode_object(std::span<const std::byte> bytes) {
  image::ByteReader reader(bytes);
  Object object;
  const auto entries = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < entries && reader.ok(); ++i) {
    Entry& entry = object.entries.emplace_back();
    entry.symbol = reader.text();
    entry.signature = read_signature(reader);
  }
  object.log = reader.text();
  object.form = static_cast<Form>(reader.number<std::uint8_t>());
  const auto code = reader.counted();
  object.bytes.assign(code.begin(), code.end());
  if (!reader.complete()) return std::nullopt;
  return object;
}

Bytes encode(const Image& image) {
  image::ByteWriter writer;
  writer.number(image.resources.registers);
  writer.number(image.resources.stack_bytes);
  writer.number(image.resources.shared_bytes);
  writer.counted(image.bytes);
  return std::move(writer).take();
}

std::optional<Image> decode_image(std::span<const std::byte> bytes) {
  image::ByteReader reader(bytes);
  Image image;
  image.resources.registers = reader.number<std::uint32_t>();
  image.resources.stack_bytes = reader.number<std::uint32_t>();
  image.resources.shared_bytes = reader.number<std::uint32_t>();
  const auto code = reader.counted();
  image.bytes.assign(code.begin(), code.end());
  if (!reader.complete()) return std::nullopt;
  return image;
}

Bytes encode(const ModuleObject& object) {
  image::ByteWriter writer;
  writer.number(static_cast<std::uint32_t>(object.kernels.size()));
  for (const ModuleKernel& kernel : object.kernels) {
    writer.counted(kernel.symbol);
    writer.counted(kernel.name);
    write(writer, kernel.signature);
  }
  writer.number(static_cast<std::uint32_t>(object.expressions.size()));
  for (const auto& [expression, symbol] : object.expressions) {
    writer.counted(expression);
    writer.counted(symbol);
  }
  writer.counted(object.log);
  writer.counted(object.assembly);
  writer.counted(object.bytes);
  return std::move(writer).take();
}

std::optional<ModuleObject> decode_module(std::span<const std::byte> bytes) {
  image::ByteReader reader(bytes);
  ModuleObject object;
  const auto kernels = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < kernels && reader.ok(); ++i) {
    ModuleKernel& kernel = object.kernels.emplace_back();
    kernel.symbol = reader.text();
    kernel.name = reader.text();
    kernel.signature = read_signature(reader);
  }
  const auto expressions = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < expressions && reader.ok(); ++i) {
    auto& [expression, symbol] = object.expressions.emplace_back();
    expression = reader.text();
    symbol = reader.text();
  }
  object.log = reader.text();
  object.assembly = reader.text();
  const auto code = reader.counted();
  object.bytes.assign(code.begin(), code.end());
  if (!reader.complete()) return std::nullopt;
  return object;
}

}  // namespace

struct CachingCompiler::Memory {
  std::mutex mutex;  // guards the three below; never held while something is compiled or read from a file
  Recent<Object> objects{kObjectsInMemory};
  Recent<Image> images{kImagesInMemory};
  Recent<ModuleObject> modules{kModulesInMemory};

  // The value of `key` from memory, else from the file, else made.
  template <class Value, class Decode, class Make>
  Value get(Recent<Value>& recent, const FileCache& cache, const std::string& key, Decode decode, Make make) {
    {
      const std::lock_guard lock(mutex);
      if (const Value* const found = recent.find(key)) return *found;
    }
    std::optional<Value> value;
    if (const auto payload = cache.load(key)) value = decode(*payload);
    if (!value) {
      value = make();
      cache.store(key, encode(*value));
    }
    const std::lock_guard lock(mutex);
    recent.keep(key, *value);
    return *std::move(value);
  }
};

CachingCompiler::CachingCompiler(std::unique_ptr<Compiler> compiler, FileCache cache)
    : compiler_(std::move(compiler)), cache_(std::move(cache)), memory_(std::make_unique<Memory>()) {}
CachingCompiler::~CachingCompiler() = default;

Object CachingCompiler::compile(const Unit& unit) {
  if (unit.fingerprint.empty()) return compiler_->compile(unit);
  CacheKey key;
  key.add("what", "object").add("fingerprint", unit.fingerprint).add("form", unit.options.lto ? "lto" : "native");
  for (const Export& one : unit.exports) key.add("symbol", one.symbol);
  return memory_->get(memory_->objects, cache_, key.finish(), decode_object, [&] { return compiler_->compile(unit); });
}

Image CachingCompiler::link(std::span<const Opcode> table, Tier tier) {
  CacheKey key;
  key.add("what", "image").add("compiler", identity()).add("headers", embedded_headers_digest());
  key.add("tier", tier == Tier::lto ? "lto" : "relocatable");
  std::set<const Object*> seen;
  for (const Opcode& opcode : table) {
    key.add("symbol", opcode.object == nullptr ? std::string_view() : opcode.symbol());
    if (opcode.object != nullptr && seen.insert(opcode.object).second) key.add("object", sha256(opcode.object->bytes));
  }
  return memory_->get(memory_->images, cache_, key.finish(), decode_image, [&] { return compiler_->link(table, tier); });
}

ModuleObject CachingCompiler::compile_module(const Unit& unit) {
  if (unit.fingerprint.empty()) return compiler_->compile_module(unit);
  CacheKey key;
  key.add("what", "module").add("fingerprint", unit.fingerprint);
  return memory_->get(memory_->modules, cache_, key.finish(), decode_module, [&] { return compiler_->compile_module(unit); });
}

}  // namespace dwell::jit
