"""Tests of bench/compare_cuda.py with programs that report known times, report errors, hang, or exit."""
import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bench"))
import compare_cuda  # noqa: E402
import cuda_report  # noqa: E402

# The program of both contenders: bench_cuda if it is started with --serve, otherwise the peer. `times`: variant -> seconds.
# TROUBLE is replaced by {"case/variant/request": kind of failure}.
PROGRAM = """
import json, os, sys, time
ours = "--serve" in sys.argv
trouble = TROUBLE
times = {"ours": 1e-4, "eager": 1.5e-4, "compile": 1.2e-4, "channels_last": 0.6e-4}
groups = {"copy": ["eager"], "softmax": ["eager", "compile"], "softmax_backward": ["compile"],
          "elementwise": ["eager"], "conv2d": ["eager", "channels_last"], "gpt2_step": ["eager", "compile"]}
cases = [{"name": f"{g} {i}", "group": g, "peers": p, "bytes": 3e8 if g == "copy" else 1.5e8, "flops": 0, "sets": 2,
          "calls": 2, "graph": True, "tokens": 8 if g == "gpt2_step" else 0, "tensor_bytes": 7e7 if i else 6e7} for g, p in groups.items() for i in (0, 1)]
cases.append({**cases[0], "name": "decode", "group": "decode", "peers": [], "bytes": 1.5e8,
              "rivals": {"copy": "copy 1", "contiguous": "decode, contiguous"}})
cases.append({**cases[0], "name": "decode, contiguous", "group": "decode_contiguous", "peers": [], "bytes": 1.5e8})
name, held = "", []
for line in sys.stdin:
    request = json.loads(line)
    what, variant = request["do"], request.get("variant", "ours")
    answer = {"cases": cases} if what == "list" else {}
    if what == "prepare":
        name = request.get("name") or request["case"]["name"]
        answer = {"mode": "graph", "prepared_in": 0.0}
        held.append(variant)
    if what == "release":
        held = []
    if what == "measure":
        answer = {"seconds": times[variant] * (0.8 if name == "decode, contiguous" else 1)}
        if "gpt2" in name and len(held) > 1: answer = {"error": "out of memory"}
    kind = trouble.get(f"{name}/{variant}/{what}", "")
    if kind == "error": answer = {"error": "it broke"}
    if kind == "end": os._exit(3)
    if kind == "hang": time.sleep(60)
    if kind == "stream": answer["capture_error"] = "asks for a value"
    print(json.dumps(answer), flush=True)
"""


