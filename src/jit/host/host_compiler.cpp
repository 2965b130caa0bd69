#include "jit/host/host_compiler.hpp"

#include <cstdlib>
#include <optional>
#include <sstream>

#include <dwell/error.hpp>

#include "base/byte_stream.hpp"
#include "base/file.hpp"
#include "base/mutex.hpp"
#include "image/bundle.hpp"
#include "jit/base/file_stamp.hpp"
#include "jit/base/process.hpp"
#include "jit/host/dependencies.hpp"
#include "jit/host/host_options.hpp"
#include "jit/host/working_folder.hpp"
#include "jit/object/elf.hpp"
#include "jit/source/embedded.hpp"
#include "jit/source/fingerprint.hpp"
#include "jit/source/include_lexer.hpp"
#include "jit/source/includes.hpp"
#include "jit/source/option_checks.hpp"
#include "jit/source/source.hpp"

// Set by the build: the compiler that builds dwell, and the flags that operators need to run in it (sanitizers), separated by blanks.
#ifndef DWELL_HOST_COMPILER
#define DWELL_HOST_COMPILER ""
#endif
#ifndef DWELL_HOST_FLAGS
#define DWELL_HOST_FLAGS ""
#endif

namespace dwell::jit {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestObject = std::size_t{1} << 30U;

Bytes read_object(const fs::path& path) {
  auto bytes = read_file(path, kLargestObject);
  if (!bytes || bytes->empty()) throw Error(errc::io_failed, "cannot read " + path.string());
  return *std::move(bytes);
}

// Returns the files that a compiler or an assembler listed in `path`; none if the list is missing.
std::vector<std::string> listed_in(const fs::path& path) {
  const auto bytes = read_file(path, kLargestObject);
  return bytes ? prerequisites_of(as_text(*bytes)) : std::vector<std::string>();
}

// Files in a job's folder in which the compiler and the assembler list the files they have read.
constexpr const char* kReadByCompiler = "read.d";
constexpr const char* kReadByAssembler = "assembled.d";

// Returns #include lines for what every operator includes implicitly: the system headers in dwell's headers, and the one that g++ adds to
// each source.
std::string implied_includes() {
  std::string text = "#include <stdc-predef.h>\n";
  for (const EmbeddedFile& file : embedded_headers()) {
    if (!file.is_for_operators()) continue;
    for (const Inclusion& one : inclusions_of(file.text).list) text += "#include <" + one.name + ">\n";
  }
  return text;
}

// Returns the folders that a compiler lists with -v: one per line, indented, between two fixed lines (in the C locale).
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
    throw Error(errc::compiler_unavailable, "no such C++ compiler: " + chosen + (wanted.empty() ? " (DWELL_CXX)" : ""), {"file", chosen});
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

// A compiler and its properties. May be used from several threads at once.
struct HostCompiler::Toolchain {
  std::string compiler;
  std::optional<FileStamp> stamp;  // of the compiler's file
  std::string version;             // the first line of --version
  std::string build;               // path, size and time of the compiler's file
  HostTarget target;
  std::chrono::milliseconds limit;
  mutable Mutex mutex;  // held while the compiler is queried
  mutable std::optional<std::vector<std::string>> folders DWELL_GUARDED_BY(mutex);

