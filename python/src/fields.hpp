// Attributes of a class that is a snapshot.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <string>
#include <vector>

namespace dwell::python {

namespace nb = nanobind;

// "name=value" of all attributes, as a dataclass shows itself.
template <class T>
class Fields {
 public:
  Fields(nb::class_<T>& type, const char* name) : type_(type) { text_ = name; }
  template <class Get>
  Fields& add(const char* name, Get get, const char* doc) {
    type_.def_prop_ro(name, get, doc);
    names_.emplace_back(name);
    return *this;
  }
  void finish() {
    type_.def(
        "__repr__",
        [name = text_, names = names_](nb::handle_t<T> self) {
          std::string text = "dwell." + name + "(";
          for (std::size_t i = 0; i < names.size(); ++i)
            text += (i == 0 ? "" : ", ") + names[i] + "=" + nb::cast<std::string>(nb::repr(self.attr(names[i].c_str())));
          return text + ")";
        },
        nb::sig("def __repr__(self) -> str"));
    type_.def(
        "asdict",
        [names = names_](nb::handle_t<T> self) {
          nb::dict made;
          for (const std::string& name : names) made[name.c_str()] = self.attr(name.c_str());
          return made;
        },
        "All of it as a dictionary.", nb::sig("def asdict(self) -> dict[str, typing.Any]"));
  }

 private:
  nb::class_<T>& type_;
  std::string text_;
  std::vector<std::string> names_;
};

}  // namespace dwell::python
