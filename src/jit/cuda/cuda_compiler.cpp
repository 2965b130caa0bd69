#include "jit/cuda/cuda_compiler.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>

#include <dwell/error.hpp>

#include "base/byte_stream.hpp"
#include "base/mutex.hpp"
#include "jit/base/file_stamp.hpp"
#include "jit/base/sha256.hpp"
#include "jit/cache/made_once.hpp"
#include "jit/cuda/cuda_hidden_variables.hpp"
#include "jit/cuda/cuda_table.hpp"
#include "jit/cuda/nvjitlink.hpp"
#include "jit/cuda/nvrtc.hpp"
#include "jit/cuda/nvrtc_options.hpp"
#include "jit/object/cubin.hpp"
#include "jit/object/elf.hpp"
#include "jit/object/heap_use.hpp"
#include "jit/object/kernel_signature.hpp"
#include "jit/source/embedded.hpp"
#include "jit/source/fingerprint.hpp"
#include "jit/source/includes.hpp"
#include "jit/source/option_checks.hpp"
#include "jit/source/source.hpp"

namespace dwell::jit {

namespace {

// Throws errc::compiler_unavailable if nvJitLink is older than NVRTC.
void check_versions(const Nvrtc& compiler, const NvJitLink& linker) {
  if (linker.version() < compiler.version()) {
    throw Error(errc::compiler_unavailable, "nvJitLink " + linker.version().text() + " (" + linker.file().string() +
                                                ") is older than NVRTC " + compiler.version().text() + " (" + compiler.file().string() +
                                                ") and may not read what that makes; install both from one CUDA release");
  }
}

// Returns a program's name for NVRTC's messages. #include "x" searches the folder of this name first; it does not exist, so the process's
// current folder is not searched.
std::string program_name(const std::string& what) { return "/<dwell>/" + what; }

// Registers per thread in the relocatable tier. On sm_90 six workers per multiprocessor fit; on others calls need more, and
// cuda_loop.test.cpp has the linked loop's budget. Operators that need more still link: the linker raises the kernel's count.
constexpr int kRegisters = 64;
// Makes the assembler report each function's spills.
constexpr const char* kReport = "--ptxas-options=-v";

// The most registers per thread with which kInliningWorkers fit a multiprocessor. Each of its quarters has 16,384, allocated by warp.
constexpr std::uint32_t kInliningRegisters = 72;
// Bytes that the loop spills within that limit, on rare paths: 498 on sm_80, 638 on sm_90, 664 on sm_120. If operators add more than
// kSavedBytes each, the image gets a loop without the limit, and perhaps one worker per multiprocessor.
constexpr std::uint32_t kInliningSpills = 704;

// Whether an operator is first compiled for kRegisters. Without a limit the compiler spreads even few values over many registers: above the
// 32nd a called function may use only every other one without saving it. Then fewer workers fit.
bool is_limited(const CompileOptions& options, Form form) {
  return form == Form::native && options.max_registers == 0 && !options.debug && options.flags.empty();
}
// Bytes that a limited operator may spill: the 32 callee-saved of its 64 registers. An operator that spills more is compiled without the
// limit, which would slow its own loops.
constexpr std::uint32_t kSavedBytes = 128;

// Returns whether an object's operators spawn tasks: then it refers to dwell_spawn, which the loop defines.
bool makes_tasks(std::span<const std::byte> object) {
  const auto elf = Elf::open(object);
  return elf && std::ranges::any_of(elf->symbols(), [](const Elf::Symbol& symbol) { return symbol.name == "dwell_spawn"; });
}

// The heap's functions, a program of its own.
constexpr std::string_view kHeapSource = "#include \"device/heap_functions.hpp\"\n";

// Returns the headers for the resident loop: all embedded ones.
std::vector<Nvrtc::Header> headers_for_loop() {
  std::vector<Nvrtc::Header> headers;
  for (const EmbeddedFile& file : embedded_headers()) headers.push_back({file.name.data(), file.text.data()});
  return headers;
}

// Returns the headers that a user's source may include by name. Views of `options`.
std::vector<Nvrtc::Header> headers_for(const CompileOptions& options) {
  std::vector<Nvrtc::Header> headers;
  for (const EmbeddedFile& file : embedded_headers())
    if (file.is_for_operators()) headers.push_back({file.name.data(), file.text.data()});
  for (const auto& [name, header] : options.headers) headers.push_back({name.c_str(), header.c_str()});
  return headers;
}

// Returns the error for a program that failed with `log`. NVRTC reports a bad name expression as an error in a pragma that it generates.
Error module_error(const Unit& unit, const std::string& log) {
  constexpr std::string_view pragma = "#pragma nv_mangled_name ";
  std::string expressions;
  std::string_view before;
  for (std::size_t at = 0; (at = log.find(pragma, at)) != std::string::npos;) {
    at += pragma.size();
    const std::string_view one = std::string_view(log).substr(at, std::min(log.find('\n', at), log.size()) - at);
    if (one != before) expressions += (expressions.empty() ? "" : ", ") + std::string(one);
    before = one;
  }
  if (expressions.empty()) return Error(errc::compile_failed, unit.file + " does not compile:\n" + log);
  return Error(errc::operator_not_found, unit.file + " has no single kernel by the name of " + expressions + ":\n" + log);
}

// Returns the largest number before `phrase` in `log`: "36 bytes spill stores".
std::uint32_t most_before(std::string_view log, std::string_view phrase) {
  std::uint32_t most = 0;
  for (std::size_t at = 0; (at = log.find(phrase, at)) != std::string_view::npos; at += phrase.size()) {
    std::size_t start = at;
    while (start > 0 && std::isdigit(static_cast<unsigned char>(log[start - 1])) != 0) --start;
    if (start < at) most = std::max(most, static_cast<std::uint32_t>(std::stoul(std::string(log.substr(start, at - start)))));
  }
  return most;
}
constexpr std::string_view kSpillStores = " bytes spill stores";

// Returns the bytes in "... 36 bytes spill stores, 36 bytes spill loads" that the assembler reports for `kernel`. For other functions its
// figures include callee-saved registers, which no limit avoids.
std::uint32_t spills_in(std::string_view log, const std::string& kernel) {
  const std::size_t at_kernel = log.find("Function properties for " + kernel + "\n");
  if (at_kernel == std::string_view::npos) return 0;
  log.remove_prefix(log.find('\n', at_kernel) + 1);
  log = log.substr(0, log.find('\n'));
  return most_before(log, kSpillStores) + most_before(log, " bytes spill loads");
}

// `log` without the assembler's report.
std::string without_report(std::string_view log) {
  std::string text;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, std::min(log.find('\n'), log.size() - 1) + 1);
    if (!line.starts_with("ptxas info ") && !line.starts_with("ptxas   ")) text += line;
    log.remove_prefix(line.size());
  }
  return text;
}

}  // namespace

