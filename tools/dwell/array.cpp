#include "array.hpp"

#include <bit>

namespace dwell::tool {

namespace {

// Two bytes of which a signature knows no more than their number.
struct TwoBytes {
  std::uint16_t bits;
};

template <class T>
std::span<const T> elements_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace

Array::Array(Runtime& runtime, ElementType type, std::uint64_t count) : type_(type) {
  switch (type) {
    case ElementType::f16: buffer_ = runtime.allocate<Half>(count); return;
    case ElementType::f32: buffer_ = runtime.allocate<float>(count); return;
    case ElementType::f64: buffer_ = runtime.allocate<double>(count); return;
    case ElementType::i8: buffer_ = runtime.allocate<std::int8_t>(count); return;
    case ElementType::i16: buffer_ = runtime.allocate<std::int16_t>(count); return;
    case ElementType::i32: buffer_ = runtime.allocate<std::int32_t>(count); return;
    case ElementType::i64: buffer_ = runtime.allocate<std::int64_t>(count); return;
    case ElementType::u8: buffer_ = runtime.allocate<std::uint8_t>(count); return;
    case ElementType::u16: buffer_ = runtime.allocate<std::uint16_t>(count); return;
    case ElementType::u32: buffer_ = runtime.allocate<std::uint32_t>(count); return;
    case ElementType::u64: buffer_ = runtime.allocate<std::uint64_t>(count); return;
  }
}

void Array::write(std::span<const std::byte> data) {
  std::visit([&]<class T>(Buffer<T>& buffer) { buffer.write(elements_of<T>(data)); }, buffer_);
}

std::vector<std::byte> Array::read() const {
  return std::visit(
      []<class T>(const Buffer<T>& buffer) {
        std::vector<std::byte> data(buffer.bytes());
        buffer.read(std::span<T>(reinterpret_cast<T*>(data.data()), buffer.size()));
        return data;
      },
      buffer_);
}

void Array::add_to(Arguments& arguments, const Parameter& declared) const {
  if (const auto* const halves = std::get_if<Buffer<Half>>(&buffer_); halves != nullptr && declared.element != Kind::floating) {
    // A slice is an address and a size, whatever its elements are called.
    if (declared.element == Kind::unsigned_integer) {
      arguments.add(std::bit_cast<Slice<std::uint16_t>>(halves->slice()));
    } else {
      arguments.add(std::bit_cast<Slice<TwoBytes>>(halves->slice()));
    }
    return;
  }
  std::visit([&](const auto& buffer) { arguments.add(buffer.slice()); }, buffer_);
}

}  // namespace dwell::tool
