"""Tests of the course commands of modules/tt: starters, verdicts, dated copies, migration, watch mode on a pseudo-terminal, and
environments without compilers or with files that cannot be written."""
import importlib.machinery
import importlib.util
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import types
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "modules"))
import course
import migrate
import speed
import tools

# Runs tt with an import that takes a second, so that an interruption meets it.
HOLD_IMPORTS = """
import runpy, sys, time
class Slow:
    def find_spec(self, name, *_):
        if name == "difflib":
            print("importing", flush=True)
            time.sleep(1)
sys.meta_path.insert(0, Slow())
sys.argv = ["tt", "list"]
runpy.run_path({tt!r}, run_name="__main__")
"""

STRIDES = "01_tensor/student/tasks/tensor/strides.hpp"


class WrongAnswers(unittest.TestCase):
    def test_every_edit_matches_the_text_of_the_solution(self):
        for task in course.Course().tasks:
            for folder in ("wrong", "slow"):
                if (task.module.folder / folder / f"{task.slug}.txt").exists():
                    with self.subTest(task=task.id, folder=folder):
                        self.assertGreaterEqual(len(task.module.wrong_answers(task, folder)), 1)


class Clone(unittest.TestCase):
    """Runs modules/tt in a copy of the project, so that the tests write no student files into the repository."""

    @classmethod
    def setUpClass(cls):
        held = tempfile.TemporaryDirectory()
        cls.addClassCleanup(held.cleanup)
        cls.root = Path(held.name)
        for name in ("include", "tests"):
            (cls.root / name).symlink_to(ROOT / name)
        cls.modules = cls.root / "modules"
        ignored = shutil.ignore_patterns("student", "student-kept", ".tt-*", "__pycache__")
        shutil.copytree(ROOT / "modules", cls.modules, ignore=ignored)
        (cls.root / "build").mkdir()

    def setUp(self):
        for path in [*self.modules.glob("*/student"), *self.modules.glob("*/student-kept"), *self.modules.glob(".tt-*")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def tt(self, *arguments, code=None, **variables):
        done = subprocess.run([sys.executable, str(self.modules / "tt"), *arguments], stdin=subprocess.DEVNULL, timeout=300,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, **variables))
        text = done.stdout.decode("utf-8", "replace")
        self.assertNotIn("Traceback", text)
        if code is not None:
            self.assertEqual(done.returncode, code, text)
        return text

    def json_of(self, *arguments, code=0, **variables):
        done = subprocess.run([sys.executable, str(self.modules / "tt"), *arguments, "--json"], stdin=subprocess.DEVNULL,
                              timeout=300, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ, **variables))
        self.assertEqual(done.returncode, code, done.stderr.decode())
        return json.loads(done.stdout)

    def solve(self, *tasks):
        """Writes the solutions of these tasks into the student's folder."""
        for task in course.Course().tasks:
            if task.id in tasks:
                course.write_whole(self.modules / task.module.id / "student" / task.path, task.module.whole(task.path))

    def insert(self, code):
        """Puts code at the beginning of contiguous_strides."""
        first = "  Strides strides = Strides::filled(shape.size(), 1);"
        self.edit(first, f"  {code}\n{first}")

    def edit(self, old, new, path=STRIDES):
        target = self.modules / path
        text = target.read_text()
        self.assertEqual(text.count(old), 1, old)
        target.write_text(text.replace(old, new))


class Frames(unittest.TestCase):
    def test_each_frame_includes_its_tasks_file_and_each_solution_has_a_frame(self):
        for module in course.Course().modules:
            frames = {str(p.relative_to(module.folder / "frame" / "tinytorch")) for p in (module.folder / "frame").rglob("*.[hc]*")}
            solutions = {str(p.relative_to(module.folder / "solution" / "tasks")) for p in (module.folder / "solution").rglob("*.[hc]*")}
            self.assertEqual(solutions - frames, set())
            self.assertEqual(frames, {t.file for t in module.tasks})
            self.assertEqual([f"tasks/{f}" for f in dict.fromkeys(t.file for t in module.tasks)], module.files())
            for name in frames:
                text = (module.folder / "frame" / "tinytorch" / name).read_text()
                self.assertEqual(text.count(f"#include <tasks/{name}>\n"), 1, name)
                self.assertTrue((ROOT / "include" / "tinytorch" / name).exists(), name)
                self.assertEqual(course.frames.is_cut(text), name not in solutions, name)
                self.assertNotIn("TT_BODIES", module.solution(f"tasks/{name}"), "the frame has the #if")


HEADER = """// Adds.
//
//   more about it
#pragma once

namespace tinytorch::inline TT_BUILD::sums {

constexpr int kStart = 0;  // a given part

struct Options {
  int step = 1;
};

// The sum of two numbers.
template <class T, class Step = std::integral_constant<int, 1>>
T sum(T a, T b = T(1), Step = {}, TT_LOC) {
  return a + b;
}

// Adds up.
template <class T = int>
class Counter final : public Base {
 public:
  // Begins.
  explicit Counter(T first, Options options = {1}) : total_(first), options_(options) { count(); }
  T total() const override { return total_; }  // so far

 private:
  // Counts one more.
  void count() { ++count_; }
  T total_;
  int count_ = 0;
};

namespace detail {
inline int twice(int x) { return sum(x, x); }
}  // namespace detail
inline int thrice(int x) { return sum(x, detail::twice(x)); }

}  // namespace tinytorch::inline TT_BUILD::sums
"""
FRAME = """// Adds.
//
// The frame of a course header: it has the given parts, and includes the functions of tasks 1.1 and 1.2. It
// is cut from the library's header by modules/frames.py.
#pragma once

namespace tinytorch::inline TT_BUILD::sums {

constexpr int kStart = 0;  // a given part

struct Options {
  int step = 1;
};

template <class T, class Step = std::integral_constant<int, 1>>
T sum(T a, T b = T(1), Step = {}, TT_LOC);  // task 1.1

// Adds up.
template <class T = int>
class Counter final : public Base {
 public:
  explicit Counter(T first, Options options = {1});  // task 1.2
  // Task 1.2.
  inline T total() const override;  // so far

 private:
  void count();  // task 1.2, where you may define it
  T total_;
  int count_ = 0;
};

namespace detail {
inline int twice(int x);  // task 1.2
}  // namespace detail
inline int thrice(int x) { return sum(x, detail::twice(x)); }

}  // namespace tinytorch::inline TT_BUILD::sums

#include <tasks/sums.hpp>
"""
TASKS = """// Adds.
//
//   more about it
//
// Task 1.1: sum. Task 1.2: Counter::Counter, Counter::total, twice. The given parts of this header are in
// modules/01_a/frame/tinytorch/sums.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::sums {

// The sum of two numbers.
template <class T, class Step>
T sum(T a, T b, Step, Loc loc) {
  return a + b;
}

// Begins.
template <class T>
Counter<T>::Counter(T first, Options options) : total_(first), options_(options) { count(); }

template <class T>
T Counter<T>::total() const { return total_; }

// Counts one more.
template <class T>
void Counter<T>::count() { ++count_; }

namespace detail {

inline int twice(int x) { return sum(x, x); }

}  // namespace detail

}  // namespace tinytorch::inline TT_BUILD::sums
"""


