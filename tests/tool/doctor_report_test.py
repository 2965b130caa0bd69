#!/usr/bin/env python3
"""End-to-end tests of `dwell doctor`: its findings, and the operators that it lists of an image.

    tests/tool/doctor_report_test.py TOOL [ARGUMENT OF unittest...]
"""

import json
import struct

from job_case import Case, main


class Doctor(Case):
    def test_finds_the_cpu(self):
        result = self.dwell("doctor", "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        findings = {finding["what"]: finding for finding in json.loads(result.stdout)["findings"]}
        self.assertEqual(findings["device cpu"]["state"], "ok")
        self.assertEqual(findings["host compiler"]["state"], "ok")
        for finding in findings.values():
            self.assertIn(finding["state"], ("ok", "missing", "too old", "failed"))

    def test_shows_the_costs_of_each_cuda_device(self):
        report = json.loads(self.dwell("doctor", "--json").stdout)
        works = [f["what"] for f in report["findings"] if f["what"].startswith("device cuda:") and f["state"] == "ok"]
        self.assertEqual([f"device {costs['device']}" for costs in report["costs"]], works)
        for costs in report["costs"]:
            self.assertIn(costs["measured"], (True, False))
            self.assertGreater(costs["figures"]["step_ns"]["value"], 0)
        if not works:
            result = self.dwell("doctor", "--measure")
            self.assertEqual(result.returncode, 1)
            self.assertIn("no CUDA device works", result.stderr)
        self.assertEqual(self.dwell("doctor", "--measure", "--defaults").returncode, 2)

    def test_says_what_to_do_without_a_compiler(self):
        result = self.dwell("doctor", DWELL_CXX="/none/such")
        self.assertRegex(result.stdout, r"device cpu +(failed|missing)")
        self.assertIn("DWELL_CXX", result.stdout)

    def test_lists_the_operators_of_an_image(self):
        # As src/image/bundle.cpp packs it: magic, one object, one opcode with the object's index and a symbol, no words of uses.
        symbol = b"dwell_axpy_" + b"0123456789abcdef" * 2
        bundle = b"DWBNDL03" + struct.pack("<IQ", 1, 3) + b"ELF" + struct.pack("<IIQ", 1, 0, len(symbol)) + symbol + struct.pack("<I", 0)
        self.put("image", bundle)
        result = self.dwell("doctor", "--image", "image")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, "image for host, 1 operator\n  axpy\n")
        report = json.loads(self.dwell("doctor", "--image", "image", "--json").stdout)
        self.assertEqual((report["target"], report["operators"][0]["symbol"]), ("host", symbol.decode()))

    def test_says_what_is_no_image(self):
        self.put("text", "no image")
        faults = {"text": "neither a cubin nor a bundle", self.tool: "an ELF file, but not for CUDA"}
        faults |= {"nothing": "cannot be read", ".": "cannot be read"}
        for name, why in faults.items():
            result = self.dwell("doctor", "--image", name)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn(name, result.stderr)
            self.assertIn(why, result.stderr)
        self.assertEqual(self.dwell("doctor", "--scratch", "1").returncode, 2)


if __name__ == "__main__":
    main(__doc__)
