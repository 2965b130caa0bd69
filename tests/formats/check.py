#!/usr/bin/env python3
"""Reads a sample of a format with the package that defines it: prometheus_client, or the schema in perfetto.

usage: tests/formats/check.py PRINT_FORMATS openmetrics|perfetto|dashboard|page
       tests/formats/check.py SERVE_METRICS endpoint

Exits with 77 when the package is not installed. `dashboard`: what docs/grafana/dwell.json asks for is in the OpenMetrics text. `page`: the
table in docs/prometheus.md is the one that follows from that text, which is printed if not. `endpoint`: scrapes the runtime that serve.cpp
puts behind dwell::PrometheusEndpoint.
"""

import functools
import importlib
import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

SKIPPED = 77


def check_openmetrics(parser, sample):
    """The parser refuses what the specification does: names, units, buckets that are not cumulative, a text without an end."""
    families = {family.name: family for family in parser.text_string_to_metric_families(sample.decode())}
    types = {family.type for family in families.values()}
    assert types == {"counter", "gauge", "histogram"}, types
    assert families["dwell_operator_duration_seconds"].unit == "seconds"
    assert families["dwell_arena_bytes"].unit == "bytes"
    for name, family in families.items():
        assert name.startswith("dwell_"), name
        assert family.documentation, name
        assert all({"runtime", "device"} <= set(sample.labels) for sample in family.samples), name
    operators = [sample.labels["operator"] for sample in families["dwell_operator_tasks"].samples]
    assert operators == ["axpy<float>", 'never "run"\\\n', "slow"], operators
    versions = [sample.labels["version"] for sample in families["dwell_operator_version_tasks"].samples]
    assert versions == ["1", "3", "1"], versions


def check_perfetto(schema, sample):
    """Every field is one that the schema knows, and everything that is referred to is there."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    def messages(of):
        yield of
        for field, value in of.ListFields():
            if field.message_type is not None:
                for part in value if field.is_repeated else [value]:
                    yield from messages(part)

    trace = schema.Trace.FromString(sample)
    for message in messages(trace):
        assert len(UnknownFieldSet(message)) == 0, message
    descriptors = {packet.track_descriptor.uuid: packet.track_descriptor for packet in trace.packet if packet.HasField("track_descriptor")}
    interned = [packet.interned_data for packet in trace.packet]
    names = {entry.iid: entry.name for data in interned for entry in data.event_names}
    categories = {entry.iid for data in interned for entry in data.event_categories}
    annotations = {entry.iid for data in interned for entry in data.debug_annotation_names}

    processes = [descriptor.process.process_name for descriptor in descriptors.values() if descriptor.HasField("process")]
    assert processes == ["dwell cuda:0 runtime 1"], processes
    workers = sorted(descriptor.name for descriptor in descriptors.values() if "worker" in descriptor.name)
    assert workers == ["worker 0", "worker 3", "worker 3, queues and launches"], workers
    assert all(descriptor.parent_uuid in descriptors for descriptor in descriptors.values() if not descriptor.HasField("process"))

    events = [packet.track_event for packet in trace.packet if packet.HasField("track_event")]
    assert all(event.track_uuid in descriptors for event in events)
    begun = [event for event in events if event.type == schema.TrackEvent.TYPE_SLICE_BEGIN]
    ended = [event for event in events if event.type == schema.TrackEvent.TYPE_SLICE_END]
    assert begun and len(begun) == len(ended)
    for event in begun:
        assert names[event.name_iid]
        assert set(event.category_iids) <= categories
        assert {annotation.name_iid for annotation in event.debug_annotations} <= annotations
    assert {flow for event in begun for flow in event.flow_ids} == {flow for event in begun for flow in event.terminating_flow_ids}


def check_dashboard(_, sample):
    """A panel that asks for a metric by a name or a label that it has not is empty, and no viewer says why."""
    dashboard = json.loads((Path(__file__).parents[2] / "docs/grafana/dwell.json").read_text(encoding="utf-8"))
    series = {}
    for name, labels in re.findall(r"^(\w+)\{(.*)\} ", sample.decode(), re.MULTILINE):
        series.setdefault(name, {"instance"}).update(re.findall(r'(\w+)="', labels))  # the scraper adds who was scraped
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [variable["query"]["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    for query in queries:
        names = re.findall(r"\bdwell_\w+", query)
        assert names, query
        for name in names:
            assert name in series, f"{name}: {query}"
            used = re.findall(r"(\w+)=~", query) + re.findall(r"\w+", " ".join(re.findall(r" by \((.*?)\)", query)))
            assert set(used) <= series[name], f"{set(used) - series[name]}: {query}"


PAGE = Path(__file__).parents[2] / "docs/prometheus.md"


def check_page(parser, sample):
    """Each family is a row of the page's table: how Prometheus calls it, its own labels, what it says of itself."""
    rows = ["| metric | labels | |", "|---|---|---|"]
    for family in parser.text_string_to_metric_families(sample.decode()):
        labels = sorted({name for sample in family.samples for name in sample.labels} - {"runtime", "device", "le"})
        name = family.name + ("_total" if family.type == "counter" else "")
        rows.append(f"| `{name}` | {', '.join(f'`{label}`' for label in labels)} | {family.documentation} |")
    table = "\n".join(rows) + "\n"
    assert table in PAGE.read_text(encoding="utf-8"), f"docs/prometheus.md must have this table:\n{table}"


