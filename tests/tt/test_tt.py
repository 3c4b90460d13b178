"""modules/tt: set-up without compilers, counting, plain consoles, interruption."""
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

ROOT = Path(__file__).resolve().parents[2]
TT = ROOT / "modules" / "tt"


sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests"))
import suite
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

    def test_it_installs_with_apt_when_it_may_and_says_so_when_that_does_not_help(self):
        log = self.folder / "log"
        self.program("bin/apt-get", f"import sys\nopen({str(log)!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n")
        self.program("bin/sudo", "import os, sys\na = [x for x in sys.argv[1:] if x != '-n']\nos.execvp(a[0], a)\n")
        for name in ("env", "true"):
            (self.folder / "bin" / name).symlink_to(shutil.which(name))
        done = run_tt("run", path=self.folder / "bin")
        self.assertEqual(done.returncode, 2)
        self.assertIn("install -y --no-install-recommends g++ cmake make", log.read_text())
        self.assertIn(b"could not be installed", done.stdout)

    def test_an_old_compiler_is_as_good_as_none(self):
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
        self.assertIn("apt-get install -y g++", document["install"])

    def test_flag_before_or_after_the_command(self):
        for arguments in (["--json", "doctor"], ["doctor", "--json"]):
            self.assertIn("needs", json.loads(run_tt(*arguments).stdout))

    def test_table(self):
        done = run_tt("doctor", PYTHONIOENCODING="utf-8")
        self.assertIn("cmake", done.stdout.decode())


