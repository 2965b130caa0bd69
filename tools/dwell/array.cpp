#include "array.hpp"

#include <bit>

namespace dwell::tool {

namespace {

// Of which a signature knows no more than the size.
template <std::size_t Bytes>
struct Opaque {
  std::byte bytes[Bytes];
};

template <class T>
std::span<const T> elements_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace

Array::Array(Runtime& runtime, ElementType type, std::uint64_t count) : type_(type) {
  switch (type) {
    case ElementType::f16: buffer_ = runtime.allocate<half>(count); return;
    case ElementType::bf16: buffer_ = runtime.allocate<bfloat16>(count); return;
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
    case ElementType::boolean: buffer_ = runtime.allocate<bool>(count); return;
    case ElementType::complex64: buffer_ = runtime.allocate<complex<float>>(count); return;
    case ElementType::complex128: buffer_ = runtime.allocate<complex<double>>(count); return;
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
  std::visit(
      [&]<class T>(const Buffer<T>& buffer) {
        // A slice is an address and a size, whatever its elements are called.
        if (declared.element == kind_of(type_)) {
          arguments.add(buffer.slice());
        } else if (declared.element == Kind::unsigned_integer) {
          arguments.add(std::bit_cast<Slice<std::uint16_t>>(buffer.slice()));
        } else {
          arguments.add(std::bit_cast<Slice<Opaque<sizeof(T)>>>(buffer.slice()));
        }
      },
      buffer_);
}

}  // namespace dwell::tool
