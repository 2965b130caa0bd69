#include "jit/source/includes.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include <dwell/compile_options.hpp>

#include "base/file.hpp"
#include "base/mutex.hpp"
#include "jit/base/file_stamp.hpp"
#include "jit/base/sha256.hpp"
#include "jit/source/include_lexer.hpp"

namespace dwell::jit {

namespace {

constexpr std::size_t kFilesRemembered = 8192;
constexpr std::size_t kLongestFile = std::size_t{1} << 28U;
constexpr std::chrono::seconds kSystemStays{1};

// A file's content at the time it was read.
struct ReadFile {
  FileStamp stamp;
  bool settled = false;   // whether any later write is sure to change the stamp
  bool too_long = false;  // not read
  Digest contents{};
  Inclusions inclusions;
};

using Names = std::unordered_set<std::string>;

// The digest of all headers that a system header includes.
struct SystemHeader {
  std::string digest;
  Names names;  // that they include, up to the first slash: a file or folder of this name in a user's folder may hide a header
  std::chrono::steady_clock::time_point made;
};

// The process's cache of files, folders and search results. May be used from several threads at once.
class Memory {
 public:
  static Memory& get() {
    static Memory memory;
    return memory;
  }

  // Returns the current file at `path`; null if there is none.
  std::shared_ptr<const ReadFile> read(const std::string& path) {
    const auto stamp = stamp_of(path);
    if (!stamp) return nullptr;
    {
      const Lock lock(mutex_);
      if (const auto known = files_.find(path); known != files_.end() && known->second->settled && known->second->stamp == *stamp)
        return known->second;
    }
    auto made = std::make_shared<ReadFile>();
    made->stamp = *stamp;
    made->settled = is_settled(*stamp);
    made->too_long = stamp->size > kLongestFile;
    if (!made->too_long) {
      const auto bytes = read_file(path, kLongestFile);
      if (!bytes) return nullptr;
      made->contents = sha256(*bytes);
      made->inclusions = inclusions_of({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
    }
    const Lock lock(mutex_);
    if (files_.size() >= kFilesRemembered) files_.clear();
    files_.insert_or_assign(path, made);
    return made;
  }

  // Returns the path where `name` was last found in the system's folders; empty if unknown. `read` returns the file.
  std::string found(const std::string& folders, const std::string& name) {
    const Lock lock(mutex_);
    const auto known = found_.find(folders + '\n' + name);
    return known == found_.end() ? std::string() : known->second;
  }
  void note(const std::string& folders, const std::string& name, const std::string& path) {
    const Lock lock(mutex_);
    if (found_.size() >= kFilesRemembered) found_.clear();
    found_.insert_or_assign(folders + '\n' + name, path);
  }

  // Returns the recent result for system header `name`; null if there is none or it is older than kSystemStays.
  std::shared_ptr<const SystemHeader> system_header(const std::string& folders, const std::string& name) {
    const Lock lock(mutex_);
    const auto known = system_.find(folders + '\n' + name);
    if (known == system_.end() || std::chrono::steady_clock::now() - known->second->made > kSystemStays) return nullptr;
    return known->second;
  }
  void note_system(const std::string& folders, const std::string& name, std::shared_ptr<const SystemHeader> header) {
    const Lock lock(mutex_);
    if (system_.size() >= kFilesRemembered) system_.clear();
    system_.insert_or_assign(folders + '\n' + name, std::move(header));
  }

  // Returns the names in the folder at `path`, possibly none; null if it cannot be read.
  std::shared_ptr<const Names> listing(const std::string& path) {
    const auto stamp = folder_stamp_of(path);
    if (!stamp) return nullptr;
    {
      const Lock lock(mutex_);
      if (const auto known = listings_.find(path); known != listings_.end() && known->second.settled && known->second.stamp == *stamp)
        return known->second.names;
    }
    auto names = std::make_shared<Names>();
    std::error_code error;
    for (std::filesystem::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
      names->insert(at->path().filename().string());
    if (error) return nullptr;
    const Lock lock(mutex_);
    if (listings_.size() >= kFilesRemembered) listings_.clear();
    listings_.insert_or_assign(path, Listing{*stamp, is_settled(*stamp), names});
    return names;
  }

 private:
  struct Listing {
    FileStamp stamp;
    bool settled = false;  // as in ReadFile
    std::shared_ptr<const Names> names;
  };

  // File times advance in steps of a few milliseconds: a recently written file may change again within its time stamp.
  static bool is_settled(const FileStamp& stamp) {
    return std::chrono::system_clock::now().time_since_epoch() - stamp.changed > std::chrono::milliseconds(100);
  }

  Mutex mutex_;  // never held while a file is read
  std::unordered_map<std::string, std::shared_ptr<const ReadFile>> files_ DWELL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, std::string> found_ DWELL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, std::shared_ptr<const SystemHeader>> system_ DWELL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Listing> listings_ DWELL_GUARDED_BY(mutex_);
};

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

// Returns `path` without "..", if it leads to the same file: headers that include each other as "../x/y.h" would get ever longer names.
std::string shorter(const std::string& path) {
  if (path.find("/.") == std::string::npos) return path;
  std::string normal = std::filesystem::path(path).lexically_normal();
  return stamp_of(normal) == stamp_of(path) ? normal : path;
}

// Follows inclusions, each file once.
class Walk {
 public:
  // `seen`, if not null, receives all files, also those whose digest is known.
  explicit Walk(const IncludeSearch& search, std::set<FileId>* seen = nullptr) : search_(search), seen_files_(seen) {}

  std::optional<std::string> run(std::string_view text) {
    if (!follow(inclusions_of(text), {}, false)) return std::nullopt;
    for (const auto& [name, header] : search_.headers) {
      const std::string folder = search_.current_folder.empty() ? std::string() : folder_of(search_.current_folder + '/' + name);
      if (!follow(inclusions_of(header), folder, false)) return std::nullopt;
    }
    if (!inside_system_) {
      for (const std::string& file : search_.unnamed_files) take_unnamed(file);
    }
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      const Found at = queue_[i];
      if (!follow(at.file->inclusions, folder_of(at.path), at.system)) return std::nullopt;
    }
    if (!can_be_told_) return std::nullopt;
    return empty_ ? std::string() : key_.finish();
  }

 private:
  struct Found {
    std::string path;
    bool system;
    std::shared_ptr<const ReadFile> file;
  };

  // `folder`: of the including file; empty for a text in memory. False if the inclusions cannot be determined.
  bool follow(const Inclusions& inclusions, const std::string& folder, bool system) {
    if (inclusions.by_macro && !(system && search_.compiler_tells)) return false;
    if (inclusions.by_assembler && !system && search_.assembler_reads) return false;
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
    if (inside_system_) names_.insert(first_part(one.name));
    const bool whole = !system && !one.next && !inside_system_;
    if (!(whole && add_system(one.name)) && !take_from_system(one) && !found) missing(one);
  }

  static std::string first_part(const std::string& name) { return name.substr(0, name.find('/')); }

  void ask_system() {
    if (asked_system_) return;
    system_ = search_.system_folders();
    system_key_ = search_.compiler_tells ? "told\n" : "\n";
    for (const std::string& place : system_) system_key_ += place + '\n';
    asked_system_ = true;
  }

  // Adds the digest of all that a system header includes, which is the same for every source. False, with nothing added, if a user's header
  // may hide one of these.
  bool add_system(const std::string& name) {
    ask_system();
    auto header = seen_files_ == nullptr ? Memory::get().system_header(system_key_, name) : nullptr;
    if (header == nullptr) {
      header = follow_system(name);
      Memory::get().note_system(system_key_, name, header);
    }
    if (is_hidden(header->names)) return false;
    if (header->digest == kCannotBeTold) can_be_told_ = false;
    key_.add("system", name).add("contents", header->digest);
    empty_ = false;
    return true;
  }
  std::shared_ptr<const SystemHeader> follow_system(const std::string& name) {
    const CompileOptions none;
    const std::vector<std::string> no_folders;
    const IncludeSearch only_system{.headers = none.headers,
                                    .folders = no_folders,
                                    .system_folders = [this] { return system_; },
                                    .is_known = search_.is_known,
                                    .compiler_tells = search_.compiler_tells,
                                    .assembler_reads = search_.assembler_reads};
    Walk walk(only_system, seen_files_);
    walk.inside_system_ = true;
    auto header = std::make_shared<SystemHeader>();
    header->digest = walk.run("#include <" + name + ">\n").value_or(kCannotBeTold);
    header->names = std::move(walk.names_);
    header->made = std::chrono::steady_clock::now();
    return header;
  }
  bool is_hidden(const Names& names) const {
    const auto is_asked = [&](const std::string& name) { return names.contains(name); };
    if (std::ranges::any_of(search_.headers, [&](const auto& header) { return is_asked(first_part(header.first)); })) return true;
    return std::ranges::any_of(search_.folders, [&](const std::string& folder) {
      const auto there = Memory::get().listing(folder);
      if (there == nullptr || is_asked("..") || is_asked(".")) return true;
      if (there->size() < names.size()) return std::ranges::any_of(*there, is_asked);
      return std::ranges::any_of(names, [&](const std::string& name) { return there->contains(name); });
    });
  }

  // Adds a file that no #include names. A macro may name it relative to one of the folders; then a file of this name in an earlier folder
  // would hide it.
  void take_unnamed(const std::string& path) {
    ask_system();
    const auto look_from = [&](const std::string& place, bool system) {
      if (path.size() > place.size() + 1 && path.starts_with(place) && path[place.size()] == '/')
        look_for({path.substr(place.size() + 1)}, {}, system);
    };
    bool system = false;
    for (const std::string& place : search_.folders) look_from(place, false);
    for (const std::string& place : system_) {
      look_from(place, true);
      system = system || path.starts_with(place + '/');
    }
    if (!take(path, system)) missing({path});
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

  // Adds a file to the digest, and queues its inclusions. False if it does not exist.
  bool take(const std::string& given, bool system) {
    const std::string path = shorter(given);
    if (seen_.contains(path)) return true;
    auto file = Memory::get().read(path);
    if (file == nullptr) return false;
    seen_.insert(path);
    if (file->too_long) can_be_told_ = false;
    if (seen_files_ != nullptr) seen_files_->insert(file->stamp.id);
    key_.add("file", path).add("contents", file->contents);
    empty_ = false;
    queue_.push_back({path, system, std::move(file)});
    return true;
  }

  void missing(const Inclusion& one) {
    key_.add("missing", one.name);
    empty_ = false;
  }

  // Replaces the digest of a system header whose inclusions cannot be determined.
  static constexpr const char* kCannotBeTold = "cannot be told";

  const IncludeSearch& search_;
  std::set<FileId>* seen_files_;
  bool can_be_told_ = true;
  bool inside_system_ = false;  // follows one system header, for add_system
  Names names_;                 // the names it includes
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

std::vector<std::string> unnamed_among(std::span<const std::string> files, std::string_view text, const IncludeSearch& search) {
  std::set<FileId> seen;
  Walk(search, &seen).run(text);
  std::vector<std::string> unnamed;
  for (const std::string& file : files) {
    const auto stamp = stamp_of(file);
    if (!stamp || !seen.contains(stamp->id)) unnamed.push_back(file);
  }
  return unnamed;
}

}  // namespace dwell::jit
