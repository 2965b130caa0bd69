#include "jit/host/host_compiler.hpp"

#include <cstdlib>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>

#include <dwell/error.hpp>

#include "image/bundle.hpp"
#include "jit/base/file_stamp.hpp"
#include "jit/base/process.hpp"
#include "jit/host/host_options.hpp"
#include "jit/host/working_folder.hpp"
#include "jit/object/elf.hpp"
#include "jit/source/embedded.hpp"
#include "jit/source/fingerprint.hpp"
#include "jit/source/includes.hpp"
#include "jit/source/option_checks.hpp"
#include "jit/source/source.hpp"

// Given by the build: the compiler that builds dwell, and flags that operators need to run inside it (sanitizers), separated by blanks.
#ifndef DWELL_HOST_COMPILER
#define DWELL_HOST_COMPILER ""
#endif
#ifndef DWELL_HOST_FLAGS
#define DWELL_HOST_FLAGS ""
#endif

namespace dwell::jit {

namespace {

namespace fs = std::filesystem;

Bytes read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  Bytes bytes(file ? static_cast<std::size_t>(file.tellg()) : 0);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file || bytes.empty()) throw Error(errc::io_failed, "cannot read " + path.string());
  return bytes;
}

// The folders that a compiler names under -v: a line each, indented, between two lines that never change (in the C locale).
std::vector<std::string> listed_folders(const std::string& text) {
  std::vector<std::string> folders;
  std::istringstream lines(text);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "End of search list.") break;
    if (inside && line.starts_with(' ')) folders.push_back(line.substr(1));
    inside = inside || line == "#include <...> search starts here:";
  }
  return folders;
}

std::string find_compiler(const std::string& wanted) {
  const char* const variable = secure_getenv("DWELL_CXX");
  const std::string chosen = !wanted.empty() ? wanted : variable != nullptr ? variable : "";
  if (!chosen.empty()) {
    if (std::string found = find_program(chosen); !found.empty()) return found;
    throw Error(errc::compiler_unavailable, "there is no C++ compiler " + chosen + (wanted.empty() ? " (DWELL_CXX)" : ""));
  }
  std::string tried;
  for (const char* const name : {DWELL_HOST_COMPILER, "c++", "g++", "clang++"}) {
    if (std::string found = find_program(name); !found.empty()) return found;
    if (*name != 0) tried += (tried.empty() ? "" : ", ") + std::string(name);
  }
  throw Error(errc::compiler_unavailable, "operators for the CPU need a C++20 compiler; tried " + tried +
                                              ". Install g++ or clang++, or set DWELL_CXX to the file of one");
}

}  // namespace

struct HostCompiler::Toolchain {
  std::string compiler;
  std::string version;  // the first line of --version
  std::string build;    // which file, of which size and time
  HostTarget target;

  // Compiles the text in `source`, a file in the folder of `job`.
  Object compile(const Unit& unit, const std::vector<std::string>& flags, const WorkingFolder::Job& job, const fs::path& source,
                 std::chrono::milliseconds limit) const;
};

Object HostCompiler::Toolchain::compile(const Unit& unit, const std::vector<std::string>& flags, const WorkingFolder::Job& job,
                                        const fs::path& source, std::chrono::milliseconds limit) const {
  const fs::path object = job.path() / "operator.so";
  const fs::path headers = job.path() / "headers";
  std::vector<std::string> arguments = {compiler};
  // The folders before the flags, because both hold headers that are found before those of any other folder.
  arguments.insert(arguments.end(), {"-I", job.include()});
  if (!unit.options.headers.empty()) arguments.insert(arguments.end(), {"-I", headers});
  for (const auto& [name, header] : unit.options.headers) write_file(headers / name, header);
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  arguments.insert(arguments.end(), {"-o", object, source});
  const ProcessResult result = run_process(arguments, limit);

  switch (result.end) {
    case ProcessResult::End::timed_out:
      throw Error(errc::compile_failed, "operator " + unit.name + ": " + compiler + " was ended after " +
                                            std::to_string(limit.count() / 1000) + " s\n" + readable_log(unit, result.output));
    case ProcessResult::End::killed:
      throw Error(errc::compile_failed, "operator " + unit.name + ": " + compiler + " was killed by signal " + std::to_string(result.code) +
                                            "\n" + readable_log(unit, result.output));
    case ProcessResult::End::exited: break;
  }
  if (result.code != 0) throw compile_error(unit, result.output);

  Bytes bytes = read_file(object);
  std::vector<Entry> entries = read_entries(unit, bytes);
  return {std::move(entries), std::move(bytes), readable_log(unit, result.output)};
}