class Cutting(unittest.TestCase):
    """A header in two: the frame with the given parts, and the file of the tasks."""

    def test_a_header_becomes_a_frame_and_a_file_of_the_tasks(self):
        tasks = [types.SimpleNamespace(id="1.1", write=["sum"], hide=[]),
                 types.SimpleNamespace(id="1.2", write=["Counter::Counter", "Counter::total", "twice"], hide=["Counter::count"])]
        self.assertEqual(course.frames.frame_of(HEADER, "sums.hpp", tasks), FRAME)
        self.assertEqual(course.frames.tasks_of(HEADER, "01_a", "sums.hpp", tasks), TASKS)

    def test_a_long_signature_is_wrapped(self):
        parameters = ", ".join(f"const std::vector<std::pair<int, double>>& value_{i}" for i in range(4))
        lines = course.frames.wrapped("inline double f(", parameters, ");").splitlines()
        self.assertEqual([l.index("const") for l in lines], [16] * 4)
        self.assertLessEqual(max(map(len, lines)), course.frames.WIDTH)

    def test_the_frame_is_todays_and_a_new_function_breaks_no_file(self):
        """A function that is added to the library's header goes into the frame, and the starter stays as it is."""
        module = course.Course().module("01")
        tasks = [t for t in module.tasks if t.file == "tensor/strides.hpp"]
        text = (course.INCLUDE / "tinytorch/tensor/strides.hpp").read_text()
        new = "inline bool is_row(const Shape& s) { return is_contiguous(s, contiguous_strides(s)); }\n"
        more = text.replace("// A view of the same elements", new + "// A view of the same elements", 1)
        self.assertIn(new, course.frames.frame_of(more, "tensor/strides.hpp", tasks))
        for header in (text, more):
            self.assertEqual(course.frames.tasks_of(header, module.id, "tensor/strides.hpp", tasks), module.solution("tasks/tensor/strides.hpp"))


class Contract(unittest.TestCase):
    """If the library gets a new function, and a frame its line, student files of the current version still compile."""

    LIBRARY = [  # the edits with which a developer adds a unary op: (header, text, its replacement)
        ("backend/functors.hpp", "hardswish, mish };", "hardswish, mish, cube };"),
        ("backend/functors.hpp", "static_cast<int>(UnaryFn::mish) + 1", "static_cast<int>(UnaryFn::cube) + 1"),
        ("backend/functors.hpp", "if constexpr (fn == gelu)", "if constexpr (fn == cube) return x * x * x;\n    if constexpr (fn == gelu)"),
        ("tensor/ops/elementwise.hpp", "vjp::at_x<BinaryFn::mish_grad>},",
         "vjp::at_x<BinaryFn::mish_grad>},\n    {UnaryFn::cube, \"cube\", 2, Accepts::floating, Save::inputs, vjp::cube},")]
    FRAME = ("inline Tensor zero(const UnaryContext& c)", "inline Tensor cube(const UnaryContext& c) { return c.g * c.x * c.x * 3; }\n"
             "inline Tensor zero(const UnaryContext& c)")

    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = Path(held.name)
        shutil.copytree(ROOT / "include", self.folder / "include")
        frame = "tinytorch/tensor/vjp/elementwise.hpp"  # of this header alone
        (self.folder / "frame" / frame).parent.mkdir(parents=True)
        shutil.copy(ROOT / "modules/02_autograd/frame" / frame, self.folder / "frame" / frame)
        for name, old, new in self.LIBRARY:
            self.edit("include/tinytorch/" + name, old, new)

    def edit(self, name, old, new):
        """Replaces the one place with the words of `old`, whatever the white space and the line breaks between them."""
        text = (self.folder / name).read_text()
        place = re.compile(r"\s*".join(re.escape(word) for word in re.findall(r"\w+|[^\w\s]", old)))
        self.assertEqual(len(place.findall(text)), 1, f"{name}: {old}")
        (self.folder / name).write_text(place.sub(lambda _: new, text))

    def errors(self, *folders):
        """The compiler's errors for the bodies of the ops, with these folders before the library's on the include path."""
        text = "#define TINYTORCH_IMPLEMENT_TENSOR 1\n#include <tinytorch/tensor/ops/elementwise.hpp>\n"
        done = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", "-w", "-DTINYTORCH_COMPILED", *(f"-I{f}" for f in folders),
                               f"-I{self.folder / 'include'}", "-x", "c++", "-"], input=text, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode == 0, "error" not in done.stdout, done.stdout)
        return done.stdout

    def test_a_current_student_file_compiles_with_a_new_op(self):
        student = ROOT / "modules/02_autograd/solution"
        self.assertIn("cube", self.errors(student, self.folder / "frame"))  # the frame does not have the new function yet
        self.edit("frame/tinytorch/tensor/vjp/elementwise.hpp", *self.FRAME)
        self.assertEqual(self.errors(student, self.folder / "frame"), "")

    def test_a_file_of_the_last_version_compiles_with_a_new_op_after_migration_only(self):
        with tarfile.open(ROOT / "tests/course/last_version.tar.xz") as old:
            text = old.extractfile("02_autograd/tinytorch/tensor/vjp/elementwise.hpp").read().decode()
        whole, today = self.folder / "whole", self.folder / "today"
        course.write_whole(whole / "tinytorch/tensor/vjp/elementwise.hpp", text)
        self.assertIn("cube", self.errors(whole))
        self.edit("frame/tinytorch/tensor/vjp/elementwise.hpp", *self.FRAME)
        module = course.Course().module("02")
        for path in module.files():
            course.write_whole(today / path, module.whole(path))
        text, left = migrate.migrated(module, "tinytorch/tensor/vjp/elementwise.hpp", text)
        self.assertEqual(left, [])
        course.write_whole(today / "tasks/tensor/vjp/elementwise.hpp", text)
        self.assertEqual(self.errors(today, self.folder / "frame"), "")


