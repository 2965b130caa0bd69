// A concurrent hash map: tasks count the words of a text while another erases some, and the map grows in between. It has no locks, and
// frees nothing itself: an erased entry still leads to the next one, and the collector frees it when no task can reach it.
#include <cstdio>
#include <random>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <dwell/dwell.hpp>

namespace {

struct Map;  // objects of operators

constexpr const char* kMap = R"(
  struct Entry {
    dwell::Field<Entry> next;
    dwell::u32 count;  // with kErased: whoever adds the word makes another entry
    dwell::u64 word;
  };
  DWELL_OBJECT(Entry, next);
  struct Map {
    dwell::Field<dwell::Array<Entry>> buckets;  // a power of two
    dwell::u32 size;                            // entries that are not erased
  };
  DWELL_OBJECT(Map, buckets);
  constexpr dwell::u32 kErased = 1u << 31;

  dwell::u32 bucket_of(dwell::u64 word, dwell::u32 buckets) {
    return dwell::u32(word * 0x9E3779B97F4A7C15u >> 32) & (buckets - 1);  // Fibonacci hashing
  }
  dwell::Field<Entry>& bucket_of(dwell::Group g, Map& map, dwell::u64 word) {
    dwell::Array<Entry>& buckets = *g.at(map.buckets.get());
    return buckets[bucket_of(word, buckets.size())];
  }
  Map& map_of(dwell::Group g, dwell::Root<Map> root) { return *g.at(g.at(root)->ref.get()); }
  // The number, for atomic operations.
  dwell::Span<dwell::u32> shared(dwell::u32& number) { return dwell::Span<dwell::u32>(&number, 1); }

  // Finds a word in the list from `at` on, to which `link` refers. Unlinks erased entries on the way. Entries are only added in front of a
  // list: an exchange that fails, or that another thread undoes, leaves an erased entry in it, and loses no other.
  dwell::Ref<Entry> find(dwell::Group g, dwell::Field<Entry>* link, dwell::Ref<Entry> at, dwell::u64 word) {
    while (at) {
      Entry& entry = *g.at(at);
      const dwell::Ref<Entry> next = entry.next.acquire();
      if (shared(entry.count).atomic_load(0) & kErased) {
        link->compare_exchange(g, at, next);
      } else {
        if (entry.word == word) return at;
        link = &entry.next;
      }
      at = next;
    }
    return at;
  }

  void add(dwell::Group g, Map& map, dwell::u64 word) {
    dwell::Field<Entry>& bucket = bucket_of(g, map, word);
    dwell::Ref<Entry> made{};
    for (;;) {
      const dwell::Ref<Entry> first = bucket.acquire();
      const dwell::Ref<Entry> found = find(g, &bucket, first, word);
      if (found) {
        if (!(shared(g.at(found)->count).atomic_add(0, 1u) & kErased)) return;
        continue;  // erased since it was found
      }
      if (!made) made = g.make<Entry>(first, 1u, word);
      if (!made) return;  // the task has failed
      g.at(made)->next.set(g, first);
      // If the first entry is still the first, no thread has added the word since.
      if (bucket.compare_exchange(g, first, made) == first) break;
    }
    shared(map.size).atomic_add(0, 1u);
  }

  // Returns the word's count.
  dwell::u32 erase(dwell::Group g, Map& map, dwell::u64 word) {
    dwell::Field<Entry>& bucket = bucket_of(g, map, word);
    const dwell::Ref<Entry> found = find(g, &bucket, bucket.acquire(), word);
    if (!found) return 0;
    const dwell::u32 count = shared(g.at(found)->count).atomic_exchange(0, kErased);
    if (count & kErased) return 0;  // by another thread
    find(g, &bucket, bucket.acquire(), word);
    shared(map.size).atomic_add(0, 0u - 1);
    return count;
  }

