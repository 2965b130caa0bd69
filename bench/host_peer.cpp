#include "bench/host_peer.hpp"

#include <dlfcn.h>

#include <fstream>
#include <memory>
#include <stdexcept>

#include "bench/process.hpp"

namespace dwell::bench {

void HostPeer::compile_and_run(unsigned value) const {
  const std::string source = folder_.path() / ("fresh" + std::to_string(value) + ".cpp");
  const std::string object = folder_.path() / ("fresh" + std::to_string(value) + ".so");
  std::ofstream(source) << "extern \"C\" unsigned fresh() { return " << value << "; }\n";
  if (run_process({"c++", "-std=c++20", "-O2", "-fPIC", "-shared", "-o", object, source}).code != 0)
    throw std::runtime_error("the compiler c++ fails");
  const std::unique_ptr<void, int (*)(void*)> library(dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL), &dlclose);
  if (library == nullptr) throw std::runtime_error("the compiled source does not load");
  const auto function = reinterpret_cast<unsigned (*)()>(dlsym(library.get(), "fresh"));
  if (function == nullptr || function() != value) throw std::runtime_error("the compiled source gives a wrong result");
}

}  // namespace dwell::bench