class Migrating(unittest.TestCase):
    """Migration of a header of the last version, in which a student changed something."""

    def migrated(self, header, *edits):
        with tarfile.open(ROOT / "tests/course/last_version.tar.xz") as old:
            module = next(t.module for t in course.Course().tasks if t.header == header)
            text = old.extractfile(f"{module.id}/{migrate.before(header)}").read().decode()
        for old, new in edits:
            self.assertEqual(text.count(old), 1, old)
            text = text.replace(old, new)
        return migrate.migrated(module, header, text)

    def test_functions_comments_helpers_and_includes_are_kept(self):
        text, left = self.migrated(
            "tinytorch/backend/cpu/elementwise.hpp",
            ("#include <cmath>\n", "#include <cmath>\n#include <numeric>\n"),
            ("// out = f(x), element by element.", "// My helper.\ninline int twice(int x) { return 2 * x; }  // doubles\n\n"
             "struct Mine {\n  int a = 1;\n};\n\n// I found this hard. out = f(x), element by element."),
            ("  const Rows<2> rows({out, x});\n", "  const Rows<2> rows({out, x});  // mine\n"))
        self.assertEqual(left, [])
        for part in ("#include <numeric>\n", "// My helper.\ninline int twice(int x) { return 2 * x; }  // doubles\n", "struct Mine {\n",
                     "// I found this hard.", "rows({out, x});  // mine"):
            self.assertEqual(text.count(part), 1, text)
        for given in ("struct Rows", "find_unary", "TT_API", "#include <cmath>"):
            self.assertNotIn(given, text)

    def test_helpers_keep_their_namespaces(self):
        text, left = self.migrated(
            "tinytorch/tensor/vjp/elementwise.hpp",
            ("using UnaryVjp =", "inline int outer() { return 1; }\nusing UnaryVjp ="),
            ("// y = e^x. Saved: y.\n", "namespace {\nint hidden() { return 2; }\n}  // namespace\nnamespace mine {\nint deep() { return 3; }\n}\n\n"
             "// y = e^x. Saved: y.\n"))
        self.assertEqual(left, [])
        for part in ("namespace tinytorch::inline TT_BUILD {\ninline int outer() { return 1; }\n}\n", "namespace {\nint hidden() { return 2; }\n}\n",
                     "namespace mine {\nint deep() { return 3; }\n}\n"):
            self.assertEqual(text.count(part), 1, text)
        self.assertLess(text.index("outer"), text.index("namespace tinytorch::inline TT_BUILD::vjp {"))

    def test_a_given_part_that_was_changed_is_named(self):
        _, left = self.migrated("tinytorch/backend/cpu/elementwise.hpp", ("outer.pop_back();", "outer.pop_back();  // mine"))
        self.assertEqual(left, ["Rows is a given part that you changed: the new file has the current one"])

    def test_a_missing_function_is_replaced_by_its_todo(self):
        text, left = self.migrated("tinytorch/backend/cpu/elementwise.hpp", ("void choose(", "void chose("))
        self.assertEqual(left, ["choose was not found: the new file has its TODO"])
        self.assertIn('todo("1.4", "choose")', text)
        self.assertIn("void chose(", text)

    def test_members_keep_the_names_of_their_parameters(self):
        text, left = self.migrated("tinytorch/transformer/mlp.hpp", (
            "Tensor forward(const Tensor& x) override { return down(activate(up(x), fn)); }",
            "Tensor forward(const Tensor& mine) override { return down(activate(up(mine), fn)); }"))
        self.assertEqual(left, [])
        self.assertIn("inline Tensor Mlp::forward(const Tensor& mine) { return down(activate(up(mine), fn)); }", text)

    def test_default_arguments_stay_in_the_frame(self):
        for header, line in (
                ("layers/linear.hpp", "inline Linear::Linear(int64_t in_features, int64_t out_features, bool with_bias, Generator& generator) {"),
                ("layers/schedule.hpp", "inline Schedule one_cycle(double lr_max, int64_t total, OneCycleOptions options, Loc loc) {"),
                ("backend/activation.hpp", "template <class T, math::Range range>\nTT_HOST_DEVICE inline T silu_value(T x) {"),
                ("profiling/timer.hpp", "template <class Clock>\nvoid Stopwatch<Clock>::start() {")):
            text, left = self.migrated(f"tinytorch/{header}")
            self.assertEqual(left, [])
            self.assertIn(line, text)

    def test_a_helper_that_the_starter_hides_comes_along(self):
        self.assertIn("inline void CostCounter::end(Cost cost) {", self.migrated("tinytorch/profiling/cost.hpp")[0])
        without = self.migrated("tinytorch/profiling/cost.hpp", ("  void end(Cost cost) {", "  void finish(Cost cost) {"))
        self.assertNotIn("CostCounter::end(", without[0].partition("#pragma once")[2])
        self.assertEqual(without[1], ["CostCounter had members that you added, finish: make them functions outside the class"])

    def test_given_parts_are_known_by_names_that_have_changed(self):
        self.assertEqual(self.migrated("tinytorch/backend/cuda/kernels/peak_kernels.cuh")[1], [])

    def test_a_student_s_member_of_a_given_class_is_named(self):
        _, left = self.migrated("tinytorch/transformer/mlp.hpp", ("  Activation fn;\n", "  Activation fn;\n  int mine() const { return 1; }\n"))
        self.assertEqual(left, ["Mlp had members that you added, mine: make them functions outside the class"])

    def test_names_and_includes_that_have_moved_are_replaced(self):
        text, left = self.migrated("tinytorch/autograd/gradcheck.hpp", ("#pragma once\n", "#pragma once\n\n#include <tinytorch/tensor/members.hpp>\n"))
        self.assertEqual(left, [])
        self.assertIn("#include <tinytorch/tensor/ops/members.hpp>", text)
        self.assertIn("ceil_div", self.migrated("tinytorch/backend/cuda/kernels/gemm.cuh")[0])


class Linkers(unittest.TestCase):
    """The choice of the linker: gold is installed and may fail, and the default linker may fail."""

    def linked(self, gold, default):
        commands = []

        def call(command, seconds):
            commands.append(command)
            return types.SimpleNamespace(code=gold if "-fuse-ld=gold" in command else default, text="")

        shop = course.Workshop(call=call)
        shop.gold = "ld.gold"
        failed = [shop.link(["a.o"], "a", "cpu") for _ in range(2)]
        self.assertEqual([f is None for f in failed], [0 in (gold, default)] * 2)
        return len(commands)

    def test_a_linker_that_works_runs_once_for_each_program(self):
        self.assertEqual(self.linked(gold=0, default=0), 2)

    def test_gold_is_not_used_again_if_only_the_default_linker_links(self):
        self.assertEqual(self.linked(gold=1, default=0), 3)

    def test_gold_is_used_again_if_both_linkers_fail(self):
        self.assertEqual(self.linked(gold=1, default=1), 4)


class Objects(unittest.TestCase):
    def test_a_file_that_is_replaced_during_its_compilation_is_compiled_again(self):
        """write_whole writes a temporary file and renames it, so the new file may be older than the start of the compilation."""
        with tempfile.TemporaryDirectory() as folder:
            source, header, saved = (Path(folder, name) for name in ("a.cpp", "a.hpp", "saved"))
            compiled = []
            source.write_text("")
            header.write_text("before")
            saved.write_text("after")
            time.sleep(0.05)

            def call(command, seconds):
                compiled.append(header.read_text())
                Path(command[command.index("-o") + 1]).write_text("an object")
                Path(command[command.index("-MF") + 1]).write_text(f"a.o: {source} {header}\n")
                if saved.exists():
                    os.replace(saved, header)
                return types.SimpleNamespace(code=0, text="")

            shop = course.Workshop(Path(folder, "build"), call=call, compiler="compiler")
            for _ in range(2):
                self.assertIsNone(shop.compile(source, "a.o", [])[0])
            self.assertEqual(compiled, ["before", "after"])
            time.sleep(0.05)
            for _ in range(2):
                self.assertIsNone(shop.compile(source, "a.o", [])[0])
            self.assertLessEqual(len(compiled), 3)  # one more compilation if the file's time was too close, then no other


