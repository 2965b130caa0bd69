// The operators of the benchmark `kit`: the same work with the kit, as a plain loop, and written by hand for each backend. All take two
// inputs and a result; some do not use all. Those that work on blocks process each group's block of a wide task.
#pragma once

namespace dwell::bench {

inline constexpr const char* kKitAdd = R"(
DWELL_OPERATOR(add_kit)(dwell::Group g, dwell::Span<const float> x, dwell::Span<const float> y, dwell::Span<float> z) {
  g.transform(z, [](float a, float b) { return a + b; }, x, y);
}
)";

inline constexpr const char* kPlainAdd = R"(
DWELL_OPERATOR(add_plain)(dwell::Group g, dwell::Span<const float> x, dwell::Span<const float> y, dwell::Span<float> z) {
  for (auto i : g.range(z.size())) z[i] = x[i] + y[i];
}
)";

// Shared by the hand-written ones. Spans are aligned to 16 bytes here, and so are the blocks.
#define DWELL_BENCH_BY_HAND                                                                             \
  "using namespace dwell;\n"                                                                            \
  "struct alignas(16) Four { float value[4]; };\n"                                                      \
  "static const Four* fours(Span<const float> x) { return reinterpret_cast<const Four*>(x.data()); }\n" \
  "static Four* fours(Span<float> x) { return reinterpret_cast<Four*>(x.data()); }\n"                   \
  "static u64 first_of(Group g, u64 n) { return n / g.count() / 4 * 4 * g.index(); }\n"                 \
  "static u64 end_of(Group g, u64 n) { return g.index() + 1 == g.count() ? n : n / g.count() / 4 * 4 * (g.index() + 1); }\n"

inline constexpr const char* kHandAdd = DWELL_BENCH_BY_HAND R"(
static Four operator+(const Four& a, const Four& b) {
  return {{a.value[0] + b.value[0], a.value[1] + b.value[1], a.value[2] + b.value[2], a.value[3] + b.value[3]}};
}
DWELL_OPERATOR(add_hand)(Group g, Span<const float> x, Span<const float> y, Span<float> z) {
#if DWELL_ON_CUDA
  const Four* const a = fours(x);
  const Four* const b = fours(y);
  Four* const c = fours(z);
  const u64 count = z.size() / 4;
  const u64 step = u64(g.count()) * g.size();
  u64 i = u64(g.index()) * g.size() + g.rank();
  for (; i + step < count; i += 2 * step) {
    const Four a0 = a[i], b0 = b[i], a1 = a[i + step], b1 = b[i + step];
    c[i] = a0 + b0;
    c[i + step] = a1 + b1;
  }
  if (i < count) c[i] = a[i] + b[i];
  for (u64 k = count * 4 + g.rank(); k < z.size() && g.index() == 0; k += g.size()) z[k] = x[k] + y[k];
#else
  const float* __restrict__ a = x.data();
  const float* __restrict__ b = y.data();
  float* __restrict__ c = z.data();
  const u64 end = end_of(g, z.size());
  for (u64 i = first_of(g, z.size()); i < end; ++i) c[i] = a[i] + b[i];
#endif
}
)";

inline constexpr const char* kKitCopy = R"(
DWELL_OPERATOR(copy_kit)(dwell::Group g, dwell::Span<const float> x, dwell::Span<const float>, dwell::Span<float> z) { g.copy(z, x); }
)";

inline constexpr const char* kHandCopy = DWELL_BENCH_BY_HAND R"(
DWELL_OPERATOR(copy_hand)(Group g, Span<const float> x, Span<const float>, Span<float> z) {
#if DWELL_ON_CUDA
  const Four* const a = fours(x);
  Four* const c = fours(z);
  const u64 count = z.size() / 4;
  const u64 step = u64(g.count()) * g.size();
  u64 i = u64(g.index()) * g.size() + g.rank();
  for (; i + 3 * step < count; i += 4 * step) {
    const Four a0 = a[i], a1 = a[i + step], a2 = a[i + 2 * step], a3 = a[i + 3 * step];
    c[i] = a0;
    c[i + step] = a1;
    c[i + 2 * step] = a2;
    c[i + 3 * step] = a3;
  }
  if (i + step < count) {
    const Four a0 = a[i], a1 = a[i + step];
    c[i] = a0;
    c[i + step] = a1;
    i += 2 * step;
  }
  if (i < count) c[i] = a[i];
  for (u64 k = count * 4 + g.rank(); k < z.size() && g.index() == 0; k += g.size()) z[k] = x[k];
#else
  const u64 first = first_of(g, z.size());
  __builtin_memcpy(z.data() + first, x.data() + first, (end_of(g, z.size()) - first) * sizeof(float));
#endif
}
)";