  DWELL_OPERATOR(begin)(dwell::Group g, dwell::Root<Map> root, dwell::u32 buckets) {
    if (g.rank() == 0) g.at(root)->ref.publish(g, g.make<Map>(g.make_array<Entry>(buckets), 0u));
  }

  // Counts the words that begin at [from, to).
  DWELL_OPERATOR(count)(dwell::Group g, dwell::Root<Map> root, dwell::Span<const char> text, dwell::u32 from, dwell::u32 to) {
    Map& map = map_of(g, root);
    for (auto i : g.range(to - from)) {
      dwell::u64 at = from + i;
      if (text[at] == ' ' || (at != 0 && text[at - 1] != ' ')) continue;
      dwell::u64 word = 0;
      for (; at < text.size() && text[at] != ' '; ++at) word = word << 5 | (text[at] - 'a' + 1);
      add(g, map, word);
    }
  }

  // Adds the count of each word that it erases.
  DWELL_OPERATOR(erase)(dwell::Group g, dwell::Root<Map> root, dwell::Span<const dwell::u64> words, dwell::Span<dwell::u32> counts) {
    for (auto i : g.range(words.size())) counts.atomic_add(i, erase(g, map_of(g, root), words[i]));
  }

  DWELL_OPERATOR(look_up)(dwell::Group g, dwell::Root<Map> root, dwell::Span<const dwell::u64> words, dwell::Span<dwell::u32> counts) {
    for (auto i : g.range(words.size())) {
      dwell::Field<Entry>& bucket = bucket_of(g, map_of(g, root), words[i]);
      const dwell::Ref<Entry> found = find(g, &bucket, bucket.acquire(), words[i]);
      counts[i] = found ? g.at(found)->count : 0;
    }
  }

  // Moves the entries to new buckets, at least as many as there are entries. Runs as one group, while no other task uses the map. A new
  // bucket gets entries of one old bucket only.
  DWELL_OPERATOR(rehash)(dwell::Group g, dwell::Root<Map> root) {
    Map& map = map_of(g, root);
    dwell::Array<Entry>& before = *g.at(map.buckets.get());
    dwell::Ref<dwell::Array<Entry>> made{};
    if (g.rank() == 0) {
      dwell::u32 size = before.size();
      while (size < map.size) size *= 2;
      made = g.make_array<Entry>(size);
    }
    made = g.reduce(made, [](auto a, auto b) { return a ? a : b; });  // for all threads
    if (!made) return;
    dwell::Array<Entry>& buckets = *g.at(made);
    for (auto i : g.local_range(before.size())) {
      for (dwell::Ref<Entry> at = before[i].get(); at;) {
        Entry& entry = *g.at(at);
        const dwell::Ref<Entry> next = entry.next.get();
        if (!(entry.count & kErased)) {
          dwell::Field<Entry>& bucket = buckets[bucket_of(entry.word, buckets.size())];
          entry.next.set(g, bucket.get());
          bucket.set(g, at);
        }
        at = next;
      }
    }
    g.sync();
    if (g.rank() == 0) map.buckets.publish(g, made);
  })";

// Returns a word as operators have it: five bits a letter.
dwell::u64 number_of(const std::string& word) {
  dwell::u64 number = 0;
  for (const char letter : word) number = number << 5U | static_cast<dwell::u64>(letter - 'a' + 1);
  return number;
}

std::vector<std::string> made_up_words(std::mt19937& random, std::size_t count) {
  std::unordered_map<std::string, bool> known;
  std::vector<std::string> words;
  while (words.size() < count) {
    std::string word(2 + random() % 11, ' ');
    for (char& letter : word) letter = static_cast<char>('a' + random() % 26);
    if (known.emplace(word, true).second) words.push_back(word);
  }
  return words;
}

std::size_t live(const dwell::HeapStatistics& statistics) {
  std::size_t all = statistics.large;
  for (const dwell::HeapClassStatistics& one : statistics.classes) all += one.live;
  return all;
}

}  // namespace