struct CudaCompiler::Loop {
  Bytes bytes;
  std::string log;
};

// A loop, compiled on first use.
struct CudaCompiler::LoopPlace {
  Mutex mutex;  // held while it is compiled: other threads that need it wait
  std::optional<Loop> loop DWELL_GUARDED_BY(mutex);
};

// The compilers found.
struct CudaCompiler::Tools {
  std::string arch;                // of images: "sm_90a"
  std::vector<int> architectures;  // that NVRTC compiles for
  std::string cuda_includes;
  std::string nvrtc;      // version and build
  std::string nvjitlink;  // version and build
};

struct CudaCompiler::State {
  Mutex heap_mutex;                            // held while it is compiled
  Bytes heap[2] DWELL_GUARDED_BY(heap_mutex);  // by form; empty: not compiled yet
  Mutex tools_mutex;
  std::optional<Tools> tools DWELL_GUARDED_BY(tools_mutex);  // constant once set
  Mutex mutex;
  std::map<std::pair<Dispatch, std::uint32_t>, LoopPlace> loops
      DWELL_GUARDED_BY(mutex);  // keyed by dispatch and parts; elements do not move
};

CudaCompiler::CudaCompiler(Options options) : options_(std::move(options)), state_(std::make_unique<State>()) {
  if (architecture_number(options_.arch) == 0)
    throw Error(errc::invalid_argument, "'" + options_.arch + "' is not a CUDA architecture such as sm_90");
}
CudaCompiler::~CudaCompiler() = default;

