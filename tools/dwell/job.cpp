#include "job.hpp"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <stdexcept>
#include <unordered_map>

// Checks toml++'s assertions in every build: some texts violate them ("[[[", or an array without a value), and it would continue with
// unread data. Declared before toml++, whose macro calls it.
namespace dwell::tool {
struct BadToml {};
static constexpr void expect_of_toml(bool holds) {
  if (!holds) throw BadToml{};
}
}  // namespace dwell::tool
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(...) ::dwell::tool::expect_of_toml(static_cast<bool>(__VA_ARGS__))
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include "toml_text.hpp"

namespace dwell::tool {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestText = std::size_t{1} << 24U;  // bytes of a job or a source
constexpr std::size_t kMostNamed = 65536;                    // operators, arrays

template <class Named>
std::string names_of(const std::vector<Named>& list) {
  std::vector<std::string> names;
  for (const Named& one : list) names.push_back(one.name);
  return enumerate(names);
}

// A table of the job, with its name in messages. Each key is read once; keys left over are errors.
class TomlTable {
 public:
  TomlTable(const toml::table& table, std::string name, const fs::path& file) : table_(table), name_(std::move(name)), file_(file) {}

  const std::string& name() const { return name_; }
  Place place() const { return at(table_.source()); }
  Place place(std::string_view key) const {
    const toml::node* const node = table_.get(key);
    return node == nullptr ? place() : at(node->source());
  }
  Place at(const toml::source_region& region) const { return {file_, region.begin.line}; }

  void allow(std::initializer_list<std::string_view> known) const {
    const toml::key* first = nullptr;
    for (const auto& [key, value] : table_) {
      if (std::find(known.begin(), known.end(), key.str()) != known.end()) continue;
      if (first == nullptr || key.source().begin.line < first->source().begin.line) first = &key;
    }
    if (first == nullptr) return;
    throw failure_at(at(first->source()), "unknown key '" + std::string(first->str()) + "' in " + name_ + "; known are " +
                                              enumerate(std::vector<std::string>(known.begin(), known.end())));
  }

  bool has(std::string_view key) const { return table_.contains(key); }

  std::optional<std::string> string(std::string_view key) const {
    const toml::node* const node = table_.get(key);
    if (node == nullptr) return std::nullopt;
    if (!node->is_string()) wrong(key, *node, "a string");
    std::string value = node->ref<std::string>();
    if (value.empty()) throw failure_at(at(node->source()), "'" + std::string(key) + "' in " + name_ + " is empty");
    return value;
  }
  std::string required_string(std::string_view key) const {
    std::optional<std::string> value = string(key);
    if (!value) throw failure_at(place(), name_ + " has no '" + std::string(key) + "'");
    return *value;
  }
  // Reads a path, relative to the job.
  fs::path required_path(std::string_view key) const { return file_.parent_path() / required_string(key); }

  std::optional<std::uint64_t> integer(std::string_view key, std::uint64_t least, std::uint64_t most) const {
    const toml::node* const node = table_.get(key);
    if (node == nullptr) return std::nullopt;
    if (!node->is_integer()) wrong(key, *node, "an integer");
    const std::int64_t value = node->ref<std::int64_t>();
    if (value < 0 || static_cast<std::uint64_t>(value) < least || static_cast<std::uint64_t>(value) > most) {
      throw failure_at(at(node->source()), "'" + std::string(key) + "' in " + name_ + " is " + std::to_string(value) +
                                               ", and must lie between " + std::to_string(least) + " and " + std::to_string(most));
    }
    return static_cast<std::uint64_t>(value);
  }
  bool boolean(std::string_view key) const {
    const toml::node* const node = table_.get(key);
    if (node == nullptr) return false;
    if (!node->is_boolean()) wrong(key, *node, "true or false");
    return node->ref<bool>();
  }
  const toml::array* array(std::string_view key) const {
    const toml::node* const node = table_.get(key);
    if (node == nullptr) return nullptr;
    if (!node->is_array()) wrong(key, *node, "an array");
    return node->as_array();
  }
  // Returns the entries in the order of the file.
  struct Entry {
    std::string key;
    const toml::node* node;
    Place place;
  };
  std::vector<Entry> entries() const {
    std::vector<Entry> list;
    for (const auto& [key, value] : table_) list.push_back({std::string(key.str()), &value, at(key.source())});
    std::stable_sort(list.begin(), list.end(), [](const Entry& a, const Entry& b) { return a.place.line < b.place.line; });
    return list;
  }
  std::optional<TomlTable> table(std::string_view key) const {
    const toml::node* const node = table_.get(key);
    if (node == nullptr) return std::nullopt;
    if (!node->is_table()) wrong(key, *node, "a table");
    return TomlTable(*node->as_table(), std::string(key), file_);
  }
  TomlTable table(const Entry& entry, const std::string& what) const {
    if (!entry.node->is_table()) throw failure_at(entry.place, what + " " + entry.key + " must be a table");
    return {*entry.node->as_table(), what + " " + entry.key, file_};
  }
  TomlTable element(const toml::node& node, const std::string& name) const {
    if (!node.is_table()) throw failure_at(at(node.source()), name + " must be a table");
    return {*node.as_table(), name, file_};
  }

