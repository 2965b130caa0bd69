// https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md, version 1.0
#include <charconv>
#include <string>
#include <string_view>

#include <dwell/metrics.hpp>

#include "observe/metric_families.hpp"

namespace dwell {

namespace {

using observe::MetricFamily;
using observe::MetricLabel;
using observe::MetricSample;

std::string_view text_of(MetricFamily::Type type) {
  switch (type) {
    case MetricFamily::Type::counter: return "counter";
    case MetricFamily::Type::gauge: return "gauge";
    case MetricFamily::Type::histogram: return "histogram";
  }
  return "unknown";
}

std::string text_of(double number) {
  char digits[32];
  // Counts stay whole numbers: the shortest form of 100000 would be 1e+05.
  const std::uint64_t whole = number >= 0 && number < 0x1p64 ? static_cast<std::uint64_t>(number) : 0;
  char* const end = static_cast<double>(whole) == number ? std::to_chars(digits, digits + sizeof digits, whole).ptr
                                                         : std::to_chars(digits, digits + sizeof digits, number).ptr;
  return {digits, end};
}

std::string escaped(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n') {
      text += "\\n";
    } else {
      text += c;
    }
  }
  return text;
}

std::string text_of(const std::vector<MetricLabel>& labels) {
  std::string text;
  for (const MetricLabel& label : labels) {
    if (!text.empty()) text += ',';
    text.append(label.name).append("=\"").append(escaped(label.value)).append("\"");
  }
  return text;
}

void append_line(std::string& text, const MetricFamily& family, std::string_view suffix, std::string_view labels, std::string_view value) {
  text.append(family.name).append(suffix).append("{").append(labels).append("} ").append(value).append("\n");
}

void append_histogram(std::string& text, const MetricFamily& family, const MetricSample& sample, const std::string& labels) {
  for (const observe::MetricBucket& bucket : sample.buckets)
    append_line(text, family, "_bucket", labels + ",le=\"" + text_of(bucket.most) + '"', std::to_string(bucket.cumulative));
  append_line(text, family, "_bucket", labels + ",le=\"+Inf\"", std::to_string(sample.count));
  append_line(text, family, "_count", labels, std::to_string(sample.count));
  append_line(text, family, "_sum", labels, text_of(sample.value));
}

}  // namespace

std::string to_openmetrics(const Metrics& metrics) {
  std::string text;
  for (const MetricFamily& family : observe::metric_families(metrics)) {
    text.append("# TYPE ").append(family.name).append(" ").append(text_of(family.type)).append("\n");
    if (!family.unit.empty()) text.append("# UNIT ").append(family.name).append(" ").append(family.unit).append("\n");
    text.append("# HELP ").append(family.name).append(" ").append(family.help).append("\n");
    for (const MetricSample& sample : family.samples) {
      const std::string labels = text_of(sample.labels);
      if (family.type == MetricFamily::Type::histogram) {
        append_histogram(text, family, sample, labels);
      } else {
        append_line(text, family, family.type == MetricFamily::Type::counter ? "_total" : "", labels, text_of(sample.value));
      }
    }
  }
  return text + "# EOF\n";
}

}  // namespace dwell
