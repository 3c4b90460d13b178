"""Functions that modules/tt and the test suite share: console output, running programs, set-up, building. Standard library only."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PASS, FAIL, SETUP, INTERNAL = 0, 1, 2, 3
GOOD, BAD = "\u2713", "\u2717"
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


class SetupProblem(Exception):
    """A problem outside the project; the message says what to do."""


# --- Console -----------------------------------------------------------------------------------------------------

class Console:
    """Prints text for people on stdout. With --json the text goes to stderr, and stdout gets one JSON document."""

    def __init__(self, as_json):
        self.stream = sys.stderr if as_json else sys.stdout
        self.as_json = as_json
        self.unicode = (self.stream.encoding or "").lower().replace("-", "") == "utf8"
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace", line_buffering=True)

    def say(self, text=""):
        if self.stream.isatty():  # a terminal would break words
            width = shutil.get_terminal_size().columns
            text = "\n".join(wrapped(line, width) for line in text.split("\n"))
        if not self.unicode:
            for mark, plain in ((GOOD, "ok"), (BAD, "FAIL"), ("\u2026", "...")):
                text = text.replace(mark, plain)
            text = text.encode("ascii", "replace").decode("ascii")
        print(text, file=self.stream, flush=True)

    def result(self, document):
        if self.as_json:
            print(json.dumps(document, indent=2, ensure_ascii=True))


def wrapped(line, width):
    """A line as lines of at most `width` characters, broken at spaces; the later ones are indented like the text after a label."""
    if len(line) <= width:
        return line
    start = re.match(r" *(?:\S+(?: \S+)? {2,})?", line).end()
    start = start if start < width // 2 else len(line) - len(line.lstrip())
    return line[:start] + f"\n{' ' * start}".join(textwrap.wrap(line[start:], width - start, break_long_words=False, break_on_hyphens=False,
                                                                expand_tabs=False, replace_whitespace=False))


# --- Running other programs --------------------------------------------------------------------------------------

running = set()  # child processes to stop after an interruption


class Finished:
    """The result of a process. processor: the seconds of processor time of the process and its children; memory: the most memory that
    the process had at once, in GiB."""

    def __init__(self, code, text, seconds, timed_out=False, processor=0.0, memory=0.0):
        self.code, self.text, self.seconds, self.timed_out, self.processor = code, text, seconds, timed_out, processor
        self.memory = memory


class Child(subprocess.Popen):
    """A process that records its processor time and its memory when it ends."""

    processor = memory = 0.0

    def _try_wait(self, wait_flags):
        try:
            pid, status, usage = os.wait4(self.pid, wait_flags)
        except ChildProcessError:  # another thread has waited for it
            return self.pid, 0
        if pid == self.pid:
            self.processor, self.memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20
        return pid, status


def start(command, capture=True, cwd=ROOT, env=None, log=None):
    out = subprocess.PIPE if capture else log
    child = Child([str(c) for c in command], cwd=str(cwd), env=env, stdin=subprocess.DEVNULL, stdout=out,
                  stderr=subprocess.STDOUT if out is not None else None, start_new_session=True)
    running.add(child)
    return child


def finish(child, seconds, began):
    timed_out = False
    try:
        out, _ = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        timed_out = True
        stop(child)
        out, _ = child.communicate()
    running.discard(child)
    text = (out or b"").decode("utf-8", "replace")
    return Finished(child.returncode, text, time.monotonic() - began, timed_out, child.processor, child.memory)


def call(command, seconds=600, capture=True, cwd=ROOT, env=None, log=None):
    began = time.monotonic()
    return finish(start(command, capture, cwd, env, log), seconds, began)


def call_all(commands, jobs, seconds=600, env=None):
    """Runs commands, at most `jobs` at a time; yields (index, Finished) in the order of the commands."""
    pool = ThreadPoolExecutor(max_workers=max(1, jobs))
    try:
        futures = [pool.submit(call, c, seconds, True, ROOT, env) for c in commands]
        for i, future in enumerate(futures):
            yield i, future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def stop(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def tail(text, lines=25):
    return "\n".join("    " + line for line in text.strip().splitlines()[-lines:])


# --- Set-up: required programs and libraries -----------------------------------------------------------------------

def program_version(name, *flags):
    path = shutil.which(name)
    if not path:
        return None
    try:
        text = subprocess.run([path, *(flags or ("--version",))], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, timeout=30).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\d+\.\d+(\.\d+)*", text)
    return match.group(0) if match else "found"


def header_found(path):
    folders = ["/usr/include", "/usr/local/include"]
    folders += [p for p in os.environ.get("CPATH", "").split(":") if p]
    folders += [str(Path(p) / "include") for p in re.split("[:;]", os.environ.get("CMAKE_PREFIX_PATH", "")) if p]
    folders += glob.glob("/usr/include/*-linux-gnu")
    return next((str(Path(f) / path) for f in folders if (Path(f) / path).exists()), None)


def file_found(*patterns):
    return next((hit for p in patterns for hit in glob.glob(p)), None)


class Need:
    """A requirement of a command: how to find it, the oldest version that is enough, the Debian package."""

    def __init__(self, name, package, find, commands=("run", "test"), at_least=None):
        self.name, self.package, self.find, self.commands, self.at_least = name, package, find, commands, at_least

    def check(self):
        found = self.find()
        if found and self.at_least and re.match(r"\d", found):
            have = [int(x) for x in found.split(".")[:2]]
            if have < [int(x) for x in self.at_least.split(".")[:2]]:
                return None, f"{found} is too old, {self.at_least} needed"
        return found, found or "missing"


# learn: needed by `start`, `check` and `watch`; grade: by `grade` without --trust
TEST_ONLY, ALL = ("test",), ("learn", "run", "test")
NEEDS = [
    Need("g++", "g++", lambda: program_version("g++"), ALL, "12.0"),
    Need("cmake", "cmake", lambda: program_version("cmake"), at_least="3.25"),
    Need("make", "make", lambda: program_version("make")),  # used by a plain `cmake -B build`
    Need("ninja", "ninja-build", lambda: program_version("ninja")),
    Need("Eigen", "libeigen3-dev", lambda: header_found("eigen3/Eigen/Core")),
    Need("doctest", "doctest-dev", lambda: header_found("doctest/doctest.h"), ALL),
    Need("fmt", "libfmt-dev", lambda: header_found("fmt/format.h")),
    Need("nlohmann-json", "nlohmann-json3-dev", lambda: header_found("nlohmann/json.hpp")),
    Need("CLI11", "libcli11-dev", lambda: header_found("CLI/CLI.hpp")),
    Need("zlib", "zlib1g-dev", lambda: header_found("zlib.h")),
    Need("libzip", "libzip-dev", lambda: header_found("zip.h")),
    Need("SQLite", "libsqlite3-dev", lambda: header_found("sqlite3.h")),
    Need("libarchive", "libarchive-dev", lambda: header_found("archive.h")),
    Need("OpenSSL", "libssl-dev", lambda: header_found("openssl/evp.h")),
    Need("cpp-httplib", "libcpp-httplib-dev", lambda: header_found("httplib.h")),
    Need("Boost.Context", "libboost-context-dev", lambda: header_found("boost/context/detail/fcontext.hpp"),
         ("learn", "test")),
    Need("bubblewrap", "bubblewrap", lambda: program_version("bwrap"), ("grade", "test")),
    Need("rapidcheck", "librapidcheck-dev", lambda: header_found("rapidcheck.h"), TEST_ONLY),
    Need("clang++", "clang", lambda: program_version("clang++"), TEST_ONLY, "14.0"),
    Need("clang run-time library", "libclang-rt-dev",
         lambda: file_found("/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a",
                            "/usr/lib/clang/*/lib/*/libclang_rt.fuzzer*.a"), TEST_ONLY),
    Need("clang OpenMP", "libomp-dev", lambda: file_found("/usr/lib/llvm-*/lib/libomp.so", "/usr/lib/*/libomp.so*",
                                                          "/usr/lib/libomp.so*"), TEST_ONLY),
    Need("lld", "lld", lambda: program_version("ld.lld"), TEST_ONLY),
    Need("ccache", "ccache", lambda: program_version("ccache"), TEST_ONLY),
    Need("clang-format", "clang-format", lambda: program_version("clang-format"), TEST_ONLY),
    Need("pkg-config", "pkg-config", lambda: program_version("pkg-config"), TEST_ONLY),
    Need("git", "git", lambda: program_version("git"), TEST_ONLY),
    Need("Chromium", "chromium", lambda: program_version("chromium"), TEST_ONLY),
    Need("Python venv", "python3-venv", lambda: module_found("ensurepip"), ("notebook", "test")),
]


def module_found(name):
    import importlib.util
    return "found" if importlib.util.find_spec(name) else None


def missing_for(command):
    return [n for n in NEEDS if command in n.commands and n.check()[0] is None]


def install_line(needs):
    return "sudo apt-get install -y " + " ".join(n.package for n in needs)


def apt_prefix():
    """The words before apt-get with which it may install packages, or None if it may not."""
    if not shutil.which("apt-get"):
        return None
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and call(["sudo", "-n", "true"], 30).code == 0:
        return ["sudo", "-n"]
    return None


def set_up(console, command, may_install=True):
    missing = missing_for(command)
    if not missing:
        return
    details = [n.check()[1] for n in missing]
    console.say("missing: " + ", ".join(n.name + (f" ({d})" if d != "missing" else "") for n, d in zip(missing, details)))
    prefix = apt_prefix() if may_install else None
    if prefix is None:
        raise SetupProblem("install it with\n  " + install_line(missing))
    install = prefix + ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y",
                        "--no-install-recommends"] + [n.package for n in missing]
    console.say("installing: " + " ".join(n.package for n in missing))
    outcome = call(install, 1200)
    if outcome.code != 0:  # a new system has no package lists yet
        call(prefix + ["apt-get", "update"], 600)
        outcome = call(install, 1200)
    still = missing_for(command)
    if outcome.code != 0 or still:
        raise SetupProblem("the packages could not be installed; try\n  sudo apt-get update\n  " +
                           install_line(still or missing) + "\n" + tail(outcome.text, 8))


# Warnings of g++ and clang, of CMake, and of nvcc: `file.cuh(12): warning #177-D: ...`, `ptxas warning : ...`.
WARNING = re.compile(r":\d+: warning: |\(\d+\): warning|^(?:nvcc|ptxas|nvlink) warning|CMake Warning")


# --- Building ----------------------------------------------------------------------------------------------------

class Test(NamedTuple):
    """One test of a build, as listed by ctest. labels: the test files that it runs; serial: it measures, so it runs alone."""
    name: str
    command: list
    environment: dict
    labels: list
    serial: bool


class Build:
    """One build folder. `build/` is that of `cmake -B build`; the others are inside it."""

    def __init__(self, name, *flags):
        self.name, self.flags = name, flags
        self.folder = ROOT / "build" / name if name else ROOT / "build"
        self.harness = self.folder / "bin" / "tinymlperf"
        self.log = ""

    def configure(self, env=None):
        # An existing folder keeps its generator. Ninja compiles tests while the library is still compiled; make waits.
        env = dict(os.environ if env is None else env)
        env.setdefault("CMAKE_GENERATOR", "Ninja")
        configured = call(["cmake", "-S", ROOT, "-B", self.folder, *self.flags], 600, env=env)
        self.log += configured.text
        return configured.code == 0

    def make(self, *targets, env=None):
        """Configures and builds the targets as far as possible; True if all were built."""
        self.log = ""
        if not self.configure(env):
            return False
        makefiles = (self.folder / "Makefile").exists()
        command = ["cmake", "--build", self.folder, "-j", CORES, "--target", *targets]
        built = call(command + ["--"] + (["-k"] if makefiles else ["-k", "0"]), 3600, env=env)
        self.log += built.text
        log_file = self.folder / "tt.log"
        log_file.write_text(self.log)
        return built.code == 0

    def first_errors(self, lines=12):
        found = [l for l in self.log.splitlines() if re.search(r"\berror\b|CMake Error|undefined reference", l)]
        return tail("\n".join(found[:lines]) or self.log)

    def warnings(self):
        return sorted({l.strip() for l in self.log.splitlines() if WARNING.search(l)})

    def tests(self):
        """All tests of the build, the longest first."""
        shown = call(["ctest", "--test-dir", self.folder, "--show-only=json-v1"], 120)
        document = json.loads(shown.text[shown.text.index("{"):])
        found = []
        for t in document["tests"]:
            properties = {p["name"]: p["value"] for p in t.get("properties", [])}
            command = t.get("command", properties.get("REQUIRED_FILES"))  # for a program that is not built, only its path is known
            if command:
                environment = dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", []))
                test = Test(t["name"], command, environment, properties.get("LABELS", []), properties.get("RUN_SERIAL", False))
                found.append((-properties.get("COST", 0), test))
        return [test for _, test in sorted(found, key=lambda f: f[0])]


# The judge always uses the library's headers. TT_BUILD names another folder in build/: the first ring of the tests runs the judge in
# the build that its tests have made, so that the library is not compiled a second time.
GCC = Build(os.environ.get("TT_BUILD", ""), "-DTINYTORCH_FUZZ=OFF", "-DTINYTORCH_STUDENT=")


# --- The judge ---------------------------------------------------------------------------------------------------

# Commands that a program on a student's headers runs itself. It never judges, because its clock and its statistics are the student's.
OWN_WORK = ("kernels", "profile", "train", "verify")


def build_harness(console, *builds):
    for build in builds:
        if not build.make("tinymlperf"):
            console.say(f"the build failed; the whole log is {(build.folder / 'tt.log').relative_to(ROOT)}\n" + build.first_errors())
            return False
    return True


def perf_command(arguments, student=None):
    """(builds, command) for `tinymlperf` with these arguments. `student`: a build on a student's headers, whose program runs the
    commands in OWN_WORK, and in a match answers for the same entries as the library's program."""
    verb, rest = arguments[:1], arguments[1:]
    if student is None:
        return [GCC], [GCC.harness, *arguments]
    if verb and verb[0] in OWN_WORK:
        return [student], [student.harness, *arguments]
    if verb and verb[0] in ("run", "race"):
        return [GCC, student], [GCC.harness, *verb, "--worker", student.harness.relative_to(ROOT), *rest]
    return [GCC], [GCC.harness, *arguments]


def run_race(console, arguments=(), student=None):
    """Builds the judge and runs the race. Returns (exit code, folder of the report). `student`: a build on a student's headers, whose program
    trains its own models and answers for them, against those of the library."""
    if not build_harness(console, *([GCC, student] if student else [GCC])):
        return FAIL, None
    log = sys.stderr.fileno() if console.as_json else None
    out = (student or GCC).folder / "race"
    of_student = []
    if student and "--no-train" not in arguments:
        entries = (out / "student").relative_to(ROOT)
        size = ["--epochs", "1"] if "--quick" in arguments else []
        if call([student.harness, "train", "--out", entries, *size], 3600, capture=False, log=log).code != 0:
            console.say("the models could not be trained on your headers; the output is above")
            return FAIL, None
        of_student = ["--student-entries", entries]
    command = perf_command(["race", "--out", out.relative_to(ROOT), *of_student, *arguments], student)[1]
    done = call(command, 3600, capture=False, log=log)
    return (PASS if done.code == 0 else FAIL), out
