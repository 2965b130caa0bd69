#include <utility>

#include <dwell/inspect.hpp>
#include <dwell/signature.hpp>

#include "live/value_text.hpp"

namespace dwell {

namespace {

std::pair<std::string_view, std::string_view> parts_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::pair(std::string_view(), name) : std::pair(name.substr(0, dot), name.substr(dot + 1));
}

}  // namespace

void InspectedValue::check(const Parameter& asked) const {
  if (!text.empty())
    throw Error(errc::signature_mismatch, "'" + name + "' is a text, not " + text_of(asked) + ": read InspectedValue::text",
                {"name", name});
  const bool plain = asked.kind == Kind::structure && type.kind == Kind::structure;
  if (plain ? asked.bytes == type.bytes : asked == type) return;
  throw Error(errc::signature_mismatch, "'" + name + "' is " + text_of(type) + ", not " + text_of(asked), {"name", name});
}

void InspectedValue::refuse_array() const {
  throw Error(errc::signature_mismatch, "'" + name + "' is an array of " + std::to_string(count) + ": use elements<T>()", {"name", name});
}

const InspectedValue& Inspection::at(std::string_view field) const {
  for (const InspectedValue& one : values)
    if (one.name == field || parts_of(one.name).second == field) return one;
  std::string list;
  for (const InspectedValue& one : values) list += (list.empty() ? "" : ", ") + one.name;
  throw Error(errc::invalid_argument, "'" + name + "' has no '" + std::string(field) + "': there are " + list,
              {"name", std::string(field)});
}

const InspectedValue& Inspection::value() const {
  if (values.size() == 1) return values.front();
  throw Error(errc::invalid_argument, "'" + name + "' has " + std::to_string(values.size()) + " values: name one", {"name", name});
}

std::string to_string(const Inspection& inspection) {
  std::string text;
  std::string_view group;
  for (const InspectedValue& value : inspection.values) {
    const auto [before, last] = parts_of(value.name);
    const bool goes_on = !before.empty() && before == group && !text.empty();
    if (goes_on) {
      text.back() = ',';
      text += ' ';
    } else if (!before.empty()) {
      text += std::string(before) + ": ";
    }
    text += std::string(last) + (before.empty() ? ": " : " ") + live::text_of_value(value) + "\n";
    group = before;
  }
  // Only for variables: these could have been guarded.
  if (!inspection.op.empty() && !inspection.whole)
    text += "(perhaps not of one moment: it is in no dwell::Seqlock, or that is stored to all the time)\n";
  return text;
}

}  // namespace dwell