 private:
  [[noreturn]] void wrong(std::string_view key, const toml::node& node, const char* wanted) const {
    throw failure_at(at(node.source()), "'" + std::string(key) + "' in " + name_ + " must be " + wanted);
  }

  const toml::table& table_;
  std::string name_;
  const fs::path& file_;
};

// Indices of operators or arrays, by name.
template <class Named>
class Index {
 public:
  Index(const std::vector<Named>& list, const char* what) : list_(list), what_(what) {
    for (std::size_t i = 0; i < list.size(); ++i) places_.emplace(list[i].name, i);
  }
  std::size_t find(const std::string& name, const Place& place) const {
    if (const auto at = places_.find(name); at != places_.end()) return at->second;
    throw failure_at(place, std::string("there is no ") + what_ + " '" + name + "'; the job has " + names_of(list_));
  }

 private:
  const std::vector<Named>& list_;
  const char* what_;
  std::unordered_map<std::string, std::size_t> places_;
};

// Refuses lists that are too long.
void check_count(const std::vector<TomlTable::Entry>& entries, const char* what) {
  if (entries.size() > kMostNamed)
    throw failure_at(entries[kMostNamed].place, std::string("the job has more than ") + std::to_string(kMostNamed) + " " + what);
}

// Refuses cycles of `like` between arrays.
void check_likes(const std::vector<JobArray>& arrays) {
  std::vector<bool> ends(arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    std::vector<std::size_t> way;
    std::size_t at = i;
    for (; !ends[at] && arrays[at].like; at = *arrays[at].like) {
      if (way.size() > arrays.size()) throw failure_at(arrays[i].place, "array " + arrays[i].name + " is like itself, by way of 'like'");
      way.push_back(at);
    }
    for (const std::size_t step : way) ends[step] = true;
  }
}

std::vector<JobOperator> parse_operators(const TomlTable& root) {
  std::vector<JobOperator> list;
  const std::optional<TomlTable> operators = root.table("operators");
  if (!operators) return list;
  const std::vector<TomlTable::Entry> entries = operators->entries();
  check_count(entries, "operators");
  for (const TomlTable::Entry& entry : entries) {
    const TomlTable table = operators->table(entry, "operator");
    table.allow({"source"});
    list.push_back({entry.key, table.required_path("source"), table.place("source")});
  }
  return list;
}

Shape parse_shape(const TomlTable& table, const toml::array& extents) {
  Shape shape;
  for (const toml::node& extent : extents) {
    if (!extent.is_integer() || extent.ref<std::int64_t>() < 0) {
      throw failure_at(table.at(extent.source()), "'shape' in " + table.name() + " must hold integers from 0 on");
    }
    shape.push_back(static_cast<std::uint64_t>(extent.ref<std::int64_t>()));
  }
  try {
    element_count(shape, sizeof(double));
  } catch (const std::invalid_argument& problem) {
    throw failure_at(table.place("shape"), table.name() + ": " + problem.what());
  }
  return shape;
}

std::vector<JobArray> parse_arrays(const TomlTable& root) {
  std::vector<JobArray> list;
  const std::optional<TomlTable> arrays = root.table("arrays");
  if (!arrays) return list;
  const std::vector<TomlTable::Entry> entries = arrays->entries();
  check_count(entries, "arrays");
  for (const TomlTable::Entry& entry : entries) {
    const TomlTable table = arrays->table(entry, "array");
    table.allow({"file", "like", "shape", "dtype"});
    JobArray array;
    array.name = entry.key;
    array.place = entry.place;
    if (table.has("file")) array.file = table.required_path("file");
    if (const toml::array* const shape = table.array("shape")) array.shape = parse_shape(table, *shape);
    if (const std::optional<std::string> type = table.string("dtype")) {
      array.type = element_type_named(*type);
      if (!array.type) throw failure_at(table.place("dtype"), "dtype '" + *type + "' is not known; known are " + element_type_names());
    }
    if (table.has("like") && (table.has("file") || table.has("shape"))) {
      throw failure_at(table.place("like"), table.name() + " has 'like' beside 'file' or 'shape'; only one can say how large it is");
    }
    if (!table.has("file") && !table.has("like") && !(table.has("shape") && table.has("dtype"))) {
      throw failure_at(array.place, table.name() + " needs 'file', or 'like', or 'shape' and 'dtype'");
    }
    list.push_back(std::move(array));
  }
  const Index index(list, "array");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const TomlTable table = arrays->table(entries[i], "array");
    if (const std::optional<std::string> like = table.string("like")) list[i].like = index.find(*like, table.place("like"));
  }
  check_likes(list);
  return list;
}

