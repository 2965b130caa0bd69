#include "jit/cuda_compiler.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include <dwell/error.hpp>

#include "image/byte_stream.hpp"
#include "jit/elf.hpp"
#include "jit/embedded.hpp"
#include "jit/fingerprint.hpp"
#include "jit/nvjitlink.hpp"
#include "jit/nvrtc.hpp"
#include "jit/sha256.hpp"
#include "jit/source.hpp"

namespace dwell::jit {

namespace {

// The number in "sm_90" or "sm_90a"; 0 when it is of another form.
int number_of(const std::string& arch) {
  if (!arch.starts_with("sm_") || arch.size() < 5 || arch.size() > 7) return 0;
  const std::size_t end = arch.find_first_not_of("0123456789", 3);
  const bool suffixed = end != std::string::npos;
  if (end == 3 || (suffixed && (end + 1 != arch.size() || std::islower(static_cast<unsigned char>(arch[end])) == 0))) return 0;
  return std::stoi(arch.substr(3));
}

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
  if (std::find(known.begin(), known.end(), number_of(arch)) == known.end()) {
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

// The oldest version of PTX that knows the architecture, or the newest that the linker surely reads.
std::string ptx_version(int architecture, CudaVersion linker) {
  if (architecture <= 90) return "8.0";
  if (linker.major == 12) return linker.minor >= 9 ? "8.8" : "8.7";
  return "9.0";
}

// The table in PTX rather than C++: assembling it takes 5 ms where NVRTC takes 25. The prototype of the functions must be that of
// dwell::device::Entry, because the linker gives the kernel the registers of those functions whose prototype matches its indirect calls.
std::string table_source(std::span<const Opcode> opcodes, const std::string& arch, const std::string& version) {
  std::string text = ".version " + version + "\n.target " + arch + "\n.address_size 64\n";
  std::string table;
  std::set<std::string_view> declared;
  for (const Opcode& opcode : opcodes) {
    if (opcode.object != nullptr && declared.insert(opcode.symbol()).second) {
      text += ".extern .func " + opcode.symbol() + "(.param .b64 group, .param .b64 arguments);\n";
    }
    table += (opcode.object == nullptr ? "0" : opcode.symbol()) + ", ";
  }
  return text + ".visible .const .align 8 .u64 dwell_entries[" + std::to_string(opcodes.size() + 1) + "] = {" + table + "0};\n";
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
  std::mutex mutex;  // guards `loop`, and is held while it is compiled: whoever needs it then waits for it
  std::optional<Loop> loop;
};

CudaCompiler::CudaCompiler(Options options) : options_(std::move(options)), state_(std::make_unique<State>()) {
  if (number_of(options_.arch) == 0) throw Error(errc::invalid_argument, "'" + options_.arch + "' is no CUDA architecture such as sm_90");
}
CudaCompiler::~CudaCompiler() = default;

std::string CudaCompiler::default_loop() { return "#include \"device/cuda_resident.hpp\"\n"; }

Object CudaCompiler::compile(const Unit& unit) {
  const std::string text = wrapped_source(unit);
  check_tools(options_.arch);
  const NvrtcResult result =
      Nvrtc::get().compile(text, "<dwell operator " + unit.name + ">", headers_below("dwell/"), options_for(options_.arch));
  if (!result.ok) throw compile_error(unit, result.log);
  std::vector<Entry> entries = read_entries(unit, result.bytes);
  return {std::move(entries), result.bytes, readable_log(unit, result.log)};
}

std::string CudaCompiler::fingerprint(const Unit& unit) { return fingerprint_of(unit, identity()); }

const CudaCompiler::Loop& CudaCompiler::loop() {
  const std::lock_guard lock(state_->mutex);
  if (state_->loop) return *state_->loop;
  const std::string key = CacheKey()
                              .add("what", "loop")
                              .add("compiler", identity())
                              .add("headers", embedded_headers_digest())
                              .add("text", options_.loop)
                              .finish();
  Loop made;
  if (const auto payload = options_.cache.load(key)) {
    image::ByteReader reader(*payload);
    made.log = reader.text();
    const auto bytes = reader.counted();
    made.bytes.assign(bytes.begin(), bytes.end());
    if (!reader.complete()) made = {};
  }
  if (made.bytes.empty()) {
    std::vector<std::string> options = options_for(options_.arch);
    options.emplace_back("--ptxas-options=-v");
    // On sm_90 this leaves room for six workers a multiprocessor; elsewhere calls need more, and the linked loop has its budget in
    // cuda_loop.test.cpp. Operators that need more still link: the linker raises the kernel's count.
    options.emplace_back("--maxrregcount=64");
    NvrtcResult result = Nvrtc::get().compile(options_.loop, "<dwell loop>", headers_below(""), options);
    if (!result.ok) throw Error(errc::compile_failed, "the resident loop does not compile for " + options_.arch + ":\n" + result.log);
    made = {std::move(result.bytes), std::move(result.log)};
    image::ByteWriter writer;
    writer.counted(made.log);
    writer.counted(made.bytes);
    options_.cache.store(key, std::move(writer).take());
  }
  return state_->loop.emplace(std::move(made));
}

CudaCompiler::LoopReport CudaCompiler::loop_report() {
  const std::string& log = loop().log;
  return {spills_in(log, options_.kernel), log};
}

Image CudaCompiler::link(std::span<const Opcode> table) {
  NvJitLink& linker = NvJitLink::get();
  const std::string text = table_source(table, options_.arch, ptx_version(number_of(options_.arch), linker.version()));
  std::vector<NvJitLink::Input> inputs;
  inputs.push_back({NvJitLink::Input::Kind::cubin, loop().bytes, "the resident loop"});
  // The assembler reads up to the null character.
  inputs.push_back({NvJitLink::Input::Kind::ptx, image::as_bytes({text.c_str(), text.size() + 1}), "the table of operators"});
  std::map<std::string_view, const Object*> linked;  // by symbol
  for (const Opcode& opcode : table) {
    const Object* const object = opcode.object;
    if (object == nullptr) continue;
    // The linker does not survive every damaged file; a truncated one is caught here.
    if (!Elf::open(object->bytes)) throw Error(errc::link_failed, "the object of " + opcode.symbol() + " is damaged");
    for (const Entry& entry : object->entries) {
      const auto [at, added] = linked.try_emplace(entry.symbol, object);
      if (added && &entry == &object->entries.front()) inputs.push_back({NvJitLink::Input::Kind::cubin, object->bytes, entry.symbol});
      // Said here because the linker reports it on stderr.
      if (!added && at->second->bytes != object->bytes)
        throw Error(errc::link_failed, "two different operators have the symbol " + entry.symbol);
    }
  }
  Image image{linker.link(options_.arch, inputs), {}};
  const auto resources = read_resources(image.bytes, options_.kernel);
  if (!resources) throw Error(errc::link_failed, "the linked image has no kernel " + options_.kernel);
  image.resources = *resources;
  // The linker gives the kernel what its indirect calls may need, as far as prototypes match. A loop that declares the table with another
  // type links without a word, and its calls end in illegal instructions.
  for (const auto& [symbol, object] : linked) {
    const auto entry = read_resources(image.bytes, symbol);
    if (!entry || entry->registers > resources->registers) {
      throw Error(errc::link_failed, "the kernel has fewer registers than its operator " + std::string(symbol) +
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
