#!/usr/bin/env python3
"""Tests of check.py: every rule catches what it is there for, and lets pass what it should."""

import tempfile
import unittest
from pathlib import Path

import check


class Layering(unittest.TestCase):
    def faults(self, **files: str) -> list[str]:
        """`files` maps a path, written with __ for / and _dot_ for ., to its includes."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            for name, includes in files.items():
                path = root / name.replace("__", "/").replace("_dot_", ".")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("".join(f"#include {include}\n" for include in includes.split()))
            return check.check(root)

    def test_device_headers_include_only_themselves(self):
        self.assertEqual(self.faults(include__dwell__device__group_dot_hpp="<dwell/device/span.hpp>"), [])
        self.assertEqual(len(self.faults(include__dwell__device__group_dot_hpp="<dwell/error.hpp>")), 1)
        self.assertEqual(len(self.faults(include__dwell__device__group_dot_hpp="<vector>")), 1)
        self.assertEqual(len(self.faults(src__device__ring_dot_hpp='<cstdint> "jit/compiler.hpp"')), 2)

    def test_public_headers_hide_the_source(self):
        self.assertEqual(self.faults(include__dwell__runtime_dot_hpp="<vector> <dwell/device/span.hpp>"), [])
        self.assertEqual(len(self.faults(include__dwell__runtime_dot_hpp='"runtime/keeper.hpp"')), 1)

    def test_the_orchestrator_sees_what_a_program_sees(self):
        self.assertEqual(self.faults(src__orchestrator__a_dot_cpp='"base/mutex.hpp" "orchestrator/policy.hpp" <dwell/graph.hpp>'), [])
        self.assertEqual(len(self.faults(src__orchestrator__a_dot_cpp='"runtime/core.hpp" "graph/exec.hpp" "device/ring.hpp"')), 3)

    def test_the_live_view_sees_no_runtime(self):
        self.assertEqual(self.faults(src__live__a_dot_cpp='"base/file.hpp" "live/wire.hpp" <dwell/metrics.hpp>'), [])
        self.assertEqual(len(self.faults(src__live__a_dot_cpp='"runtime/core.hpp" "jit/base/process.hpp"')), 2)
        self.assertEqual(self.faults(src__runtime__a_dot_cpp='"live/published.hpp"', tools__dwell__a_dot_cpp='"live/client.hpp"'), [])

    def test_python_sees_what_a_program_sees(self):
        files = {"python__src__a_dot_cpp": '<nanobind/nanobind.h> <dwell/graph.hpp> "b.hpp"', "python__src__b_dot_hpp": ""}
        self.assertEqual(self.faults(**files), [])
        self.assertEqual(len(self.faults(python__src__a_dot_cpp='"runtime/core.hpp" "device/ring.hpp" <cuda.h>')), 3)

    def test_compilers_and_backends_do_not_meet(self):
        self.assertEqual(len(self.faults(src__jit__cache__a_dot_cpp='"backend/backend.hpp"')), 1)
        self.assertEqual(len(self.faults(src__backend__cpu__cpu_dot_cpp='"jit/compiler.hpp"')), 1)
        self.assertEqual(len(self.faults(src__backend__cpu__cpu_dot_cpp='"backend/cuda/driver.hpp"')), 1)

    def test_rooms_of_jit_stand_on_the_ground(self):
        ground = '"jit/compiler.hpp" "jit/base/file_stamp.hpp" "jit/cache/file_cache.hpp"'
        self.assertEqual(self.faults(src__jit__cuda__a_dot_cpp=ground), [])
        self.assertEqual(len(self.faults(src__jit__base__a_dot_cpp='"jit/compiler.hpp"')), 1)
        self.assertEqual(len(self.faults(src__jit__host__a_dot_cpp='"jit/cuda/nvrtc.hpp" "jit/cache/file_cache.hpp"')), 2)
        self.assertEqual(len(self.faults(src__jit__a_dot_cpp='"jit/compiler.hpp"')), 1)

    def test_runtime_sees_contracts(self):
        self.assertEqual(self.faults(src__runtime__device__keeper_dot_cpp='"backend/backend.hpp" "jit/compiler.hpp"'), [])
        self.assertEqual(len(self.faults(src__runtime__keeper_dot_cpp='"backend/cpu/cpu.hpp" "jit/cuda/nvrtc.hpp"')), 2)

    def test_rooms_of_the_runtime_stand_on_those_before(self):
        below = '"runtime/device/keeper.hpp" "runtime/tasks/b.hpp" "runtime/caught.hpp"'
        self.assertEqual(self.faults(src__runtime__tasks__a_dot_cpp=below), [])
        self.assertEqual(len(self.faults(src__runtime__device__a_dot_cpp='"runtime/tasks/a.hpp" "runtime/core.hpp"')), 2)
        self.assertEqual(len(self.faults(src__runtime__core_dot_hpp='"runtime/extra/a.hpp"')), 1)
        self.assertEqual(self.faults(src__runtime__device__a_dot_test_dot_cpp='"runtime/core.hpp"'), [])

    def test_the_page_shows_the_rooms(self):
        self.assertEqual(len(self.faults(docs__layout_dot_md="")), 1)
        self.assertEqual(self.faults(docs__other_dot_md=""), [])

    def test_one_file_makes_the_concrete_ones(self):
        self.assertEqual(self.faults(src__runtime__devices_dot_cpp='"backend/cpu/cpu.hpp" "jit/cuda/nvrtc.hpp"'), [])

    def test_cuda_headers(self):
        self.assertEqual(self.faults(src__backend__cuda__driver_dot_cpp="<cuda.h>", src__jit__cuda__nvrtc_dot_cpp="<nvrtc.h>"), [])
        self.assertEqual(len(self.faults(src__runtime__keeper_dot_cpp="<cuda.h>", tools__dwell__main_dot_cpp="<nvJitLink.h>")), 2)

    def test_name_beside_the_file_counts_as_its_path(self):
        files = {"src__backend__cuda__driver_dot_hpp": "", "src__backend__cuda__a_dot_cpp": '"driver.hpp"'}
        self.assertEqual(self.faults(**files), [])

    def test_libraries_are_for_tools(self):
        self.assertEqual(self.faults(tools__dwell__job_dot_cpp="<toml++/toml.h> <png.h>"), [])
        self.assertEqual(len(self.faults(src__runtime__a_dot_cpp="<toml++/toml.h> <png.h>")), 2)

    def test_nvtx_is_for_one_file(self):
        self.assertEqual(self.faults(src__runtime__observe__nvtx_dot_cpp='"runtime/observe/nvtx.hpp" <nvtx3/nvToolsExt.h>'), [])
        self.assertEqual(len(self.faults(src__runtime__observe__nvtx_dot_cpp='"runtime/core.hpp"')), 1)
        self.assertEqual(len(self.faults(src__runtime__core_dot_hpp="<nvtx3/nvToolsExt.h>")), 1)

    def test_unknown_folder(self):
        self.assertEqual(len(self.faults(src__extra__a_dot_cpp="<vector>")), 1)


if __name__ == "__main__":
    unittest.main()
