// Documents in JSON: an operator parses them into trees of objects, one document a thread, and another walks the trees. Then every second
// document is dropped, and the heap moves the others together.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <dwell/dwell.hpp>

namespace {

struct Value;  // objects of operators
using Documents = dwell::Array<Value>;

// What a document has; nothing if it is malformed.
struct Summary {
  double sum = 0;         // of its numbers
  dwell::u32 values = 0;  // the names in objects among them
  dwell::u32 depth = 0;
  dwell::u32 hash = 0;  // of the characters of all strings
  bool operator==(const Summary&) const = default;
};

constexpr const char* kJson = R"(
  // A string, or the first letters of it.
  struct Text {
    dwell::Field<Text> rest;
    dwell::u32 size;
    char letters[32];
  };
  DWELL_MOVABLE(Text, rest);
  struct Value {
    dwell::Field<Value> next;   // in the same array or object, in which names and values alternate
    dwell::Field<Value> first;  // of an array or object
    dwell::Field<Text> text;    // of a string
    dwell::u32 kind;            // its first character
    double number;
  };
  DWELL_MOVABLE(Value, next, first, text);
  using Documents = dwell::Array<Value>;
  constexpr dwell::u32 kMostDepth = 16;

  // Parses a document by one thread. Has a stack of its own: that of a GPU's thread is small.
  struct Parser {
    dwell::Group g;
    const char *at, *end;

    // Returns the top of the tree; nothing if the document is malformed, or too deep.
    dwell::Ref<Value> document() {
      struct { dwell::Ref<Value> list, last; dwell::u32 count; } around[kMostDepth];
      dwell::u32 depth = 0;
      for (;;) {
        dwell::Ref<Value> value = begin_value();
        if (!value) return {};
        if (depth != 0) {
          auto& in = around[depth - 1];
          (in.last ? g.at(in.last)->next : g.at(in.list)->first).set(g, value);
          in.last = value;
          ++in.count;
        }
        const char close = closing(value);
        if (close != 0 && !take_next(close)) {
          if (depth == kMostDepth) return {};
          around[depth++] = {value, {}, 0};
          continue;
        }
        for (;; --depth) {
          if (depth == 0) return next() == 0 && at == end ? value : dwell::Ref<Value>{};
          const auto& in = around[depth - 1];
          if (closing(in.list) == '}' && in.count % 2 != 0) {
            if (g.at(value)->kind != '"' || !take_next(':')) return {};
            break;
          }
          if (take_next(',')) break;
          if (!take_next(closing(in.list))) return {};
          value = in.list;
        }
      }
    }

    // The bracket that ends an array or object.
    char closing(dwell::Ref<Value> value) { return g.at(value)->kind == '[' ? ']' : g.at(value)->kind == '{' ? '}' : '\0'; }
    char peek() { return at == end ? '\0' : *at; }
    bool take(char expected) { return at != end && *at == expected && ++at; }
    char next() {
      while (peek() == ' ' || peek() == '\n' || peek() == '\r' || peek() == '\t') ++at;
      return peek();
    }
    bool take_next(char expected) { return next() == expected && take(expected); }
    bool take_word(const char* word) {
      while (*word != 0 && take(*word)) ++word;
      return *word == 0;
    }

    // A value, but for the contents of an array or object.
    dwell::Ref<Value> begin_value() {
      const char first = next();
      dwell::Ref<Text> text{};
      double number = 0;
      const bool is_word = first >= 'a' && first <= 'z';
      const bool well = first == '[' || first == '{' ? take(first) : first == '"' ? bool(text = take_text())
                        : is_word ? take_word(first == 't' ? "true" : first == 'f' ? "false" : "null") : take_number(number);
      if (!well) return {};
      return g.make<Value>(dwell::Ref<Value>{}, dwell::Ref<Value>{}, text, dwell::u32(first), number);
    }

