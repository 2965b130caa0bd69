#include "jit/cache/payloads.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "tests/unit/operators.hpp"

namespace dwell::jit {
namespace {

// Calls `use` with the bytes truncated at every length, with each number replaced by large ones, and with each byte changed.
template <class Use>
void damage(const Bytes& bytes, Use use) {
  for (std::size_t size = 0; size < bytes.size(); ++size) use(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)));
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t value : {most, most - 7, most / 2, std::uint64_t{1} << 32U, std::uint64_t{1} << 31U}) {
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      Bytes changed = bytes;
      std::memcpy(changed.data() + at, &value, std::min(sizeof(value), bytes.size() - at));
      use(changed);
    }
  }
}

const Object kObject{.entries = {{"axpy_1", expected_axpy_signature()}, {"axpy_2", {}}},
                     .bytes = Bytes(40),
                     .log = "a warning",
                     .form = Form::lto,
                     .assembly = "text",
                     .uses = {{"a", expected_axpy_signature()}, {"b", {}}}};

TEST(Payloads, SurviveDamage) {
  const Bytes object = encode(kObject);
  EXPECT_EQ(decode_object(object)->entries[0].signature, expected_axpy_signature());
  EXPECT_EQ(decode_object(object)->uses, kObject.uses);
  damage(object, [](const Bytes& bytes) { decode_object(bytes); });

  const Bytes image = encode(Image{Bytes(40), {1, 2, 3}, {{"a", {}}, {"b", {}}}});
  EXPECT_EQ(decode_image(image)->entries.size(), 2U);
  damage(image, [](const Bytes& bytes) { decode_image(bytes); });

  ModuleObject made;
  made.kernels = {{"_Z1f", "f", expected_axpy_signature()}};
  made.expressions = {{"f<int>", "_Z1f"}};
  const Bytes module = encode(made);
  EXPECT_EQ(decode_module(module)->kernels[0].name, "f");
  damage(module, [](const Bytes& bytes) { decode_module(bytes); });

  const std::vector<std::string> files = {"/a", "/b c"};
  EXPECT_EQ(decode_names(encode(files)), files);
  damage(encode(files), [](const Bytes& bytes) { decode_names(bytes); });
}

TEST(Payloads, UnknownEnumeratorsAreRefused) {
  Object object = kObject;
  object.form = static_cast<Form>(7);
  EXPECT_FALSE(decode_object(encode(object)));
  object = kObject;
  object.entries[1].signature = Signature(std::vector<Parameter>{{static_cast<Kind>(200), Kind::structure, 4}});
  EXPECT_FALSE(decode_object(encode(object)));
}

}  // namespace
}  // namespace dwell::jit
