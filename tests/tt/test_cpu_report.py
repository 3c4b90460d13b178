"""Tests of bench/cpu_report.py: the tables that it makes from result files, and that bench/README.md shows them."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import cpu_report  # noqa: E402


class CpuReport(unittest.TestCase):
    def test_the_page_agrees_with_the_results(self):
        done = subprocess.run([sys.executable, ROOT / "bench/cpu_report.py", "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_rows_of_the_main_readme_are_rows_of_the_page(self):
        first, page = (ROOT / "README.md").read_text(), (ROOT / "bench/README.md").read_text()
        shown = first.partition("## Speed")[2].partition("\n## ")[0]
        rows = [line.split(" | ") for line in shown.splitlines() if "**" in line]
        self.assertEqual(len(rows), 8)
        for text, measured, worst, _ in rows:
            lines = [line for line in page.splitlines() if line.startswith(f"{text} | ") and f" | {measured} | {worst} |" in line]
            self.assertEqual(len(lines), 1, f"{text}: bench/README.md has no such row; copy a row of bench/README.md")

    def test_each_machine_has_its_own_table(self):
        written = {path.parent for path in cpu_report.RESULTS.rglob("gemm_cpu.json") if path.parent.name != "one_thread"}
        self.assertEqual(written, set(cpu_report.MACHINES))
        captions = [text.splitlines()[0] for text in cpu_report.tables().split("\n\n") if "_cpu.json" in text]
        self.assertEqual(len(captions), len(written))
        for caption, (folder, about) in zip(captions, cpu_report.MACHINES.items(), strict=True):
            machine = json.loads((folder / "gemm_cpu.json").read_text())["machine"]
            self.assertTrue(caption.startswith(f"{machine['cpu']}, {machine['threads']} threads"), caption)
            self.assertIn(f": {about}", caption)

    def test_a_bandwidth_is_named_by_how_it_was_measured(self):
        case = {"name": "adamw 10M, fused", "share_of_limit": 0.9, "seconds": 0.007}
        for about, named in (({}, "copying"), ({"bandwidth": "triad"}, "a triad of")):
            with tempfile.TemporaryDirectory() as folder:
                (pathlib.Path(folder) / "ops_cpu.json").write_text(json.dumps(dict(about, cases=[case])))
                found = cpu_report.adamw_bandwidth(cpu_report.Results(pathlib.Path(folder)))
            self.assertEqual(found[0], f"AdamW, 10M parameters / {named} as many bytes")

    def test_the_mean_the_worst_case_and_the_verdict_are_computed(self):
        row = {"M": 8, "N": 9, "K": 10, "layout": "NT", "times_eigen": 4.0}
        other = dict(row, M=7, times_eigen=1.0)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "x.json").write_text(json.dumps({"groups": {"a": {"rows": [row]}, "b": {"rows": [other]}}}))
            results = cpu_report.Results(folder)
            found = cpu_report.of_groups(results, "text", "x.json", ["a", "b"], "times_eigen", 1.2, 1.9)
        self.assertEqual(found[:3], ("text", 1.2, 1.9))
        self.assertAlmostEqual(found[3], 2.0)
        self.assertEqual(found[4:], (1.0, "7x9x10 NT"))
        self.assertEqual(cpu_report.reached(2.0, 1.2, 1.9), "aim")
        self.assertEqual(cpu_report.reached(1.199, 1.2, 1.9), "least")  # judged by the number that is shown, 1.20
        self.assertEqual(cpu_report.reached(1.1, 1.2, 1.9), "no")


if __name__ == "__main__":
    unittest.main()