JobArgument parse_argument(const TomlTable& table, const toml::node& node, const Index<JobArray>& arrays) {
  const Place place = table.at(node.source());
  if (const auto* const name = node.as_string()) return {ArrayIndex{arrays.find(name->get(), place)}, place};
  if (const auto* const flag = node.as_boolean()) return {Number(flag->get()), place};
  if (const auto* const integer = node.as_integer()) return {Number(integer->get()), place};
  if (const auto* const number = node.as_floating_point()) return {Number(number->get()), place};
  if (const auto* const parts = node.as_array(); parts != nullptr && parts->size() == 2) {
    const std::optional<double> real = parts->get(0)->value<double>();
    const std::optional<double> imaginary = parts->get(1)->value<double>();
    if (real && imaginary) return {Number(std::complex<double>(*real, *imaginary)), place};
  }
  throw failure_at(
      place, "'args' in " + table.name() + " may hold numbers, true, false, complex numbers as [real, imaginary], and names of arrays");
}

// Sets JobTask::after, as indices in the order of the file.
void resolve_after(const TomlTable& root, const toml::array& tasks, std::vector<JobTask>& list) {
  std::map<std::string, std::size_t> named;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].name.empty()) continue;
    const auto [same, is_new] = named.emplace(list[i].name, i);
    if (is_new) continue;
    throw failure_at(root.element(*tasks.get(i), list[i].title()).place("name"),
                     "task " + std::to_string(list[i].number) + " has the name of task " + std::to_string(same->second + 1) + ", '" +
                         list[i].name + "': give it another one");
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    JobTask& task = list[i];
    const TomlTable table = root.element(*tasks.get(i), task.title());
    const toml::array* const names = table.array("after");
    if (names == nullptr) continue;
    task.after_place = table.place("after");
    std::vector<std::size_t>& after = task.after.emplace();
    std::set<std::size_t> seen;
    for (const toml::node& node : *names) {
      const Place place = table.at(node.source());
      if (!node.is_string()) throw failure_at(place, "'after' in " + task.title() + " must hold names of tasks, as strings");
      const std::string& name = node.ref<std::string>();
      const auto found = named.find(name);
      if (found == named.end()) {
        std::vector<std::string> known;
        for (const auto& [one, index] : named) known.push_back(one);
        throw failure_at(place,
                         task.title() + " is after '" + name + "', and no task has that name; names in this job: " + enumerate(known));
      }
      if (found->second == i) throw failure_at(place, task.title() + " is after itself: take '" + name + "' out of its 'after'");
      if (!seen.insert(found->second).second) throw failure_at(place, "'after' in " + task.title() + " has '" + name + "' twice");
      after.push_back(found->second);
    }
  }
}