// Stores the sum of each group's block to z[g.index()].
inline constexpr const char* kKitSum = R"(
DWELL_OPERATOR(sum_kit)(dwell::Group g, dwell::Span<const float> x, dwell::Span<const float>, dwell::Span<float> z) {
  const float sum = g.reduce(g.part(x), 0.0f, [](float a, float b) { return a + b; });
  if (g.rank() == 0) z[g.index()] = sum;
}
)";

inline constexpr const char* kPlainSum = R"(
DWELL_OPERATOR(sum_plain)(dwell::Group g, dwell::Span<const float> x, dwell::Span<const float>, dwell::Span<float> z) {
  float sum = 0;
  for (auto i : g.range(x.size())) sum += x[i];
  sum = g.sum(sum);
  if (g.rank() == 0) z[g.index()] = sum;
}
)";

inline constexpr const char* kHandSum = DWELL_BENCH_BY_HAND R"(
#if DWELL_ON_CUDA
static float sum_of(const Four& a) { return (a.value[0] + a.value[1]) + (a.value[2] + a.value[3]); }
#endif
DWELL_OPERATOR(sum_hand)(Group g, Span<const float> x, Span<const float>, Span<float> z) {
  const u64 first = first_of(g, x.size());
  const u64 end = end_of(g, x.size());
#if DWELL_ON_CUDA
  __shared__ float sums[4];
  const Four* const a = fours(x.subspan(first, end - first));
  const u64 count = (end - first) / 4;
  float sum = 0;
  u64 i = g.rank();
  for (; i + 384 < count; i += 512) {
    const Four a0 = a[i], a1 = a[i + 128], a2 = a[i + 256], a3 = a[i + 384];
    sum += (sum_of(a0) + sum_of(a1)) + (sum_of(a2) + sum_of(a3));
  }
  if (i + 128 < count) {
    const Four a0 = a[i], a1 = a[i + 128];
    sum += sum_of(a0) + sum_of(a1);
    i += 256;
  }
  if (i < count) sum += sum_of(a[i]);
  for (u64 k = first + count * 4 + g.rank(); k < end; k += 128) sum += x[k];
  for (u32 distance = 16; distance != 0; distance /= 2) sum += __shfl_down_sync(~0u, sum, distance);
  if (g.rank() % 32 == 0) sums[g.rank() / 32] = sum;
  g.sync();
  if (g.rank() == 0) z[g.index()] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
#else
  float sums[16] = {};
  u64 i = first;
  for (; i + 16 <= end; i += 16)
    for (u32 k = 0; k < 16; ++k) sums[k] += x[i + k];
  float sum = 0;
  for (; i < end; ++i) sum += x[i];
  for (u32 k = 0; k < 16; ++k) sum += sums[k];
  z[g.index()] = sum;
#endif
}
)";

// Stores the running sums of each block.
inline constexpr const char* kKitScan = R"(
DWELL_OPERATOR(scan_kit)(dwell::Group g, dwell::Span<const float> x, dwell::Span<const float>, dwell::Span<float> z) {
  g.inclusive_scan(g.part(z), g.part(x), 0.0f, [](float a, float b) { return a + b; });
}
)";

inline constexpr const char* kHandScan = DWELL_BENCH_BY_HAND R"(
DWELL_OPERATOR(scan_hand)(Group g, Span<const float> x, Span<const float>, Span<float> z) {
  const u64 first = first_of(g, x.size());
  const u64 end = end_of(g, x.size());
#if DWELL_ON_CUDA
  __shared__ float sums[2][4];
  const u32 lane = g.rank() % 32;
  const u32 warp = g.rank() / 32;
  float carry = 0;
  u32 place = 0;
  for (u64 start = first; start < end; start += 512, place ^= 1) {
    const u64 at = start + 4 * g.rank();
    const bool whole = at + 4 <= end;
    Four a{{0, 0, 0, 0}};
    if (whole)
      a = *fours(x.subspan(at, 4));
    else
      for (u32 k = 0; k < 4 && at + k < end; ++k) a.value[k] = x[at + k];
    for (u32 k = 1; k < 4; ++k) a.value[k] += a.value[k - 1];
    float sum = a.value[3];
    for (u32 distance = 1; distance < 32; distance *= 2) {
      const float below = __shfl_up_sync(~0u, sum, distance);
      if (lane >= distance) sum += below;
    }
    if (lane == 31) sums[place][warp] = sum;
    g.sync();
    float before = carry + sum - a.value[3];
    for (u32 k = 0; k < 4; ++k) {
      if (k < warp) before += sums[place][k];
      carry += sums[place][k];
    }
    for (u32 k = 0; k < 4; ++k) a.value[k] += before;
    if (whole)
      *fours(z.subspan(at, 4)) = a;
    else
      for (u32 k = 0; k < 4 && at + k < end; ++k) z[at + k] = a.value[k];
  }
#else
  float sum = 0;
  for (u64 i = first; i < end; ++i) z[i] = sum += x[i];
#endif
}
)";

#undef DWELL_BENCH_BY_HAND

}  // namespace dwell::bench