  // Returns the folders that the compiler searches by default; queried once.
  const std::vector<std::string>& system_folders() const;
  // Calls `use` with all text of the unit that may name files, and the search settings.
  template <class Use>
  auto search(const Unit& unit, Use use) const;
  // Compiles the text in `source`, a file in the folder of `job`.
  Object compile(const Unit& unit, const WorkingFolder::Job& job, const fs::path& source) const;
  // Returns the files that the compilation in `job` read and the unit's fingerprint does not cover.
  std::vector<std::string> unnamed_files(const Unit& unit, const WorkingFolder::Job& job) const;
};

const std::vector<std::string>& HostCompiler::Toolchain::system_folders() const {
  const Lock lock(mutex);
  if (folders) return *folders;
  std::vector<std::string> arguments = {compiler};
  arguments.insert(arguments.end(), target.flags.begin(), target.flags.end());
  arguments.insert(arguments.end(), {"-x", "c++", "-E", "-v", "/dev/null"});
  return folders.emplace(listed_folders(run_process(arguments, limit).output));
}

template <class Use>
auto HostCompiler::Toolchain::search(const Unit& unit, Use use) const {
  std::string defines;
  for (const auto& [name, value] : unit.options.defines) defines += "\n#define " + name + ' ' + value;
  const std::string longer = defines.empty() ? std::string() : unit.text + defines;
  const std::vector<std::string> user_folders = checked_include_paths(unit.options);
  const IncludeSearch how{.headers = unit.options.headers,
                          .folders = user_folders,
                          .system_folders = [this] { return system_folders(); },
                          .is_known = is_operator_header,
                          .unnamed_files = unit.unnamed_files,
                          .compiler_tells = true,
                          .assembler_reads = true};
  return use(defines.empty() ? std::string_view(unit.text) : std::string_view(longer), how);
}

Object HostCompiler::Toolchain::compile(const Unit& unit, const WorkingFolder::Job& job, const fs::path& source) const {
  const std::vector<std::string> flags = host_flags(unit.options, target);
  const fs::path object = job.path() / "operator.so";
  const fs::path headers = job.path() / "headers";
  std::vector<std::string> arguments = {compiler};
  // Put these folders before the flags, so their headers take precedence.
  arguments.insert(arguments.end(), {"-I", job.include()});
  if (!unit.options.headers.empty()) arguments.insert(arguments.end(), {"-I", headers});
  for (const auto& [name, header] : unit.options.headers) write_file(headers / name, header);
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  arguments.insert(arguments.end(), {"-MD", "-MT", "read", "-MF", job.path() / kReadByCompiler});
  // Clang's integrated assembler does not list the files it reads.
  if (!target.clang) arguments.insert(arguments.end(), {"-Xassembler", "--MD", "-Xassembler", job.path() / kReadByAssembler});
  arguments.insert(arguments.end(), {"-o", object, source});
  const ProcessResult result = run_process(arguments, limit, {"TMPDIR=" + job.path().string()});

  switch (result.end) {
    case ProcessResult::End::timed_out:
      throw Error(errc::compile_failed,
                  "operator " + unit.name + ": " + compiler + " was ended after " + std::to_string(limit.count() / 1000) + " s\n" +
                      readable_log(unit, result.output),
                  {"operator", unit.name});
    case ProcessResult::End::killed:
      throw Error(errc::compile_failed,
                  "operator " + unit.name + ": " + compiler + " was killed by signal " + std::to_string(result.code) + "\n" +
                      readable_log(unit, result.output),
                  {"operator", unit.name});
    case ProcessResult::End::exited: break;
  }
  if (result.code != 0) throw compile_error(unit, result.output);

  Bytes bytes = read_object(object);
  std::vector<Entry> entries = read_entries(unit, bytes);
  std::vector<Use> uses = read_uses(unit, bytes);
  return {.entries = std::move(entries),
          .bytes = std::move(bytes),
          .log = readable_log(unit, result.output),
          .unnamed_files = unit.fingerprint.empty() ? std::vector<std::string>() : unnamed_files(unit, job),
          .uses = std::move(uses)};
}

std::vector<std::string> HostCompiler::Toolchain::unnamed_files(const Unit& unit, const WorkingFolder::Job& job) const {
  std::error_code error;
  const fs::path here = fs::current_path(error);
  std::vector<std::string> files;
  // Skip dwell's headers, headers in memory, and the compiler's temporary files.
  const std::string own = job.include().parent_path().string() + '/';
  for (const std::string& file : listed_in(job.path() / kReadByCompiler)) {
    if (!file.starts_with(own)) files.push_back((here / file).string());
  }
  // The assembler also lists the source, by its author's name and the compiler's; skip both.
  for (const std::string& file : listed_in(job.path() / kReadByAssembler)) {
    if (!file.starts_with(own) && file != unit.file && fs::exists(file, error)) files.push_back((here / file).string());
  }
  files = search(unit, [&](std::string_view text, const IncludeSearch& how) { return unnamed_among(files, text, how); });
  // Leave out system headers that every operator includes: the compiler's build identifies them. Checking them would dominate the cost of
  // each cache look-up.
  static const std::string implied = implied_includes();
  const CompileOptions none;
  const std::vector<std::string> no_folders;
  return unnamed_among(files, implied,
                       {.headers = none.headers,
                        .folders = no_folders,
                        .system_folders = [this] { return system_folders(); },
                        .is_known = is_operator_header,
                        .compiler_tells = true});
}

struct HostCompiler::State {
  Mutex mutex;  // held while the toolchain is searched
  std::shared_ptr<const Toolchain> toolchain DWELL_GUARDED_BY(mutex);
  WorkingFolder work;
};

HostCompiler::HostCompiler() : HostCompiler(Options{}) {}
HostCompiler::HostCompiler(Options options) : options_(std::move(options)), state_(std::make_unique<State>()) {}
HostCompiler::~HostCompiler() = default;

std::shared_ptr<const HostCompiler::Toolchain> HostCompiler::toolchain() const {
  const Lock lock(state_->mutex);
  if (state_->toolchain != nullptr && stamp_of(state_->toolchain->compiler) == state_->toolchain->stamp) return state_->toolchain;
  auto made = std::make_shared<Toolchain>();
  made->limit = options_.limit;
  made->compiler = find_compiler(options_.compiler);
  made->stamp = stamp_of(made->compiler);
  made->build = build_of(made->compiler);
  const ProcessResult version = run_process({made->compiler, "--version"}, options_.limit);
  made->version = version.output.substr(0, version.output.find('\n'));
  if (version.end != ProcessResult::End::exited || version.code != 0) {
    throw Error(errc::compiler_unavailable, made->compiler + " --version failed: " + version.output);
  }
  made->target.clang = made->version.find("clang") != std::string::npos;
  std::istringstream built_with(DWELL_HOST_FLAGS);
  for (std::string flag; built_with >> flag;) made->target.flags.push_back(flag);
  made->target.flags.insert(made->target.flags.end(), options_.flags.begin(), options_.flags.end());
  state_->toolchain = std::move(made);
  return state_->toolchain;
}

Object HostCompiler::compile(const Unit& unit) {
  const std::string text = wrapped_source(unit);
  const auto tools = toolchain();
  for (int again = 3;; --again) {
    const WorkingFolder::Job job = state_->work.start();
    const fs::path source = job.path() / "operator.cpp";
    try {
      write_file(source, text);
      return tools->compile(unit, job, source);
    } catch (const Error&) {
      // Try again if the source or dwell's headers were removed during the compilation.
      if (again == 0 || job.stands(source)) throw;
    }
  }
}

std::string HostCompiler::fingerprint(const Unit& unit) {
  if (!flags_can_be_told(unit.options)) return {};
  const auto tools = toolchain();
  const std::vector<std::string> flags = host_flags(unit.options, tools->target);
  const auto includes = tools->search(unit, [](std::string_view text, const IncludeSearch& how) { return digest_of_includes(text, how); });
  return includes ? fingerprint_of(unit, tools->build + " " + tools->version, flags, *includes) : std::string();
}

Image HostCompiler::link(std::span<const Opcode> table, Tier tier, std::uint32_t) {
  if (tier == Tier::lto) {
    throw Error(errc::unsupported,
                "the CPU has no tier lto: its operators are shared objects, which the loop cannot inline; "
                "leave the tier open or choose relocatable");
  }
  std::vector<image::BundleEntry> list;
  for (const Opcode& opcode : table) {
    list.push_back(opcode.object == nullptr ? image::BundleEntry{} : image::BundleEntry{opcode.symbol(), opcode.object->bytes});
  }
  return {image::pack(list, words_of_uses(table)), {}};
}

std::string HostCompiler::identity() const {
  try {
    const auto tools = toolchain();
    std::string text = "host compiler: " + tools->version + ", " + tools->build;
    for (const std::string& flag : host_flags({}, tools->target)) text += " " + flag;
    return text;
  } catch (const Error& error) {
    if (error.kind() == errc::compiler_unavailable) return "host compiler: none";
    throw;
  }
}

}  // namespace dwell::jit