std::string CudaCompiler::default_loop() { return "#include \"device/cuda_resident.hpp\"\n"; }

const CudaCompiler::Tools& CudaCompiler::tools() const {
  const Lock lock(state_->tools_mutex);
  if (state_->tools) return *state_->tools;
  const Nvrtc& compiler = Nvrtc::get();
  const NvJitLink& linker = NvJitLink::get();
  check_versions(compiler, linker);
  Tools made;
  made.architectures = compiler.architectures();
  made.arch = image_architecture(options_.arch, made.architectures);
  const auto known = known_architectures(made.architectures, compiler.version());
  if (std::find(known.begin(), known.end(), made.arch) == known.end()) {
    throw Error(errc::compiler_unavailable, "NVRTC " + compiler.version().text() + " (" + compiler.file().string() +
                                                ") does not compile for " + made.arch + "; it knows " +
                                                (known.empty() ? "none" : known.front() + " to " + known.back()));
  }
  made.cuda_includes = compiler.include_folder();
  made.nvrtc = "nvrtc " + compiler.version().text() + " " + build_of(compiler.file()) + " " + build_of(compiler.builtins_file());
  made.nvjitlink = "nvjitlink " + linker.version().text() + " " + build_of(linker.file());
  return state_->tools.emplace(std::move(made));
}

std::vector<std::string> CudaCompiler::flags_for(const CompileOptions& options, Form wanted) const {
  const Tools& found = tools();
  const std::string arch = operator_architecture(options.arch, found.arch, found.architectures, Nvrtc::get().version());
  return nvrtc_flags(options, {.arch = arch, .form = operator_form(options, wanted), .cuda_includes = found.cuda_includes});
}

std::vector<std::string> CudaCompiler::operator_flags_for(const Unit& unit) const {
  std::vector<std::string> flags = flags_for(unit.options, unit.form);
  if (is_limited(unit.options, operator_form(unit.options, unit.form)))
    flags.insert(flags.end(), {"--maxrregcount=" + std::to_string(kRegisters), kReport});
  return flags;
}

std::vector<std::string> CudaCompiler::program_flags_for(const CompileOptions& options) const {
  const Tools& found = tools();
  const std::string arch = module_architecture(options.arch, found.arch, found.architectures, Nvrtc::get().version());
  return nvrtc_flags(options, {.arch = arch, .relocatable = false, .cuda_includes = found.cuda_includes});
}

Object CudaCompiler::compile(const Unit& unit) {
  const std::string text = wrapped_source(unit);
  const Form form = operator_form(unit.options, unit.form);
  const auto compile_with = [&](const std::vector<std::string>& flags) {
    NvrtcResult result = Nvrtc::get().compile(text, program_name("operator " + unit.name), headers_for(unit.options), flags, form);
    if (!result.ok) throw compile_error(unit, without_report(result.log));
    return result;
  };
  NvrtcResult result = compile_with(operator_flags_for(unit));
  if (is_limited(unit.options, form)) {
    if (most_before(result.log, kSpillStores) > kSavedBytes) result = compile_with(flags_for(unit.options, unit.form));
    result.log = without_report(result.log);
  }
  // Link LTO-IR by itself to read its variables, signatures among them.
  const NvJitLink::Input alone{NvJitLink::Input::Kind::lto_ir, result.bytes, unit.name};
  const Bytes linked = form == Form::lto ? NvJitLink::get().link(tools().arch, {&alone, 1}).bytes : Bytes();
  const Bytes& readable = form == Form::lto ? linked : result.bytes;
  return {.entries = read_entries(unit, readable),
          .bytes = result.bytes,
          .log = readable_log(unit, result.log),
          .form = form,
          .assembly = result.ptx,
          .uses = read_uses(unit, readable)};
}