class CompareCuda(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def compare(self, trouble=None, *arguments):
        """(exit status, report, printed text)"""
        program, out = self.folder / "program.py", self.folder / "out.json"
        program.write_text(PROGRAM.replace("TROUBLE", repr(trouble or {})))
        started, asked = compare_cuda.Contender.__init__, compare_cuda.Contender.ask

        def start(contender, command):
            started(contender, [sys.executable, str(program)] + [word for word in command if word == "--serve"])

        def ask(contender, request, timeout=60):
            return asked(contender, request, 5 if trouble and "hang" in trouble.values() else timeout)

        line = ["compare_cuda", "--warm-processes", "0", "--commit", "abc", "--out", str(out), *arguments]
        printed = io.StringIO()
        with mock.patch.object(compare_cuda.Contender, "__init__", start), mock.patch.object(
            compare_cuda.Contender, "ask", ask
        ), mock.patch.object(sys, "argv", line), contextlib.redirect_stdout(printed):
            status = compare_cuda.main()
        return status, json.loads(out.read_text()), printed.getvalue()

    def row(self, report, start):
        return next(r for r in report["table"] if r["row"].startswith(start))

    def test_the_table_has_the_ratios_that_the_goals_define(self):
        status, report, _ = self.compare()
        self.assertEqual((status, report["failures"], len(report["cases"])), (0, [], 14))
        self.assertAlmostEqual(report["copy_gb_per_s"], 3000)
        self.assertAlmostEqual(self.row(report, "softmax, layer norm")["value"], 1.2)  # against the faster variant of the peer
        self.assertAlmostEqual(self.row(report, "softmax backward")["value"], 1.2)
        self.assertAlmostEqual(self.row(report, "conv2d")["value"], 0.6)
        for start, value in (("training step of GPT-2", 1.2), ("training step of GPT-2 124M bf16, as above / eager", 1.5)):  # one peer at a time
            self.assertAlmostEqual(self.row(report, start)["value"], value)
        share = self.row(report, "softmax, layer norm, RMS norm forward, tensors of 64 MB")
        self.assertEqual((share["cases"], share["worst_case"]), (1, "softmax 1"))  # the other tensor is below 64 MB
        self.assertAlmostEqual(share["value"], 0.5)
        self.assertEqual(cuda_report.verdict(self.row(report, "conv2d")), "least")
        self.assertEqual(cuda_report.verdict(share), "below")

    def test_a_case_is_compared_with_its_rivals_which_processes_of_our_own_program_time(self):
        status, report, printed = self.compare(None, "--alone", "--only", "decode")
        self.assertEqual((status, report["failures"], len(report["cases"])), (0, [], 4))
        self.assertEqual(report["about"]["peer"], {})
        self.assertAlmostEqual(self.row(report, "attention to a paged cache")["value"], 0.5)  # half the bytes, equal time
        contiguous = next(r for r in report["table"] if "own contiguous" in r["row"] and r["aim"])
        self.assertAlmostEqual(contiguous["value"], 0.8)
        self.assertIn("speed 0.50", printed)
        _, report, _ = self.compare({"decode, contiguous/ours/prepare": "error"}, "--alone", "--only", "decode")
        self.assertEqual([f["who"] for f in report["failures"]], ["contiguous", "ours"])  # as a rival, and as a case
        self.assertAlmostEqual(self.row(report, "attention to a paged cache")["value"], 0.5)

    def test_memory_is_compared_as_peak_of_the_peer_over_peak_of_tinytorch(self):
        cases = [{"name": "step", "group": "gpt2_step", "tensor_bytes": 0}]
        peers = {"eager": {"ratio": 2.0, "peak_bytes": 90}, "compile": {"ratio": 1.5, "peak_bytes": 60}}
        table = cuda_report.summarize(cases, [{"name": "step", "peak_bytes": 50, "peers": peers}])
        self.assertAlmostEqual(self.row({"table": table}, "peak memory")["value"], 1.2)
        self.assertAlmostEqual(self.row({"table": table}, "training step of GPT-2")["value"], 1.5)
        table = cuda_report.summarize(cases, [{"name": "step", "peers": peers}])  # tinytorch's memory was not measured
        self.assertEqual(cuda_report.verdict(self.row({"table": table}, "peak memory")), "1 of 1 missing")

    def test_failures_are_counted_and_the_other_cases_still_run(self):
        trouble = {
            "softmax 0/ours/prepare": "error",
            "softmax 1/ours/measure": "end",
            "softmax_backward 1/compile/measure": "error",
            "elementwise 1/ours/prepare": "stream",
            "conv2d 0/eager/prepare": "hang",
        }
        status, report, printed = self.compare(trouble)
        self.assertEqual(status, 1)
        self.assertEqual([f["case"] for f in report["failures"]],
                         ["softmax 0", "softmax 1", "softmax_backward 1", "elementwise 1", "conv2d 0"])
        self.assertEqual(self.row(report, "softmax, layer norm")["measured"], 0)
        for start, missing in (("softmax backward", 1), ("conv2d", 1), ("elementwise", 0)):
            row = self.row(report, start)
            self.assertEqual(row["cases"] - row["measured"], missing, start)
        self.assertIn("5 failures", printed)

    def test_cases_that_do_not_fit_into_the_time_limit_are_failures(self):
        status, report, _ = self.compare(None, "--seconds", "0")
        self.assertEqual((status, len(report["failures"]), report["cases"]), (1, 14, []))

    def test_only_the_speed_section_of_a_readme_is_rewritten(self):
        readme = self.folder / "README.md"
        readme.write_text("# Title\n\nText.\n")
        self.compare(None, "--readme", str(readme))
        first = readme.read_text()
        self.assertTrue(first.startswith("# Title\n\nText.\n\n## Speed on a GPU\n"))
        self.assertIn("**1.20**", first)
        readme.write_text(first.replace("**1.20**", "**9.99**") + "\n## Next\n")
        self.compare(None, "--readme", str(readme))
        self.assertEqual(readme.read_text(), first + "\n## Next\n")


if __name__ == "__main__":
    unittest.main()