class Starting(Clone):
    def test_a_starter_has_the_contract_and_throws_the_name_of_its_task(self):
        self.tt("start", "01", code=0)
        text = (self.modules / STRIDES).read_text()
        self.assertIn('todo("1.1", "contiguous_strides");', text)
        self.assertIn("Strides of a row-major tensor without gaps:", text)
        self.assertIn("TODO(1.1) contiguous_strides is not written yet", self.tt("check", "1.1", code=1))

    def test_starting_again_keeps_the_student_s_files(self):
        self.tt("start", "01", code=0)
        self.edit('todo("1.1", "is_contiguous");', "return false;  // mine")
        self.tt("start", "1", code=0)
        self.assertIn("// mine", (self.modules / STRIDES).read_text())

    def test_a_task_can_be_started_and_watched_by_its_number_or_slug(self):
        self.assertIn("task 1.3", self.tt("start", "strided_iteration", code=0))
        self.assertIn("task 1.3", self.tt("status", code=0))
        self.assertIn("task 1.2", self.tt("start", "1.2", code=0))
        self.assertIn("task 2.4", self.tt("start", "2.4", code=0))
        text = self.tt("watch", "1.1", PATH=str(self.root))  # without a compiler: only the set-up problem
        self.assertIn("sudo apt-get install", text)

    def test_similar_words_are_suggested(self):
        for arguments, want in ((["lsit"], "did you mean list"), (["start", "viewz"], "did you mean views"),
                                (["hint", "strided-iteration"], "did you mean strided_iteration"),
                                (["explain", "shpe-02"], "did you mean TT-SHAPE-02"),
                                (["milestone", "percptron"], "did you mean perceptron"),
                                (["check", "tensro"], "did you mean tensor")):
            with self.subTest(arguments):
                self.assertIn(want, self.tt(*arguments, code=2))
        for code in ("shape-02", "SHAPE2", "tt-shape-2", "TT-SHAPE-02"):
            with self.subTest(code):
                self.assertIn("TT-SHAPE-02  ", self.tt("explain", code, code=0))

    def test_a_module_is_started_although_a_package_is_missing(self):
        text = self.tt("start", "01", "--no-install", code=2, PATH=str(self.root))  # a PATH without a compiler
        self.assertIn("task 1.1", text)
        self.assertRegex(text, r"missing: g\+\+\n.*\n  sudo apt-get install -y g\+\+\n")
        self.assertTrue((self.modules / STRIDES).exists())
        self.assertIn("missing for the course (`modules/tt start NN` installs them):\n  sudo apt-get install -y g++\n",
                      self.tt("doctor", code=2, PATH=str(self.root)))

    def test_start_refuses_modules_that_are_not_released_or_do_not_exist(self):
        manifest = self.modules / "course.json"
        text = manifest.read_text()
        self.addCleanup(manifest.write_text, text)
        document = json.loads(text)
        document["modules"].append({"id": "11_later", "title": "Later", "status": "not yet released", "headers": [], "released": False})
        manifest.write_text(json.dumps(document))
        self.assertIn("not yet released", self.tt("start", "11_later", code=2))
        self.assertIn("no module 99", self.tt("start", "99", code=2))


