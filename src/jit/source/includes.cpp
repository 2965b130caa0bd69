#include "jit/source/includes.hpp"

#include <fcntl.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "jit/base/file.hpp"
#include "jit/base/file_stamp.hpp"
#include "jit/base/sha256.hpp"
#include "jit/source/include_lexer.hpp"

namespace dwell::jit {

namespace {

constexpr std::size_t kFilesRemembered = 8192;
constexpr std::chrono::seconds kSystemStays{1};

// What stands in a file, of about `size` bytes; nothing when it cannot be read.
std::optional<std::string> contents_of(const std::string& path, std::size_t size) {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  // One byte more than was said: whoever fills it has grown meanwhile.
  for (std::string text(size + 1, '\0');; text.resize(text.size() * 2)) {
    const ssize_t got = file.read_at(std::as_writable_bytes(std::span(text)), 0);
    if (got < 0) return std::nullopt;
    if (static_cast<std::size_t>(got) == text.size()) continue;
    text.resize(static_cast<std::size_t>(got));
    return text;
  }
}

// A file as it was read.
struct ReadFile {
  FileStamp stamp;
  bool settled = false;  // whether a later write would surely have another time
  Digest contents{};
  Inclusions inclusions;
};

// What the process has read and found so far. May be used from several threads at once.
class Memory {
 public:
  static Memory& get() {
    static Memory memory;
    return memory;
  }

  // The file at `path` as it is now; null when there is none.
  std::shared_ptr<const ReadFile> read(const std::string& path) {
    const auto stamp = stamp_of(path);
    if (!stamp) return nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = files_.find(path); known != files_.end() && known->second->settled && known->second->stamp == *stamp)
        return known->second;
    }
    auto made = std::make_shared<ReadFile>();
    made->stamp = *stamp;
    made->settled = is_settled(*stamp);
    const auto text = contents_of(path, stamp->size);
    if (!text) return nullptr;
    made->contents = sha256(std::as_bytes(std::span(*text)));
    made->inclusions = inclusions_of(*text);
    const std::lock_guard lock(mutex_);
    if (files_.size() >= kFilesRemembered) files_.clear();
    files_.insert_or_assign(path, made);
    return made;
  }

  // Where `name` was last found in the system's folders; empty when it was not. What stands there is asked of `read`.
  std::string found(const std::string& folders, const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto known = found_.find(folders + '\n' + name);
    return known == found_.end() ? std::string() : known->second;
  }
  void note(const std::string& folders, const std::string& name, const std::string& path) {
    const std::lock_guard lock(mutex_);
    if (found_.size() >= kFilesRemembered) found_.clear();
    found_.insert_or_assign(folders + '\n' + name, path);
  }

  // What was digested of system header `name` a moment ago; nothing when that was too long ago.
  std::optional<std::string> system_digest(const std::string& folders, const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto known = system_.find(folders + '\n' + name);
    if (known == system_.end() || std::chrono::steady_clock::now() - known->second.made > kSystemStays) return std::nullopt;
    return known->second.digest;
  }
  void note_system(const std::string& folders, const std::string& name, const std::string& digest) {
    const std::lock_guard lock(mutex_);
    if (system_.size() >= kFilesRemembered) system_.clear();
    system_.insert_or_assign(folders + '\n' + name, SystemDigest{digest, std::chrono::steady_clock::now()});
  }

 private:
  struct SystemDigest {
    std::string digest;
    std::chrono::steady_clock::time_point made;
  };

  // The clock of files advances in steps of a few milliseconds: what was written just now may be written again at the same time.
  static bool is_settled(const FileStamp& stamp) {
    const auto modified = std::chrono::seconds(stamp.modified_seconds) + std::chrono::nanoseconds(stamp.modified_ns);
    return std::chrono::system_clock::now().time_since_epoch() - modified > std::chrono::milliseconds(100);
  }

  std::mutex mutex_;  // guards the three below; never held while a file is read
  std::unordered_map<std::string, std::shared_ptr<const ReadFile>> files_;
  std::unordered_map<std::string, std::string> found_;
  std::unordered_map<std::string, SystemDigest> system_;
};

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

// `path` without "..", where that leads to the same file: headers that include each other as "../x/y.h" would have ever longer names.
std::string shorter(const std::string& path) {
  if (path.find("/.") == std::string::npos) return path;
  std::string normal = std::filesystem::path(path).lexically_normal();
  return stamp_of(normal) == stamp_of(path) ? normal : path;
}

