// A heap whose mix of sizes changes: a few objects keep most slabs of the former size, until they are moved together.
//   compact [FILE]   writes a map of the heap before and after, as JSON
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <dwell/dwell.hpp>

struct Small {
  dwell::Field<Small> next;
  dwell::u64 number;
};
DWELL_MOVABLE(Small, next);

constexpr const char* kWork = R"(
struct Small { dwell::Field<Small> next; dwell::u64 number; };
DWELL_MOVABLE(Small, next);
struct Large { dwell::Field<Small> small; dwell::u64 rest[120]; };
DWELL_OBJECT(Large, small);

// Makes a list of `count` objects, of which every `step`-th stays.
DWELL_OPERATOR(fill)(dwell::Group g, dwell::Root<Small> root, dwell::u32 count, dwell::u32 step) {
  if (g.rank() != 0) return;
  dwell::Ref<Small> list{};
  for (dwell::u32 i = 0; i < count; ++i) {
    const auto made = g.make<Small>(i % step == 0 ? list : dwell::Ref<Small>{}, dwell::u64(i));
    if (i % step == 0) list = made;
  }
  g.at(root)->ref.publish(g, list);
}
// Makes objects of another size, which nothing keeps.
DWELL_OPERATOR(others)(dwell::Group g, dwell::u32 count, dwell::Span<dwell::u32> made) {
  for (dwell::u32 i : g.range(count))
    if (g.try_make<Large>(dwell::Ref<Small>{})) dwell::device::fetch_add<dwell::device::Order::relaxed>(&made[0], 1u);
}
DWELL_OPERATOR(sum)(dwell::Group g, dwell::Root<Small> root, dwell::Span<dwell::u64> total) {
  if (g.rank() != 0) return;
  total[0] = 0;
  for (auto at = g.at(root)->ref.acquire(g); at; at = g.at(at)->next.get(g)) total[0] += g.at(at)->number;
})";

namespace {

double share(const dwell::HeapStatistics& now) { return 100.0 * static_cast<double>(now.live_bytes()) / static_cast<double>(now.used); }

void write_map(std::FILE* file, const char* name, const dwell::HeapCensus& census) {
  std::fprintf(file, "\"%s\": [", name);
  const char* between = "";
  for (const dwell::HeapSlabCensus& slab : census.slabs) {
    std::fprintf(file, "%s[%zu, %zu, %zu, %u, %u]", between, slab.offset, slab.bytes, slab.size, slab.slots, slab.live);
    between = ", ";
  }
  std::fprintf(file, "]");
}

}  // namespace

int main(int count, char** arguments) {
  constexpr dwell::u32 kObjects = 500'000, kStep = 16;
  dwell::Options options;
  options.heap.reserve = std::size_t{64} << 20U;
  dwell::Runtime runtime(options);
  dwell::Heap heap = runtime.heap();
  const dwell::Root<Small> root = heap.root<Small>("list");
  const auto fill = runtime.define<void(dwell::Root<Small>, dwell::u32, dwell::u32)>("fill", kWork);
  const auto others = runtime.define<void(dwell::u32, dwell::Span<dwell::u32>)>("others", kWork);
  const auto sum = runtime.define<void(dwell::Root<Small>, dwell::Span<dwell::u64>)>("sum", kWork);
  auto total = runtime.allocate<dwell::u64>(1, dwell::Memory::host);
  auto made = runtime.allocate<dwell::u32>(1, dwell::Memory::host);
  made.host()[0] = 0;

  runtime.submit(fill, root, kObjects, kStep).wait();
  heap.collect();
  const dwell::HeapCensus before = heap.census();
  const double share_before = share(heap.statistics());
  const dwell::HeapCompaction done = heap.compact();
  const dwell::HeapCensus after = heap.census();
  const double share_after = share(heap.statistics());
  runtime.submit(sum, root, total).wait();
  runtime.submit(others, 20'000U, made).wait();  // 20 MB, for which there is room now

  if (count > 1) {
    std::FILE* const file = std::fopen(arguments[1], "w");
    if (file == nullptr) return 1;
    std::fprintf(file, "{\"page\": 65536, ");
    write_map(file, "before", before);
    std::fprintf(file, ", ");
    write_map(file, "after", after);
    std::fprintf(file, "}\n");
    std::fclose(file);
  }
  std::printf("compact: %llu objects moved, live bytes were %.0f %% of the pages in use, and are %.0f %%\n",
              static_cast<unsigned long long>(done.moved), share_before, share_after);
  constexpr dwell::u64 kStay = (kObjects + kStep - 1) / kStep;
  const bool right = total.host()[0] == kStep * kStay * (kStay - 1) / 2 && made.host()[0] == 20'000 && share_after > 80;
  return right ? 0 : 1;
}