class Checking(Clone):
    def test_a_solved_task_passes_and_its_pass_is_recorded(self):
        self.tt("start", "01", code=0)
        self.solve("1.1")
        document = self.json_of("check", "1.1")
        self.assertTrue(document["passed"])
        self.assertIn("tasks/tensor/strides.hpp", document["replaced"])
        task = course.Course().task("1.1")
        self.assertEqual([t["test"] for t in document["tasks"][0]["tests"]], task.tests)
        state = json.loads((self.modules / ".tt-state.json").read_text())
        self.assertIn("1.1", state["passed"])
        self.assertTrue(next(t for m in self.json_of("list")["modules"] for t in m["tasks"] if t["id"] == "1.1")["passed"])

    def test_the_student_s_file_is_checked(self):
        self.tt("start", "01", code=0)
        self.solve("1.1")
        self.edit("strides[d + 1] * std::max<int64_t>(shape[d + 1], 1)", "7")
        text = self.tt("check", "1.1", code=1)
        self.assertIn("expected  [12, 4, 1]", text)
        self.assertIn("got       [7, 7, 1]", text)

    def test_a_condition_that_leaves_out_the_functions_is_reported(self):
        path = "02_autograd/student/tasks/autograd/engine.hpp"
        self.solve("2.4")
        self.edit("#pragma once\n", "#pragma once\n#if TT_BODIES(TENSOR)\n", path)
        (self.modules / path).write_text((self.modules / path).read_text() + "#endif\n")
        self.assertIn("its functions would not be compiled", self.tt("check", "2.4", code=1))

    def test_an_error_of_the_compiler_is_shown_with_its_line(self):
        self.tt("start", "01", code=0)
        self.edit('todo("1.1", "is_contiguous");', "return shape.contiguos();")
        text = self.tt("check", "1.1", code=1)
        self.assertRegex(text, r"  modules/01_tensor/student/tasks/tensor/strides.hpp:\d+:\d+: error: .*contiguos")
        self.assertNotIn("build/tt", text)  # the message names the student's file, not the copy that was compiled

    def test_the_first_line_names_the_header_that_does_not_compile(self):
        self.solve("1.3", "1.4")
        layout = "01_tensor/student/tasks/backend/layout.hpp"
        (self.modules / layout).write_text((self.modules / layout).read_text() + "int missing_semicolon\nint other;\n")
        text = self.tt("check", "1.4", code=1)
        self.assertRegex(text, rf"1\.4 Elementwise, with broadcasting: modules/{layout} does not compile, \d")

    def test_a_syntax_error_is_reported_before_anything_is_built(self):
        build = self.root / "build" / "tt"
        for name, path in (("1.1", STRIDES), ("1.8", "01_tensor/student/tasks/backend/cuda/kernels/elementwise.cuh")):
            with self.subTest(task=name):
                shutil.rmtree(build, ignore_errors=True)
                self.solve(name)
                header = self.modules / path
                header.write_text(header.read_text() + "int missing_semicolon\nint other;\n")
                text = self.tt("check", name, code=1)
                self.assertRegex(text, rf"  modules/{path}:\d+:\d+: error: expected")
                self.assertNotIn("building the library", text)
                self.assertEqual([p for p in build.rglob("*") if p.suffix in (".o", ".gch")], [])

    def test_after_the_start_of_a_module_a_syntax_error_costs_one_short_call_of_the_compiler(self):
        task, shop = course.Course().task("2.2"), course.Workshop(self.root / "build" / "prepared", tools.call)
        student = shop.folder / "student"
        for path in task.module.files():
            course.write_whole(student / path, task.module.whole(path))
        header, good, calls = student / task.path, task.module.whole(task.path), []
        shop.prepare(task.module)
        shop.call = lambda command, *more, **words: calls.append(command) or tools.call(command, *more, **words)
        shop.build = lambda *_: (types.SimpleNamespace(code=1, text="the build began"), [])
        header.write_text(good + "int missing_semicolon\nint other;\n")
        verdict = shop.check(task, [student], name="prepared")
        self.assertRegex(verdict.text, r"sum_to.hpp:\d+:\d+: error: expected")
        self.assertEqual([("-fsyntax-only" in c, any("neighbours-02" in w for w in c)) for c in calls], [(True, True)])
        # Its errors of other kinds are confirmed with the headers of earlier modules, which may have what it misses.
        calls.clear()
        header.write_text(good + "inline int mine() { return nowhere; }\n")
        self.assertIn("nowhere", shop.check(task, [student], name="prepared").text)
        self.assertEqual(len(calls), 2)
        header.write_text(good)
        self.assertEqual(shop.check(task, [student], name="prepared").text, "the build began")

    def test_a_long_build_says_how_much_of_it_is_done(self):
        said = []
        shop = course.Workshop(self.root / "build" / "parts", tools.call, say=said.append)
        sources = [shop.generated(f"part{i}.cpp", f"int part{i};\n") for i in range(2)]
        failed, objects = shop.build([(source, f"{source.stem}.o", []) for source in sources], True)
        self.assertIsNone(failed)
        self.assertEqual([o.name for o in objects], ["part0.o", "part1.o"])
        self.assertEqual([text[:31] for text in said], ["  [##########          ] 1 of 2", "  [####################] 2 of 2"])
        self.assertRegex(said[1], r"\d s: part[01] is built$")

    def test_an_edit_of_a_header_of_an_earlier_module_rebuilds_no_part_of_the_library(self):
        task, shop = course.Course().task("2.2"), course.Workshop(self.root / "build" / "edited", tools.call)
        student, below, jobs = shop.folder / "student", shop.folder / "below", []
        for folder, one in ((student, task), (below, course.Course().task("1.1"))):
            for path in one.module.files():
                course.write_whole(folder / path, one.module.whole(path))
        shop.syntax_error = lambda *_: ""
        shop.build = lambda wanted, *_: jobs.extend(wanted) or (types.SimpleNamespace(code=1, text="stop") if len(wanted) > 1 else None, [])
        shop.check(task, [student], [below], name="edited")
        library = [job for job in jobs if "library" in str(job[1])]
        self.assertEqual(len(library), 3)  # the kernels, the products, the tensor functions
        self.assertFalse([job for job in library if any(str(below) in str(word) for word in job[2])])
        own = next(job for job in jobs if str(job[1]).endswith("sum_to-cpu.o"))
        self.assertTrue(any(str(below) in str(word) for word in own[2]))

    def test_a_program_that_uses_too_much_memory_is_called_that(self):
        task, shop = course.Course().task("1.1"), course.Workshop(self.root / "build" / "hog")
        shop.folder.mkdir(parents=True, exist_ok=True)
        self.solve("1.1")
        self.insert("for (;;) new char[1 << 28]();")
        text = self.tt("check", "1.1", code=1, TT_MEMORY="1")
        self.assertRegex(text, r"1\.1 Row-major strides: memory, ")
        self.assertRegex(text, r"  1\.1 strides of a row-major tensor\n  the program was stopped when it used 1\.\d GiB of memory")
        for done in (types.SimpleNamespace(code=-9, timed_out=False, text="", memory=7.5),
                     types.SimpleNamespace(code=-9, timed_out=True, text="", memory=7.5)):
            shop.call = lambda *_, **__: done
            verdict = shop.run(task, shop.folder / "program", 20)
            self.assertEqual(verdict.stage, "memory")
            self.assertRegex(verdict.text, "was stopped (after 20 s, )?when it used 7.5 GiB of memory")
        done.memory = 0.1
        self.assertEqual(shop.run(task, shop.folder / "program", 20).stage, "time")

    def test_a_call_stack_begins_with_the_student_s_line(self):
        stack = "a read\n  at include/walk.cuh:4\n  inlined at include/map.cuh:7\n  inlined at modules/01/student/a.cuh:2\n  inlined at launch.hpp:9"
        self.assertEqual(course.own_lines_first(stack), "a read\n  at modules/01/student/a.cuh:2\n  which calls include/map.cuh:7\n"
                         "  which calls include/walk.cuh:4\n  inlined at launch.hpp:9")
        for text in ("a read\n  at modules/01/student/a.cuh:2\n  inlined at b.hpp:1", "a read\n  at b.hpp:1\n  inlined at c.hpp:2", "no stack"):
            self.assertEqual(course.own_lines_first(text), text)

    def test_an_error_is_shown_with_its_note_and_a_missing_return_is_an_error(self):
        self.tt("start", "01", code=0)
        self.solve("1.1")
        self.edit("Strides::filled(shape.size(), 1)", "Strides::filled(shape.size())")
        self.assertRegex(self.tt("check", "1.1", code=1), r"no matching function[^~]*~[^$]*expects 2 arguments, 1 provided")
        self.edit("Strides::filled(shape.size())", "Strides::filled(shape.size(), 1)")
        text = (self.modules / STRIDES).read_text()
        before, after = text.split("  Strides strides = ", 1)
        (self.modules / STRIDES).write_text(before + "  Strides strides = " + after.replace("  return strides;\n", "", 1))
        self.assertRegex(self.tt("check", "1.1", code=1), r"student/tasks/tensor/strides.hpp:\d+:\d+: error: no return statement")

    def test_the_name_of_a_task_is_printed_once(self):
        self.tt("start", "01", code=0)
        text = self.tt("check", "1.1", code=1)
        self.assertEqual((text.count("1.1 Row-major strides"), text.count("  replaced  ")), (1, 1), text)

    def test_missing_files_and_functions_are_named(self):
        for command in ("check", "grade"):
            for name in ("01", "1.1"):
                self.assertIn("strides.hpp does not exist: `modules/tt start 01` creates it", self.tt(command, name, code=2))
        self.tt("start", "01", code=0)
        (self.modules / STRIDES).write_text("#pragma once\n")
        text = self.tt("check", "1.1", code=1)
        self.assertIn("strides.hpp does not define contiguous_strides, is_contiguous", text)
        self.assertIn("`modules/tt reset 1.1`", text)
        self.assertNotIn("error:", text)

    def test_two_checks_at_once_wait_for_each_other(self):
        self.tt("start", "01", code=0)
        self.solve("1.1")
        jobs = [subprocess.Popen([sys.executable, str(self.modules / "tt"), "check", "1.1"], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(3)]
        texts = [job.communicate()[0].decode("utf-8", "replace") for job in jobs]
        self.assertEqual([job.returncode for job in jobs], [0] * 3, texts)
        self.assertTrue(any("another check is running" in t for t in texts))

    def test_the_first_verdict_says_why_it_takes_long(self):
        self.tt("start", "01", code=0)
        shutil.rmtree(self.root / "build" / "tt", ignore_errors=True)
        self.assertIn("building the library once", self.tt(code=1))
        self.assertNotIn("building the library", self.tt(code=1))

    def test_a_printed_verdict_an_early_exit_and_a_missing_test_do_not_pass(self):
        self.tt("start", "01", code=0)
        self.solve("1.1")
        header = self.modules / STRIDES
        good = header.read_text()
        cases = {
            'std::puts("{\\"test\\": \\"1.1\\", \\"passed\\": true}"); std::exit(0);': "crash, or an early exit",
            "for (;;) {}": "endless loop",
            "std::abort();": "SIGABRT",
            "*reinterpret_cast<volatile int*>(8) = 1;": "an index past the end",
            "std::_Exit(0);": "crash, or an early exit",
        }
        for code, said in cases.items():
            with self.subTest(code):
                header.write_text("#include <cstdio>\n#include <cstdlib>\n" + good)
                self.insert(code)
                text = self.tt("check", "1.1", code=1, TT_SECONDS="3")
                self.assertIn(said, text)
                self.assertIn("\n  1.1 strides of a row-major tensor\n", text)  # the test that was running
        header.write_text(good)
        manifest = self.modules / "course.json"
        kept = manifest.read_text()
        try:
            manifest.write_text(kept.replace('"1.1 a dimension of size 0 counts as one of size 1"', '"1.1 a test that is not there"'))
            self.assertIn("did not run", self.tt("check", "1.1", code=1))
        finally:
            manifest.write_text(kept)

    def test_a_file_that_replaces_nothing_is_refused(self):
        self.tt("start", "01", code=0)
        for name in ("tinytorch/tensor/mine.hpp", "tinytorch/core/shape.hpp"):
            stray = self.modules / "01_tensor/student" / name
            stray.parent.mkdir(parents=True, exist_ok=True)
            stray.write_text("#pragma once\n")
            self.assertIn("replaces no header", self.tt("check", "01", code=2))
            stray.unlink()


class MovingOn(Clone):
    def finish(self):
        """Writes the state file of a student who has passed all tasks of module 01."""
        tasks = course.Course().module("01").tasks
        passed = {t.id: {"when": "", "files": {}} for t in tasks}
        (self.modules / ".tt-state.json").write_text(json.dumps({"schema": 1, "task": tasks[-1].id, "passed": passed, "hints": {}}))

    def test_a_finished_module_says_what_comes_next(self):
        self.finish()
        text = self.tt("next", code=0)
        self.assertIn("01_tensor is complete: `modules/tt check 01`, then `modules/tt milestone perceptron`", text)
        self.assertIn("task 2.1", text)

    def test_the_milestone_that_opens_is_named(self):
        self.assertEqual(self.opened_after(), [])
        self.finish()
        self.assertEqual(self.opened_after(), ["perceptron"])

    def opened_after(self):
        """The milestones that tt calls open after module 01."""
        state = json.loads((self.modules / ".tt-state.json").read_text()) if (self.modules / ".tt-state.json").exists() else {"passed": {}}
        loader = importlib.machinery.SourceFileLoader("tt_program", str(self.modules / "tt"))
        tt = importlib.util.module_from_spec(importlib.util.spec_from_loader("tt_program", loader))
        loader.exec_module(tt)
        whole = course.Course()
        student = types.SimpleNamespace(course=whole, state=types.SimpleNamespace(passed=lambda t: t.id in state["passed"]))
        return [m["name"] for m in tt.opened(student, whole.module("01"))]

    def test_within_a_module_next_is_just_the_next_task(self):
        self.assertNotIn("complete", self.tt("next", "--skip", code=0))

    def test_a_milestone_names_the_tasks_that_it_needs(self):
        text = self.tt("milestone", "perceptron", code=2)
        self.assertRegex(text, r"tasks that have not passed: 1\.1, 1\.2, ")

    def test_signals_are_explained(self):
        self.assertIn("SIGSEGV  an access outside of memory", self.tt("explain", "sigsegv", code=0))


class Benching(Clone):
    REDUCE = "01_tensor/student/tasks/backend/cuda/kernels/reduce.cuh"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bin = cls.root / "bin"  # a PATH without nvcc, so that the emulator counts on every machine
        cls.bin.mkdir()
        for name in ("g++", "as", "ld", "git", "env"):
            (cls.bin / name).symlink_to(shutil.which(name))

    def bench(self, code):
        return self.json_of("bench", "1.10", code=code, PATH=str(self.bin))

    def test_missing_files_and_tasks_without_speed_points_are_named(self):
        self.assertIn("does not exist: `modules/tt start 01` creates it", self.tt("bench", "1.10", code=2))
        self.tt("start", "01", code=0)
        self.assertRegex(self.tt("bench", "1.1", code=2), r"1\.1 has no speed points; there are 1\.4, ")

    def test_a_wrong_answer_earns_no_speed_points(self):
        self.tt("start", "01", code=0)
        document = self.bench(1)
        self.assertEqual((document["passed"], document["stage"], document["earned"]), (False, "failed", 0))

    def test_counts_of_the_emulator_earn_points_until_the_file_changes(self):
        self.tt("start", "01", code=0)
        self.solve("1.3", "1.10")
        document = self.bench(0)
        self.assertEqual((document["device"], document["earned"]), ("sim", document["points"]))
        self.assertTrue(all(j["good"] for j in document["judged"]))
        self.assertTrue(all(w["moved"] >= 1 and w["launches"] == 1 for w in document["works"]))
        self.assertEqual(self.json_of("status")["speed_points"], document["points"])
        _, texts, _ = course.Course().task("1.10").module.wrong_answers(course.Course().task("1.10"), "slow")[0]
        for path, text in texts.items():
            course.write_whole(self.modules / "01_tensor/student" / path, text)
        self.assertEqual(self.json_of("status")["speed_points"], 0)
        document = self.bench(1)
        self.assertEqual(document["earned"], 0)
        self.assertIn("sectors", [j["what"] for j in document["judged"] if not j["good"]])

    def test_output_of_student_code_is_not_read_as_a_count(self):
        self.tt("start", "01", code=0)
        self.solve("1.3", "1.10")
        self.edit("  if (out.numel() == 0) return;", '  std::puts("{\\"work\\": \\"mine\\"}");\n  if (out.numel() == 0) return;', self.REDUCE)
        self.assertNotIn("mine", [w["work"] for w in self.bench(0)["works"]])


class Judging(unittest.TestCase):
    """The rules for speed points, with programs that return given measurements."""

    @staticmethod
    def program(seconds, bandwidth=100.0):
        return lambda: {"a": {"work": "a", "bytes": 50, "flops": 0, "seconds": seconds},
                        "b": {"work": "b", "bytes": 0, "flops": 200, "seconds": 4 * seconds},
                        "limit": {"limit": True, "bytes_per_second": bandwidth, "flops_per_second": 100.0}}

    def test_a_time_is_compared_with_the_library_and_with_the_limit(self):
        rows = speed.timed(self.program(2.0), self.program(1.0))
        self.assertEqual([(r["work"], r["of_library"], r["of_limit"]) for r in rows], [("a", 0.5, 0.25), ("b", 0.5, 0.25)])
        for rule, points in (({"of_library": 0.5}, 3), ({"of_library": 0.51}, 0), ({"of_library": 0.4, "of_limit": 0.3}, 0), ({}, 0)):
            rule["points"] = 3
            self.assertEqual(speed.earned(rule, speed.judge(rule, "cpu", rows)), points, rule)

    def test_a_count_is_judged_by_its_worst_work(self):
        rows = [{"work": "a", "moved": 1.0, "launches": 1}, {"work": "b", "moved": 2.0, "launches": 1}]
        for most, points in ((2.0, 3), (1.9, 0)):
            rule = {"points": 3, "counted": {"moved": most, "launches": 1}}
            self.assertEqual(speed.earned(rule, speed.judge(rule, "sim", rows)), points)

    def test_every_rule_has_its_program(self):
        for task in course.Course().tasks:
            self.assertEqual(bool(task.speed), task.speed_program.exists(), task.id)


class OldFiles(Clone):
    """A student's folder with files of the last version."""

    OLD = "01_tensor/student/tinytorch/backend/cpu/elementwise.hpp"

    def test_an_old_file_is_refused_until_it_is_migrated_and_a_copy_is_kept(self):
        with tarfile.open(ROOT / "tests/course/last_version.tar.xz") as old:
            text = old.extractfile("01_tensor/tinytorch/backend/cpu/elementwise.hpp").read().decode()
        course.write_whole(self.modules / self.OLD, text)
        for command in ("start", "check", "grade"):
            self.assertIn("`modules/tt migrate 01`", self.tt(command, "01", code=2))
        passed = {t.id: {"when": "", "files": {}} for t in course.Course().module("01").tasks}
        (self.modules / ".tt-state.json").write_text(json.dumps({"schema": 1, "task": None, "passed": passed, "hints": {}}))
        self.tt("start", "02", code=0)
        self.assertIn("`modules/tt migrate 01`", self.tt("check", "2.2", code=2))  # module 02 is built with files of module 01
        document = self.json_of("migrate", "01")
        self.assertEqual((document["files"], document["notes"]), (["modules/01_tensor/student/tasks/backend/cpu/elementwise.hpp"], []))
        self.assertFalse((self.modules / self.OLD).exists())
        kept, = (self.modules / "01_tensor/student-kept").glob("*/tinytorch/backend/cpu/elementwise.hpp")
        self.assertEqual(kept.read_text(), text)
        self.tt("start", "01", code=0)
        self.assertEqual(self.json_of("migrate", "01")["files"], [])

    def test_a_file_of_tasks_follows_its_header_and_the_headers_that_it_includes(self):
        new, old = course.Course().task("6.7").path, "tasks/backend/cuda/kernels/gemm_coalesced.cuh"
        student = self.modules / "06_acceleration/student"
        course.write_whole(student / old, "#pragma once\n#include <tinytorch/backend/cuda/kernels/launch.hpp>\n// mine\n")
        self.assertIn(f"belongs to a header that has moved: its path is now {new}", self.tt("check", "6.7", code=2))
        document = self.json_of("migrate", "06")
        self.assertEqual((document["files"], document["notes"]), ([f"modules/06_acceleration/student/{new}"], []))
        self.assertFalse((student / old).exists())
        text = "#pragma once\n#include <tinytorch/backend/cuda/launch.hpp>\n// mine\n"
        self.assertEqual((student / new).read_text(), text)
        course.write_whole(student / new, text.replace("cuda/launch", "cuda/kernels/launch"))
        self.assertIn("launch.hpp>, which is <tinytorch/backend/cuda/launch.hpp> now", self.tt("check", "6.7", code=2))
        self.assertEqual(self.json_of("migrate", "06")["files"], [f"modules/06_acceleration/student/{new}"])
        self.assertEqual((student / new).read_text(), text)
        self.assertEqual(self.json_of("migrate", "06")["files"], [])

    def test_a_submission_has_each_header_in_one_file(self):
        tasks = [t.id for t in course.Course().module("02").tasks]
        self.solve(*tasks)
        passed = {t: {"when": "", "files": {}} for t in tasks}
        (self.modules / ".tt-state.json").write_text(json.dumps({"schema": 1, "task": None, "passed": passed, "hints": {}}))
        document = self.json_of("export", "--headers", str(self.root / "mine"))
        held = self.root / "mine" / "include"
        self.assertEqual(sorted(document["files"]), sorted(str(p) for p in held.rglob("*.hpp")))
        text = (held / "tinytorch/tensor/vjp/elementwise.hpp").read_text()
        self.assertNotIn("<tasks/", text)
        source = "#define TINYTORCH_IMPLEMENT_TENSOR 1\n#include <tinytorch/tensor/ops/elementwise.hpp>\n"
        done = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-DTINYTORCH_COMPILED", f"-I{held}", f"-I{ROOT / 'include'}",
                               "-x", "c++", "-"], input=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_migration_adds_missing_declarations_to_a_student_s_header(self):
        """The header has no frame yet, as while a task is written."""
        frame, whole = self.modules / "01_tensor/frame/tinytorch/tensor/strides.hpp", "01_tensor/student/tinytorch/tensor/strides.hpp"
        self.addCleanup(frame.write_text, frame.read_text())
        frame.unlink()
        self.tt("start", "01", code=0)
        self.edit('todo("1.1", "is_contiguous");', "return true;  // mine", whole)
        text = (self.modules / whole).read_text()
        (self.modules / whole).write_text(text.replace("struct StridedShape", "struct StridedShapes"))
        said = self.tt("check", "1.1", code=1)
        self.assertIn("strides.hpp lacks StridedShape; the library's header has it: `modules/tt migrate 01` adds it", said)
        self.assertEqual(self.json_of("migrate", "01")["files"], ["modules/" + whole])
        text = (self.modules / whole).read_text()
        self.assertIn("struct StridedShape {", text)
        self.assertIn("return true;  // mine", text)