class CommandLine(unittest.TestCase):
    def test_unknown(self):
        self.assertEqual(run_tt("nonsense").returncode, 2)

    def test_unknown_stage(self):
        done = run_tt("test", "--only", "nonsense")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"no stage named nonsense", done.stdout)

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
    def test_doctest(self):
        for text, code, passed, failed in (
                (summary(12, 12, 0), 0, 12, 0), (summary(12, 10, 2), 1, 10, 2),
                ("\x1b[0;36m[doctest] \x1b[0mtest cases: 1 | 1 passed | 0 failed | 0 skipped\n", 0, 1, 0),
                (summary(0, 0, 0), 0, 0, 1),                # nothing was run
                ("Segmentation fault", -11, 0, 1),          # died before the summary
                (summary(3, 3, 0), -6, 3, 1),               # died after it, for instance by a leak
                (summary(5, 4, 0, 1), 0, 4, 1),             # a skipped case proves nothing
                ("", 0, 0, 1)):
            with self.subTest(text=text, code=code):
                self.assertEqual(suite.count_doctest(text, code)[:2], (passed, failed))
        self.assertEqual(suite.count_doctest(summary(1, 1, 0), 0, timed_out=True)[:2], (0, 1))

    def test_a_failed_check_is_shown_without_the_program_s_own_lines(self):
        text = ("epoch 1\n" + "=" * 79 + "\na.cpp:12:\nTEST CASE:  a\n\na.cpp:14: ERROR: CHECK( 1 == 2 ) is NOT correct!\n"
                "  values: CHECK( 1 == 2 )\n\nepoch 2\n" * 2 + "=" * 79 + "\n[doctest] Status: FAILURE!\n")
        shown = suite.doctest_errors(text)
        self.assertEqual(shown.count("values: CHECK( 1 == 2 )"), 2)
        self.assertNotIn("epoch", shown)

    def test_checker_lines(self):
        good, bad, why = suite.count_lines("ok - a\nnot ok - b\n  because\nok - c\n# measured\n", 1)
        self.assertEqual((good, bad), (2, 1))
        self.assertIn("because", why)
        self.assertNotIn("ok - c", why)
        self.assertEqual(suite.count_lines("Traceback", 1)[:2], (0, 1))
        self.assertEqual(suite.count_lines("ok - a\nTraceback", 1)[:2], (1, 1))
        # It found a failure, and then broke: both count.
        good, bad, why = suite.count_lines("ok - a\nnot ok - b\n  x\nTraceback (most recent call last):\nKeyError: 5\n", 1)
        self.assertEqual((good, bad), (1, 2))
        self.assertIn("KeyError", why)

    def test_unittest(self):
        self.assertEqual(suite.count_unittest("Ran 7 tests in 1s\n\nOK\n", 0)[:2], (7, 0))
        self.assertEqual(suite.count_unittest("Ran 7 tests in 1s\n\nFAILED (failures=1, errors=2)\n", 1)[:2], (4, 3))
        self.assertEqual(suite.count_unittest("Ran 0 tests in 0s\n\nOK\n", 0)[:2], (0, 1))
        self.assertEqual(suite.count_unittest("ImportError", 1)[:2], (0, 1))

    def test_executables_that_pass_fail_crash_and_run_nothing(self):
        build = tools.Build("gone")
        build.folder = ROOT / "build"
        tests = [("good", f"print({summary(4, 4, 0)!r})"), ("bad", f"print({summary(4, 3, 1)!r})\nraise SystemExit(1)"),
                 ("crash", "import os\nos.kill(os.getpid(), 11)"), ("empty", f"print({summary(0, 0, 0)!r})"),
                 ("device", f"import os\nprint({summary(2, 2, 0, 1)!r} if os.environ['WHERE'] == 'here' else '')")]
        paths = [(name, str(self.program(name, script)), {"WHERE": "here"} if name == "device" else {},
                  [f"{name}.cpp"]) for name, script in tests] + [("unbuilt", "/nowhere/unbuilt", {}, ["unbuilt.cpp"])]
        build.make = lambda *targets: True
        build.tests = lambda: paths
        (self.folder / "CMakeCache.txt").touch()
        build.folder = self.folder
        tally = suite.Tally(tools.Console(True))
        root, suite.ROOT = suite.ROOT, self.folder
        (self.folder / "tests").mkdir()
        for name, *_ in paths:
            (self.folder / "tests" / f"{name}.cpp").touch()
        try:
            suite.build_and_run(tally, build, dict(os.environ), 60)
        finally:
            suite.ROOT = root
        # Cases: 4 + 3 + 2 passed, 1 skipped for want of a device; 1 failed, 1 crash, 1 without cases, 1 not built.
        # Checks: build, silence, one test a file.
        self.assertEqual((tally.passed, tally.failed), (4 + 3 + 2 + 3, 4))
        self.assertEqual(tally.line(), "1 skipped, 12 passed, 4 failed")

    def test_what_measures_and_fails_beside_others_counts_when_it_is_alone(self):
        script = ("import os, pathlib\nseen = pathlib.Path(__file__ + '.seen')\nfirst = not seen.exists()\nseen.touch()\n"
                  "bad = first and MAY or not MAY\n"
                  f"print({summary(2, 1, 1)!r} if bad else {summary(2, 2, 0)!r})\nraise SystemExit(bad)")
        build = tools.Build("gone")
        build.folder, build.make = self.folder, lambda *targets: True
        (self.folder / "CMakeCache.txt").touch()
        (self.folder / "tests").mkdir()
        root, suite.ROOT = suite.ROOT, self.folder
        try:
            for number, (name, may, counts) in enumerate((("test_profiling_a", True, (2, 0)), ("test_profiling_b", False, (1, 1)),
                                                          ("test_tensor_a", True, (1, 1)))):
                with self.subTest(name=name, may=may):
                    path = self.program(f"{name}{number}", script.replace("MAY", str(may)))
                    build.tests = lambda: [(name, str(path), {}, [])]
                    tally = suite.Tally(tools.Console(True))
                    suite.build_and_run(tally, build, dict(os.environ), 60, again=True)
                    # Checks besides: build, silence; and no test is of a file here, which is a failure.
                    self.assertEqual((tally.passed - 2, tally.failed - 1), counts)
        finally:
            suite.ROOT = root

    def test_a_stage_that_would_not_fit_is_left_out_of_a_whole_run_alone(self):
        self.assertEqual(set(suite.USUAL), set(suite.STAGES))
        ran = [{"stage": name} for name in ("python", "gcc")]
        usual = suite.USUAL["python"] + suite.USUAL["gcc"]
        for whole, slowness, fits in ((True, 0.5, True), (True, 2, False), (False, 2, True)):
            with self.subTest(whole=whole, slowness=slowness):
                tally = suite.Tally(tools.Console(True), whole)
                tally.stages, tally.began = ran, time.monotonic() - slowness * usual
                self.assertEqual(tally.fits("course"), fits)
                self.assertTrue(tally.fits("format"))
                # What was left out took no time, and says nothing of the machine.
                tally.stages, tally.left_out = [*ran, {"stage": "clang"}], ["clang"]
                self.assertEqual(tally.fits("course"), fits)

    def test_which_stages_come_last_differs_from_commit_to_commit(self):
        first = len(suite.STAGES) - sum(map(len, suite.LAST))
        orders = [suite.stages_of(f"{n:040x}") for n in range(100)]
        for order in orders:
            self.assertEqual(sorted(order), sorted(suite.STAGES))
            self.assertEqual(order[:first], orders[0][:first])
            self.assertEqual(order.index("fuzz"), order.index("clang") + 1)
        for group in suite.LAST:
            self.assertTrue(any(order[first] == group[0] for order in orders), group)
        self.assertEqual(suite.stages_of("a"), suite.stages_of("a"))

    def test_compile_budgets_must_be_printed(self):
        narrow = "include core/shape.hpp: 0.30 s of processor time (budget 1.0 s)"
        umbrella = "include tinytorch.hpp: 1.20 s of processor time (budget 2.5 s)"
        checker = suite.run_checker
        try:
            for lines, failed in (([], 1), ([narrow], 1), ([umbrella], 1), (["nvcc is not on the PATH"], 1),
                                  ([narrow, "include tinytorch.hpp"], 1), ([narrow, umbrella], 0)):
                with self.subTest(lines=lines):
                    suite.run_checker = lambda tally, name: lines
                    tally = suite.Tally(tools.Console(True))
                    suite.stage_hygiene(tally)
                    self.assertEqual((tally.passed, tally.failed), (1 - failed, failed))
        finally:
            suite.run_checker = checker

    def test_warnings_of_every_compiler_are_seen(self):
        build = tools.Build("gone")
        warnings = ["a/b.hpp:3:7: warning: unused variable", "a/b.cuh(12): warning #177-D: never referenced",
                    "ptxas warning : Stack size", "nvcc warning : incompatible redefinition", "CMake Warning at x"]
        build.log = "\n".join(warnings + ["ptxas info    : 0 bytes gmem", "[1/2] Building warnings.cu.o"])
        self.assertEqual(build.warnings(), sorted(warnings))

    def test_kernels_are_skipped_without_nvcc_and_else_built(self):
        class Pretended:
            made = []

            def make(self, *targets):
                self.made.extend(targets)
                return self.good

            def first_errors(self):
                return "    error"

            def warnings(self):
                return self.said

        kept, path = suite.CUDA, os.environ["PATH"]
        compiler = os.environ.pop("CUDACXX", None)
        try:
            build = Pretended()
            suite.CUDA, os.environ["PATH"] = {"75": build, "90a": build}, str(self.folder)
            tally = suite.Tally(tools.Console(True))
            suite.stage_cuda(tally)
            self.assertEqual((tally.passed, tally.failed, tally.skipped, build.made), (0, 0, 1, []))
            self.program("nvcc", "")
            for good, said, counts in ((True, [], (2, 0, 0)), (False, [], (0, 2, 0)), (True, ["w"], (0, 2, 0))):
                with self.subTest(good=good, said=said):
                    build.good, build.said, build.made[:] = good, said, []
                    tally = suite.Tally(tools.Console(True))
                    suite.stage_cuda(tally)
                    self.assertEqual((tally.passed, tally.failed, tally.skipped), counts)
                    self.assertEqual(build.made, ["tinytorch_cuda", "device_submissions"] * 2)
        finally:
            suite.CUDA, os.environ["PATH"] = kept, path
            if compiler is not None:
                os.environ["CUDACXX"] = compiler

    def test_a_checker_may_skip_with_a_reason(self):
        checker = self.program("checker", "print('ok - a\\nskipped - kernels: nvcc is not here\\nnot ok - b')\nraise SystemExit(1)")
        tally = suite.Tally(tools.Console(True))
        suite.run_checker(tally, checker)
        self.assertEqual((tally.passed, tally.failed, tally.skipped), (1, 1, 1))

    def test_a_whole_run_that_takes_too_long_ends_itself_and_says_its_result(self):
        def hangs(tally):
            tally.check(True, "before")
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda _: tools.call(["sleep", "60"]), range(2)))

        pretended = {"STAGES": {"python": hangs, "format": lambda tally: tally.check(True, "after")}, "MINUTES_AT_MOST": 1 / 60,
                     "stages_of": lambda commit: ["python", "format"], "set_up": lambda *_: None}
        kept = {name: getattr(suite, name) for name in pretended}
        console, said, began = tools.Console(False), [], time.monotonic()
        console.say = lambda text="": said.append(text)
        try:
            vars(suite).update(pretended)
            code = suite.run(console, types.SimpleNamespace(only=None, skip=[], no_install=True))
        finally:
            vars(suite).update(kept)
        self.assertEqual((code, said[-1]), (suite.FAIL, "1 passed, 1 failed"))
        self.assertTrue(any("python" in line and "it was stopped" in line for line in said), said)
        self.assertLess(time.monotonic() - began, 20)

    def test_a_whole_run_tries_wrong_answers_for_some_minutes(self):
        asked, checker = [], suite.run_checker
        try:
            suite.run_checker = lambda tally, *arguments, **more: asked.append(arguments)
            for whole in (True, False):
                tally = suite.Tally(tools.Console(True), whole)
                suite.stage_answers(tally)
        finally:
            suite.run_checker = checker
        self.assertEqual(asked, [("course/run.py", "--answers", "--minutes", suite.ANSWER_MINUTES),
                                 ("course/run.py", "--answers")])

    def test_a_program_that_hangs_is_stopped(self):
        hang = self.program("hang", "import time\ntime.sleep(60)\n")
        began = time.monotonic()
        done = tools.call([hang], 1)
        self.assertTrue(done.timed_out)
        self.assertLess(time.monotonic() - began, 20)