int main() {
  constexpr unsigned kWords = 4000;   // different ones
  constexpr unsigned kAll = 200'000;  // of the text
  constexpr unsigned kErased = 500;   // of the different ones, from the most frequent on
  constexpr unsigned kStages = 4;     // the map grows after each
  constexpr unsigned kTasks = 16;     // of each
  constexpr unsigned kBuckets = 64;   // at first
  std::mt19937 random(1);
  const std::vector<std::string> words = made_up_words(random, kWords);
  std::unordered_map<std::string, dwell::u32> expected;
  std::string text;
  for (unsigned i = 0; i < kAll; ++i) {
    const double x = static_cast<double>(random()) * 0x1p-32;
    const std::string& word = words[static_cast<std::size_t>(x * x * x * kWords)];
    ++expected[word];
    text += word + ' ';
  }

  dwell::Runtime runtime;
  dwell::Heap heap = runtime.heap();
  using Words = void(dwell::Root<Map>, dwell::Span<const dwell::u64>, dwell::Span<dwell::u32>);
  const auto begin = runtime.define<void(dwell::Root<Map>, dwell::u32)>("begin", kMap);
  const auto count = runtime.define<void(dwell::Root<Map>, dwell::Span<const char>, dwell::u32, dwell::u32)>("count", kMap);
  const auto erase = runtime.define<Words>("erase", kMap);
  const auto look_up = runtime.define<Words>("look_up", kMap);
  const auto rehash = runtime.define<void(dwell::Root<Map>)>("rehash", kMap);

  std::vector<dwell::u64> numbers;
  for (const std::string& word : words) numbers.push_back(number_of(word));
  auto letters = runtime.allocate<char>(text.size());
  auto of_words = runtime.allocate<dwell::u64>(kWords);
  auto erased = runtime.allocate<dwell::u32>(kErased);
  auto found = runtime.allocate<dwell::u32>(kWords);
  letters.write(text);
  of_words.write(numbers);

  // In each stage tasks count while one erases, and then the map grows. The last stage only erases.
  const dwell::Root<Map> map = heap.root<Map>("map");
  dwell::Graph graph("words");
  dwell::Node last = graph.add("begin", begin, map, kBuckets);
  for (unsigned stage = 0; stage <= kStages; ++stage) {
    std::vector<dwell::Node> at_once = {graph.add("erase", erase, map, of_words.slice(0, kErased), erased).after(last)};
    for (unsigned task = stage * kTasks; stage < kStages && task < (stage + 1) * kTasks; ++task) {
      const auto place = [&](unsigned i) { return static_cast<dwell::u32>(text.size() * i / (kStages * kTasks)); };
      at_once.push_back(graph.add("count", count, map, letters, place(task), place(task + 1)).after(last));
    }
    last = graph.add("rehash", rehash, map).after(std::span<const dwell::Node>(at_once));
  }
  graph.add("look_up", look_up, map, of_words, found).after(last);
  runtime.launch(runtime.instantiate(graph)).wait();

  // A word that is counted again after it was erased is erased again: `erased` has the sum.
  std::vector<dwell::u32> counts(kWords), before(kErased);
  found.read(counts);
  erased.read(before);
  std::size_t left = 0, wrong = 0;
  for (unsigned i = 0; i < kWords; ++i) {
    const dwell::u32 now = i < kErased ? 0 : expected[words[i]];
    left += now != 0 ? 1 : 0;
    wrong += counts[i] != now || (i < kErased && before[i] != expected[words[i]]) ? 1 : 0;
  }
  // Nothing is left but the entries, the map, its buckets, and the root.
  heap.collect();
  const std::size_t more = live(heap.statistics()) - left - 3;
  std::printf("hash_map: %u words counted, %zu different ones left, %zu counts are wrong, %zu objects too many\n", kAll, left, wrong, more);
  return wrong == 0 && more == 0 ? 0 : 1;
}