// Follows inclusions, each file once.
class Walk {
 public:
  explicit Walk(const IncludeSearch& search) : search_(search) {}

  std::optional<std::string> run(std::string_view text) {
    if (!follow(inclusions_of(text), {}, false)) return std::nullopt;
    for (const auto& [name, header] : search_.headers) {
      const std::string folder = search_.current_folder.empty() ? std::string() : folder_of(search_.current_folder + '/' + name);
      if (!follow(inclusions_of(header), folder, false)) return std::nullopt;
    }
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      const Found at = queue_[i];
      if (!follow(at.file->inclusions, folder_of(at.path), at.system)) return std::nullopt;
    }
    return empty_ ? std::string() : key_.finish();
  }

 private:
  struct Found {
    std::string path;
    bool system;
    std::shared_ptr<const ReadFile> file;
  };

  // `folder` is that of the file that asks; empty for what has none. False when it cannot be told.
  bool follow(const Inclusions& inclusions, const std::string& folder, bool system) {
    if (!inclusions.can_be_told && !system) return false;
    for (const Inclusion& one : inclusions.list) {
      if (!search_.is_known(one.name)) look_for(one, folder, system);
    }
    return true;
  }

  void look_for(const Inclusion& one, const std::string& folder, bool system) {
    if (one.name.front() == '/') {
      if (!take(one.name, system)) missing(one);
      return;
    }
    bool found = false;
    if (one.quoted && !folder.empty()) found = take(folder + '/' + one.name, system);
    if (found && !one.next) return;
    // All texts in memory are followed in any case.
    if (search_.headers.contains(one.name) && !one.next) return;
    for (const std::string& place : search_.folders) {
      if (!take(place + '/' + one.name, false)) continue;
      found = true;
      if (!one.next) return;
    }
    // Without headers of the user's, which might hide some of the system's, what follows is the same for every source.
    const bool alone = search_.folders.empty() && search_.headers.empty();
    if (alone && !system && !one.next && !inside_system_) {
      add_system(one.name);
    } else if (!take_from_system(one) && !found) {
      missing(one);
    }
  }

  void ask_system() {
    if (asked_system_) return;
    system_ = search_.system_folders();
    for (const std::string& place : system_) system_key_ += place + '\n';
    asked_system_ = true;
  }

  // Adds the digest of everything that a header of the system leads to.
  void add_system(const std::string& name) {
    ask_system();
    auto digest = Memory::get().system_digest(system_key_, name);
    if (!digest) {
      Walk walk(search_);
      walk.inside_system_ = true;
      digest = walk.run("#include <" + name + ">\n").value_or("");
      Memory::get().note_system(system_key_, name, *digest);
    }
    key_.add("system", name).add("contents", *digest);
    empty_ = false;
  }

  bool take_from_system(const Inclusion& one) {
    ask_system();
    if (!one.next) {
      if (const std::string known = Memory::get().found(system_key_, one.name); !known.empty() && take(known, true)) return true;
    }
    bool found = false;
    for (const std::string& place : system_) {
      const std::string path = place + '/' + one.name;
      if (!take(path, true)) continue;
      found = true;
      if (one.next) continue;
      Memory::get().note(system_key_, one.name, path);
      break;
    }
    return found;
  }

  // Whether there is such a file; it is then part of the digest and will be followed.
  bool take(const std::string& given, bool system) {
    const std::string path = shorter(given);
    if (seen_.contains(path)) return true;
    auto file = Memory::get().read(path);
    if (file == nullptr) return false;
    seen_.insert(path);
    key_.add("file", path).add("contents", file->contents);
    empty_ = false;
    queue_.push_back({path, system, std::move(file)});
    return true;
  }

  void missing(const Inclusion& one) {
    key_.add("missing", one.name);
    empty_ = false;
  }

  const IncludeSearch& search_;
  bool inside_system_ = false;  // follows one header of the system, for add_system
  CacheKey key_;
  bool empty_ = true;
  std::vector<Found> queue_;
  std::unordered_set<std::string> seen_;
  bool asked_system_ = false;
  std::vector<std::string> system_;
  std::string system_key_;
};

}  // namespace

std::optional<std::string> digest_of_includes(std::string_view text, const IncludeSearch& search) { return Walk(search).run(text); }

}  // namespace dwell::jit
