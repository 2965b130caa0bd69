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

Bytes encode(const Object& object) {
  image::ByteWriter writer;
  writer.number(static_cast<std::uint32_t>(object.entries.size()));
  for (const Entry& entry : object.entries) {
    writer.counted(entry.symbol);
    writer.number(static_cast<std::uint32_t>(entry.signature.parameters().size()));
    for (const Parameter& parameter : entry.signature.parameters()) {
      writer.number(static_cast<std::uint8_t>(parameter.kind));
      writer.number(static_cast<std::uint8_t>(parameter.element));
      writer.number(parameter.bytes);
    }
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
    Entry entry;
    entry.symbol = reader.text();
    const auto count = reader.number<std::uint32_t>();
    std::vector<Parameter> parameters;
    for (std::uint32_t j = 0; j < count && j < kMaxParameters; ++j) {
      const auto kind = static_cast<Kind>(reader.number<std::uint8_t>());
      const auto element = static_cast<Kind>(reader.number<std::uint8_t>());
      parameters.push_back({kind, element, reader.number<u16>()});
    }
    entry.signature = Signature(std::move(parameters));
    object.entries.push_back(std::move(entry));
  }
  object.log = reader.text();
  object.form = static_cast<Form>(reader.number<std::uint8_t>());
  const auto code = reader.counted();
  object.bytes.assign(code.begin(), code.end());
  if (!reader.complete()) return std::nullopt;
  return object;
}

void write(image::ByteWriter& writer, const Resources& resources) {
  for (const std::uint32_t figure : {resources.registers, resources.stack_bytes, resources.shared_bytes, resources.constant_bytes,
                                     resources.barriers, resources.threads})
    writer.number(figure);
}

Resources read_resources(image::ByteReader& reader) {
  Resources resources;
  for (std::uint32_t* const figure : {&resources.registers, &resources.stack_bytes, &resources.shared_bytes, &resources.constant_bytes,
                                      &resources.barriers, &resources.threads})
    *figure = reader.number<std::uint32_t>();
  return resources;
}

Bytes encode(const Image& image) {
  image::ByteWriter writer;
  write(writer, image.resources);
  writer.number(static_cast<std::uint32_t>(image.entries.size()));
  for (const EntryResources& entry : image.entries) {
    writer.counted(entry.symbol);
    write(writer, entry.resources);
  }
  writer.counted(image.bytes);
  return std::move(writer).take();
}

std::optional<Image> decode_image(std::span<const std::byte> bytes) {
  image::ByteReader reader(bytes);
  Image image;
  image.resources = read_resources(reader);
  // The count is not believed before the bytes it stands for are there.
  const auto count = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    std::string symbol(reader.text());
    image.entries.push_back({std::move(symbol), read_resources(reader)});
  }
  const auto code = reader.counted();
  image.bytes.assign(code.begin(), code.end());
  if (!reader.complete()) return std::nullopt;
  return image;
}

}  // namespace

struct CachingCompiler::Memory {
  std::mutex mutex;  // guards the two below; never held while something is compiled or read from a file
  Recent<Object> objects{kObjectsInMemory};
  Recent<Image> images{kImagesInMemory};

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

}  // namespace dwell::jit