// Finds a cycle among tasks that cannot be ordered: follows `after` until a task repeats.
[[noreturn]] void throw_cycle(const std::vector<JobTask>& tasks, const std::vector<bool>& placed) {
  const auto unplaced = [&](std::size_t task) { return !placed[task]; };
  std::size_t at = static_cast<std::size_t>(std::find(placed.begin(), placed.end(), false) - placed.begin());
  std::vector<std::size_t> walk;
  std::vector<bool> met(tasks.size());
  for (; !met[at]; at = *std::find_if(tasks[at].after->begin(), tasks[at].after->end(), unplaced)) {
    met[at] = true;
    walk.push_back(at);
  }
  walk.erase(walk.begin(), std::find(walk.begin(), walk.end(), at));
  // Begin with the one that comes first in the file.
  std::rotate(walk.begin(), std::min_element(walk.begin(), walk.end()), walk.end());
  std::string chain;
  for (const std::size_t task : walk) chain += "'" + tasks[task].name + "' is after ";
  const JobTask& first = tasks[walk.front()];
  throw failure_at(first.after_place, first.title() + " would wait for itself: " + chain + "'" + first.name + "': take one of them out");
}

// Returns the order of submission: that of the file, but each task comes after those in its `after`.
std::vector<JobTask> in_order_of_submission(std::vector<JobTask> tasks) {
  std::vector<std::size_t> missing(tasks.size());  // predecessors without a place so far
  std::vector<std::vector<std::size_t>> behind(tasks.size());
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].after) {
      missing[i] = tasks[i].after->size();
      for (const std::size_t before : *tasks[i].after) behind[before].push_back(i);
    }
    if (missing[i] == 0) ready.push(i);
  }
  std::vector<std::size_t> order;
  std::vector<std::size_t> place_of(tasks.size());
  std::vector<bool> placed(tasks.size());
  while (!ready.empty()) {
    const std::size_t task = ready.top();
    ready.pop();
    place_of[task] = order.size();
    placed[task] = true;
    order.push_back(task);
    for (const std::size_t next : behind[task])
      if (--missing[next] == 0) ready.push(next);
  }
  if (order.size() != tasks.size()) throw_cycle(tasks, placed);
  if (std::is_sorted(order.begin(), order.end())) return tasks;

  const auto bound = std::find_if(tasks.begin(), tasks.end(), [](const JobTask& task) { return task.drain || task.links_to_previous(); });
  std::vector<JobTask> sorted;
  for (const std::size_t i : order) {
    JobTask& task = sorted.emplace_back(tasks[i]);
    if (!task.after) continue;
    for (std::size_t& before : *task.after) {
      if (before > i && bound != tasks.end()) {
        const std::string name = "'" + tasks[before].name + "'";
        throw failure_at(task.after_place, task.title() + " is after " + name + ", which stands below it, while " + bound->title() +
                                               " has '" +
                                               (bound->drain  ? "drain"
                                                : bound->link ? "link"
                                                              : "hard_link") +
                                               "', which goes by the order of the file: move " + name + " above");
      }
      before = place_of[before];
    }
  }
  return sorted;
}

std::vector<JobTask> parse_tasks(const TomlTable& root, const Job& job) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max() / 65536;  // keeps sums of repeats from overflowing
  const toml::array* const tasks = root.array("tasks");
  if (tasks == nullptr || tasks->empty()) throw failure_at({job.file, 1}, "the job is empty: it has no [[tasks]]");
  const Index operators(job.operators, "operator");
  const Index arrays(job.arrays, "array");
  std::vector<JobTask> list;
  for (const toml::node& node : *tasks) {
    JobTask task;
    task.number = list.size() + 1;
    task.name = root.element(node, task.title()).string("name").value_or("");
    const TomlTable table = root.element(node, task.title());
    table.allow({"name", "after", "operator", "args", "groups", "repeat", "link", "hard_link", "drain"});
    task.place = table.place();
    task.operator_index = operators.find(table.required_string("operator"), table.place("operator"));
    if (const toml::array* const arguments = table.array("args")) {
      for (const toml::node& argument : *arguments) task.arguments.push_back(parse_argument(table, argument, arrays));
    }
    task.groups = static_cast<std::uint32_t>(table.integer("groups", 1, 65535).value_or(1));
    task.repeat = table.integer("repeat", 1, kMost).value_or(1);
    task.link = table.boolean("link");
    task.hard_link = table.boolean("hard_link");
    task.drain = table.boolean("drain");
    list.push_back(std::move(task));
  }
  resolve_after(root, *tasks, list);
  return in_order_of_submission(std::move(list));
}