class Keeping(Clone):
    def test_reset_keeps_a_dated_copy_and_other_tasks(self):
        self.tt("start", "01", code=0)
        self.solve("1.1")
        self.edit("// Strides of a row-major tensor without gaps:", "// My note. Strides of a row-major tensor without gaps:")
        self.tt("reset", "1.1", code=0)
        text = (self.modules / STRIDES).read_text()
        self.assertIn('todo("1.1", "is_contiguous");', text)
        self.assertIn("My note.", text)  # text outside the functions of the task stays
        kept = list((self.modules / "01_tensor/student-kept").rglob("strides.hpp"))
        self.assertEqual(len(kept), 1)
        self.assertNotIn("todo(\"1.1\"", kept[0].read_text())

    def test_the_solution_is_shown_only_after_a_pass(self):
        self.tt("start", "01", code=0)
        self.assertIn("is shown after its tasks have passed", self.tt("solution", "1.1", code=2))
        self.assertIn("is shown after its tasks have passed", self.tt("diff", "1.1", "--reference", code=2))
        self.assertIn("equals the starter", self.tt("diff", "1.1", code=0))

    def test_hints_come_in_three_steps(self):
        texts = [self.tt("hint", "1.1", code=0) for _ in range(4)]
        self.assertEqual([t[:11] for t in texts], ["hint 1 of 3", "hint 2 of 3", "hint 3 of 3", "hint 3 of 3"])
        hints = course.Course().task("1.1").hints()
        for shown, text in zip((1, 2, 3, 3), texts):  # the earlier hints are repeated
            self.assertEqual([hint in text for hint in hints], [i < shown for i in range(3)])

    def test_an_unreadable_state_file_is_kept_and_a_new_one_is_begun(self):
        (self.modules / ".tt-state.json").write_text("{broken")
        self.assertIn("could not be read", self.tt("list", code=0))
        self.assertEqual(len(list(self.modules.glob(".tt-state.*.json"))), 1)

    def test_commands_that_run_at_the_same_time_lose_no_state(self):
        jobs = [subprocess.Popen([sys.executable, str(self.modules / "tt"), "hint", t], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL) for t in ("1.1", "1.1") for _ in range(2)]
        self.assertEqual([j.wait() for j in jobs], [0] * 4)
        self.assertEqual(json.loads((self.modules / ".tt-state.json").read_text())["hints"], {"1.1": 3})