struct HostCompiler::State {
  std::mutex mutex;  // guards the one below; held only while it is made
  std::optional<Toolchain> toolchain;
  WorkingFolder work;
  std::mutex folders_mutex;  // guards the one below, and is held while the compiler is asked
  std::optional<std::vector<std::string>> system_folders;
};

HostCompiler::HostCompiler() : HostCompiler(Options{}) {}
HostCompiler::HostCompiler(Options options) : options_(std::move(options)), state_(std::make_unique<State>()) {}
HostCompiler::~HostCompiler() = default;

const HostCompiler::Toolchain& HostCompiler::toolchain() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->toolchain) return *state_->toolchain;
  Toolchain made;
  made.compiler = find_compiler(options_.compiler);
  const ProcessResult version = run_process({made.compiler, "--version"}, options_.limit);
  made.version = version.output.substr(0, version.output.find('\n'));
  if (version.end != ProcessResult::End::exited || version.code != 0) {
    throw Error(errc::compiler_unavailable, made.compiler + " --version failed: " + version.output);
  }
  made.build = build_of(made.compiler);
  made.target.clang = made.version.find("clang") != std::string::npos;
  std::istringstream built_with(DWELL_HOST_FLAGS);
  for (std::string flag; built_with >> flag;) made.target.flags.push_back(flag);
  made.target.flags.insert(made.target.flags.end(), options_.flags.begin(), options_.flags.end());
  return state_->toolchain.emplace(std::move(made));
}

const std::vector<std::string>& HostCompiler::system_folders() const {
  const Toolchain& tools = toolchain();
  const std::lock_guard lock(state_->folders_mutex);
  if (state_->system_folders) return *state_->system_folders;
  std::vector<std::string> arguments = {tools.compiler};
  arguments.insert(arguments.end(), tools.target.flags.begin(), tools.target.flags.end());
  arguments.insert(arguments.end(), {"-x", "c++", "-E", "-v", "/dev/null"});
  return state_->system_folders.emplace(listed_folders(run_process(arguments, options_.limit).output));
}

Object HostCompiler::compile(const Unit& unit) {
  const std::string text = wrapped_source(unit);
  const Toolchain& tools = toolchain();
  const std::vector<std::string> flags = host_flags(unit.options, tools.target);
  for (int again = 3;; --again) {
    const WorkingFolder::Job job = state_->work.start();
    const fs::path source = job.path() / "operator.cpp";
    try {
      write_file(source, text);
      return tools.compile(unit, flags, job, source, options_.limit);
    } catch (const Error&) {
      // The source is not to blame when somebody has removed it, or dwell's headers, from under the compiler.
      if (again == 0 || job.stands(source)) throw;
    }
  }
}

std::string HostCompiler::fingerprint(const Unit& unit) {
  if (!flags_can_be_told(unit.options)) return {};
  const Toolchain& tools = toolchain();
  const std::vector<std::string> flags = host_flags(unit.options, tools.target);
  const std::vector<std::string> folders = checked_include_paths(unit.options);
  const auto includes = digest_of_includes(unit.text, {.headers = unit.options.headers,
                                                       .folders = folders,
                                                       .system_folders = [this] { return system_folders(); },
                                                       .is_known = is_operator_header});
  return includes ? fingerprint_of(unit, tools.build + " " + tools.version, flags, *includes) : std::string();
}

Image HostCompiler::link(std::span<const Opcode> table, Tier tier) {
  if (tier == Tier::lto) {
    throw Error(errc::unsupported,
                "the CPU has no tier lto: its operators are shared objects, which the loop cannot inline; "
                "leave the tier open or choose Tier::relocatable");
  }
  std::vector<image::BundleEntry> list;
  for (const Opcode& opcode : table) {
    list.push_back(opcode.object == nullptr ? image::BundleEntry{} : image::BundleEntry{opcode.symbol(), opcode.object->bytes});
  }
  return {image::pack(list), {}};
}

std::string HostCompiler::identity() const {
  try {
    const Toolchain& tools = toolchain();
    std::string text = "host compiler: " + tools.version + ", " + tools.build;
    for (const std::string& flag : host_flags({}, tools.target)) text += " " + flag;
    return text;
  } catch (const Error& error) {
    if (error.kind() == errc::compiler_unavailable) return "host compiler: none";
    throw;
  }
}

}  // namespace dwell::jit
