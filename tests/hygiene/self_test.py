"""Tests of the hygiene checks: each lint must complain about a tree with a fault, and not about one without."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import canary
import compilers
import lints

ROOT = Path(__file__).resolve().parents[2]
LONG_BODY = "\n".join("  x += 1;" for _ in range(60))
FAULTS = [  # lint, file, text with the fault, part of the complaint
    (lints.lint_readme, "README.md", "text\n" * 151, "README.md has 151 lines"),
    (lints.lint_includes, "include/tinytorch/tensor/a.hpp", '#include "b.hpp"\n', "relative"),
    (lints.lint_includes, "tests/a.cpp", '#include "../include/b.hpp"\n', "relative"),
    (lints.lint_includes, "tests/a.cpp", "#include <tinytorch/no/such.hpp>\n", "there is no"),
    (lints.lint_dependencies, "include/tinytorch/core/a.hpp", "#include <fmt/format.h>\n", "fmt"),
    (lints.lint_dependencies, "include/tinytorch/backend/cpu/a.hpp", "#include <Eigen/Core>\n", "Eigen"),
    (lints.lint_dependencies, "include/tinytorch/layers/a.hpp", "#include <nlohmann/json.hpp>\n", "only programs"),
    (lints.lint_layers, "include/tinytorch/core/a.hpp", "#include <tinytorch/tensor/b.hpp>\n", "not in a lower layer"),
    (lints.lint_layers, "include/tinytorch/io/a.hpp", "#include <tinytorch/data/b.hpp>\n", "not in a lower layer"),
    (lints.lint_layers, "include/tinytorch/quantization/a.hpp", "#include <tinytorch/pruning/b.hpp>\n", "not in a lower layer"),
    (lints.lint_layers, "include/tinytorch/nowhere/a.hpp", "", "missing in LAYERS"),
    (lints.lint_layers, "include/tinytorch/tensor/a.hpp", "#include <tinytorch/backend/cuda/kernels/b.cuh>\n", "CUDA_FROM_OUTSIDE"),
    (lints.lint_cycles, "include/tinytorch/core/a.hpp", "#include <tinytorch/core/a.hpp>\n", "include one another"),
    (lints.lint_mirrored_tests, "include/tinytorch/core/a.hpp", "", "missing"),
    (lints.lint_header_length, "include/tinytorch/core/a.hpp", "\n" * 401, "401 lines"),
    (lints.lint_function_length, "include/tinytorch/core/a.hpp", f"int f(int x) {{\n{LONG_BODY}\n}}\n", "62 lines"),
    (lints.lint_macros, "include/tinytorch/tensor/a.hpp", "#define TT_MORE 1\n", "outside core/config.hpp"),
    (lints.lint_macros, "include/tinytorch/core/config.hpp", "".join(f"#define TT_A{i} 1\n" for i in range(11)), "11 TT_"),
    (lints.lint_macros, "include/tinytorch/core/config.hpp", "#define ASSERT(x)\n", "does not begin with TT_"),
    (lints.lint_virtual_functions, "include/tinytorch/layers/a.hpp", "  virtual void update(int x);\n", "a.hpp:1"),
    (lints.lint_virtual_functions, "include/tinytorch/layers/a.hpp", "\n  int next(TT_LOC) const override;  // two\n", "a.hpp:2"),
    (lints.lint_top_level, "extra/a.txt", "", "does not belong"),
    (lints.lint_machine_paths, "tests/a.cpp", "// see /ro" + "ot/notes\n", "tests/a.cpp:1"),
    (lints.lint_machine_paths, "tests/a.cpp", "\nauto p = fs::path(__FI" + "LE__).parent_path();\n", "tests/a.cpp:2"),
    (lints.lint_unfinished, "include/tinytorch/core/a.hpp", "// FIX" + "ME later\n", "a.hpp:1"),
    (lints.lint_fragments, "tests/a.cpp", "int a;\n\n// What a lane reads\n// of a row.\n", "tests/a.cpp:3"),
    (lints.lint_fragments, "include/tinytorch/core/a.hpp", "// As f(), from\n// blocks.\n", "fragment"),
    (lints.lint_fragments, "include/tinytorch/core/a.hpp", "// For block_reduce.\n", "fragment"),
    (lints.lint_fragments, "include/tinytorch/core/a.hpp", "// Empty: there is none.\n", "fragment"),
    (lints.lint_fragments, "include/tinytorch/core/a.hpp", "// By cuBLASLt. Returns false if that is absent.\n", "fragment"),
    (lints.lint_fragments, "include/tinytorch/core/a.hpp", "// Reads x.\n// TT-SHAPE-02 if it is empty.\n", "Throws TT-SHAPE-02 if"),
    (lints.lint_fragments, "include/tinytorch/core/a.hpp", "// Counts x. Errors: TT-DTYPE-02.\n", "Throws TT-DTYPE-02 if"),
    (lints.lint_file_size, "tests/golden/a.bin", "x" * 1_000_001, "1000001 bytes"),
    (lints.lint_api, "include/tinytorch/core/dtype.hpp", "int f(int x);\n", "modules/tt api --write"),
]
FUNCTIONS = '''
namespace a {  // a comment with { a brace
struct B : C<int> {
  explicit B(int x) : x_{x}, y_(x) { z(); }
  B() = default;
  int x_{3};
  auto operator()(int i) const -> int {
    if (i) { return '{'; }
    auto f = [&](int k) { return k; };
    return f(i);
  }
  bool operator==(const B& o) const noexcept { return true; }
};
inline constexpr int table[] = {1, 2, 3};
enum class E { one, two };
template <class T>
requires(sizeof(T) > 2)
void g(const T& x,
       int y = 3) {
  const char* s = R"({{{)";
}
inline Loc h(Loc l = Loc::current()) { return Loc{l}; }
inline const auto lambda = [](int x) {
  return x;
};
struct D h2(int a) { return D{a}; }
}
'''


class Lints(unittest.TestCase):
    def tree(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in files.items():
            path = Path(folder.name) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return lints.Tree(folder.name)

    def test_every_lint_complains_about_its_fault_and_only_about_it(self):
        for lint, name, text, complaint in FAULTS:
            with self.subTest(lint=lint.__name__, name=name):
                found = lint(self.tree({name: text}))
                self.assertTrue(any(complaint in c for c in found), f"{complaint!r} not in {found}")
        files = {"include/tinytorch/core/a.hpp": "#include <tinytorch/core/x/b.hpp>\n", "include/tinytorch/core/x.hpp": "",
                 "include/tinytorch/core/x/b.hpp": "#include <tinytorch/core/c.hpp>\n", "include/tinytorch/core/c.hpp": ""}
        self.assertIn("these folders include one another: include/tinytorch/core, include/tinytorch/core/x", lints.lint_cycles(self.tree(files)))
        files["include/tinytorch/core/x.hpp"] = files.pop("include/tinytorch/core/a.hpp")  # x.hpp belongs to the folder x/
        self.assertEqual(lints.lint_cycles(self.tree(files)), [])
        files = {"bench/common/a.hpp": "#include <support/b.hpp>\n", "tests/support/b.hpp": "#include <common/c.hpp>\n", "bench/common/c.hpp": ""}
        self.assertIn("these folders include one another: bench/common, tests/support", lints.lint_cycles(self.tree(files)))
        files["bench/tree/c.hpp"], files["tests/support/b.hpp"] = files.pop("bench/common/c.hpp"), "#include <tree/c.hpp>\n"
        self.assertEqual(lints.lint_cycles(self.tree(files)), [])
        tested = {fault[0] for fault in FAULTS} | {lints.lint_modules, lints.lint_checks, lints.lint_frames, lints.lint_umbrellas}
        self.assertEqual(tested, set(lints.LINTS))
        clean = {"include/tinytorch/core/a.hpp": "#include <vector>\nint f() { return 1; }\n",
                 "include/tinytorch/tensor/b.hpp": "#include <tinytorch/core/a.hpp>\n",
                 "include/tinytorch/tinytorch.hpp": "#include <tinytorch/tensor/b.hpp>\n",
                 "tests/core/c.cpp": "// For NaN, f is 0. Throws TT-SHAPE-02 if x is empty.\n// Where a < b, it is 1.\n//   What is x?\n",
                 "tests/core/a.cpp": "TEST_CASE", "tests/tensor/b.cpp": "TEST_CASE", "tests/tinytorch.cpp": "TEST_CASE"}
        for lint in lints.LINTS:
            if lint not in (lints.lint_top_level, lints.lint_modules, lints.lint_checks, lints.lint_api):
                with self.subTest(clean=lint.__name__):
                    self.assertEqual(lint(self.tree(clean)), [])

    def test_a_test_file_without_a_case_is_a_complaint(self):
        tree = self.tree({"include/tinytorch/core/a.hpp": "", "tests/core/a.cpp": "int main() {}"})
        self.assertEqual(len(lints.lint_mirrored_tests(tree)), 1)

    def test_the_readme_must_agree_with_the_manifest(self):
        course = {"modules": [{"id": "01_tensor", "title": "T", "status": "s", "headers": ["tensor"]}]}
        files = {"modules/course.json": json.dumps(course), "README.md": "| 01_tensor | T | other |",
                 "include/tinytorch/tensor/a.hpp": ""}
        self.assertEqual(len(lints.lint_modules(self.tree(files))), 1)
        files["README.md"] = "| 01_tensor | T | s |"
        self.assertEqual(lints.lint_modules(self.tree(files)), [])

    def test_a_lesson_names_the_headers_of_its_tasks_that_have_moved(self):
        course = {"modules": [{"id": "01_tensor", "title": "T", "status": "s", "headers": [], "tasks": [{"file": "tensor/new.hpp"}]}]}
        files = {"modules/course.json": json.dumps(course), "README.md": "| 01_tensor | T | s |",
                 "modules/moved.json": json.dumps({"tinytorch/tensor/old.hpp": "tinytorch/tensor/new.hpp", "a.hpp": "b.hpp"}),
                 "modules/01_tensor/README.md": "Tensors."}
        self.assertEqual(lints.lint_modules(self.tree(files)),
                         ["modules/01_tensor/README.md does not have the note `tensor/old.hpp` → `tensor/new.hpp`"])
        files["modules/01_tensor/README.md"] = "A header moved: `tensor/old.hpp` →\n`tensor/new.hpp`."
        self.assertEqual(lints.lint_modules(self.tree(files)), [])

    def test_checks_must_agree_with_the_manifest(self):
        course = {"modules": [{"id": "01_tensor", "tasks": [{"id": "1.1", "tests": ["1.1 a", "1.1 b"]}]}]}
        files = {"modules/course.json": json.dumps(course), "modules/01_tensor/checks/x.cpp": 'TEST_CASE("1.1 a") {}'}
        self.assertEqual(len(lints.lint_checks(self.tree(files))), 1)
        files["modules/01_tensor/checks/x.cpp"] += '\nTEST_CASE("1.1 b") {}\nTEST_CASE("1.1 c") {}'
        self.assertEqual(len(lints.lint_checks(self.tree(files))), 1)
        files["modules/01_tensor/checks/x.cpp"] = 'TEST_CASE("1.1 a") {}\nTEST_CASE("1.1 b") {}'
        self.assertEqual(lints.lint_checks(self.tree(files)), [])

    def test_an_umbrella_includes_or_names_each_header_of_its_folder(self):
        umbrella = "include/tinytorch/data/data.hpp"
        files = {umbrella: "// Umbrella header of data/: samples.\n", "include/tinytorch/data/a.hpp": "", "include/tinytorch/data/b.hpp": ""}
        self.assertEqual(lints.lint_umbrellas(self.tree(files)),
                         [f"{umbrella} does not include {name}, and does not say why" for name in ("a.hpp", "b.hpp")])
        files[umbrella] += "// It includes every header of the folder but\n// b.hpp, which needs fmt.\n#include <tinytorch/data/a.hpp>\n"
        self.assertEqual(lints.lint_umbrellas(self.tree(files)), [])

    def test_a_frame_must_have_all_functions_of_the_header(self):
        header, kernels = "tinytorch/backend/cpu/a.hpp", "tinytorch/backend/cuda/kernels/"
        files = {f"include/{header}": "TT_API void f(int a, const X& b = {});\nTT_API void g(int a);\n",
                 "include/tinytorch/backend/cuda/launch.hpp": "void k(const View& out);\n", f"include/{kernels}k.cuh": "void k(const View& out) { h(); }\n",
                 f"modules/01_a/frame/{header}": "TT_API void f(int a, const X& b = {});\n", f"modules/01_a/frame/{kernels}k.cuh": "",
                 "modules/01_a/solution/tasks/backend/cpu/a.hpp": "", "modules/01_a/solution/tasks/backend/cuda/kernels/k.cuh": ""}
        found = lints.lint_frames(self.tree(files))
        self.assertEqual(len(found), 2, found)
        self.assertIn("g, which include/tinytorch/backend/cpu/a.hpp has with 1 parameters, is missing", found[0])
        files[f"modules/01_a/frame/{header}"] += "TT_API void g();\n"  # the same name with other parameters
        self.assertEqual(len(lints.lint_frames(self.tree(files))), 2)
        files["modules/01_a/solution/tasks/backend/cpu/a.hpp"] = "TT_API void g(int a) {}\n"
        files["modules/01_a/solution/tasks/backend/cuda/kernels/k.cuh"] = "void k(const View& out) {\n}\n"
        self.assertEqual(lints.lint_frames(self.tree(files)), [])

    def test_a_frame_must_have_the_inline_functions_that_other_headers_use(self):
        header, user = "tinytorch/backend/cpu/a.hpp", "tinytorch/backend/cpu/b.hpp"
        files = {f"include/{header}": "inline int f(int a) { return a; }\ninline int own() { return f(1); }\n",
                 f"include/{user}": f"#include <{header}>\ninline int g() {{ return f(2); }}\n",
                 f"modules/01_a/frame/{header}": "", "modules/01_a/solution/tasks/backend/cpu/a.hpp": ""}
        found = lints.lint_frames(self.tree(files))
        self.assertEqual(len(found), 1, found)  # own() is used here alone
        self.assertIn(f"f, which include/{user} takes from include/{header}, is missing", found[0])
        files["modules/01_a/solution/tasks/backend/cpu/a.hpp"] = "inline int f(int a) { return a; }\n"
        self.assertEqual(lints.lint_frames(self.tree(files)), [])

    def test_a_frame_that_is_cut_must_be_what_the_header_gives(self):
        course = {"modules": [{"id": "01_a", "title": "A", "status": "s", "headers": [], "tasks": [
            {"id": "1.1", "slug": "f", "title": "F", "file": "a.hpp", "write": ["f"], "tests": [], "points": 1}]}]}
        header = "// A.\n#pragma once\n\nnamespace tinytorch {\n\ninline int f(int a = 1) { return a; }\ninline int g() { return f(); }\n\n}  // namespace tinytorch\n"
        frame = ("// A.\n//\n// The frame of a course header: it has the given parts, and includes the functions of task 1.1. It is cut\n"
                 "// from the library's header by modules/frames.py.\n#pragma once\n\nnamespace tinytorch {\n\n"
                 "inline int f(int a = 1);  // task 1.1\ninline int g() { return f(); }\n\n}  // namespace tinytorch\n\n#include <tasks/a.hpp>\n")
        files = {"modules/course.json": json.dumps(course), "include/tinytorch/a.hpp": header, "modules/01_a/frame/tinytorch/a.hpp": frame}
        self.assertEqual(lints.lint_frames(self.tree(files)), [])
        files["include/tinytorch/a.hpp"] = header.replace("inline int g()", "inline int h() { return 2; }\ninline int g()")
        self.assertEqual(lints.lint_frames(self.tree(files)), [
            "modules/01_a/frame/tinytorch/a.hpp is not what include/tinytorch/a.hpp gives: run `python3 modules/frames.py`"])

    def test_files_that_changed_within_hours_are_those_of_all_commits_since(self):
        tree = self.tree({"include/old.hpp": "", "include/a.hpp": "", "include/b.hpp": "", "tests/c.cpp": ""})
        self.assertEqual(tree.changed("include", hours=24), [])  # no repository
        for days_ago, files in ((3, ["include/old.hpp"]), (0.5, ["include/a.hpp", "tests/c.cpp"]), (0, ["include/b.hpp"])):
            when = f"{1_700_000_000 - int(days_ago * 86400)} +0000"
            for command in (["init", "-q"], ["add", *files], ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "a"]):
                subprocess.run(["git", "-C", tree.root, *command], check=True, env={**os.environ, "GIT_COMMITTER_DATE": when})
        self.assertEqual(tree.changed("include", hours=24), [Path("include/b.hpp"), Path("include/a.hpp")])

    def test_functions_are_found_with_their_length(self):
        found = {name: lines for name, _, lines in lints.functions(FUNCTIONS)}
        self.assertEqual(found, {"B": 1, "operator()": 5, "operator==": 1, "g": 6, "h": 1, "lambda": 3, "h2": 1})

    def test_the_top_level_lint_names_missing_files(self):
        self.assertIn("README.md is missing at the top level", lints.lint_top_level(self.tree({"LICENSE": ""})))


class Compilers(unittest.TestCase):
    def tree(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "include" / "tinytorch" / "a.hpp"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        return lints.Tree(folder.name)

    def test_a_header_with_a_missing_include_fails(self):
        tree = self.tree("#pragma once\ninline std::string f() { return {}; }\n")
        self.assertFalse(compilers.header_alone(tree, "tinytorch/a.hpp")[0])
        if compilers.cuda_compiler():
            self.assertFalse(compilers.with_nvcc(tree, ["tinytorch/a.hpp"])[0])

    def test_a_header_reaches_all_files_that_it_includes_directly_or_indirectly(self):
        tree = self.tree("#pragma once\n#if 0\n#  include <tinytorch/b.hpp>\n#endif\n#include <vector>\n")
        first, second, third = (tree.include / "tinytorch" / name for name in ("a.hpp", "b.hpp", "c.hpp"))
        second.write_text("#include <tinytorch/c.hpp>\n#include <tinytorch/a.hpp>\n")
        third.write_text("")
        self.assertEqual(lints.reached([first], (tree.include,)), {first: None, second: first, third: second})

    def test_includes_of_another_part_s_bodies_do_not_hide_a_missing_include(self):
        tree = self.tree("#pragma once\n#include <tinytorch/b.hpp>\n#if TT_BODIES(TENSOR)\n"
                         "inline std::string f() { return {}; }\n#endif\n")
        (tree.include / "tinytorch" / "b.hpp").write_text(
            "#pragma once\n#include <tinytorch/config.hpp>\n#if TT_BODIES(BACKEND)\n#include <string>\n#endif\n")
        (tree.include / "tinytorch" / "config.hpp").write_text(
            "#ifdef TINYTORCH_COMPILED\n#define TT_BODIES(part) TINYTORCH_IMPLEMENT_##part\n#else\n#define TT_BODIES(part) 1\n#endif\n")
        self.assertFalse(compilers.header_alone(tree, "tinytorch/a.hpp")[0])
        self.assertTrue(compilers.headers_together(tree, ["tinytorch/a.hpp"], "g++")[0])

    def test_a_warning_fails(self):
        tree = self.tree("#pragma once\ninline int f(double x) { int y = x; return y; }\n")
        self.assertFalse(compilers.header_alone(tree, "tinytorch/a.hpp")[0])
        for compiler in ("g++", "clang++"):
            with self.subTest(together=compiler):
                self.assertFalse(compilers.headers_together(tree, ["tinytorch/a.hpp"], compiler)[0])

    def test_a_function_that_is_not_inline_fails_the_link(self):
        tree = self.tree("#pragma once\nint f() { return 1; }\n")
        good, why = compilers.two_files_link(tree, "tinytorch/a.hpp", "f()")
        self.assertFalse(good)
        self.assertIn("multiple definition", why)

    def test_a_must_not_compile_case_fails_if_it_compiles_or_has_another_message(self):
        tree = self.tree("")
        case = tree.root / "case.cpp"
        case.write_text("// expect: anything\nint main() {}\n")
        self.assertFalse(compilers.must_not_compile(tree, case)[0])
        case.write_text("// expect: some other sentence\nint main() { return x; }\n")
        self.assertFalse(compilers.must_not_compile(tree, case)[0])
        case.write_text("// expect: not declared\nint main() { return x; }\n")
        self.assertTrue(compilers.must_not_compile(tree, case)[0])

    def test_a_heavy_header_is_over_budget(self):
        tree = self.tree("#include <regex>\n#include <iostream>\n#include <filesystem>\n")
        self.assertGreater(compilers.include_seconds(tree, "tinytorch/a.hpp", 0.1, 1), 0.1)


class Canaries(unittest.TestCase):
    """Canaries in a small library, whose tinytorch.hpp includes backend/cpu/a.hpp in most tests."""

    def include(self, umbrella="#include <tinytorch/backend/cpu/a.hpp>\n"):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        include = Path(folder.name)
        for name, text in {"backend/cpu/a.hpp": "#pragma once\ninline int f() { return 1; }\n",
                           "tensor/vjp/b.hpp": "#pragma once\ninline int g() { return 2; }\n",
                           "tinytorch.hpp": umbrella}.items():
            path = include / "tinytorch" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return include

    def verdict(self, replacement, right="1", text="return 1;", umbrella=None):
        include = self.include(umbrella) if umbrella else self.include()
        canaries = {"backend/cpu/a.hpp": (text, replacement, 'std::printf("%d", f());', right)}
        return canary.verdicts("g++", canaries, include, "")

    def test_a_canary_passes_only_if_its_change_changes_the_result(self):
        name = "backend/cpu/a.hpp"
        self.assertEqual(self.verdict("return AWAKE ? 5 : 1;"), {name: None})
        self.assertIn("still 1", self.verdict("return AWAKE ? 1 : 1;")[name])
        self.assertIn("should be '1'", self.verdict("return AWAKE ? 1 : 5;")[name])
        self.assertIn("crashes", self.verdict("if (AWAKE) std::abort(); return 1;",
                                              umbrella="#include <cstdlib>\n#include <tinytorch/backend/cpu/a.hpp>\n")[name])
        self.assertIn("update the canary", self.verdict("return 2;", text="return 7;")[name])
        # tinytorch.hpp defines the function itself and does not include the student's header.
        self.assertIn("still 1", self.verdict("return AWAKE ? 5 : 1;", umbrella="inline int f() { return 1; }\n")[name])

    def test_only_one_change_is_active_at_a_time(self):
        canaries = {"backend/cpu/a.hpp": ("return 1;", "return AWAKE ? 5 : 1;", 'std::printf("%d", f());', "1"),
                    "tensor/vjp/b.hpp": ("return 2;", "return AWAKE ? 2 : 2;", 'std::printf("%d", f() + g());', "3")}
        include = self.include("#include <tinytorch/backend/cpu/a.hpp>\n#include <tinytorch/tensor/vjp/b.hpp>\n")
        found = canary.verdicts("g++", canaries, include, "")
        self.assertIsNone(found["backend/cpu/a.hpp"])
        self.assertIn("still 3", found["tensor/vjp/b.hpp"])

    def test_a_compile_error_fails_and_is_shown_completely(self):
        errors = " ".join(f"no_such_name_{i}();" for i in range(100))
        found = self.verdict(errors + " return 1;")
        self.assertIn("no_such_name_0", found["program"])
        self.assertIn("no_such_name_99", found["program"])

    def test_a_header_without_a_canary_is_a_complaint(self):
        include = self.include()
        self.assertEqual(canary.coverage(include, {"backend/cpu/a.hpp": ()}, {"tensor/vjp/b.hpp": "reason"}), [])
        missing = canary.coverage(include, {"backend/cpu/a.hpp": ()}, {})
        self.assertEqual(len(missing), 1)
        self.assertIn("tensor/vjp/b.hpp has no canary", missing[0])

    def test_a_stale_exemption_is_a_complaint(self):
        include, canaries = self.include(), {"backend/cpu/a.hpp": (), "tensor/vjp/b.hpp": ()}
        self.assertEqual(canary.coverage(include, canaries, {}), [])
        self.assertIn("has a canary", " ".join(canary.coverage(include, canaries, {"tensor/vjp/b.hpp": "reason"})))
        self.assertIn("does not exist", " ".join(canary.coverage(include, canaries, {"tensor/vjp/gone.hpp": "reason"})))


if __name__ == "__main__":
    unittest.main()
