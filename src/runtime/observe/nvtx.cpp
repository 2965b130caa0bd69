#include "runtime/observe/nvtx.hpp"

#if DWELL_WITH_NVTX

#include <nvtx3/nvToolsExt.h>
#include <sys/auxv.h>

#include <array>
#include <cstddef>
#include <string>

namespace dwell::runtime::nvtx {

namespace {

using Kind = TraceEvent::Kind;

// Names of the host's kinds, in order.
constexpr std::array<const char*, 9> kNames = {"submit", "wait", "define", "compile", "hand_over", "park", "launch", "flush", "mark"};
static_assert(kNames.size() == static_cast<std::size_t>(Kind::mark) - static_cast<std::size_t>(Kind::submit) + 1);

// Returns null without a tool. Never destroyed: ranges may be open until the process ends. NVTX opens any library that the environment
// names, so a privileged program must not use it.
nvtxDomainHandle_t domain() noexcept {
  static auto* const made = getauxval(AT_SECURE) != 0 ? nullptr : nvtxDomainCreateA("dwell");
  return made;
}

const char* name_of(Kind kind) noexcept { return kNames[static_cast<std::size_t>(kind) - static_cast<std::size_t>(Kind::submit)]; }

// The message of an event: "compile axpy", or the text of a mark. Without memory only the kind: a range must begin before it ends.
class Message {
 public:
  Message(Kind kind, std::string_view name) noexcept : text_(name_of(kind)) {
    if (name.empty()) return;
    try {
      if (kind != Kind::mark) joined_.append(text_).append(" ");
      text_ = joined_.append(name).c_str();
    } catch (...) {
      text_ = name_of(kind);
    }
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  // A tool copies the text.
  nvtxEventAttributes_t attributes() const noexcept {
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = text_;
    return attributes;
  }

 private:
  std::string joined_;
  const char* text_;
};

}  // namespace

bool attached() noexcept { return domain() != nullptr; }

void push(Kind kind, std::string_view name) noexcept {
  const Message message(kind, name);
  const nvtxEventAttributes_t attributes = message.attributes();
  nvtxDomainRangePushEx(domain(), &attributes);
}

void pop() noexcept { nvtxDomainRangePop(domain()); }

void mark(std::string_view text) noexcept {
  const Message message(Kind::mark, text);
  const nvtxEventAttributes_t attributes = message.attributes();
  nvtxDomainMarkEx(domain(), &attributes);
}

}  // namespace dwell::runtime::nvtx

#else

namespace dwell::runtime::nvtx {

bool attached() noexcept { return false; }
void push(TraceEvent::Kind, std::string_view) noexcept {}
void pop() noexcept {}
void mark(std::string_view) noexcept {}

}  // namespace dwell::runtime::nvtx

#endif
