#include <dwell/arguments.hpp>

#include <algorithm>
#include <cstring>
#include <string>

#include <dwell/raw_ring.hpp>
#include <dwell/signature.hpp>

namespace dwell {

namespace {

constexpr std::uint32_t kSpanWords = detail::words_of<Span<std::byte>>();

bool is_span(const Parameter& type) { return type.kind == Kind::span || type.kind == Kind::const_span; }

detail::SpanWords span_words(std::uint64_t address, std::uint64_t count) {
  constexpr std::uint64_t kEndOfAddresses = 1ULL << 52U;
  constexpr std::uint64_t kEndOfCounts = 1ULL << 44U;
  if (address >= kEndOfAddresses || count >= kEndOfCounts) {
    throw Error(errc::invalid_argument,
                "a view of " + std::to_string(count) + " elements at address " + std::to_string(address) +
                    " is out of reach: addresses have 52 bits, counts 44",
                {"view", "", count, kEndOfCounts - 1});
  }
  return detail::SpanWords::of(address, count);
}

}  // namespace

BufferView::BufferView(std::uint64_t address, std::size_t count, ElementType type) : words_(span_words(address, count)), type_(type) {}

BufferView::BufferView(detail::SliceParts parts, std::size_t element, ElementType type) : use_(parts.use), type_(type) {
  const std::uint64_t address = parts.words.address();
  const std::uint64_t bytes = parts.words.size() * element;
  const std::size_t part = kind_of(type) == Kind::complex ? bytes_of(type) / 2 : bytes_of(type);
  if (bytes % bytes_of(type) != 0 || address % part != 0) {
    throw Error(errc::invalid_argument, std::to_string(bytes) + " bytes at address " + std::to_string(address) + " are no " +
                                            std::string(name_of(type)) + " elements: whole ones of " + std::to_string(bytes_of(type)) +
                                            " bytes are needed, aligned to " + std::to_string(part));
  }
  words_ = span_words(address, bytes / bytes_of(type));
}

BufferView BufferView::part(std::size_t first, std::size_t count) const {
  if (first > this->count() || count > this->count() - first) detail::throw_out_of_range(first, count, this->count());
  BufferView view = *this;
  view.words_ = detail::SpanWords::of(address() + first * bytes_of(type_), count);
  return view;
}

Arguments& Arguments::add(const Parameter& type, std::span<const std::byte> value) {
  const bool is_value = !is_span(type) && type.kind != Kind::pointer && type.kind != Kind::const_pointer && type.kind != Kind::opaque &&
                        type.kind != Kind::exec && type.kind != Kind::ring;
  if (!is_value) {
    throw Error(errc::invalid_argument, "argument " + std::to_string(parameters_.size() + 1) + " is " + text_of(type) +
                                            ", which has no bytes: pass " +
                                            (type.kind == Kind::exec   ? "a GraphExec"
                                             : type.kind == Kind::ring ? "a RingBuffer"
                                                                       : "a BufferView"));
  }
  if (value.size() != type.bytes) {
    throw Error(errc::invalid_argument,
                "argument " + std::to_string(parameters_.size() + 1) + " is " + text_of(type) + " of " + std::to_string(type.bytes) +
                    " bytes, " + std::to_string(value.size()) + " were given",
                {"argument", "", value.size(), type.bytes});
  }
  const auto words = static_cast<std::uint32_t>((value.size() + 3) / 4);
  if (list_.words + words > detail::kMostWords) detail::throw_too_many_words();
  parameters_.push_back(type);
  for (std::size_t at = 0; at < value.size(); at += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, value.data() + at, std::min<std::size_t>(4, value.size() - at));
    list_.add(word);
  }
  if (type.kind == Kind::structure) list_.flags |= detail::kSystem | detail::kMemory;  // which may hold addresses
  return *this;
}

Arguments& Arguments::add(const Parameter& type, const BufferView& view) {
  if (!is_span(type) || type.bytes != bytes_of(view.type())) {
    throw Error(errc::invalid_argument, "argument " + std::to_string(parameters_.size() + 1) + " is " + text_of(type) +
                                            ", and cannot be a view of " + std::string(name_of(view.type())));
  }
  if (view.use_ != nullptr) {
    add_span(type, detail::SliceParts(view.use_, view.words_));
    return *this;
  }
  if (list_.words + kSpanWords > detail::kMostWords) detail::throw_too_many_words();
  list_.add(view.words_);
  list_.flags |= detail::kSystem | detail::kMemory;
  parameters_.push_back(type);
  return *this;
}

Arguments& Arguments::add(const Parameter& type, const Slice<std::byte>& bytes) {
  const detail::SliceParts parts(bytes);
  if (!is_span(type) || type.bytes == 0 || bytes.size() % type.bytes != 0) {
    throw Error(errc::invalid_argument, "argument " + std::to_string(parameters_.size() + 1) + " is " + text_of(type) + ", and " +
                                            std::to_string(bytes.size()) + " bytes are no whole number of such elements");
  }
  add_span(type, detail::SliceParts(parts.use, detail::SpanWords::of(parts.words.address(), bytes.size() / type.bytes)));
  return *this;
}

Arguments& Arguments::add(const Parameter& type, const RawRingBuffer& ring) {
  if (type.kind != Kind::ring || type.bytes != ring.message_bytes()) {
    throw Error(errc::invalid_argument, "argument " + std::to_string(parameters_.size() + 1) + " is " + text_of(type) +
                                            ", and cannot be a ring of messages of " + std::to_string(ring.message_bytes()) + " bytes");
  }
  add_span(type, detail::SliceParts(ring));
  return *this;
}

void Arguments::add_span(const Parameter& type, const detail::SliceParts& parts) {
  if (list_.words + kSpanWords > detail::kMostWords) detail::throw_too_many_words();
  note_use(parts);
  detail::put_slice(list_, shell_, parts);
  parameters_.push_back(type);
}

}  // namespace dwell