    // Appends digits to a number, and returns how many.
    int take_digits(double& number) {
      int count = 0;
      for (; peek() >= '0' && peek() <= '9'; ++count) number = 10 * number + (*at++ - '0');
      return count;
    }
    // Exact for 15 digits and powers up to 10^22: a double holds both.
    bool take_number(double& number) {
      const bool negative = take('-');
      if (take_digits(number) == 0) return false;
      int power = take('.') ? -take_digits(number) : 0;
      if (take('e') || take('E')) {
        const char sign = peek();
        if (sign == '+' || sign == '-') ++at;
        double exponent = 0;
        if (take_digits(exponent) == 0 || exponent > 300) return false;
        power += sign == '-' ? -int(exponent) : int(exponent);
      }
      double scale = 1;
      for (int i = power < 0 ? -power : power; i != 0; --i) scale *= 10;
      number = (negative ? -1 : 1) * (power < 0 ? number / scale : number * scale);
      return true;
    }

    // Returns nothing for a string with escapes by number.
    dwell::Ref<Text> take_text() {
      ++at;
      const auto first = g.make<Text>(dwell::Ref<Text>{}, 0u);
      for (dwell::Ref<Text> last = first; last && at != end;) {
        if (take('"')) return first;
        Text& text = *g.at(last);
        if (text.size == sizeof(Text::letters)) {
          text.rest.set(g, last = g.make<Text>(dwell::Ref<Text>{}, 0u));
          continue;
        }
        const bool escaped = take('\\');
        if (at == end || (escaped && *at == 'u')) break;
        char letter = *at++;
        for (int i = 0; escaped && i < 5; ++i) letter = letter == "nrtbf"[i] ? "\n\r\t\b\f"[i] : letter;
        text.letters[text.size++] = letter;
      }
      return {};
    }
  };

  DWELL_OPERATOR(begin)(dwell::Group g, dwell::Root<Documents> root, dwell::u32 count) {
    if (g.rank() == 0) g.at(root)->ref.publish(g, g.make_array<Value>(count));
  }

  // Document i has the characters from starts[i] to starts[i + 1].
  DWELL_OPERATOR(parse)(dwell::Group g, dwell::Root<Documents> root, dwell::Span<const char> text, dwell::Span<const dwell::u32> starts) {
    Documents& documents = *g.at(g.at(root)->ref.get(g));
    for (auto i : g.range(documents.size()))
      documents[i].publish(g, Parser{g, text.begin() + starts[i], text.begin() + starts[i + 1]}.document());
  }

  struct Summary { double sum; dwell::u32 values, depth, hash; };
  DWELL_OPERATOR(summarise)(dwell::Group g, dwell::Root<Documents> root, dwell::Span<Summary> summaries) {
    Documents& documents = *g.at(g.at(root)->ref.get(g));
    for (auto i : g.range(documents.size())) {
      Summary all{};
      dwell::Ref<Value> around[kMostDepth];
      dwell::u32 depth = 0;
      for (dwell::Ref<Value> at = documents[i].get(g); at;) {
        const Value& value = *g.at(at);
        all.sum += value.number;
        ++all.values;
        all.depth = depth + 1 > all.depth ? depth + 1 : all.depth;
        for (auto text = value.text.get(g); text; text = g.at(text)->rest.get(g))
          for (dwell::u32 k = 0; k < g.at(text)->size; ++k) all.hash = (all.hash + dwell::u8(g.at(text)->letters[k])) * 16777619u;
        dwell::Ref<Value> next = value.first.get(g);
        if (next) around[depth++] = at;
        else next = value.next.get(g);
        while (!next && depth != 0) next = g.at(around[--depth])->next.get(g);
        at = next;
      }
      summaries[i] = all;
    }
  }

  DWELL_OPERATOR(drop_every_second)(dwell::Group g, dwell::Root<Documents> root) {
    Documents& documents = *g.at(g.at(root)->ref.get(g));
    for (auto i : g.range(documents.size() / 2)) documents[2 * i].set(g, {});
  })";

// Writes documents, and notes what they have.
class Author {
 public:
  Summary write(std::string& text) {
    text_.clear();
    all_ = {};
    value(1, random_() % 2);
    const bool malformed = random_() % 50 == 0;
    if (malformed) text_ = random_() % 2 == 0 ? '[' + text_ : std::string(20, '[') + text_ + std::string(20, ']');  // open, or too deep
    text += text_;
    return malformed ? Summary{} : all_;
  }

