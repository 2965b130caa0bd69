// Included by operators: the group that runs it, spans, status codes, the log, and DWELL_OPERATOR.
#pragma once

#include <dwell/device/atomic.hpp>
#include <dwell/device/byte_ring.hpp>
#include <dwell/device/copy.hpp>
#include <dwell/device/exec.hpp>
#include <dwell/device/gang.hpp>
#include <dwell/device/group.hpp>
#include <dwell/device/heap.hpp>
#include <dwell/device/inspect.hpp>
#include <dwell/device/log.hpp>
#include <dwell/device/math.hpp>
#include <dwell/device/numbered.hpp>
#include <dwell/device/operator.hpp>
#include <dwell/device/platform.hpp>
#include <dwell/device/reduce.hpp>
#include <dwell/device/ref.hpp>
#include <dwell/device/ring.hpp>
#include <dwell/device/scan.hpp>
#include <dwell/device/seqlock.hpp>
#include <dwell/device/signature.hpp>
#include <dwell/device/span.hpp>
#include <dwell/device/span_atomic.hpp>
#include <dwell/device/spawn.hpp>
#include <dwell/device/status.hpp>
#include <dwell/device/transform.hpp>
#include <dwell/device/uses.hpp>