class Surroundings(Clone):
    def test_without_a_compiler_the_command_that_installs_it_is_printed(self):
        text = self.tt(code=2, PATH="/nonexistent")
        self.assertIn("apt-get install", text)

    def test_a_closed_pipe_and_an_early_interruption_give_no_traceback(self):
        for arguments in (["list"], ["list", "--json"], ["explain", "TT-SHAPE-02"]):
            with self.subTest(arguments):
                reader, writer = os.pipe()
                os.close(reader)
                done = subprocess.run([sys.executable, str(self.modules / "tt"), *arguments], stdin=subprocess.DEVNULL, stdout=writer,
                                      stderr=subprocess.PIPE, timeout=60)
                os.close(writer)
                self.assertEqual(done.returncode, 1)
                self.assertNotRegex(done.stderr.decode(), "Traceback|BrokenPipe")
        for delay in (0.02, 0.05, 0.1, 0.2):
            with self.subTest(delay=delay):
                job = subprocess.Popen([sys.executable, "-c", HOLD_IMPORTS.format(tt=str(self.modules / "tt"))], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                job.stdout.readline()  # "importing": the interpreter itself has started
                time.sleep(delay)
                job.send_signal(signal.SIGINT)
                self.assertNotIn("Traceback", job.communicate(timeout=60)[0].decode())

    def test_a_console_of_another_encoding(self):
        self.tt("start", "01", code=0)
        self.assertIn("FAIL 1.1", self.tt("check", "1.1", code=1, PYTHONIOENCODING="cp1252"))

    def test_a_folder_that_cannot_be_written(self):
        if os.geteuid() == 0:  # root can write to every folder, so a file takes the place of the folder
            (self.modules / "01_tensor/student").write_text("a file where the folder should be")
            self.assertEqual(subprocess.run([sys.executable, str(self.modules / "tt"), "start", "01"], stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT).returncode, 2)
            (self.modules / "01_tensor/student").unlink()
            return
        (self.modules / "01_tensor").chmod(0o555)
        try:
            self.assertIn("readable and writable", self.tt("start", "01", code=2))
        finally:
            (self.modules / "01_tensor").chmod(0o755)

    def test_without_arguments_and_terminal_one_verdict_is_printed(self):
        self.assertIn("TODO(1.1)", self.tt(code=1))


class Watching(Clone):
    def begin(self):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # jobs in the background ignore it, which children inherit
            os.execv(sys.executable, [sys.executable, str(self.modules / "tt")])
        self.text = ""

    def until(self, words, seconds=180):  # long, because a verdict compiles, and other programs may use the machine
        deadline = time.monotonic() + seconds
        while words not in self.text:
            left = deadline - time.monotonic()
            self.assertGreater(left, 0, f"'{words}' was not printed; the output is:\n{self.text}")
            if select.select([self.terminal], [], [], left)[0]:
                self.text += os.read(self.terminal, 4096).decode("utf-8", "replace")
        self.text = self.text.partition(words)[2]

    def press(self, key):
        os.write(self.terminal, key.encode())

    def end(self):
        _, status = os.waitpid(self.pid, 0)
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(status)

    def test_a_save_gives_a_verdict_and_the_keys_work(self):
        self.begin()
        self.until("task 1.1")
        self.until("each save of the file")
        self.press("h")
        self.until("hint 1 of 3")
        self.press("n")
        self.until("has not passed yet")
        self.edit('todo("1.1", "is_contiguous");', "return true;")
        self.until("TODO(1.1) contiguous_strides is not written yet")
        self.press("e")
        self.press("d")
        self.until("+  return true;")
        self.press("l")
        self.until("01_tensor")
        self.solve("1.1")
        self.until("tests passed")
        self.press("n")
        self.until("task 1.")
        self.press("x")
        self.until("press y")
        self.press("n")
        self.press("q")
        self.assertEqual(self.end(), 0)

    def test_a_save_of_another_task_s_file_is_answered_by_that_task(self):
        self.tt("start", "02", code=0)
        self.tt("start", "1.1", code=0)
        self.begin()
        self.until("each save of the file")
        self.edit('todo("2.4", ', '+++; todo("2.4", ', "02_autograd/student/tasks/autograd/engine.hpp")
        self.until("is the file of task 2.4")
        self.until("does not compile")
        self.edit('todo("1.1", "is_contiguous");', "return true;")
        self.until("is the file of task 1.1")
        self.until("TODO(1.1) contiguous_strides is not written yet")
        self.press("q")
        self.assertEqual(self.end(), 0)

    def test_an_interruption_restores_the_terminal(self):
        self.begin()
        self.until("each save of the file")
        self.press("\x03")
        self.until("interrupted")
        self.assertEqual(self.end(), 1)


if __name__ == "__main__":
    unittest.main()