class OnAStudentsHeaders(unittest.TestCase):
    """Whose program does what with --student: the judge is the library's, the student's answers, trains and profiles."""

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

    def test_build_is_the_library_s_whatever_it_was_configured_for(self):
        self.assertIn("-DTINYTORCH_STUDENT=", tools.GCC.flags)

    def test_a_match_is_the_judge_s_and_the_student_s_program_a_worker_of_it(self):
        builds, command = tools.perf_command(["run", "A", "B"], self.student)
        self.assertEqual(builds, [tools.GCC, self.student])
        self.assertEqual([str(c) for c in command],
                         [str(ROOT / "build/bin/tinymlperf"), "run", "--worker", "build/student/bin/tinymlperf", "A", "B"])

    def test_what_judges_nobody_is_the_student_s_and_the_board_the_library_s(self):
        for verb in ("profile", "train", "verify", "kernels"):
            self.assertEqual(tools.perf_command([verb, "x"], self.student), ([self.student], [self.student.harness, verb, "x"]))
        for verb in ("submit", "work", "serve", "--help"):
            self.assertEqual(tools.perf_command([verb], self.student), ([tools.GCC], [tools.GCC.harness, verb]))
        self.assertEqual(tools.perf_command(["run", "A"]), ([tools.GCC], [tools.GCC.harness, "run", "A"]))

    def test_a_race_the_student_s_program_trains_and_the_judge_asks_it(self):
        code, out = tools.run_race(self.console, ["--quick"], self.student)
        self.assertEqual((code, out), (tools.PASS, ROOT / "build/student/race"))
        self.assertEqual(self.made, [(tools.GCC, ("tinymlperf",)), (self.student, ("tinymlperf",))])
        judge, worker, entries = str(tools.GCC.harness), "build/student/bin/tinymlperf", "build/student/race/student"
        self.assertEqual(self.asked, [
            [str(ROOT / worker), "train", "--out", entries, "--epochs", "1"],
            [judge, "race", "--worker", worker, "--out", "build/student/race", "--student-entries", entries, "--quick"]])

    def test_without_training_it_answers_for_the_library_s_models(self):
        tools.run_race(self.console, ["--no-train", "--entries", "mine"], self.student)
        self.assertEqual(len(self.asked), 1)
        self.assertNotIn("--student-entries", self.asked[0])

    def test_a_plain_race_has_no_worker(self):
        self.assertEqual(tools.run_race(self.console), (tools.PASS, ROOT / "build/race"))
        self.assertEqual(self.made, [(tools.GCC, ("tinymlperf",))])
        self.assertEqual(self.asked, [[str(tools.GCC.harness), "race", "--out", "build/race"]])

    def test_who_cannot_train_does_not_race(self):
        self.code = 1
        self.assertEqual(tools.run_race(self.console, [], self.student), (tools.FAIL, None))
        self.assertEqual(len(self.asked), 1)


