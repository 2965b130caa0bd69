// dwell: a runtime that lives on the GPU. Include this.
#pragma once

#if __cplusplus < 202002L
#error "dwell needs C++20: -std=c++20"
#endif

#include <dwell/arguments.hpp>
#include <dwell/buffer.hpp>
#include <dwell/buffer_view.hpp>
#include <dwell/compile_options.hpp>
#include <dwell/devices.hpp>
#include <dwell/diagnosis.hpp>
#include <dwell/element_type.hpp>
#include <dwell/error.hpp>
#include <dwell/graph.hpp>
#include <dwell/heap.hpp>
#include <dwell/image.hpp>
#include <dwell/kernel.hpp>
#include <dwell/log.hpp>
#include <dwell/memory_resource.hpp>
#include <dwell/metrics.hpp>
#include <dwell/module.hpp>
#include <dwell/operator.hpp>
#include <dwell/options.hpp>
#include <dwell/preemption.hpp>
#include <dwell/ring.hpp>
#include <dwell/runtime.hpp>
#include <dwell/signature.hpp>
#include <dwell/task.hpp>
#include <dwell/ticket.hpp>
#include <dwell/trace.hpp>