std::optional<JobSwap> parse_swap(const TomlTable& root, const Job& job) {
  const std::optional<TomlTable> table = root.table("swap");
  if (!table) return std::nullopt;
  table->allow({"operator", "source", "after"});
  JobSwap swap;
  swap.operator_index = Index(job.operators, "operator").find(table->required_string("operator"), table->place("operator"));
  swap.source = table->required_path("source");
  swap.place = table->place("source");
  if (!table->has("after")) throw failure_at(table->place(), "swap has no 'after'");
  const std::uint64_t total = job.total_tasks();
  swap.after = *table->integer("after", 0, std::numeric_limits<std::int64_t>::max());
  if (swap.after >= total) {
    throw failure_at(table->place("after"),
                     "the swap comes after " + std::to_string(swap.after) + " tasks, and the job has only " + std::to_string(total));
  }
  return swap;
}

std::vector<JobOutput> parse_outputs(const TomlTable& root, const Job& job) {
  std::vector<JobOutput> list;
  const std::optional<TomlTable> outputs = root.table("outputs");
  if (!outputs) return list;
  const Index arrays(job.arrays, "array");
  std::set<std::string> files;
  for (const TomlTable::Entry& entry : outputs->entries()) {
    JobOutput output;
    output.array_index = arrays.find(entry.key, entry.place);
    output.file = outputs->required_path(entry.key);
    output.place = entry.place;
    if (!files.insert(output.file.lexically_normal().string()).second)
      throw failure_at(entry.place, "two outputs go to " + output.file.string());
    list.push_back(std::move(output));
  }
  return list;
}

}  // namespace

std::uint64_t Job::total_tasks() const {
  std::uint64_t total = 0;
  for (const JobTask& task : tasks) total += task.repeat;
  return total;
}

bool Job::has_after() const {
  return std::any_of(tasks.begin(), tasks.end(), [](const JobTask& task) { return task.after.has_value(); });
}

std::string enumerate(const std::vector<std::string>& names) {
  std::string text;
  std::size_t left = names.size();
  for (const std::string& name : names) {
    text += name;
    --left;
    if (left > 0) text += left == 1 ? " and " : ", ";
  }
  return text.empty() ? "none" : text;
}

Job parse_job(std::string_view text, const fs::path& file) {
  if (const std::optional<TomlFault> fault = fault_in_toml(text)) throw failure_at({file, fault->line}, fault->what);
  toml::table document;
  try {
    document = toml::parse(text, file.string());
  } catch (const toml::parse_error& problem) {
    throw failure_at({file, problem.source().begin.line}, std::string(problem.description()));
  } catch (const BadToml&) {
    throw failure_at({file}, "this is no valid TOML");
  }
  const TomlTable root(document, "the job", file);
  root.allow({"operators", "arrays", "tasks", "swap", "outputs"});
  Job job;
  job.file = file;
  job.operators = parse_operators(root);
  job.arrays = parse_arrays(root);
  job.tasks = parse_tasks(root, job);
  job.swap = parse_swap(root, job);
  job.outputs = parse_outputs(root, job);
  return job;
}

std::string read_text(const fs::path& file, const Place& place, FileKinds kinds) {
  std::string why;
  const auto bytes = read_file(file, kLongestText, &why, kinds);
  if (!bytes) throw failure_at(place, "cannot read " + file.string() + ": " + why);
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

}  // namespace dwell::tool