std::string CudaCompiler::fingerprint(const Unit& unit) {
  const Tools& found = tools();
  const std::vector<std::string> flags = unit.program ? program_flags_for(unit.options) : operator_flags_for(unit);
  const std::vector<std::string> folders = checked_include_paths(unit.options);
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  const auto includes = digest_of_includes(
      unit.text, {.headers = unit.options.headers,
                  .folders = folders,
                  .system_folders = [&] { return std::vector<std::string>(found.cuda_includes.empty() ? 0 : 1, found.cuda_includes); },
                  .current_folder = unit.options.headers.empty() ? std::string() : here.string(),
                  .is_known = is_operator_header});
  return includes ? fingerprint_of(unit, found.nvrtc, flags, *includes) : std::string();
}

ModuleObject CudaCompiler::compile_module(const Unit& unit) {
  check_text(unit);
  std::vector<std::string> expressions;
  for (const Export& one : unit.exports) expressions.push_back(one.expression);
  NvrtcResult result = Nvrtc::get().compile(line_directive(unit.line, unit.file) + unit.text, program_name("kernels"),
                                            headers_for(unit.options), program_flags_for(unit.options), Form::native, expressions);
  if (!result.ok) throw module_error(unit, result.log);
  ModuleObject object;
  object.kernels = read_kernels(result.bytes);
  for (std::size_t i = 0; i < expressions.size(); ++i) {
    const auto is_it = [&](const ModuleKernel& kernel) { return kernel.symbol == result.lowered[i]; };
    if (std::ranges::none_of(object.kernels, is_it))
      throw Error(errc::operator_not_found, unit.file + ": " + expressions[i] + " is not a kernel (__global__)");
    object.expressions.emplace_back(expressions[i], result.lowered[i]);
  }
  object.bytes = std::move(result.bytes);
  object.assembly = std::move(result.ptx);
  object.log = std::move(result.log);
  return object;
}

CompileOptions CudaCompiler::loop_options(Dispatch dispatch, std::uint32_t parts) {
  const std::map<std::string, std::string> has = {{"DWELL_PARTS", std::to_string(parts) + "U"}};
  if (dispatch == Dispatch::called) return {.max_registers = kRegisters, .defines = has, .flags = {kReport}};
  CompileOptions options{.lto = true, .defines = {{"DWELL_INLINE_OPERATORS", "1"}}};
  if (dispatch == Dispatch::inlined) options.defines["DWELL_WORKERS"] = std::to_string(kInliningWorkers);
  return options;
}

const CudaCompiler::Loop& CudaCompiler::loop(Dispatch dispatch, std::uint32_t parts) {
  LoopPlace* place = nullptr;
  {
    const Lock lock(state_->mutex);
    place = &state_->loops[{dispatch, parts}];
  }
  const Lock lock(place->mutex);
  if (place->loop) return *place->loop;
  const std::string what = dispatch == Dispatch::called    ? "loop"
                           : dispatch == Dispatch::inlined ? "inlining loop"
                                                           : "inlining loop with all registers";
  const std::string key = CacheKey()
                              .add("what", what)
                              .add("parts", std::to_string(parts))
                              .add("compiler", identity())
                              .add("headers", embedded_headers_digest())
                              .add("text", options_.loop)
                              .finish();
  const auto decode = [](std::span<const std::byte> payload) -> std::optional<Loop> {
    ByteReader reader(payload);
    const std::string_view log = reader.text();
    const auto bytes = reader.counted();
    if (!reader.complete()) return std::nullopt;
    return Loop{Bytes(bytes.begin(), bytes.end()), std::string(log)};
  };
  const auto encode = [](const Loop& value) {
    ByteWriter writer;
    writer.counted(value.log);
    writer.counted(value.bytes);
    return std::move(writer).take();
  };
  const auto make = [&] {
    NvrtcResult result =
        Nvrtc::get().compile(options_.loop, program_name("loop"), headers_for_loop(), flags_for(loop_options(dispatch, parts)),
                             dispatch == Dispatch::called ? Form::native : Form::lto);
    if (!result.ok) throw Error(errc::compile_failed, "the resident loop does not compile for " + tools().arch + ":\n" + result.log);
    return Loop{std::move(result.bytes), std::move(result.log)};
  };
  return place->loop.emplace(made_once(options_.cache, key, what + " for " + tools().arch, decode, encode, make));
}

