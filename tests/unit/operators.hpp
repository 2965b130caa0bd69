// Operators shared by the tests of both compilers.
#pragma once

#include <string>

#include "jit/compiler.hpp"

namespace dwell::jit {

inline Unit unit_of(const std::string& name, const std::string& text, const std::string& symbol) {
  Unit unit{name, text, name + ".cu", 1, {{name, symbol}}};
  unit.fingerprint = symbol;
  return unit;
}

// Operator "a", compiled with `options`.
inline Unit unit_with(const CompileOptions& options, const std::string& text) {
  Unit unit = unit_of("a", text, "a_1");
  unit.options = options;
  return unit;
}

// An axpy with its own function, template and variable, which another version would have too.
inline Unit axpy_unit(const std::string& symbol, const std::string& factor = "2.0f") {
  return unit_of("axpy",
                 "#include <dwell/device.hpp>\n"
                 "constexpr float kFactor = " +
                     factor +
                     ";\n"
                     "float scaled(float x) { return kFactor * x; }\n"
                     "template <class T> T identical(T x) { return x; }\n"
                     "struct Pair { float a, b; };\n"
                     "DWELL_OPERATOR(axpy)(dwell::Group g, float a, dwell::Span<const float> x, dwell::Span<float> y, Pair p) {\n"
                     "  for (auto i : g.range(y.size())) y[i] += a * scaled(identical(x[i])) + p.a;\n"
                     "}\n",
                 symbol);
}

// Many live values, static shared memory, and an array indexed at run time.
inline Unit hungry_unit(const std::string& symbol) {
  return unit_of("hungry",
                 "DWELL_OPERATOR(hungry)(dwell::Group g, dwell::Span<float> y) {\n"
                 "#if DWELL_ON_CUDA\n"
                 "  __shared__ float tile[1024];\n"
                 "#else\n"
                 "  float tile[1024];\n"
                 "#endif\n"
                 "  float v[120];\n"
                 "  for (int i = 0; i < 120; ++i) v[i] = y[i * g.size() + g.rank()];\n"
                 "  for (unsigned k = 0; k < y.size(); ++k) {\n"
                 "    for (int i = 0; i < 120; ++i) v[i] = v[i] * v[(i + 7) % 120] + k;\n"
                 "    tile[(g.rank() + k) % 1024] = v[k % 2];\n"
                 "  }\n"
                 "  g.sync();\n"
                 "  for (int i = 0; i < 120; ++i) y[i * g.size() + g.rank()] = v[i] + tile[i];\n"
                 "}\n",
                 symbol);
}

// Spawns two tasks of itself, down to one cell each.
inline Unit tree_unit() {
  return unit_of("tree",
                 "DWELL_USES(tree, dwell::Span<dwell::u8>, dwell::u32, dwell::u32)\n"
                 "DWELL_OPERATOR(tree)(dwell::Group g, dwell::Span<dwell::u8> cells, dwell::u32 first, dwell::u32 count) {\n"
                 "  if (g.rank() == 0) cells[first] = 1;\n"
                 "  if (count == 1) return;\n"
                 "  const dwell::u32 left = (count - 1) / 2;\n"
                 "  if (left != 0) g.spawn(uses::tree, cells, first + 1, left);\n"
                 "  g.spawn(uses::tree, cells, first + 1 + left, count - 1 - left);\n"
                 "}\n",
                 "tree");
}

// An operator that uses two others, as its object must record.
inline Unit using_unit(const std::string& symbol) {
  return unit_of("user",
                 "DWELL_USES(first, dwell::u32, dwell::Span<const float>)\n"
                 "DWELL_USES(user, dwell::Span<dwell::u32>)\n"
                 "DWELL_OPERATOR(user)(dwell::Group g, dwell::Span<dwell::u32> out) {\n"
                 "  out[0] = g.opcode(uses::first);\n"
                 "  out[1] = g.opcode(uses::user);\n"
                 "}\n",
                 symbol);
}
inline std::vector<Use> expected_uses() {
  return {{"first", Signature::of<u32, Span<const float>>()}, {"user", Signature::of<Span<u32>>()}};
}

// The expected signature of an axpy's object.
inline Signature expected_axpy_signature() {
  return Signature(std::vector<Parameter>{{Kind::floating, Kind::structure, 4},
                                          {Kind::const_span, Kind::floating, 4},
                                          {Kind::span, Kind::floating, 4},
                                          {Kind::structure, Kind::structure, 8}});
}

}  // namespace dwell::jit
