// dwell._dwell: the library in Python. The package `dwell` says what is public.
#include <nanobind/nanobind.h>

#include <cstdlib>

#include "bind.hpp"
#include "calls.hpp"
#include "errors.hpp"
#include "heap.hpp"
#include "log.hpp"
#include "ring.hpp"

NB_MODULE(_dwell, m) {
  namespace python = dwell::python;
  m.doc() = "The runtime in Python; import it as `dwell`.";
  m.attr("version") = DWELL_VERSION;
  // Handles in global variables outlive the module at the end of the interpreter; that is no mistake of the program. DWELL_PYTHON_LEAKS
  // lets tests look for those that are.
  nanobind::set_leak_warnings(std::getenv("DWELL_PYTHON_LEAKS") != nullptr);
  python::bind_errors(m);
  python::bind_options(m);
  python::bind_ticket(m);
  python::bind_buffer(m);
  python::bind_ring(m);
  python::bind_heap(m);
  python::bind_operator(m);
  python::bind_graph(m);
  python::bind_kernel(m);
  python::bind_batch(m);
  python::bind_observe(m);
  python::bind_log(m);
  python::bind_inspection(m);
  python::bind_runtime(m);
  python::bind_array(m);
  python::explain_calls(m);
  nanobind::module_::import_("atexit").attr("register")(nanobind::cpp_function(&python::close_all));
}