const Bytes& CudaCompiler::heap(Form form) {
  const Lock lock(state_->heap_mutex);
  // Once made they never change, so the caller needs no lock.
  Bytes* const made = &state_->heap[static_cast<std::size_t>(form)];
  if (!made->empty()) return *made;
  const CompileOptions options = form == Form::lto ? CompileOptions{.lto = true} : CompileOptions{.max_registers = kRegisters};
  const std::string key = CacheKey()
                              .add("what", form == Form::lto ? "inlinable heap" : "heap")
                              .add("compiler", identity())
                              .add("headers", embedded_headers_digest())
                              .finish();
  const auto decode = [](std::span<const std::byte> payload) -> std::optional<Bytes> { return Bytes(payload.begin(), payload.end()); };
  const auto encode = [](const Bytes& bytes) { return bytes; };
  const auto make = [&] {
    NvrtcResult result = Nvrtc::get().compile(std::string(kHeapSource), program_name("heap"), headers_for_loop(), flags_for(options), form);
    if (!result.ok) throw Error(errc::compile_failed, "the heap does not compile for " + tools().arch + ":\n" + result.log);
    return std::move(result.bytes);
  };
  *made = made_once(options_.cache, key, "heap for " + tools().arch, decode, encode, make);
  return *made;
}

CudaCompiler::LoopReport CudaCompiler::loop_report(std::uint32_t parts) {
  const std::string& log = loop(Dispatch::called, parts).log;
  return {spills_in(log, options_.kernel), log};
}