class Test(WithFolder):
    def copy(self, stage):
        """modules/tt in a tree of its own, with one stage replaced."""
        for folder, names in (("modules", ("tt", "tools.py", "course.py")), ("tests", ("suite.py",))):
            (self.folder / folder).mkdir()
            for name in names:
                shutil.copy(ROOT / folder / name, self.folder / folder)
        path = self.folder / "tests" / "suite.py"
        text = path.read_text(encoding="utf-8")
        text = text.replace('    "python": stage_python,', f'    "sample": (lambda tally: {stage}),\n    "python": stage_python,')
        text = text.replace("    set_up(console, \"test\"", "    0 and set_up(console, \"test\"")
        path.write_text(text, encoding="utf-8")
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

    def test_a_stage_that_only_skips_has_not_failed_but_proves_nothing(self):
        self.assertEqual(self.last_line(self.copy("tally.skip(2, 'x', 'y')")), (1, "2 skipped, 0 passed, 0 failed"))

    def test_a_stage_that_breaks_fails(self):
        self.assertEqual(self.last_line(self.copy("{}['gone']")), (1, "0 passed, 1 failed"))

    def test_interrupted_it_counts_stops_its_children_and_exits_1(self):
        pid = self.folder / "pid"
        child = self.program("child", f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)\n")
        command = self.copy(f"(tally.add(1, 0, 'x'), call([{str(child)!r}], 60))")
        # Started in the background, we would ignore SIGINT, and so would it.
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
        time.sleep(0.2)
        state = Path(f"/proc/{pid.read_text()}/stat")
        self.assertTrue(not state.exists() or state.read_text().split()[2] == "Z")


class Manifest(unittest.TestCase):
    def test_ten_modules_with_frozen_numbers(self):
        course = json.loads((ROOT / "modules" / "course.json").read_text())
        self.assertEqual([m["id"][:2] for m in course["modules"]], [f"{i:02}" for i in range(1, 11)])


if __name__ == "__main__":
    unittest.main()
