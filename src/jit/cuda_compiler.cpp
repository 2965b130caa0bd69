#include "jit/cuda_compiler.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <mutex>
#include <optional>

#include <dwell/error.hpp>

#include "image/byte_stream.hpp"
#include "jit/cuda_table.hpp"
#include "jit/elf.hpp"
#include "jit/embedded.hpp"
#include "jit/fingerprint.hpp"
#include "jit/made_once.hpp"
#include "jit/nvjitlink.hpp"
#include "jit/nvrtc.hpp"
#include "jit/sha256.hpp"
#include "jit/source.hpp"

namespace dwell::jit {

namespace {

// Throws errc::compiler_unavailable when the compilers are not there, do not fit together, or do not know the architecture.
void check_tools(const std::string& arch) {
  const Nvrtc& compiler = Nvrtc::get();
  const NvJitLink& linker = NvJitLink::get();
  if (linker.version() < compiler.version()) {
    throw Error(errc::compiler_unavailable, "nvJitLink " + linker.version().text() + " (" + linker.file().string() +
                                                ") is older than NVRTC " + compiler.version().text() + " (" + compiler.file().string() +
                                                ") and may not read what that makes; install both from one CUDA release");
  }
  const auto known = compiler.architectures();
  if (std::find(known.begin(), known.end(), architecture_number(arch)) == known.end()) {
    throw Error(errc::compiler_unavailable,
                "NVRTC " + compiler.version().text() + " (" + compiler.file().string() + ") does not compile for " + arch +
                    "; it knows sm_" + (known.empty() ? "none" : std::to_string(known.front()) + " to sm_" + std::to_string(known.back())));
  }
}

std::vector<std::string> options_for(const std::string& arch) {
  std::vector<std::string> options = {
      "--gpu-architecture=" + arch,
      "--relocatable-device-code=true",
      "--std=c++20",
      "--device-as-default-execution-space",  // so that plain helper functions work on the device as they do on the CPU
      "--minimal",                            // leaves out textures and the runtime API: 8 of 28 ms
      "--diag-suppress=177",                  // "declared but never referenced": everything the user defines is local
  };
  if (const auto folder = Nvrtc::get().include_folder(); !folder.empty()) options.push_back("--include-path=" + folder.string());
  return options;
}

// The embedded headers whose names start with `prefix`.
std::vector<Nvrtc::Header> headers_below(std::string_view prefix) {
  std::vector<Nvrtc::Header> headers;
  for (const EmbeddedFile& file : embedded_headers()) {
    if (file.name.starts_with(prefix)) headers.push_back({file.name.data(), file.text.data()});
  }
  return headers;
}

// Whether an operator would lose in LTO-IR what it is to be compiled with: there these are the linker's to decide, for all of an image
// (seen with CUDA 13.0: contraction, denormals and division come out as the linker has them). Flags may be anything.
bool must_stay_native(const CompileOptions& options) {
  return options.fast_math || options.flush_denormals.value_or(false) || !options.contract.value_or(true) ||
         !options.precise_division.value_or(true) || options.max_registers != 0 || options.line_info || options.debug ||
         !options.flags.empty();
}

// The bytes in "... 36 bytes spill stores, 36 bytes spill loads" that the assembler reports for `kernel`. What it reports for other
// functions includes the registers that a callee saves for its caller, which no budget avoids.
std::uint32_t spills_in(std::string_view log, const std::string& kernel) {
  const std::size_t at_kernel = log.find("Function properties for " + kernel + "\n");
  if (at_kernel == std::string_view::npos) return 0;
  log.remove_prefix(log.find('\n', at_kernel) + 1);
  log = log.substr(0, log.find('\n'));
  std::uint32_t total = 0;
  for (const std::string_view phrase : {" bytes spill stores", " bytes spill loads"}) {
    for (std::size_t at = 0; (at = log.find(phrase, at)) != std::string_view::npos; at += phrase.size()) {
      std::size_t start = at;
      while (start > 0 && std::isdigit(static_cast<unsigned char>(log[start - 1])) != 0) --start;
      if (start < at) total += static_cast<std::uint32_t>(std::stoul(std::string(log.substr(start, at - start))));
    }
  }
  return total;
}

}  // namespace

struct CudaCompiler::Loop {
  Bytes bytes;
  std::string log;
};

struct CudaCompiler::State {
  std::mutex mutex;                          // guards `loops`, and is held while one is compiled: whoever needs it then waits for it
  std::array<std::optional<Loop>, 2> loops;  // by tier
};

CudaCompiler::CudaCompiler(Options options) : options_(std::move(options)), state_(std::make_unique<State>()) {
  if (architecture_number(options_.arch) == 0)
    throw Error(errc::invalid_argument, "'" + options_.arch + "' is no CUDA architecture such as sm_90");
}
CudaCompiler::~CudaCompiler() = default;

std::string CudaCompiler::default_loop() { return "#include \"device/cuda_resident.hpp\"\n"; }

Object CudaCompiler::compile(const Unit& unit) {
  const std::string text = wrapped_source(unit);
  check_tools(options_.arch);
  const Form form = unit.options.lto && !must_stay_native(unit.options) ? Form::lto : Form::native;
  const NvrtcResult result =
      Nvrtc::get().compile(text, "<dwell operator " + unit.name + ">", headers_below("dwell/"), options_for(options_.arch), form);
  if (!result.ok) throw compile_error(unit, result.log);
  // Of LTO-IR that is linked by itself the variables remain, with the signatures among them.
  const NvJitLink::Input alone{NvJitLink::Input::Kind::lto_ir, result.bytes, unit.name};
  std::vector<Entry> entries = read_entries(unit, form == Form::lto ? NvJitLink::get().link(options_.arch, {&alone, 1}) : result.bytes);
  return {std::move(entries), result.bytes, readable_log(unit, result.log), form};
}

std::string CudaCompiler::fingerprint(const Unit& unit) { return fingerprint_of(unit, identity()); }

const CudaCompiler::Loop& CudaCompiler::loop(Tier tier) {
  const std::lock_guard lock(state_->mutex);
  std::optional<Loop>& loop = state_->loops.at(static_cast<std::size_t>(tier));
  if (loop) return *loop;
  const bool inlines = tier == Tier::lto;
  const std::string key = CacheKey()
                              .add("what", inlines ? "inlining loop" : "loop")
                              .add("compiler", identity())
                              .add("headers", embedded_headers_digest())
                              .add("text", options_.loop)
                              .finish();
  const auto decode = [](std::span<const std::byte> payload) -> std::optional<Loop> {
    image::ByteReader reader(payload);
    const std::string_view log = reader.text();
    const auto bytes = reader.counted();
    if (!reader.complete()) return std::nullopt;
    return Loop{Bytes(bytes.begin(), bytes.end()), std::string(log)};
  };
  const auto encode = [](const Loop& value) {
    image::ByteWriter writer;
    writer.counted(value.log);
    writer.counted(value.bytes);
    return std::move(writer).take();
  };
  const auto make = [&] {
    std::vector<std::string> options = options_for(options_.arch);
    if (inlines) {
      options.emplace_back("--define-macro=DWELL_INLINE_OPERATORS=1");
    } else {
      options.emplace_back("--ptxas-options=-v");
      // On sm_90 this leaves room for six workers a multiprocessor; elsewhere calls need more, and the linked loop has its budget in
      // cuda_loop.test.cpp. Operators that need more still link: the linker raises the kernel's count. The loop that inlines takes less
      // by itself, and a limit would be one for its operators too.
      options.emplace_back("--maxrregcount=64");
    }
    NvrtcResult result =
        Nvrtc::get().compile(options_.loop, "<dwell loop>", headers_below(""), options, inlines ? Form::lto : Form::native);
    if (!result.ok) throw Error(errc::compile_failed, "the resident loop does not compile for " + options_.arch + ":\n" + result.log);
    return Loop{std::move(result.bytes), std::move(result.log)};
  };
  const std::string description = (inlines ? "loop that inlines, for " : "loop for ") + options_.arch;
  return loop.emplace(made_once(options_.cache, key, description, decode, encode, make));
}

CudaCompiler::LoopReport CudaCompiler::loop_report() {
  const std::string& log = loop(Tier::relocatable).log;
  return {spills_in(log, options_.kernel), log};
}

Image CudaCompiler::link(std::span<const Opcode> table, Tier tier) {
  using Kind = NvJitLink::Input::Kind;
  NvJitLink& linker = NvJitLink::get();
  std::vector<NvJitLink::Input> inputs;
  std::map<std::string_view, const Object*> linked;        // by symbol
  std::vector<Opcode> called(table.begin(), table.end());  // through dwell_entries
  for (Opcode& opcode : called) {
    const Object* const object = opcode.object;
    if (object == nullptr) continue;
    const bool is_ir = object->form == Form::lto;
    // The linker does not survive every damaged file; a truncated one is caught here.
    if (!is_ir && !Elf::open(object->bytes)) throw Error(errc::link_failed, "the object of " + opcode.symbol() + " is damaged");
    for (const Entry& entry : object->entries) {
      const auto [at, added] = linked.try_emplace(entry.symbol, object);
      if (added && &entry == &object->entries.front()) inputs.push_back({is_ir ? Kind::lto_ir : Kind::cubin, object->bytes, entry.symbol});
      // Said here because the linker reports it on stderr.
      if (!added && at->second->bytes != object->bytes)
        throw Error(errc::link_failed, "two different operators have the symbol " + entry.symbol);
    }
    if (is_ir && tier == Tier::lto) opcode = {};
  }
  inputs.push_back({tier == Tier::lto ? Kind::lto_ir : Kind::cubin, loop(tier).bytes, "the resident loop"});
  const std::string text = table_source(called, options_.arch, linker.version());
  const bool calls = std::any_of(called.begin(), called.end(), [](const Opcode& opcode) { return opcode.object != nullptr; });
  // The assembler reads up to the null character.
  if (calls || tier != Tier::lto) inputs.push_back({Kind::ptx, image::as_bytes({text.c_str(), text.size() + 1}), "the table of operators"});
  NvrtcResult dispatch;
  if (tier == Tier::lto) {
    dispatch = Nvrtc::get().compile(dispatch_source(table), "<dwell dispatch>", {}, options_for(options_.arch), Form::lto);
    if (!dispatch.ok) throw Error(errc::link_failed, "the operators' dispatch does not compile:\n" + dispatch.log);
    inputs.push_back({Kind::lto_ir, dispatch.bytes, "the dispatch"});
  }
  Image image{linker.link(options_.arch, inputs), {}};
  const auto resources = read_resources(image.bytes, options_.kernel);
  if (!resources) throw Error(errc::link_failed, "the linked image has no kernel " + options_.kernel);
  image.resources = *resources;
  // The linker gives the kernel what its indirect calls may need, as far as prototypes match. A loop that declares the table with another
  // type links without a word, and its calls end in illegal instructions.
  for (const Opcode& opcode : called) {
    if (opcode.object == nullptr) continue;
    const auto entry = read_resources(image.bytes, opcode.symbol());
    if (!entry || entry->registers > resources->registers) {
      throw Error(errc::link_failed, "the kernel has fewer registers than its operator " + opcode.symbol() +
                                         " needs: it does not call it as a dwell::device::Entry");
    }
  }
  return image;
}

std::string CudaCompiler::identity() const {
  check_tools(options_.arch);
  std::string text =
      "nvrtc " + Nvrtc::get().version().text() + ", nvjitlink " + NvJitLink::get().version().text() + ", kernel " + options_.kernel;
  for (const std::string& option : options_for(options_.arch)) text += " " + option;
  // Images hold the loop.
  return text + ", loop " + hex(sha256(image::as_bytes(options_.loop))).substr(0, 16);
}

}  // namespace dwell::jit