Image CudaCompiler::link(std::span<const Opcode> table, Tier tier, std::uint32_t parts) {
  using Kind = NvJitLink::Input::Kind;
  const std::string& arch = tools().arch;
  NvJitLink& linker = NvJitLink::get();
  std::vector<NvJitLink::Input> inputs;
  if (tier == Tier::lto) parts = kAllParts;
  std::map<std::string_view, const Object*> linked;        // by symbol
  std::vector<Opcode> called(table.begin(), table.end());  // through dwell_operators
  Dispatch way = tier == Tier::lto ? Dispatch::inlined : Dispatch::called;
  for (Opcode& opcode : called) {
    const Object* const object = opcode.object;
    if (object == nullptr) continue;
    const bool is_ir = object->form == Form::lto;
    // Catch truncated files here: a damaged file may crash the linker.
    if (!is_ir && !Elf::open(object->bytes)) throw Error(errc::link_failed, "the object of " + opcode.symbol() + " is damaged");
    // Link all parts if the operator may spawn: its tasks may be of any kind, and LTO-IR does not show whether it spawns.
    if (is_ir || makes_tasks(object->bytes)) parts = kAllParts;
    for (const Entry& entry : object->entries) {
      const auto [at, added] = linked.try_emplace(entry.symbol, object);
      if (added && &entry == &object->entries.front()) inputs.push_back({is_ir ? Kind::lto_ir : Kind::cubin, object->bytes, entry.symbol});
      // Report it here: the linker only prints it to stderr.
      if (!added && at->second->bytes != object->bytes)
        throw Error(errc::link_failed, "two different operators have the symbol " + entry.symbol);
    }
    if (tier != Tier::lto) continue;
    // The linker refuses a called operator that needs more registers than the loop: use a loop without the limit then.
    const auto alone = is_ir ? std::nullopt : Cubin::open(object->bytes);
    const auto entry = alone ? alone->entry(opcode.symbol()) : std::nullopt;
    if (entry && entry->registers > kInliningRegisters) way = Dispatch::inlined_free;
    if (is_ir) opcode = {};
  }
  const std::string text = table_source(called, tier, arch, linker.version());
  const bool calls = std::any_of(called.begin(), called.end(), [](const Opcode& opcode) { return opcode.object != nullptr; });
  // The assembler reads up to the null character.
  if (calls || tier != Tier::lto) inputs.push_back({Kind::ptx, as_bytes({text.c_str(), text.size() + 1}), "the table of operators"});
  NvrtcResult dispatch;
  if (tier == Tier::lto) {
    dispatch = Nvrtc::get().compile(dispatch_source(table), program_name("dispatch"), {}, flags_for({.lto = true}), Form::lto);
    if (!dispatch.ok) throw Error(errc::link_failed, "the operators' dispatch does not compile:\n" + dispatch.log);
    inputs.push_back({Kind::lto_ir, dispatch.bytes, "the dispatch"});
  }
  const auto link_with = [&](Dispatch with) {
    inputs.push_back({tier == Tier::lto ? Kind::lto_ir : Kind::cubin, loop(with, parts).bytes, "the resident loop"});
    NvJitLink::Output output = linker.link(arch, inputs);
    inputs.pop_back();
    return output;
  };
  // As for parts: intermediate code does not show what it calls.
  const auto may_call_heap = [](const Opcode& opcode) {
    return opcode.object != nullptr && (opcode.object->form == Form::lto || uses_heap(opcode.object->bytes));
  };
  if (std::ranges::any_of(table, may_call_heap)) {
    const Form form = tier == Tier::lto ? Form::lto : Form::native;
    inputs.push_back({form == Form::lto ? Kind::lto_ir : Kind::cubin, heap(form), "the heap"});
  }
  NvJitLink::Output output = link_with(way);
  const std::size_t spills = kInliningSpills + linked.size() * kSavedBytes;
  if (way == Dispatch::inlined && most_before(output.report, kSpillStores) > spills) output = link_with(Dispatch::inlined_free);
  Image image{std::move(output.bytes), {}};
  const auto cubin = Cubin::open(image.bytes);
  const auto resources = cubin ? cubin->kernel(options_.kernel) : std::nullopt;
  if (!resources) throw Error(errc::link_failed, "the linked image has no kernel " + options_.kernel);
  image.resources = *resources;
  for (const Opcode& opcode : called) {
    if (opcode.object == nullptr || linked.erase(opcode.symbol()) == 0) continue;
    const auto entry = cubin->entry(opcode.symbol());
    // The linker gives the kernel the resources of functions whose prototypes match its indirect calls. A loop that declares the table with
    // another type links without an error, and its calls fail with illegal instructions.
    if (!entry || entry->registers > resources->registers) {
      throw Error(errc::link_failed, "the kernel has fewer registers than its operator " + opcode.symbol() +
                                         " needs: it does not call it as a dwell::device::Entry");
    }
    image.entries.push_back({opcode.symbol(), *entry});
  }
  hide_variables(image.bytes);
  return image;
}

std::string CudaCompiler::identity() const {
  const Tools& found = tools();
  std::string text = found.nvrtc + ", " + found.nvjitlink + ", kernel " + options_.kernel;
  // Images contain the loop.
  for (const Dispatch dispatch : {Dispatch::called, Dispatch::inlined, Dispatch::inlined_free}) {
    for (const std::string& flag : flags_for(loop_options(dispatch))) text += " " + flag;
  }
  return text + ", loop " + hex(sha256(as_bytes(options_.loop))).substr(0, 16);
}

}  // namespace dwell::jit