def check_endpoint(parser, sample):
    """What the runtime has done arrives, in families of the right types, with cumulative buckets."""
    families = {family.name: family for family in parser.text_string_to_metric_families(sample.decode())}
    # The server tells of itself too: exposer_scrapes and the like.
    families = {name: family for name, family in families.items() if not name.startswith("exposer_")}
    for name, family in families.items():
        assert name.startswith("dwell_"), name
        assert family.type in {"counter", "gauge", "histogram"}, f"{name}: {family.type}"
        assert family.documentation, name
        assert all(sample.labels["device"] == "cpu" and sample.labels["runtime"] for sample in family.samples), name

    def values(name, **labels):
        family = families[re.sub(r"_(total|count|bucket)$", "", name)]
        return [sample.value for sample in family.samples if sample.name == name and labels.items() <= sample.labels.items()]

    assert values("dwell_operator_tasks_total", operator="nothing") == [1005]
    assert values("dwell_operator_version_tasks_total", operator="nothing", version="1") == [1005]
    assert values("dwell_operator_failures_total", operator="nothing") == [0]
    assert values("dwell_operator_failures_total", operator="fails") == [10]
    assert sum(values("dwell_worker_tasks_total")) == 1015
    for of_workers in ["busy_seconds", "idle_seconds", "stolen_tasks", "parks"]:
        assert len(values(f"dwell_worker_{of_workers}_total")) == len(values("dwell_worker_tasks_total")), of_workers
    assert len(values("dwell_pauses_total")) == 1
    assert values("dwell_submitted_tasks_total") == [1015]
    assert values("dwell_graph_launches_total") == [5]
    assert values("dwell_buffers") == [1], "the program's: a graph lies in the arena"
    assert values("dwell_buffer_bytes") == [4000]
    assert values("dwell_operator_duration_seconds_count", operator="nothing") == [1005]
    buckets = values("dwell_operator_duration_seconds_bucket", operator="nothing")
    assert buckets == sorted(buckets), buckets
    assert buckets[-1] == 1005, buckets


def printed(what, program):
    return subprocess.run([program, what], stdout=subprocess.PIPE, check=True).stdout


def scraped(program):
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as serving:
        port = serving.stdout.readline().decode().strip()
        assert port, "nobody serves"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            sample = answer.read()
        serving.stdin.close()
        assert serving.wait(60) == 0
    return sample


# By name: how to get the sample out of the program, the package, the check.
CHECKS = {
    "openmetrics": (functools.partial(printed, "openmetrics"), "prometheus_client.openmetrics.parser", check_openmetrics),
    "perfetto": (functools.partial(printed, "perfetto"), "perfetto.protos.perfetto.trace.perfetto_trace_pb2", check_perfetto),
    "dashboard": (functools.partial(printed, "openmetrics"), "json", check_dashboard),
    "page": (functools.partial(printed, "openmetrics"), "prometheus_client.openmetrics.parser", check_page),
    "endpoint": (scraped, "prometheus_client.parser", check_endpoint),
}


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[2] not in CHECKS:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    sample_of, module, check = CHECKS[sys.argv[2]]
    try:
        package = importlib.import_module(module)
    except ImportError as error:
        print(f"skipped: {error}")
        return SKIPPED
    check(package, sample_of(sys.argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
