"""Tests of modules/explain.json, which explains every error code briefly, with an example that throws it."""
import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "modules" / "explain.json"

MOST = {"title": 48, "means": 240, "example": 500, "why": 160, "fix": 240, "needs": 80}  # limits, in characters
EXAMPLE_LINES, EXAMPLE_COLUMNS = 7, 110

HEADERS = ("tinytorch.hpp", "acceleration/compiled.hpp", "benchmarking/open_loop.hpp", "benchmarking/statistics.hpp", "benchmarking/submission.hpp",
           "data/digits.hpp", "data/grammar.hpp",
           "data/machine_sounds.hpp", "data/mel.hpp", "io/gzip.hpp", "layers/adam.hpp", "layers/batch_norm.hpp",
           "layers/conv2d.hpp", "layers/dropout.hpp", "layers/module_list.hpp", "layers/muon.hpp", "layers/norm.hpp", "layers/sgd.hpp",
           "layers/trainer.hpp", "layers/weight_average.hpp",
           "serving/serving.hpp", "profiling/ablation.hpp", "profiling/amdahl.hpp", "profiling/peaks.hpp", "profiling/occupancy.hpp",
           "transformer/bpe.hpp", "transformer/bpe_trainer.hpp", "transformer/char_tokenizer.hpp",
           "kv_cache/kv_cache.hpp", "transformer/char_tokenizer_file.hpp", "transformer/generate.hpp", "transformer/hugging_face.hpp",
           "transformer/speculative.hpp",
           "tensor/ops/linalg.hpp", "transformer/pretraining.hpp", "pruning/pruning.hpp", "quantization/quantization.hpp")

HEAD = """
namespace tt = tinytorch;

template <class Run>
void example(const char* code, Run run) {
  std::printf("%s: ", code);
  std::fflush(stdout);  // the code is printed even if the example ends the program
  try {
    run();
    std::printf("nothing thrown\\n");
  } catch (const tt::Error& e) {
    std::printf("%s\\n", e.code().c_str());
  } catch (const std::exception& e) {
    std::printf("%s\\n", e.what());
  }
}
"""


def read_catalogue():
    return json.loads(CATALOGUE.read_text(encoding="utf-8"))


def thrown_in_the_library():
    codes = set()
    for path in (ROOT / "include").rglob("*"):
        if path.suffix in (".hpp", ".cuh"):
            codes |= set(re.findall(r'"(TT-[A-Z]+-[0-9]+|TT-TODO)"', path.read_text(encoding="utf-8")))
    return codes


def is_kernel(example):
    """Returns True if the example has a kernel, which only nvcc and the emulator compile."""
    return "__global__" in example


def split_structs(example):
    """(structs, statements) of an example. Structs are moved out of the function, where they could not have static members."""
    structs, statements, inside = [], [], False
    for line in example.split("\n"):
        inside = inside or line.startswith("struct ")
        (structs if inside else statements).append(line)
        inside = inside and line != "};"
    return "\n".join(structs), "\n".join(statements)


def program(entries):
    """One C++ program that runs the examples and prints `code: code thrown` for each. #line names each example by its code in
    messages of the compiler."""
    parts = [f"#include <tinytorch/{header}>\n" for header in HEADERS] + ["#include <cstdio>\n", HEAD]
    for i, (code, entry) in enumerate(entries.items()):
        structs, statements = split_structs(entry["example"])
        line = structs.count("\n") + 2 if structs else 1
        parts.append(f'namespace example_{i} {{\n#line 1 "{code}"\n{structs}\n'
                     f'void run() {{\n#line {line} "{code}"\n{statements}\n}}\n}}\n')
    calls = "".join(f'  example("{code}", example_{i}::run);\n' for i, code in enumerate(entries))
    return "".join(parts) + f'#line 1 "main"\nint main() {{\n{calls}}}\n'


class Words(unittest.TestCase):
    def test_exactly_the_codes_of_the_library_are_explained(self):
        self.assertEqual(sorted(read_catalogue()), sorted(thrown_in_the_library()))

    def test_the_file_has_one_line_for_each_field_and_is_sorted_by_code(self):
        text = CATALOGUE.read_text(encoding="utf-8")
        self.assertEqual(text, json.dumps(dict(sorted(json.loads(text).items())), indent=1) + "\n")

    def test_every_entry_is_complete_and_short(self):
        for code, entry in read_catalogue().items():
            with self.subTest(code):
                fields = ["title", "means", "example", "why", "fix"]
                self.assertEqual(list(entry), fields + ([] if "runs" not in entry else ["runs", "needs"]))
                self.assertIs(entry.get("runs", False), False)  # the default, true, is not written
                for field in set(entry) - {"runs"}:
                    self.assertEqual(entry[field], entry[field].strip())
                    self.assertTrue(entry[field].isascii(), field)  # so that any console can show the text
                    self.assertTrue(0 < len(entry[field]) <= MOST[field], f"{field}: {len(entry[field])}")
                self.assertLessEqual(len(entry["title"].split()), 8)
                self.assertRegex(entry["title"], r"[^.]$")
                for sentence in ("means", "why"):
                    self.assertRegex(entry[sentence], r"^\W*[A-Z0-9a-z].*\.$")

    def test_examples_are_a_few_short_lines(self):
        for code, entry in read_catalogue().items():
            with self.subTest(code):
                lines = entry["example"].split("\n")
                self.assertLessEqual(len(lines), EXAMPLE_LINES)
                self.assertLessEqual(max(map(len, lines)), EXAMPLE_COLUMNS)
                self.assertRegex(lines[-1], r";$")


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Compiles all examples as one program without CUDA, and runs it in a temporary folder."""
        cls.entries = {c: e for c, e in read_catalogue().items() if not is_kernel(e["example"])}
        with tempfile.TemporaryDirectory() as folder:
            source, binary = Path(folder) / "examples.cpp", Path(folder) / "examples"
            source.write_text(program(cls.entries), encoding="utf-8")
            command = ["g++", "-std=c++20", "-O0", "-I", str(ROOT / "include"), "-isystem", "/usr/include/eigen3", str(source), "-o", str(binary)]
            built = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   timeout=1500)
            if built.returncode != 0:
                raise AssertionError("the examples do not compile\n" + built.stdout.decode("utf-8", "replace")[:3000])
            done = subprocess.run([str(binary)], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=60)
        cls.exit, cls.said = done.returncode, done.stdout.decode("utf-8", "replace")
        cls.thrown = dict(line.split(": ", 1) for line in cls.said.splitlines() if re.match(r"TT-\S+: ", line))

    def test_the_program_runs_to_its_end(self):
        self.assertEqual(self.exit, 0, self.said[-500:])

    def test_every_example_throws_its_code(self):
        running = [code for code, entry in self.entries.items() if "runs" not in entry]
        self.assertGreaterEqual(len(running), 100)
        for code in running:
            with self.subTest(code):
                self.assertEqual(self.thrown.get(code), code)

    def test_examples_that_need_a_device_throw_tt_cuda_01_without_cuda(self):
        for code, entry in self.entries.items():
            if "runs" in entry:
                with self.subTest(code):
                    self.assertEqual(self.thrown.get(code), "TT-CUDA-01")

    def test_examples_with_kernels_are_not_run(self):
        for code, entry in read_catalogue().items():
            if is_kernel(entry["example"]):
                with self.subTest(code):
                    self.assertIs(entry["runs"], False)


if __name__ == "__main__":
    unittest.main()