 private:
  void value(dwell::u32 depth, std::size_t kind) {
    ++all_.values;
    all_.depth = std::max(all_.depth, depth);
    if (kind < 2) {
      text_ += "[{"[kind];
      for (std::size_t left = random_() % (depth == 1 ? 30 : 8); left != 0; --left) {
        if (kind == 1) value(depth + 1, 2);
        text_ += kind == 1 ? " : " : "\n ";
        value(depth + 1, depth < 12 ? random_() % 8 : 2 + random_() % 6);
        if (left != 1) text_ += ',';
      }
      text_ += "]}"[kind];
    } else if (kind < 4) {
      text_ += '"';
      for (std::size_t left = random_() % 4 == 0 ? random_() % 90 : random_() % 12; left != 0; --left) {
        const char letter = "\"\\\n\tabcdefghijklmnopqrstuvwxyz {}[]:,"[random_() % 37];
        if (letter == '"' || letter == '\\' || letter == '\n' || letter == '\t') text_ += '\\';
        text_ += letter == '\n' ? 'n' : letter == '\t' ? 't' : letter;
        all_.hash = (all_.hash + static_cast<unsigned char>(letter)) * 16777619U;
      }
      text_ += '"';
    } else if (kind < 7) {
      const char* const exponents[] = {"", "e-9", "E+7"};
      const std::string digits = std::to_string((static_cast<double>(random_()) - 0x1p31) / 1000) + exponents[random_() % 3];
      text_ += digits;
      all_.sum += std::strtod(digits.c_str(), nullptr);
    } else {
      const char* const words[] = {"true", "false", "null"};
      text_ += words[random_() % 3];
    }
  }

  std::mt19937 random_{1};
  std::string text_;
  Summary all_;
};

}  // namespace

int main() {
  constexpr unsigned kDocuments = 3000;
  Author author;
  std::string text;
  std::vector<dwell::u32> starts = {0};
  std::vector<Summary> expected;
  while (expected.size() < kDocuments) {
    expected.push_back(author.write(text));
    starts.push_back(static_cast<dwell::u32>(text.size()));
  }

  dwell::Runtime runtime;
  dwell::Heap heap = runtime.heap();
  const auto begin = runtime.define<void(dwell::Root<Documents>, dwell::u32)>("begin", kJson);
  const auto parse = runtime.define<void(dwell::Root<Documents>, dwell::Span<const char>, dwell::Span<const dwell::u32>)>("parse", kJson);
  const auto summarise = runtime.define<void(dwell::Root<Documents>, dwell::Span<Summary>)>("summarise", kJson);
  const auto drop = runtime.define<void(dwell::Root<Documents>)>("drop_every_second", kJson);
  auto letters = runtime.allocate<char>(text.size());
  auto of_documents = runtime.allocate<dwell::u32>(starts.size());
  auto summaries = runtime.allocate<Summary>(kDocuments);
  letters.write(text);
  of_documents.write(starts);

  constexpr auto kGroups = dwell::groups(32);
  const dwell::Root<Documents> root = heap.root<Documents>("documents");
  runtime.submit(begin, root, kDocuments).wait();
  runtime.submit(parse, root, letters, of_documents, kGroups).wait();
  const auto right = [&] {
    std::vector<Summary> found(kDocuments);
    runtime.submit(summarise, root, summaries, kGroups).wait();
    summaries.read(found);
    return found == expected;
  };
  const bool all_right = right();
  const std::size_t before = heap.statistics().used;

  runtime.submit(drop, root).wait();
  for (unsigned i = 0; i < kDocuments; i += 2) expected[i] = {};
  const dwell::HeapCompaction done = heap.compact();
  const std::size_t after = heap.statistics().used;
  const bool half_right = right();
  std::printf("json: %u documents are %s; of half of them %zu objects moved, in %zu KiB instead of %zu, and are %s\n", kDocuments,
              all_right ? "right" : "wrong", std::size_t{done.moved}, after / 1024, before / 1024, half_right ? "right" : "wrong");
  return all_right && half_right && after * 4 < before * 3 ? 0 : 1;
}
