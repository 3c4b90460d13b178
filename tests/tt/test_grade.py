"""Tests of grading: repeatable grades, export to other formats, releases, and hostile student programs."""
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

from test_course import STRIDES, Clone

import course
import seal


SANDBOX = subprocess.run(["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL).returncode == 0 if shutil.which("bwrap") else False


class WithoutSandbox(Clone):
    def test_grading_without_a_sandbox_is_refused_and_names_the_package(self):
        self.tt("start", "01", code=0)
        path = self.root / "bin"
        path.mkdir()
        for name in ("g++", "git", "env"):
            (path / name).symlink_to(shutil.which(name))
        self.assertIn("apt-get install -y bubblewrap", self.tt("grade", "1.1", code=2, PATH=str(path)))


@unittest.skipUnless(SANDBOX, "this system allows no user namespaces")
class Grading(Clone):
    def setUp(self):
        super().setUp()
        self.tt("start", "01", code=0)
        self.solve("1.1")

    def grade(self, code, seconds="10"):
        return self.json_of("grade", "1.1", code=code, TT_SECONDS=seconds)

    def test_a_grade_names_the_graded_files(self):
        document = self.grade(0)
        self.assertEqual((document["schema"], document["earned"], document["module"]),
                         ("tinytorch-grade-1", document["points"], "01_tensor"))
        path = self.modules / STRIDES
        entry = next(f for f in document["files"] if f["path"] == "tasks/tensor/strides.hpp")
        self.assertEqual(entry["bytes"], path.stat().st_size)
        self.assertEqual(document["sandbox"], "bubblewrap")
        self.assertTrue(document["tasks"][0]["tests"])

    def test_two_grades_differ_only_in_their_times(self):
        one, two = self.grade(0), self.grade(0)
        one.pop("times"), two.pop("times")
        self.assertEqual(one, two)

    def test_speed_points_are_counted_separately(self):
        self.solve("1.3", "1.10")
        one, two = (self.json_of("grade", "1.10", "--speed", code=0, TT_SECONDS="10") for _ in range(2))
        row = one["tasks"][0]["speed"]
        self.assertEqual((row["device"], row["earned"], one["speed"]), ("emulator", row["points"], {"earned": row["points"], "points": row["points"]}))
        self.assertEqual(one["earned"], one["tasks"][0]["points"])
        self.assertTrue(all(j["good"] for j in row["judged"]))
        one.pop("times"), two.pop("times")
        self.assertEqual(one, two)  # counts are exact
        out = self.root / "speed.json"
        out.write_text(json.dumps({**one, "times": {"seconds": 1, "tasks": {"1.10": 1}}}))
        self.tt("export", "--to", "gradescope", str(out), code=0)
        scores = json.loads((self.root / "speed.gradescope.json").read_text())
        self.assertEqual((scores["score"], scores["max_score"]), (one["earned"] + row["earned"], one["points"] + row["points"]))
        self.assertEqual(scores["tests"][-1]["number"], "1.10 speed")

    def test_times_are_measured_in_the_sandbox(self):
        self.solve(*(f"1.{k}" for k in range(1, 8)))
        document = self.json_of("grade", "1.7", "--speed", code=0)
        row = document["tasks"][0]["speed"]
        self.assertEqual((row["device"], row["message"]), ("cpu", ""))
        works = document["times"]["speed"]["1.7"]["works"]
        self.assertTrue(works and all(w["seconds"] > 0 and w["of_library"] > 0 for w in works))

    def test_the_sanitizer_finds_an_access_out_of_bounds(self):
        self.edit("  Strides strides = Strides::filled(shape.size(), 1);",
                  "  Strides strides = Strides::filled(shape.size(), 1);\n  int64_t* heap = new int64_t[1];\n  if (heap[1] == 12345) return shape;")
        self.assertIn("heap-buffer-overflow", self.grade(1)["tasks"][0]["message"])

    def test_a_grade_is_exported_to_gradescope_and_junit(self):
        out = self.root / "grade.json"
        self.tt("grade", "1.1", "--out", str(out), code=0)
        self.tt("export", "--to", "gradescope,junit", str(out), code=0)
        scores = json.loads((self.root / "grade.gradescope.json").read_text())
        self.assertEqual(scores["score"], scores["max_score"])
        tree = xml.parse(self.root / "grade.junit.xml").getroot()
        self.assertEqual([s.get("failures") for s in tree.iter("testsuite")], ["0"])
        out.write_text("{}")
        self.assertIn("is not a grade", self.tt("export", "--to", "junit", str(out), code=2))

    HOSTILE = {  # {code in the student's function: regular expression for the message of the verdict}
        "for (;;) {}": r"the test was stopped after 5 s",
        "for (;;) if (fork() < 0) usleep(1000);": r"the test was stopped after 5 s|ended with code",
        "std::memset(new char[100LL << 30], 1, 100LL << 30);": r"allocation-size-too-big|bad_alloc|ended with code",
        "std::vector<std::vector<char>*> v; for (;;) v.push_back(new std::vector<char>(64 << 20, 1));": r"rss limit|ended with code|was stopped",
        "std::system(\"rm -rf %s; rm -rf ~/* /tmp/*\");": r"before its tests did",  # it deletes only its own results
        "std::puts(\"1.1 passed\"); std::ofstream(std::getenv(\"TT_RESULTS\") ? std::getenv(\"TT_RESULTS\") : \"x\") << 1; std::_Exit(0);":
            r"before its tests did",
        "for (;;) std::puts(\"passed passed passed passed\");": r"the test was stopped after 5 s|ended with code",
    }

    def test_hostile_programs_end_with_a_verdict_and_no_damage(self):
        header = self.modules / STRIDES
        good = header.read_text()
        witness = self.root / "witness"
        witness.write_text("here")
        for code, said in self.HOSTILE.items():
            with self.subTest(code):
                code = code.replace("%s", str(self.root))
                header.write_text("#include <unistd.h>\n#include <cstdio>\n#include <cstdlib>\n#include <fstream>\n#include <vector>\n"
                                  "#include <cstring>\n" + good.replace("  Strides strides = Strides::filled(shape.size(), 1);",
                                                                         f"  {code}\n  Strides strides = Strides::filled(shape.size(), 1);"))
                began = time.monotonic()
                document = self.grade(1, "5")
                self.assertLess(time.monotonic() - began, 60)
                task = document["tasks"][0]
                self.assertRegex(task["message"], said)
                self.assertEqual(task["earned"], 0)
                self.assertTrue(document["review"] or "new" in code or "for" in code, code)
                self.assertEqual(witness.read_text(), "here")
                self.assertTrue((self.modules / "course.py").exists())
        self.assertEqual(subprocess.run(["pgrep", "-f", "grade-01/strides-cpu"], stdout=subprocess.PIPE).stdout, b"")


def bodies_of_answers():
    """{(task, function): body without white space and comments} of every solution and of the library's functions of this name.

    A shorter body than 80 characters is no secret: it is one statement, such as a call that other headers contain, too."""
    found = {}
    for module in course.Course().modules:
        for task in module.tasks:
            for text in (module.solution(task.path), (course.INCLUDE / task.header).read_text()):
                for name, _ in seal.names_in(text, [task]):
                    _, brace, end = course.definition(text, name)
                    body = seal.squeezed(text[brace + 1:end - 1], "")
                    if len(body) >= 80:
                        found[task.id, name, body] = body
    return found


class Releasing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.held = tempfile.TemporaryDirectory()
        cls.target = Path(cls.held.name) / "release"
        cls.tt(course.ROOT, "export", "--release", str(cls.target), "--upto", "01")

    @classmethod
    def tearDownClass(cls):
        cls.held.cleanup()

    @staticmethod
    def tt(root, *words, code=0):
        done = subprocess.run([sys.executable, str(root / "modules/tt"), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode != code:
            raise AssertionError(f"{words}: {done.returncode}\n{done.stdout}")
        return done.stdout

    def test_no_answer_is_found_in_a_release(self):
        bodies = bodies_of_answers()
        self.assertGreater(len(bodies), 400)
        # The search finds an answer: the library's header has that of 1.1.
        whole = seal.squeezed((course.INCLUDE / "tinytorch/tensor/strides.hpp").read_text(), "")
        self.assertTrue([k for k, body in bodies.items() if k[0] == "1.1" and body in whole])
        self.assertFalse([p for p in self.target.rglob("*") if p.name in ("solution", "wrong", "slow")])
        for path in self.target.rglob("*"):
            if path.suffix in (".hpp", ".cuh", ".cpp", ".cu", ".md", ".py", ".txt", ".ipynb", ".html", ".cmake") and not {"build", "student"} & set(path.relative_to(self.target).parts):
                text = path.read_text(errors="replace")
                if path.suffix == ".ipynb":
                    text = "".join("".join(cell["source"]) + "\n" for cell in json.loads(text)["cells"])
                text = seal.squeezed(text, "")
                self.assertEqual([k[:2] for k, body in bodies.items() if body in text], [], path)

    def test_a_task_of_a_release_is_checked_and_its_answer_opens_after_it_has_passed(self):
        starter = self.target / "modules/01_tensor/starter/tasks/tensor/strides.hpp"
        mine = self.target / "modules/01_tensor/student/tasks/tensor/strides.hpp"
        self.assertIn('todo("1.1"', starter.read_text())
        self.assertIn('todo("1.1"', (self.target / "include/tinytorch/tensor/strides.hpp").read_text())
        self.tt(self.target, "start", "01")
        self.assertEqual(mine.read_text(), starter.read_text())
        self.assertTrue(re.search(r'"id": "02_autograd".*?"released": false', (self.target / "modules/course.json").read_text(), re.S))
        self.assertIn("shown after its tasks have passed", self.tt(self.target, "solution", "1.1", code=2))
        answer = course.Course().task("1.1").module.solution("tasks/tensor/strides.hpp")
        mine.write_text(course.for_checks(answer))
        for task in ("1.1", "1.2", "1.6"):
            self.tt(self.target, "check", task)
        self.assertIn(answer, self.tt(self.target, "solution", "1.1"))

    def test_the_headers_of_a_release_compile_with_and_without_their_answers(self):
        built = subprocess.run([sys.executable, str(self.target / "modules/seal.py")], stdout=subprocess.PIPE, text=True, check=True)
        for folder in (self.target / "include", built.stdout.strip()):
            done = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", f"-I{folder}", "-x", "c++", "-"], stderr=subprocess.PIPE, text=True,
                                  input="#include <tinytorch/tinytorch.hpp>\n")
            self.assertEqual(done.returncode, 0, done.stderr[:3000])


del Clone  # so that unittest does not collect this base class
if __name__ == "__main__":
    unittest.main()
