// From dwell's families of metrics to prometheus-cpp's.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <prometheus/metric_family.h>

#include "observe/metric_families.hpp"

namespace dwell::exporter {

inline prometheus::ClientMetric converted(const observe::MetricSample& sample, observe::MetricFamily::Type type) {
  prometheus::ClientMetric metric;
  for (const observe::MetricLabel& label : sample.labels) metric.label.push_back({std::string(label.name), label.value});
  switch (type) {
    case observe::MetricFamily::Type::counter: metric.counter.value = sample.value; break;
    case observe::MetricFamily::Type::gauge: metric.gauge.value = sample.value; break;
    case observe::MetricFamily::Type::histogram:
      metric.histogram.sample_sum = sample.value;
      metric.histogram.sample_count = sample.count;
      for (const observe::MetricBucket& bucket : sample.buckets) metric.histogram.bucket.push_back({bucket.cumulative, bucket.most});
      metric.histogram.bucket.push_back({sample.count, std::numeric_limits<double>::infinity()});
      break;
  }
  return metric;
}

inline prometheus::MetricFamily converted(const observe::MetricFamily& family) {
  using Type = observe::MetricFamily::Type;
  prometheus::MetricFamily result;
  // The text that prometheus-cpp writes is older than OpenMetrics: there _total is part of a counter's name.
  result.name = std::string(family.name) + (family.type == Type::counter ? "_total" : "");
  result.help = family.help;
  result.type = family.type == Type::counter ? prometheus::MetricType::Counter
                : family.type == Type::gauge ? prometheus::MetricType::Gauge
                                             : prometheus::MetricType::Histogram;
  for (const observe::MetricSample& sample : family.samples) result.metric.push_back(converted(sample, family.type));
  return result;
}

}  // namespace dwell::exporter
