// Graph, Node, GraphExec; Module, Kernel.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string_view>

#include "bind.hpp"
#include "errors.hpp"

namespace dwell::python {

using namespace nb::literals;

namespace {

// dwell.Node, dwell.SubGraph.
struct PyNode {
  Node node;
  std::shared_ptr<GraphState> graph;
};
struct PySubGraph : PyNode {
  SubGraph sub;
};

PySubGraph sub_of(const SubGraph& sub, const std::shared_ptr<GraphState>& graph) {
  PySubGraph made;
  made.node = sub;
  made.sub = sub;
  made.graph = graph;
  return made;
}

void keep(const PyGraph& graph, const Kept& more) { graph.state->kept->insert(graph.state->kept->end(), more.begin(), more.end()); }

PyNode add(const PyGraph& self, const std::string& name, const Handle& op, const nb::args& arguments, std::uint32_t groups,
           std::uint32_t gang) {
  Packed packed;
  Packer packer(op.runtime, "operator", op.op.name(), op.op.signature());
  packer.pack(packed, PySequence_Fast_ITEMS(arguments.ptr()), arguments.size());
  Modifiers modifiers;
  modifiers.groups = groups;
  modifiers.gang = gang;
  packer.add(packed, modifiers);
  Node node = self.state->graph.add(op.op, packed.arguments);
  if (!name.empty()) node.name(name);
  keep(self, packed.kept);
  return {node, self.state};
}

std::string repr(const char* type, const std::string& name, std::size_t nodes) {
  return std::string("<dwell.") + type + (name.empty() ? "" : " '" + name + "'") + " of " + std::to_string(nodes) + " nodes>";
}

PySubGraph add_graph(const PyGraph& self, const std::string& name, const PyGraph& other) {
  const SubGraph sub = self.state->graph.add(name, other.state->graph);
  keep(self, Kept(*other.state->kept));
  return sub_of(sub, self.state);
}

DeviceValue value_from(nb::handle object, const char* call, Kept& kept) {
  const Array* buffer = nullptr;
  if (!nb::try_cast(object, buffer) || buffer == nullptr || buffer->type != ElementType::u32)
    throw Error(errc::signature_mismatch, std::string("the value of Graph.") + call + " is a dwell.Buffer of uint32",
                {"argument", "value"});
  kept.push_back(buffer->memory);
  return DeviceValue(buffer->view());
}

// A callback of a host node.
std::function<void()> host_call(nb::object callback) {
  return [held = Shared(std::move(callback))] {
    const CallbackScope scope;
    if (!scope.entered() || held.get() == nullptr) throw std::runtime_error("the interpreter is ending");
    PyObject* const result = PyObject_CallNoArgs(held.get());
    if (result != nullptr) {
      Py_DECREF(result);
      return;
    }
    throw Raised();
  };
}

void after(PyNode& self, const nb::args& nodes) {
  for (const nb::handle one : nodes) {
    const PyNode* before = nullptr;
    if (nb::try_cast(one, before) && before != nullptr) {
      self.node.after(before->node);
      continue;
    }
    for (const nb::handle each : one) self.node.after(nb::cast<const PyNode&>(each).node);
  }
}

// ---- Kernels

Dim3 dim_from(nb::handle object, const char* name) {
  std::uint32_t extent[3] = {1, 1, 1};
  if (PyIndex_Check(object.ptr()) != 0) {
    extent[0] = nb::cast<std::uint32_t>(nb::int_(nb::borrow(object)));
  } else {
    std::size_t at = 0;
    for (const nb::handle one : object) {
      if (at == 3) throw Error(errc::invalid_argument, std::string(name) + " has at most three extents", {"argument", name});
      extent[at++] = nb::cast<std::uint32_t>(one);
    }
  }
  return {extent[0], extent[1], extent[2]};
}

struct PyModule {
  Module module;
  State runtime;
};
struct PyKernel {
  Kernel<> kernel;
  State runtime;
};

Receipt launch_kernel(const PyKernel& self, const nb::args& arguments, nb::handle grid, nb::handle block, std::uint32_t shared,
                      std::uintptr_t stream, bool cooperative) {
  run_posted();
  self.runtime->get();
  Packed packed;
  Packer packer(self.runtime, "kernel", self.kernel.name(), self.kernel.signature());
  packer.pack(packed, PySequence_Fast_ITEMS(arguments.ptr()), arguments.size());
  LaunchConfig config;
  config.grid = dim_from(grid, "grid");
  config.block = dim_from(block, "block");
  config.shared = shared;
  config.stream = reinterpret_cast<void*>(stream);
  config.cooperative = cooperative;
  const Unlocked unlocked;
  return {self.kernel.launch(config, packed.arguments)};
}

}  // namespace

Receipt launch(const State& runtime, const Exec& exec, const Modifiers& modifiers) {
  run_posted();
  Runtime& open = runtime->get();
  const std::vector<Ticket> first = tickets_from(modifiers.after, "after");
  const std::vector<Ticket> any = tickets_from(modifiers.after_any_result, "after_any_result");
  const Unlocked unlocked;
  // Order is told by types in C++: each combination is a function of its own.
  const auto with = [&](const auto&... more) { return Receipt{open.launch(exec.exec, more...)}; };
  const auto with_priority = [&](const auto&... more) {
    return modifiers.priority ? with(more..., priority(*modifiers.priority)) : with(more...);
  };
  const auto with_drain = [&](const auto&... more) { return modifiers.drain ? with_priority(more..., drain) : with_priority(more...); };
  const auto with_link = [&](const auto&... more) {
    return modifiers.hard_link ? with_drain(more..., hard_link) : modifiers.link ? with_drain(more..., link) : with_drain(more...);
  };
  if (first.empty() && any.empty()) return with_link();
  return with_link(dwell::after(first), dwell::after_any_result(any));
}

void bind_graph(nb::module_& m) {
  nb::class_<PyNode>(m, "Node", "A task of a graph, a conditional node, a host node, or all of a sub-graph.")
      .def(
          "after",
          [](nb::handle_t<PyNode> self, const nb::args& nodes) {
            after(nb::cast<PyNode&>(self), nodes);
            return nb::borrow(self);
          },
          "nodes"_a, "This node starts only when all of these have succeeded. Returns the node.",
          nb::sig("def after(self, *nodes: Node | typing.Iterable[Node]) -> Node"))
      .def(
          "name",
          [](nb::handle_t<PyNode> self, const std::string& name) {
            nb::cast<PyNode&>(self).node.name(name);
            return nb::borrow(self);
          },
          "name"_a, "The name that errors and Graph.dot show. Returns the node.", nb::sig("def name(self, name: str) -> Node"))
      .def(
          "__eq__", [](const PyNode& self, const PyNode& other) { return self.node == other.node; }, nb::is_operator(),
          nb::sig("def __eq__(self, other: object) -> bool"))
      .def("__repr__", [](const PyNode&) { return "<dwell.Node>"; });
  nb::class_<PySubGraph, PyNode>(m, "SubGraph",
                                 "The nodes of a graph that was added to another, or of those that a conditional node chooses from.")
      .def(
          "inside",
          [](const PySubGraph& self, nb::handle node, std::size_t body) -> nb::object {
            const PySubGraph* sub = nullptr;
            if (nb::try_cast(node, sub) && sub != nullptr) return nb::cast(sub_of(self.sub.inside(sub->sub, body), self.graph));
            return nb::cast(PyNode{self.sub.inside(nb::cast<const PyNode&>(node).node, body), self.graph});
          },
          "node"_a, "body"_a = 0, "What has become of a node of the graph that was added; of several, of that with this number.",
          nb::sig("def inside(self, node: Node, body: int = 0) -> Node"));

  nb::class_<PyGraph>(
      m, "Graph",
      "Tasks and their order, made once and launched as often as wanted. Holds no memory of a device, and keeps the buffers alive\n"
      "that its nodes name. Used by one thread at a time.")
      .def(
          "__init__",
          [](PyGraph* self, const std::string& name) {
            new (self) PyGraph();
            self->state->graph.name(name);
          },
          "name"_a = "")
      .def(
          "name",
          [](nb::handle_t<PyGraph> self, const std::string& name) {
            nb::cast<PyGraph&>(self).state->graph.name(name);
            return nb::borrow(self);
          },
          "name"_a,
          "The name by which launches go wherever tasks are shown: in errors, timelines, `Runtime.diagnose`. Execs keep the one that the\n"
          "graph had when they were instantiated. Returns the graph.",
          nb::sig("def name(self, name: str) -> Graph"))
      .def(
          "add",
          [](const PyGraph& self, const Handle& op, const nb::args& arguments, std::uint32_t groups, std::uint32_t gang) {
            return add(self, "", op, arguments, groups, gang);
          },
          "op"_a, "arguments"_a, "groups"_a = 1, "gang"_a = 0,
          "Adds a task, with arguments, groups and gang as Runtime.submit takes them, and returns its node.",
          nb::sig("def add(self, op: Operator, *arguments: object, groups: int = 1, gang: int = 0) -> Node"))
      .def("add", &add, "name"_a, "op"_a, "arguments"_a, "groups"_a = 1, "gang"_a = 0, "The same with a name, which errors and `dot` show.",
           nb::sig("def add(self, name: str, op: Operator, *arguments: object, groups: int = 1, gang: int = 0) -> Node"))
      .def(
          "add", [](const PyGraph& self, const PyGraph& graph) { return add_graph(self, "", graph); }, "graph"_a,
          "Adds the nodes of another graph, as they are now.")
      .def("add", &add_graph, "name"_a, "graph"_a, "The same with a name: a node 'x' of a sub-graph 'sub' is called 'sub/x'.")
      .def(
          "add_if",
          [](const PyGraph& self, const std::string& name, nb::handle value, const PyGraph& body, nb::handle otherwise) {
            Kept more(*body.state->kept);
            const DeviceValue from = value_from(value, "add_if", more);
            if (otherwise.is_none()) {
              const SubGraph sub = self.state->graph.add_if(name, from, body.state->graph);
              keep(self, more);
              return sub_of(sub, self.state);
            }
            const auto& other = nb::cast<const PyGraph&>(otherwise);
            more.insert(more.end(), other.state->kept->begin(), other.state->kept->end());
            const SubGraph sub = self.state->graph.add_if(name, from, body.state->graph, other.state->graph);
            keep(self, more);
            return sub_of(sub, self.state);
          },
          "name"_a, "value"_a, "body"_a, "otherwise"_a = nb::none(),
          "Runs `body` if `value`, the first element of a buffer of uint32, is not 0 when the node's turn comes, else `otherwise`.",
          nb::sig("def add_if(self, name: str, value: Buffer, body: Graph, otherwise: Graph | None = None) -> SubGraph"))
      .def(
          "add_while",
          [](const PyGraph& self, const std::string& name, nb::handle value, const PyGraph& body) {
            Kept more(*body.state->kept);
            const SubGraph sub = self.state->graph.add_while(name, value_from(value, "add_while", more), body.state->graph);
            keep(self, more);
            return sub_of(sub, self.state);
          },
          "name"_a, "value"_a, "body"_a, "Runs `body` while `value` is not 0, at which it looks before each time.",
          nb::sig("def add_while(self, name: str, value: Buffer, body: Graph) -> SubGraph"))
      .def(
          "add_switch",
          [](const PyGraph& self, const std::string& name, nb::handle value, const nb::iterable& bodies) {
            Kept more;
            std::vector<nb::object> held;
            std::vector<const Graph*> list;
            for (const nb::handle one : bodies) {
              const auto& body = nb::cast<const PyGraph&>(one);
              held.push_back(nb::borrow(one));
              list.push_back(&body.state->graph);
              more.insert(more.end(), body.state->kept->begin(), body.state->kept->end());
            }
            const SubGraph sub = self.state->graph.add_switch(name, value_from(value, "add_switch", more), list);
            keep(self, more);
            return sub_of(sub, self.state);
          },
          "name"_a, "value"_a, "bodies"_a, "Runs that of `bodies` whose number `value` is; none if it is too large.",
          nb::sig("def add_switch(self, name: str, value: Buffer, bodies: typing.Iterable[Graph]) -> SubGraph"))
      .def(
          "add_host",
          [](const PyGraph& self, const std::string& name, nb::callable callback) {
            return PyNode{self.state->graph.add_host(name, host_call(std::move(callback))), self.state};
          },
          "name"_a, "callback"_a,
          "Adds a node that calls ``callback()`` on a thread of the runtime; the nodes behind start when it has returned. If it raises, "
          "the node\n"
          "has failed. It may use the runtime, but not wait for its own launch. There, reading and writing arrays waits for no tasks: wait "
          "for\n"
          "the tickets of what is to be seen.",
          nb::sig("def add_host(self, name: str, callback: typing.Callable[[], object]) -> Node"))
      .def(
          "dot", [](const PyGraph& self) { return self.state->graph.dot(); }, "The graph in the language of Graphviz.")
      .def("__len__", [](const PyGraph& self) { return self.state->graph.size(); })
      .def("__repr__", [](const PyGraph& self) { return repr("Graph", self.state->graph.name(), self.state->graph.size()); });

  nb::class_<NodeTime>(m, "NodeTime", "How long a node has taken in the launch of GraphExec.measure.")
      .def_ro("runs", &NodeTime::runs, "0 of one that was cancelled or not chosen, more than 1 in a loop.")
      .def_prop_ro(
          "total", [](const NodeTime& self) { return seconds_of(self.total); }, "Seconds, of all runs.")
      .def("__repr__", [](const NodeTime& self) {
        return "dwell.NodeTime(runs=" + std::to_string(self.runs) + ", total=" + std::to_string(seconds_of(self.total)) + ")";
      });

  nb::class_<Exec>(m, "GraphExec",
                   "A graph on a device, ready to be launched: by Runtime.launch, and by operators that have it as an argument.")
      .def(
          "set",
          [](Exec& self, const PyNode& node, std::uint32_t index, nb::handle value) {
            self.runtime->get();
            static const std::string name = "GraphExec.set";
            const Signature wanted({self.exec.parameter(node.node, index)});
            Packed packed;
            Packer packer(self.runtime, "call", name, wanted);
            packer.pack_one(packed, 0, value);
            self.exec.set(node.node, index, packed.arguments);
            std::string key(reinterpret_cast<const char*>(&node.node), sizeof node.node);
            self.kept->set[key + std::to_string(index)] = std::move(packed.kept);
          },
          "node"_a, "index"_a, "value"_a, "Gives a node another argument from the next launch on; launches so far keep theirs.",
          nb::sig("def set(self, node: Node, index: int, value: object) -> None"))
      .def(
          "update",
          [](Exec& self, const PyGraph& graph) {
            self.exec.update(graph.state->graph);
            *self.kept = {*graph.state->kept, {}};
          },
          "graph"_a, "Takes over all arguments of a graph with the same operators and edges.")
      .def(
          "measure",
          [](Exec& self) {
            self.runtime->get();
            GraphExec exec = self.exec;
            const Unlocked unlocked;
            exec.measure();
          },
          "Launches the graph once with two readings of the device's clock around each node, and returns when that has ended.")
      .def(
          "time", [](const Exec& self, const PyNode& node) { return self.exec.time(node.node); }, "node"_a,
          "What `measure` has found last for a node that runs something.")
      .def(
          "dot", [](const Exec& self) { return self.exec.dot(); }, "As Graph.dot; behind `measure` with times and the critical path.")
      .def_prop_ro(
          "nbytes", [](const Exec& self) { return self.exec.bytes(); }, "The device memory that it takes.")
      .def("__len__", [](const Exec& self) { return self.exec.size(); })
      .def("__repr__", [](const Exec& self) { return repr("GraphExec", self.exec.name(), self.exec.size()); });
}

void bind_kernel(nb::module_& m) {
  nb::class_<PyKernel>(m, "Kernel", "An ordinary kernel: ``kernel(x, 3, grid=8, block=128)`` launches it.")
      .def_prop_ro(
          "name", [](const PyKernel& self) { return self.kernel.name(); }, "As C++ has it, without parameters.")
      .def_prop_ro("symbol", [](const PyKernel& self) { return self.kernel.symbol(); })
      .def_prop_ro(
          "signature", [](const PyKernel& self) { return self.kernel.signature().text(); }, "Its parameters.")
      .def(
          "__call__", &launch_kernel, "arguments"_a, "grid"_a, "block"_a, "shared"_a = 0, "stream"_a = 0, "cooperative"_a = false,
          "Launches it on the runtime's stream for launches, or on the CUstream at the address `stream`, and returns at once.\n\n"
          "grid, block: blocks and threads, up to three extents\n"
          "shared: dynamic shared memory of a block, in bytes\n"
          "cooperative: run all blocks at once, so that they may wait for each other\n\n"
          "Raises InvalidArgument for what is beyond the limits of the kernel or the device, and for a cooperative grid that does not fit\n"
          "on the device.",
          nb::sig("def __call__(self, *arguments: object, grid: int | typing.Sequence[int], block: int | typing.Sequence[int], shared: "
                  "int = 0, "
                  "stream: int = 0, cooperative: bool = False) -> Ticket"))
      .def("launch", &launch_kernel, "arguments"_a, "grid"_a, "block"_a, "shared"_a = 0, "stream"_a = 0, "cooperative"_a = false,
           "The same.",
           nb::sig(
               "def launch(self, *arguments: object, grid: int | typing.Sequence[int], block: int | typing.Sequence[int], shared: int = 0, "
               "stream: int = 0, cooperative: bool = False) -> Ticket"))
      .def("__repr__", [](const PyKernel& self) { return "<dwell.Kernel " + self.kernel.name() + self.kernel.signature().text() + ">"; });
  nb::class_<PyModule>(m, "Module", "A compiled and loaded program of ordinary kernels.")
      .def(
          "kernel",
          [](const PyModule& self, const std::string& name) {
            return PyKernel{self.module.kernel(name), self.runtime};
          },
          "name"_a, "The kernel of this name: \"scale\", \"reduce<double, 256>\", \"scale(float*)\", or a symbol.")
      .def_prop_ro(
          "kernels", [](const PyModule& self) { return self.module.kernels(); }, "The names of all kernels.")
      .def(
          "lowered_name", [](const PyModule& self, const std::string& name) { return self.module.lowered_name(name); }, "name"_a,
          "The symbol behind a name.")
      .def_prop_ro(
          "cubin",
          [](const PyModule& self) {
            const auto bytes = self.module.cubin();
            return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          },
          "The program that was loaded.")
      .def_prop_ro(
          "ptx", [](const PyModule& self) { return self.module.ptx(); }, "The same in PTX.")
      .def_prop_ro(
          "log", [](const PyModule& self) { return self.module.log(); }, "The compiler's warnings.")
      .def("__repr__",
           [](const PyModule& self) { return "<dwell.Module of " + std::to_string(self.module.kernels().size()) + " kernels>"; });
}

nb::object module_object(Module module, State runtime) { return nb::cast(PyModule{std::move(module), std::move(runtime)}); }

}  // namespace dwell::python
