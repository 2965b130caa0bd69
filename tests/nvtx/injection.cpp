// A tool that NVTX opens (NVTX_INJECTION64_PATH): writes a line for each event of a domain to the file that DWELL_TEST_NVTX_FILE names:
// "THREAD push DOMAIN TEXT", "THREAD pop DOMAIN", "THREAD mark DOMAIN TEXT".
#include <nvtx3/nvToolsExt.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

// Both live as long as the process: events may arrive until its end.
std::FILE* file = nullptr;
std::vector<std::unique_ptr<std::string>>* domains = nullptr;
std::mutex mutex;

void write(const char* what, nvtxDomainHandle_t domain, const char* text) {
  const std::lock_guard lock(mutex);
  const auto& name = *reinterpret_cast<const std::string*>(domain);
  std::fprintf(file, "%ld %s %s%s%s\n", syscall(SYS_gettid), what, name.c_str(), text != nullptr ? " " : "", text != nullptr ? text : "");
  std::fflush(file);
}

const char* text_of(const nvtxEventAttributes_t* attributes) {
  const bool plain = attributes->version == NVTX_VERSION && attributes->size == NVTX_EVENT_ATTRIB_STRUCT_SIZE &&
                     attributes->messageType == NVTX_MESSAGE_TYPE_ASCII;
  return plain ? attributes->message.ascii : "(attributes that this tool does not know)";
}

nvtxDomainHandle_t create(const char* name) {
  const std::lock_guard lock(mutex);
  return reinterpret_cast<nvtxDomainHandle_t>(domains->emplace_back(std::make_unique<std::string>(name)).get());
}
int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  write("push", domain, text_of(attributes));
  return 0;
}
int pop(nvtxDomainHandle_t domain) {
  write("pop", domain, nullptr);
  return 0;
}
void mark(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) { write("mark", domain, text_of(attributes)); }

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table) {
  const char* const path = std::getenv("DWELL_TEST_NVTX_FILE");
  file = path != nullptr ? std::fopen(path, "ae") : nullptr;
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (file == nullptr || callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0 ||
      size <= NVTX_CBID_CORE2_DomainCreateA)
    return 0;
  domains = new std::vector<std::unique_ptr<std::string>>();
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(create);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  *table[NVTX_CBID_CORE2_DomainMarkEx] = reinterpret_cast<NvtxFunctionPointer>(mark);
  return 1;
}
