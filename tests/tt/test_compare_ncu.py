"""Tests of bench/compare_ncu.py with invented tables and programs: the kernels that count, the op of each, and the verdict."""
import contextlib
import csv
import io
import json
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bench"))
import compare_ncu  # noqa: E402

RANGES = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"


def stack(*ranges, domain="<default domain>"):
    """A table cell with ranges as Nsight Compute writes it, the outermost range first."""
    return "4711" + "".join(f'  "{domain}:{name}:none:none:none:none:none:none" ' for name in ranges)


def table(rows, unit="us"):
    """The CSV table of Nsight Compute with these rows (ranges, time)."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(["ID", "Process ID", RANGES, "Kernel Name", compare_ncu.TIME])
    writer.writerow(["", "", "", "", unit])
    for i, (ranges, time) in enumerate(rows):
        writer.writerow([i, 4711, ranges, "kernel", time])
    return out.getvalue()


STEP = [
    (stack("matmul"), "9,000"),  # in a warm-up step
    (stack("profiled step", "matmul"), "1,200"),
    (stack("profiled step", "matmul"), "300"),  # a second kernel of one call
    (stack("profiled step", "softmax"), "500"),
    (stack("profiled step"), "40"),
    (stack("matmul"), "7,000"),  # in the step that measures memory
    ("", "8,000"),
]


class Parsing(unittest.TestCase):
    def test_the_op_is_the_range_inside_the_step(self):
        self.assertEqual(compare_ncu.op_of(stack("profiled step", "matmul")), "matmul")
        self.assertEqual(compare_ncu.op_of(stack("profiled step")), compare_ncu.OUTSIDE)
        for outside in ("", "4711", stack("matmul"), stack("profiled step", domain="CCCL")):
            self.assertIsNone(compare_ncu.op_of(outside), outside)

    def test_a_kernel_in_nested_ops_belongs_to_the_outermost(self):
        self.assertEqual(compare_ncu.op_of(stack("profiled step", "attention", "softmax")), "attention")

    def test_modules_and_scopes_are_not_ops(self):
        self.assertEqual(compare_ncu.op_of(stack("profiled step", "module Gpt2", "module Linear", "linear")), "linear")
        self.assertEqual(compare_ncu.op_of(stack("profiled step", "scope evaluation")), compare_ncu.OUTSIDE)
        source = (ROOT / "include/tinytorch/tensor/observer.hpp").read_text(encoding="utf-8")
        for start in compare_ncu.SCOPES:
            self.assertIn(f'"{start}" + ', source)

    def test_a_range_of_a_cuda_library_is_not_an_op(self):
        cell = stack("profiled step", "matmul") + stack("cublasLtMatmul", domain="cuBLAS")
        self.assertEqual(compare_ncu.op_of(cell), "matmul")

    def test_exactly_the_kernels_of_the_step_count(self):
        ops = compare_ncu.times_by_op(table(STEP))
        self.assertEqual({name: n for name, (_, n) in ops.items()}, {"matmul": 2, "softmax": 1, compare_ncu.OUTSIDE: 1})
        self.assertAlmostEqual(ops["matmul"][0], 1500e-6)
        self.assertAlmostEqual(ops["softmax"][0], 500e-6)
        self.assertAlmostEqual(ops[compare_ncu.OUTSIDE][0], 40e-6)

    def test_times_of_every_unit_are_converted_to_seconds(self):
        for unit, seconds in (("nsecond", 2e-9), ("ns", 2e-9), ("usecond", 2e-6), ("ms", 2e-3), ("msecond", 2e-3)):
            ops = compare_ncu.times_by_op(table([(stack("profiled step", "add"), "2")], unit))
            self.assertAlmostEqual(ops["add"][0], seconds, places=15)

    def test_a_run_without_the_range_of_the_step_is_refused(self):
        for text in (table([(stack("matmul"), "1"), ("", "2")]), table(STEP).replace("Push/Pop_Range", "other")):
            with self.assertRaisesRegex(SystemExit, 'in the range "profiled step"'):
                compare_ncu.times_by_op(text)

    def test_the_program_uses_the_same_name_for_the_range_of_a_step(self):
        source = (ROOT / "bench/tinymlperf/commands/profile.hpp").read_text(encoding="utf-8")
        self.assertIn(f'RangeGuard range("{compare_ncu.STEP}")', source)


PEAKS = {"device": "NVIDIA H200", "machine": "a processor", "driver": "580.1, CUDA 13.0", "commit": "0123abc",
            "date": "2026-11-23T04:19:30Z", "dtype": "bf16", "flops_per_second": 1}


class Comparison(unittest.TestCase):
    def compare(self, ours, rows, peaks=PEAKS):
        """(exit status, rows of the report by op). `ours`: (op, microseconds) of the kernels in the program's trace."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        out = Path(folder.name) / "out.json"

        def run(command, **_):
            if command[0] == "ncu":
                return subprocess.CompletedProcess(command, 0, "==PROF== Connected\n" + table(rows), "")
            events, start = [], 0
            for name, time in ours:
                events.append({"name": name, "cat": "kernel", "ts": start, "dur": time})
                start += time
            trace = Path(command[command.index("--out") + 1]) / "trace.json"
            trace.write_text(json.dumps({"traceEvents": events}))
            trace.with_name("peaks.json").write_text(json.dumps(peaks))
            return subprocess.CompletedProcess(command, 0, "  Kernel launches: 3 a step.\n", "")

        line = ["compare_ncu", "--tinymlperf", "a program", "--length", "64", "--out", str(out)]
        self.said = io.StringIO()
        with mock.patch.object(subprocess, "run", run), mock.patch.object(sys, "argv", line), contextlib.redirect_stdout(
                io.StringIO()), contextlib.redirect_stderr(self.said):
            status = compare_ncu.main()
        self.line, self.report = line, json.loads(out.read_text())
        return status, {row["op"]: row for row in self.report["rows"]}

    def test_times_that_agree_pass(self):
        status, rows = self.compare([("matmul", 1530), ("softmax", 510)], STEP)
        self.assertEqual(status, 0, rows)
        self.assertAlmostEqual(rows["matmul"]["off"], 0.02)
        self.assertFalse(rows[compare_ncu.OUTSIDE]["strict"])  # the profiler measures only kernels inside ops
        self.assertEqual((rows["matmul"]["kernels"], rows["matmul"]["calls"]), (2, 1))

    def test_an_op_with_another_time_fails(self):
        status, rows = self.compare([("matmul", 1200), ("softmax", 510)], STEP)
        self.assertEqual(status, 1)
        self.assertAlmostEqual(rows["matmul"]["off"], -0.2)

    def test_the_report_names_machine_date_commit_and_settings(self):
        self.compare([("matmul", 1530), ("softmax", 510)], STEP)
        for key in ("device", "driver", "machine", "date", "commit"):
            self.assertEqual(self.report[key], PEAKS[key])
        self.assertEqual((self.report["batch"], self.report["length"], self.report["dtype"]), (4, 64, "bf16"))
        self.assertEqual(shlex.split(self.report["command"]), ["bench/compare_ncu.py", *self.line[1:]])
        self.assertEqual(self.said.getvalue(), "")

    def test_an_unknown_value_is_null_and_reported(self):
        self.compare([("matmul", 1530)], STEP, {**PEAKS, "commit": None})
        self.assertIsNone(self.report["commit"])
        self.assertIn("has no value for commit", self.said.getvalue())


if __name__ == "__main__":
    unittest.main()
