#include "npy.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <limits>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace dwell::tool {

static_assert(std::endian::native == std::endian::little, "array files are read and written as they lie in memory");

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;           // of the data, so that it can be memory-mapped
constexpr std::uint32_t kLongestHeader = 65536;  // bytes; a plain array's takes about a hundred

[[noreturn]] void broken(const std::string& why) { throw std::runtime_error("is not a valid .npy file: " + why); }

// Reads the header's dictionary, a literal of Python with exactly the keys descr, fortran_order and shape.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  NpyHeader parse() {
    std::optional<std::string> descr;
    std::optional<bool> fortran;
    std::optional<Shape> shape;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr") {
        if (peek() == '[') throw std::runtime_error("holds records; save each field as an array of its own");
        descr = string();
      } else if (key == "fortran_order") {
        fortran = boolean();
      } else if (key == "shape") {
        shape = tuple();
      } else {
        broken("its header has an unknown key '" + key + "'");
      }
      if (!accept(',') && peek() != '}') broken("its header is no dictionary");
    }
    if (peek() != '\0') broken("text follows the header's dictionary");
    for (const auto& [there, name] :
         {std::pair{descr.has_value(), "descr"}, {fortran.has_value(), "fortran_order"}, {shape.has_value(), "shape"}}) {
      if (!there) broken(std::string("its header has no ") + name);
    }
    return header(*descr, *fortran, std::move(*shape));
  }

 private:
  static NpyHeader header(const std::string& descr, bool fortran, Shape shape) {
    const std::optional<ElementType> type = element_type_of_numpy(descr);
    if (!type) {
      if (descr.front() == '>' && element_type_of_numpy("<" + descr.substr(1))) {
        throw std::runtime_error("is big-endian ('" + descr + "'); convert it with x.astype('<" + descr.substr(1) + "')");
      }
      throw std::runtime_error("has elements of type '" + descr + "'; these are known: " + element_type_names());
    }
    // In one dimension both orders are equal.
    if (fortran && shape.size() > 1) throw std::runtime_error("is in Fortran order; save numpy.ascontiguousarray(x) instead");
    return NpyHeader{*type, std::move(shape), 0};
  }

  char peek() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n' || rest_.front() == '\t')) rest_.remove_prefix(1);
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool accept(char wanted) {
    if (peek() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) broken(std::string("its header lacks a '") + wanted + "'");
  }
  std::string string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') broken("its header lacks a string");
    rest_.remove_prefix(1);
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos || end == 0) broken("its header has a string without an end, or an empty one");
    std::string value(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return value;
  }
  bool boolean() {
    peek();
    for (const auto& [word, value] : {std::pair{std::string_view("True"), true}, {std::string_view("False"), false}}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    broken("fortran_order is neither True nor False");
  }
  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      shape.push_back(number());
      if (!accept(',') && peek() != ')') broken("its shape is no tuple");
    }
    return shape;
  }
  std::uint64_t number() {
    constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t value = 0;
    if (const char first = peek(); first < '0' || first > '9') broken("its shape holds something that is no number");
    while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') {
      const auto digit = static_cast<std::uint64_t>(rest_.front() - '0');
      if (value > (kMax - digit) / 10) broken("its shape is too large");
      value = value * 10 + digit;
      rest_.remove_prefix(1);
    }
    if (!rest_.empty() && rest_.front() == 'L') rest_.remove_prefix(1);  // Python 2's suffix of long integers
    return value;
  }

  std::string_view rest_;
};

File open(const std::filesystem::path& file) {
  std::string why;
  File opened = open_to_read(file, FileKinds::regular, &why);
  if (!opened) throw std::runtime_error("cannot be read: " + why);
  return opened;
}

// Reads the beginning of a file, piece by piece.
class Start {
 public:
  explicit Start(const File& file) : file_(file) {}

  void take(std::span<std::byte> to, const char* what) {
    read_exactly(file_, to, at_, what);
    at_ += to.size();
  }
  std::uint64_t at() const { return at_; }

  static void read_exactly(const File& file, std::span<std::byte> to, std::uint64_t at, const char* what) {
    const ssize_t got = file.read_at(to, static_cast<off_t>(at));
    if (got < 0) throw std::runtime_error("cannot be read: " + std::generic_category().message(errno));
    if (static_cast<std::size_t>(got) != to.size()) broken(std::string("it ends within ") + what);
  }

 private:
  const File& file_;
  std::uint64_t at_ = 0;
};

}  // namespace

std::string text_of(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::uint64_t element_count(const Shape& shape, std::size_t element_bytes) {
  constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();  // bytes
  std::uint64_t count = 1;
  for (const std::uint64_t extent : shape) {
    if (extent != 0 && count > kLargest / element_bytes / extent) throw std::invalid_argument("shape " + text_of(shape) + " is too large");
    count *= extent;
  }
  return count;
}

NpyHeader read_npy_header(const std::filesystem::path& path) {
  const File file = open(path);
  Start from(file);

  std::array<char, 8> start{};
  from.take(std::as_writable_bytes(std::span(start)), "its first eight bytes");
  if (std::string_view(start.data(), kMagic.size()) != kMagic) broken("it does not begin with \\x93NUMPY");
  const int major = static_cast<unsigned char>(start[6]);
  const int minor = static_cast<unsigned char>(start[7]);
  if (major < 1 || major > 3 || minor != 0)
    broken("format version " + std::to_string(major) + "." + std::to_string(minor) + " is not known");

  std::array<unsigned char, 4> length_bytes{};
  const std::size_t length_size = major == 1 ? 2 : 4;
  from.take(std::as_writable_bytes(std::span(length_bytes).first(length_size)), "the length of its header");
  std::uint32_t length = 0;
  for (std::size_t i = length_size; i-- > 0;) length = length << 8U | length_bytes[i];
  if (length > kLongestHeader) broken("its header claims " + std::to_string(length) + " bytes");
  std::string text(length, '\0');
  from.take(std::as_writable_bytes(std::span(text)), "its header");

  NpyHeader header = HeaderParser(text).parse();
  header.data_offset = from.at();

  std::uint64_t promised = 0;
  try {
    promised = header.data_bytes();
  } catch (const std::invalid_argument& problem) {
    broken(problem.what());
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0) throw std::runtime_error("cannot be read: " + std::generic_category().message(errno));
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const std::uint64_t there = size - std::min(size, header.data_offset);
  if (there != promised) {
    broken("shape " + text_of(header.shape) + " of " + std::string(name_of(header.type)) + " takes " + std::to_string(promised) +
           " bytes, and " + std::to_string(there) + " follow the header");
  }
  return header;
}

NpyData::NpyData(const std::filesystem::path& file, const NpyHeader& header) : file_(open(file)), begin_(header.data_offset) {}

void NpyData::read(std::uint64_t first, std::span<std::byte> to) const { Start::read_exactly(file_, to, begin_ + first, "its data"); }

void write_npy(std::ostream& to, ElementType type, const Shape& shape, std::span<const std::byte> data) {
  std::string text = "{'descr': '" + std::string(numpy_name_of(type)) + "', 'fortran_order': False, 'shape': " + text_of(shape) + ", }";
  const std::size_t before = kMagic.size() + 4 + text.size() + 1;  // version and length take four bytes, the newline one
  text.append((kAlignment - before % kAlignment) % kAlignment, ' ');
  text += '\n';
  to << kMagic << '\x01' << '\x00' << static_cast<char>(text.size() & 0xFFU) << static_cast<char>(text.size() >> 8U) << text;
  to.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
}

}  // namespace dwell::tool
