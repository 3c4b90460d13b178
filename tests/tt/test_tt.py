"""modules/tt and the test suite: set-up without compilers, counting of checks, ASCII consoles, time limits, interruption."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
TT = ROOT / "modules" / "tt"


sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests"))
from suite import builds, checkers, counting, inner, rings, times, unit_tests
import tools


def run_tt(*arguments, path=None, **variables):
    env = dict(os.environ, **variables)
    if path is not None:
        env["PATH"] = str(path)
    return subprocess.run([sys.executable, str(TT), *arguments], env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)


class WithFolder(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = Path(held.name)

    def program(self, name, script):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{sys.executable}\n{script}")
        path.chmod(0o755)
        return path


class SetUp(WithFolder):
    def test_without_compilers_it_prints_the_exact_line_and_exits_2(self):
        for arguments in (["run"], ["test"], ["run", "--no-install"]):
            with self.subTest(arguments):
                done = run_tt(*arguments, path=self.folder)
                self.assertEqual(done.returncode, 2, done.stderr)
                lines = done.stdout.decode().splitlines()
                line = next(l for l in lines if "apt-get install" in l)
                self.assertTrue(line.strip().startswith("sudo apt-get install -y g++ cmake make"), line)
                self.assertEqual("clang" in line.split(), arguments[0] == "test")
                self.assertFalse(any("passed," in l for l in lines))

    def test_every_need_is_in_the_line(self):
        line = tools.install_line(tools.NEEDS)
        for package in ("libeigen3-dev", "doctest-dev", "libfmt-dev", "librapidcheck-dev", "nlohmann-json3-dev",
                        "libcli11-dev", "zlib1g-dev", "libzip-dev", "clang-format", "libomp-dev"):
            self.assertIn(package, line.split())

    def test_it_installs_with_apt_if_sudo_works_and_says_if_the_installation_failed(self):
        log = self.folder / "log"
        self.program("bin/apt-get", f"import sys\nopen({str(log)!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n")
        self.program("bin/sudo", "import os, sys\na = [x for x in sys.argv[1:] if x != '-n']\nos.execvp(a[0], a)\n")
        for name in ("env", "true"):
            (self.folder / "bin" / name).symlink_to(shutil.which(name))
        done = run_tt("run", path=self.folder / "bin")
        self.assertEqual(done.returncode, 2)
        self.assertIn("install -y --no-install-recommends g++ cmake make", log.read_text())
        self.assertIn(b"could not be installed", done.stdout)

    def test_an_old_compiler_counts_as_missing(self):
        self.program("g++", "print('g++ (Debian) 10.2.1')\n")
        need = next(n for n in tools.NEEDS if n.name == "g++")
        before = os.environ["PATH"]
        os.environ["PATH"] = str(self.folder)
        try:
            found, why = need.check()
        finally:
            os.environ["PATH"] = before
        self.assertIsNone(found)
        self.assertIn("10.2.1 is too old, 12.0 needed", why)


class Doctor(WithFolder):
    def test_json_names_what_is_missing_and_exits_2_when_blocked(self):
        done = run_tt("doctor", "--json", path=self.folder)
        self.assertEqual(done.returncode, 2)
        document = json.loads(done.stdout)
        self.assertTrue(document["blocked"])
        needs = {n["name"]: n for n in document["needs"]}
        self.assertFalse(needs["g++"]["found"])
        self.assertEqual(needs["g++"]["package"], "g++")
        self.assertEqual(needs["clang++"]["used_by"], ["test"])
        self.assertEqual(needs["g++"]["used_by"], ["learn", "run", "test"])
        self.assertIn("apt-get install -y g++", document["install"])

    def test_json_is_accepted_before_and_after_the_command(self):
        for arguments in (["--json", "doctor"], ["doctor", "--json"]):
            self.assertIn("needs", json.loads(run_tt(*arguments).stdout))

    def test_the_table_names_the_tools(self):
        done = run_tt("doctor", PYTHONIOENCODING="utf-8")
        self.assertIn("cmake", done.stdout.decode())


class Wrapping(unittest.TestCase):
    def test_a_terminal_gets_whole_words(self):
        self.assertEqual(tools.wrapped("  means    one two three four", 24), "  means    one two three\n           four")
        self.assertEqual(tools.wrapped("one two three four", 10), "one two\nthree four")
        for line in ("  short", "  a_word_that_is_longer_than_the_terminal", ""):
            self.assertEqual(tools.wrapped(line, 20), line)


class CommandLine(unittest.TestCase):
    def test_an_unknown_command_exits_2(self):
        self.assertEqual(run_tt("nonsense").returncode, 2)

    def test_an_unknown_stage_exits_2(self):
        done = run_tt("test", "--only", "nonsense")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"no stage named nonsense", done.stdout)
        self.assertIn(b"did you mean readme?", run_tt("test", "--only", "readmee").stdout)

    def test_plain_ascii_when_the_console_is_not_utf8(self):
        for arguments in (["doctor"], ["test", "--only", "format"]):
            done = run_tt(*arguments, PYTHONIOENCODING="latin-1", PYTHONUTF8="0")
            done.stdout.decode("ascii")
            self.assertRegex(done.stdout, b"ok|FAIL")
        self.assertIn("\u2713", run_tt("doctor", PYTHONIOENCODING="utf-8").stdout.decode("utf-8"))


def summary(total, passed, failed, skipped=0):
    return (f"[doctest] doctest version is \"2.4.9\"\n[doctest] test cases: {total:3} | {passed:3} passed | {failed} failed | "
            f"{skipped} skipped\n[doctest] assertions: 9 | 9 passed | 0 failed |\n[doctest] Status: SUCCESS!\n")


class Counting(WithFolder):
    def test_the_summary_of_doctest_is_counted(self):
        for text, code, passed, failed in (
                (summary(12, 12, 0), 0, 12, 0), (summary(12, 10, 2), 1, 10, 2),
                ("\x1b[0;36m[doctest] \x1b[0mtest cases: 1 | 1 passed | 0 failed | 0 skipped\n", 0, 1, 0),
                (summary(0, 0, 0), 0, 0, 1),                # no case was run
                ("Segmentation fault", -11, 0, 1),          # the program ended before its summary
                (summary(3, 3, 0), -6, 3, 1),               # the program failed after its summary, for example by a leak
                (summary(5, 4, 0, 1), 0, 4, 1),             # a skipped case is a failure
                (summary(5, 5, 0, 9) + "[cases] 0 skipped\n", 0, 5, 0),  # the nine skipped cases were not chosen
                (summary(5, 4, 0, 9) + "[cases] 2 skipped\n", 0, 4, 2),
                ("", 0, 0, 1)):
            with self.subTest(text=text, code=code):
                self.assertEqual(counting.count_doctest(text, code)[:2], (passed, failed))
        self.assertEqual(counting.count_doctest(summary(1, 1, 0), 0, timed_out=True)[:2], (0, 1))

    def test_a_failed_check_is_shown_without_the_program_s_own_lines(self):
        text = ("epoch 1\n" + "=" * 79 + "\na.cpp:12:\nTEST CASE:  a\n\na.cpp:14: ERROR: CHECK( 1 == 2 ) is NOT correct!\n"
                "  values: CHECK( 1 == 2 )\n\nepoch 2\n" * 2 + "=" * 79 + "\n[doctest] Status: FAILURE!\n")
        shown = counting.doctest_errors(text)
        self.assertEqual(shown.count("values: CHECK( 1 == 2 )"), 2)
        self.assertNotIn("epoch", shown)

    def test_lines_of_a_checker_are_counted(self):
        good, bad, why = counting.count_lines("ok - a\nnot ok - b\n  because\nok - c\n# measured\n", 1)
        self.assertEqual((good, bad), (2, 1))
        self.assertIn("because", why)
        self.assertNotIn("ok - c", why)
        self.assertEqual(counting.count_lines("Traceback", 1)[:2], (0, 1))
        self.assertEqual(counting.count_lines("ok - a\nTraceback", 1)[:2], (1, 1))
        # The failed check and the exception after it both count.
        good, bad, why = counting.count_lines("ok - a\nnot ok - b\n  x\nTraceback (most recent call last):\nKeyError: 5\n", 1)
        self.assertEqual((good, bad), (1, 2))
        self.assertIn("KeyError", why)

    def test_the_summary_of_unittest_is_counted(self):
        self.assertEqual(counting.count_unittest("Ran 7 tests in 1s\n\nOK\n", 0)[:2], (7, 0))
        self.assertEqual(counting.count_unittest("Ran 7 tests in 1s\n\nFAILED (failures=1, errors=2)\n", 1)[:2], (4, 3))
        self.assertEqual(counting.count_unittest("Ran 0 tests in 0s\n\nOK\n", 0)[:2], (0, 1))
        self.assertEqual(counting.count_unittest("ImportError", 1)[:2], (0, 1))

    def build_of(self, tests):
        """A build that has these tests: (name, script or None, environment, whether it measures time)."""
        build = tools.Build("gone")
        build.folder, build.make = self.folder, lambda *targets, env=None: True
        (self.folder / "tests").mkdir(parents=True, exist_ok=True)
        (self.folder / "CMakeCache.txt").touch()
        made = []
        for name, script, environment, serial in tests:
            program = str(self.program(name, script)) if script else "/nowhere/unbuilt"
            (self.folder / "tests" / f"{name}.cpp").touch()
            made.append(tools.Test(name, [program], environment, [f"{name}.cpp"], serial))
        build.tests = lambda: made
        return build

    def count(self, build):
        tally, root, unit_tests.ROOT = counting.Tally(tools.Console(True)), unit_tests.ROOT, self.folder
        try:
            unit_tests.run_all(tally, unit_tests.built_tests(tally, build, dict(os.environ)), dict(os.environ), 60)
        finally:
            unit_tests.ROOT = root
        return tally

    def test_executables_that_pass_fail_crash_and_run_nothing(self):
        device = f"import os\nprint({summary(2, 2, 0, 1)!r} if os.environ['WHERE'] == 'here' else '')"
        tally = self.count(self.build_of([
            ("good", f"print({summary(4, 4, 0)!r})", {}, False), ("bad", f"print({summary(4, 3, 1)!r})\nraise SystemExit(1)", {}, False),
            ("crash", "import os\nos.kill(os.getpid(), 11)", {}, False), ("empty", f"print({summary(0, 0, 0)!r})", {}, False),
            ("device", device, {"WHERE": "here"}, False), ("unbuilt", None, {}, False)]))
        # Cases: 4 + 3 + 2 passed, 1 skipped because there is no device; 1 failed, 1 crashed, 1 had no cases, 1 was not built.
        # Checks that passed: the build, no warnings, every file is part of a test.
        self.assertEqual((tally.passed, tally.failed, tally.skipped), (4 + 3 + 2 + 3, 4, 1))
        self.assertEqual(tally.line(), "12 passed, 4 failed")
        self.assertEqual({what for _, what, *_ in tally.programs}, {"good", "bad", "crash", "empty", "device"})

    def test_a_file_that_is_part_of_no_test_is_a_failure(self):
        build = self.build_of([("good", f"print({summary(4, 4, 0)!r})", {}, False)])
        (self.folder / "tests" / "forgotten.cpp").touch()
        self.assertEqual(self.count(build).failed, 1)

    def test_a_test_that_measures_time_runs_last_and_alone_and_a_second_time_if_it_fails(self):
        script = ("import os, pathlib\nseen = pathlib.Path(__file__ + '.seen')\nfirst = not seen.exists()\nseen.touch()\n"
                  "bad = first and MAY or not MAY\n"
                  f"print({summary(2, 1, 1)!r} if bad else {summary(2, 2, 0)!r})\nraise SystemExit(bad)")
        for number, (serial, may, counts) in enumerate(((True, True, (2, 0)), (True, False, (1, 1)), (False, True, (1, 1)))):
            with self.subTest(serial=serial, may=may):
                self.folder = self.folder / str(number)
                tally = self.count(self.build_of([("test_a", script.replace("MAY", str(may)), {}, serial)]))
                self.assertEqual((tally.passed - 3, tally.failed), counts)

    def test_every_stage_has_a_description_and_is_in_one_ring(self):
        self.assertEqual(set(rings.FIRST) & set(rings.SECOND), set())
        for name, stage in rings.STAGES.items():
            self.assertTrue(stage.__doc__, name)
        modules = {t.module.number for t in inner.course.Course().tasks}
        self.assertEqual({f"answers-{m}" for m in modules}, {s for s in rings.SECOND if s.startswith("answers-")})
        self.assertEqual(set(times.record()["stages"]) - set(rings.STAGES), set())

    def test_every_stage_is_in_one_slice_and_slices_take_similar_times(self):
        for n in (1, 2, 3, 7):
            parts = [rings.part_of(list(rings.STAGES), f"{k}/{n}") for k in range(1, n + 1)]
            self.assertEqual(sorted(sum(parts, [])), sorted(rings.STAGES))
            costs = [sum(map(times.usual_seconds, part)) for part in parts]
            self.assertLessEqual(max(costs) - min(costs), max(map(times.usual_seconds, rings.STAGES)))
        for text in ("0/2", "3/2", "1", "a/b"):
            with self.assertRaises(tools.SetupProblem):
                rings.part_of(list(rings.STAGES), text)

    def test_a_run_that_would_be_stopped_says_how_to_run_it_in_parts(self):
        said = []
        console = types.SimpleNamespace(say=said.append)
        with mock.patch.object(rings, "CORES", 2), mock.patch.object(times, "usual_seconds", lambda stage: 80 * 60):
            rings.say_if_long(console, ["headers"])
            self.assertEqual(said, [])
            rings.say_if_long(console, ["headers", "emulator"])
            self.assertIn("about 160 minutes on 2 cores", said[0])
            self.assertIn("--slice 1/3 to 3/3", said[0])
        with mock.patch.object(rings, "CORES", 4), mock.patch.object(times, "usual_seconds", lambda stage: 80 * 60):
            rings.say_if_long(console, ["headers", "emulator"])  # on four cores, two stages take the time of one on two cores
        self.assertEqual(len(said), 1)

    def test_the_readme_shows_the_recorded_times(self):
        self.assertEqual(times.PAGE.read_text(encoding="utf-8"), times.page(times.record()))

    def test_costs_belong_to_folders(self):
        slug = next(t.slug for t in inner.course.Course().tasks if t.device != "cpu")
        folder = next(t.module.id[3:] for t in inner.course.Course().tasks if t.slug == slug)
        costs = [("/x/build/sim/generated/test_layers_plain.cpp", 2), ("modules/03_layers/checks/linear.cpp", 3), ("test_layers_norm", 4),
                 (f"/x/build/course/generated/{slug}.cpp", 5), ("test_tinymlperf_exploits", 1),
                 ("/x/build/sim/generated/cuda_bodies.cpp", 100)]
        expected = {"layers": 9.0, "tinymlperf": 1.0}
        expected[folder] = expected.get(folder, 0.0) + 5
        self.assertEqual(times.by_folder(costs), expected)

    def test_the_cost_of_a_unit_of_several_folders_is_divided_by_their_lines(self):
        with tempfile.TemporaryDirectory() as root, mock.patch.object(times, "ROOT", Path(root)):
            for name, lines in (("layers/a.cpp", 3), ("vision/b.cpp", 1), ("build/sim/generated/test_layers_plain.cpp", 0)):
                path = Path(root, "" if name.startswith("build") else "tests", name)
                path.parent.mkdir(parents=True)
                path.write_text("int line;\n" * lines)
            path.write_text("#include <vector>\nnamespace a {\n#include <layers/a.cpp>\n}\nnamespace b {\n#include <vision/b.cpp>\n}\n")
            self.assertEqual(times.by_folder([(str(path), 8.0), ("test_vision_b", 1.0)]), {"layers": 6.0, "vision": 3.0})

    def test_every_folder_stays_within_its_limit_in_the_first_ring(self):
        spent = times.first_ring_by_folder(times.record())
        self.assertEqual({folder: cost for folder, cost in spent.items() if cost > 2 * times.FOLDER_SECONDS and folder not in times.OTHER_FOLDERS}, {})
        self.assertTrue(spent or "tests" not in times.record()["stages"])
        slow = {"stages": {"tests": {"cold": {"folders": {"pruning": 150}}}, "course": {"cold": {"folders": {"pruning": 31}}}}}
        self.assertGreater(times.first_ring_by_folder(slow)["pruning"], 2 * times.FOLDER_SECONDS)

    def test_compile_budgets_must_be_printed(self):
        narrow = "include core/shape.hpp: 0.30 s of processor time (budget 1.0 s)"
        umbrella = "include tinytorch.hpp: 1.20 s of processor time (budget 2.5 s)"
        checker = checkers.run_checker
        try:
            for lines, failed in (([], 1), ([narrow], 1), ([umbrella], 1), (["nvcc is not on the PATH"], 1),
                                  ([narrow, "include tinytorch.hpp"], 1), ([narrow, umbrella], 0)):
                with self.subTest(lines=lines):
                    checkers.run_checker = lambda tally, *arguments: lines
                    tally = counting.Tally(tools.Console(True))
                    checkers.stage_headers(tally)
                    self.assertEqual((tally.passed, tally.failed), (1 - failed, failed))
        finally:
            checkers.run_checker = checker

    def test_warnings_of_every_compiler_are_found(self):
        build = tools.Build("gone")
        warnings = ["a/b.hpp:3:7: warning: unused variable", "a/b.cuh(12): warning #177-D: never referenced",
                    "ptxas warning : Stack size", "nvcc warning : incompatible redefinition", "CMake Warning at x"]
        build.log = "\n".join(warnings + ["ptxas info    : 0 bytes gmem", "[1/2] Building warnings.cu.o"])
        self.assertEqual(build.warnings(), sorted(warnings))

    def test_kernels_are_built_with_nvcc_and_skipped_without(self):
        class Pretended:
            made = []

            def make(self, *targets, env=None):
                self.made.extend(targets)
                return self.good

            def first_errors(self):
                return "    error"

            def warnings(self):
                return self.said

        kept, path = unit_tests.CUDA, os.environ["PATH"]
        compiler = os.environ.pop("CUDACXX", None)
        try:
            build = Pretended()
            unit_tests.CUDA, os.environ["PATH"] = {"75": build}, str(self.folder)
            tally = counting.Tally(tools.Console(True))
            unit_tests.stage_cuda("75")(tally)
            self.assertEqual((tally.passed, tally.failed, tally.skipped, build.made), (0, 0, 1, []))
            self.program("nvcc", "")
            for good, said, counts in ((True, [], (1, 0, 0)), (False, [], (0, 1, 0)), (True, ["w"], (0, 1, 0))):
                with self.subTest(good=good, said=said):
                    build.good, build.said, build.made[:] = good, said, []
                    tally = counting.Tally(tools.Console(True))
                    unit_tests.stage_cuda("75")(tally)
                    self.assertEqual((tally.passed, tally.failed, tally.skipped), counts)
                    self.assertEqual(build.made, ["tinytorch_cuda", "device_submissions"])
        finally:
            unit_tests.CUDA, os.environ["PATH"] = kept, path
            if compiler is not None:
                os.environ["CUDACXX"] = compiler

    def test_a_checker_may_skip_with_a_reason(self):
        checker = self.program("checker", "print('ok - a\\nskipped - kernels: nvcc is not installed\\nnot ok - b')\nraise SystemExit(1)")
        tally = counting.Tally(tools.Console(True))
        checkers.run_checker(tally, checker)
        self.assertEqual((tally.passed, tally.failed, tally.skipped), (1, 1, 1))

    def run_of(self, pretended, **options):
        """(exit code, printed lines) of a run whose stages and limits are replaced. No stage of the second ring runs."""
        console, said = tools.Console(False), []
        console.say = lambda text="": said.extend(text.splitlines())
        pretended = {"set_up": lambda *_: None, "run_slice": lambda tally: (True, "nothing"), **pretended}
        kept = {name: getattr(rings, name) for name in pretended}
        asked = types.SimpleNamespace(**{"paths": [], "changed": False, "all": False, "slice": None, "only": [], "skip": [],
                                         "times": None, "no_install": True, **options})
        try:
            vars(rings).update(pretended)
            return rings.run(console, asked), said
        finally:
            vars(rings).update(kept)

    def hanging(self, tally):
        tally.check(True, "before")
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda _: tools.call(["sleep", "60"]), range(2)))

    def test_a_run_that_takes_too_long_stops_and_prints_its_result(self):
        began, two = time.monotonic(), {"python": self.hanging, "format": lambda tally: tally.check(True, "after")}
        code, said = self.run_of({"FIRST": two, "STAGES": two, "MINUTES_AT_MOST": 3 / 60}, all=True)
        self.assertEqual((code, said[-1]), (tools.FAIL, "1 passed, 1 failed"))
        self.assertTrue(any("the stage was stopped" in line for line in said), said)
        self.assertLess(time.monotonic() - began, 30)

    def test_a_randomly_chosen_stage_that_is_stopped_does_not_fail_and_says_how_to_run_the_rest(self):
        tally, console = counting.Tally(tools.Console(False)), []
        tally.console.say = lambda text="": console.append(text)
        kept, rings.STAGES = rings.STAGES, {"clang-core": self.hanging}
        try:
            self.assertTrue(rings.run_stage(tally, "clang-core", 2))
        finally:
            rings.STAGES = kept
        self.assertEqual((tally.passed, tally.failed, tally.skipped), (1, 0, 1))
        self.assertTrue(any("modules/tt test --only clang-core" in line for line in console), console)

    def test_the_lines_of_a_checker_that_is_stopped_count(self):
        script = "import time\nprint('ok - a', flush=True)\nprint('not ok - b', flush=True)\ntime.sleep(60)"
        for text, counts in ((script, (1, 1, 1)), ("import time\ntime.sleep(60)", (0, 0, 1))):
            checker, kept = self.program("checker", text), rings.STAGES

            def stage(tally):
                checkers.run_checker(tally, checker)
                tally.check(False, "this check is not reached, because it needs all lines of the checker")

            tally, rings.STAGES = counting.Tally(tools.Console(True)), {"headers": stage}
            try:
                self.assertTrue(rings.run_stage(tally, "headers", 4))
            finally:
                rings.STAGES = kept
            self.assertEqual(tally.counts(), counts)

    def test_a_run_names_the_stages_that_it_left_out(self):
        one = {"format": lambda tally: tally.check(True, "x")}
        code, said = self.run_of({"FIRST": one, "STAGES": {**one, "fuzz": self.hanging}})
        self.assertEqual(code, tools.PASS)
        self.assertIn("not part of this run: fuzz", said)
        self.assertEqual(said[-1], "1 passed, 0 failed")

    def test_the_randomly_chosen_stage_differs_from_commit_to_commit(self):
        kept, names = (builds.commit, rings.run_stage), []
        tally = counting.Tally(tools.Console(True))
        try:
            rings.run_stage = lambda tally, name, seconds: names.append(name)
            for n in range(300):
                builds.commit = lambda: f"{n:040x}"
                tally.began = time.monotonic() - 600
                rings.run_slice(tally)
        finally:
            builds.commit, rings.run_stage = kept
        self.assertEqual(set(names), set(rings.SECOND))

    def test_the_randomly_chosen_stage_is_skipped_if_no_time_is_left(self):
        tally, said = counting.Tally(tools.Console(False)), []
        tally.console.say = lambda text="": said.append(text)
        tally.began = time.monotonic() - rings.FIRST_SECONDS
        going, name = rings.run_slice(tally)
        self.assertEqual((going, tally.counts()), (True, (0, 0, 1)))
        self.assertIn(f"modules/tt test --only {name}", said[-1])

    def test_a_program_that_hangs_is_stopped(self):
        hang = self.program("hang", "import time\ntime.sleep(60)\n")
        began = time.monotonic()
        done = tools.call([hang], 1)
        self.assertTrue(done.timed_out)
        self.assertLess(time.monotonic() - began, 20)


class OnAStudentsHeaders(unittest.TestCase):
    """The programs that --student uses: the judge is built with the library's headers; the program with the student's headers
    answers, trains and profiles."""

    def setUp(self):
        self.asked, self.made, self.code = [], [], 0
        self.student = tools.Build("student", "-DTINYTORCH_STUDENT=01_tensor")
        self.console = tools.Console(True)

        def make(build, *targets):
            self.made.append((build, targets))
            return True

        def call(command, *_, **__):
            self.asked.append([str(c) for c in command])
            return tools.Finished(self.code, "", 0)

        for owner, name, pretended in ((tools.Build, "make", make), (tools, "call", call)):
            self.addCleanup(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, pretended)

    def test_the_default_build_uses_the_library_s_headers_even_if_it_was_configured_with_a_student_s(self):
        self.assertIn("-DTINYTORCH_STUDENT=", tools.GCC.flags)

    def test_a_match_runs_in_the_library_s_judge_with_the_student_s_program_as_its_worker(self):
        builds, command = tools.perf_command(["run", "A", "B"], self.student)
        self.assertEqual(builds, [tools.GCC, self.student])
        self.assertEqual([str(c) for c in command],
                         [str(ROOT / "build/bin/tinymlperf"), "run", "--worker", "build/student/bin/tinymlperf", "A", "B"])

    def test_commands_that_do_not_judge_use_the_student_s_program_and_the_board_the_library_s(self):
        for verb in ("profile", "train", "verify", "kernels"):
            self.assertEqual(tools.perf_command([verb, "x"], self.student), ([self.student], [self.student.harness, verb, "x"]))
        for verb in ("submit", "work", "serve", "--help"):
            self.assertEqual(tools.perf_command([verb], self.student), ([tools.GCC], [tools.GCC.harness, verb]))
        self.assertEqual(tools.perf_command(["run", "A"]), ([tools.GCC], [tools.GCC.harness, "run", "A"]))

    def test_in_a_race_the_student_s_program_trains_and_answers_the_judge(self):
        code, out = tools.run_race(self.console, ["--quick"], self.student)
        self.assertEqual((code, out), (tools.PASS, ROOT / "build/student/race"))
        self.assertEqual(self.made, [(tools.GCC, ("tinymlperf",)), (self.student, ("tinymlperf",))])
        judge, worker, entries = str(tools.GCC.harness), "build/student/bin/tinymlperf", "build/student/race/student"
        self.assertEqual(self.asked, [
            [str(ROOT / worker), "train", "--out", entries, "--epochs", "1"],
            [judge, "race", "--worker", worker, "--out", "build/student/race", "--student-entries", entries, "--quick"]])

    def test_without_training_the_student_s_program_runs_the_library_s_models(self):
        tools.run_race(self.console, ["--no-train", "--entries", "mine"], self.student)
        self.assertEqual(len(self.asked), 1)
        self.assertNotIn("--student-entries", self.asked[0])

    def test_a_plain_race_has_no_worker(self):
        self.assertEqual(tools.run_race(self.console), (tools.PASS, ROOT / "build/race"))
        self.assertEqual(self.made, [(tools.GCC, ("tinymlperf",))])
        self.assertEqual(self.asked, [[str(tools.GCC.harness), "race", "--out", "build/race"]])

    def test_there_is_no_race_if_training_fails(self):
        self.code = 1
        self.assertEqual(tools.run_race(self.console, [], self.student), (tools.FAIL, None))
        self.assertEqual(len(self.asked), 1)


class Test(WithFolder):
    def copy(self, stage):
        """The command that runs a copy of modules/tt with one stage added, `sample`, whose body is the expression `stage`."""
        for folder, names in (("modules", ("tt", "tools.py", "course.py", "frames.py", "migrate.py", "notebook.py", "seal.py", "starters.py", "course.json")), ("tests/hygiene", ("compilers.py", "lints.py"))):
            (self.folder / folder).mkdir(parents=True)
            for name in names:
                shutil.copy(ROOT / folder / name, self.folder / folder)
        shutil.copytree(ROOT / "tests" / "suite", self.folder / "tests" / "suite", ignore=shutil.ignore_patterns("__pycache__"))
        path = self.folder / "tests" / "suite" / "rings.py"
        text = path.read_text(encoding="utf-8")
        text = text.replace('FIRST = {"format"', f'FIRST = {{"sample": (lambda tally: {stage}), "format"')
        text = text.replace('    set_up(console, "test"', '    0 and set_up(console, "test"')
        path.write_text(text.replace("from tools import", "from tools import call,"), encoding="utf-8")
        return [sys.executable, str(self.folder / "modules" / "tt"), "test", "--only", "sample"]

    def last_line(self, command):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        return done.returncode, done.stdout.decode().splitlines()[-1]

    def test_the_last_line_is_the_count(self):
        self.assertEqual(self.last_line(self.copy("tally.add(3, 0, 'x')")), (0, "3 passed, 0 failed"))

    def test_every_stage_has_a_row_of_times_and_a_record(self):
        done = subprocess.run(self.copy("tally.add(3, 0, 'x')") + ["--json"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        stage, = json.loads(done.stdout)["stages"]
        self.assertEqual({"stage": "sample", "passed": 3, "failed": 0, **stage}, stage)
        self.assertGreaterEqual(min(stage["seconds"], stage["processor_seconds"]), 0)
        self.assertRegex(done.stderr.decode(), r"(?m)^stage +passed +failed +seconds +processor$\n^sample +3 +0 +\d+ +\d+$\n^all +3 +0 ")

    def test_failures_exit_1(self):
        self.assertEqual(self.last_line(self.copy("tally.add(3, 2, 'x')")), (1, "3 passed, 2 failed"))

    def test_a_stage_that_checks_nothing_fails(self):
        self.assertEqual(self.last_line(self.copy("None")), (1, "0 passed, 1 failed"))

    def test_a_run_that_only_skips_exits_1(self):
        self.assertEqual(self.last_line(self.copy("tally.skip(2, 'x', 'y')")), (1, "0 passed, 0 failed"))

    def test_a_stage_with_an_exception_fails(self):
        self.assertEqual(self.last_line(self.copy("{}['gone']")), (1, "0 passed, 1 failed"))

    def test_an_interrupted_run_counts_stops_its_children_and_exits_1(self):
        pid = self.folder / "pid"
        child = self.program("child", f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)\n")
        command = self.copy(f"(tally.add(1, 0, 'x'), call([{str(child)!r}], 60))")
        # A program started in the background ignores SIGINT, and its children inherit that, so the default action is set here.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        deadline = time.monotonic() + 30
        while not (pid.exists() and pid.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 1)
        lines = out.decode().splitlines()
        self.assertEqual(lines[-1], "1 passed, 0 failed")
        self.assertTrue(any("interrupted" in l for l in lines))
        state = Path(f"/proc/{pid.read_text()}/stat")
        while state.exists() and state.read_text().split()[2] != "Z" and time.monotonic() < deadline + 30:
            time.sleep(0.05)
        self.assertTrue(not state.exists() or state.read_text().split()[2] == "Z")


class InnerLoop(unittest.TestCase):
    """The tests that belong to a file."""

    def chosen(self, *names):
        return inner.tests_of([ROOT / name for name in names])

    def test_the_test_of_a_header_comes_first_and_a_few_that_include_it_follow(self):
        chosen, left = self.chosen("include/tinytorch/tensor/strides.hpp")
        self.assertEqual(chosen[0], "tensor/strides.cpp")
        self.assertLessEqual(len(chosen), 1 + inner.MOST_FILES)
        self.assertGreater(len(left), 100)
        self.assertEqual(set(chosen) & set(left), set())

    def test_a_test_file_runs_itself_and_a_helper_runs_the_tests_that_include_it(self):
        self.assertEqual(self.chosen("tests/core/shape.cpp"), (["core/shape.cpp"], []))
        chosen, _ = self.chosen("tests/support/exploit_table.hpp")
        self.assertIn("tinymlperf/exploit_table.cpp", chosen)

    def test_headers_of_every_layer_have_tests(self):
        for name in ("tinytorch.hpp", "backend/cpu/gemm.hpp", "layers/linear.hpp", "profiling/trace.hpp"):
            self.assertTrue(self.chosen(f"include/tinytorch/{name}")[0], name)
        self.assertTrue(self.chosen("include/tinytorch/backend/cuda/kernels/softmax.cuh")[0])

    def test_python_tests_and_tasks_of_a_file_are_found(self):
        self.assertIn("test_course.py", [p.name for p in inner.python_tests_of([ROOT / "modules/course.py"])])
        self.assertEqual([p.name for p in inner.python_tests_of([ROOT / "tests/tt/test_grade.py"])], ["test_grade.py"])
        task = inner.course.Course().tasks[0]
        self.assertEqual(inner.tasks_of([task.check]), [task.id])

    def test_paths_that_do_not_exist_or_are_outside_the_project_are_refused(self):
        for path in ("include/nothing.hpp", "/etc/hostname"):
            done = run_tt("test", path)
            self.assertEqual(done.returncode, 2, done.stdout)


class Manifest(unittest.TestCase):
    def test_ten_modules_with_frozen_numbers(self):
        course = json.loads((ROOT / "modules" / "course.json").read_text())
        self.assertEqual([m["id"][:2] for m in course["modules"]], [f"{i:02}" for i in range(1, 11)])


if __name__ == "__main__":
    unittest.main()
