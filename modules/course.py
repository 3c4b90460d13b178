"""The course: the manifest, starters made from solutions, and the workshop that builds and runs checks.

A task names functions of one header. Its starter is the solution (modules/NN/solution/, else cut from the library's own header
by frames.py) with the bodies of these functions removed, so that starter and solution always agree.
"""
import difflib
import hashlib
import json
import os
import re
import secrets
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import frames
import seal
from starters import GUARD, CourseError, cut, definition, for_checks, remove, write_whole
from tools import CORES

ROOT = Path(__file__).resolve().parent.parent
MODULES, INCLUDE = ROOT / "modules", seal.include_folder()
COMMON = ROOT / "build" / "common"  # objects of the library that checks, notebooks and the proof of the course share


# --- The manifest -------------------------------------------------------------------------------------------------

class Task:
    def __init__(self, module, entry):
        self.module, self.id, self.slug, self.title = module, entry["id"], entry["slug"], entry["title"]
        self.file, self.write, self.hide = entry["file"], entry["write"], entry.get("hide", [])
        self.tests, self.points, self.device = entry["tests"], entry["points"], entry.get("device", "cpu")
        self.needs = entry.get("needs", module.needs if self.device == "cpu" else [])
        self.optimize = entry.get("optimize", "-O0")
        self.bodies = entry.get("bodies", False)
        self.speed = entry.get("speed")
        # The headers of kernels that the check is linked with; its launcher may be in a header that includes the task's.
        self.kernels = [f"tinytorch/{f}" for f in entry.get("kernels", [self.file])]

    @property
    def speed_program(self):
        return self.module.folder / "speed" / f"{self.slug}.cpp"

    @property
    def check(self):
        return self.module.folder / "checks" / f"{self.slug}.cpp"

    @property
    def header(self):
        """The library's header that has the task's functions, as it is included."""
        return f"tinytorch/{self.file}"

    @property
    def path(self):
        """The student's file, in the folder student/: the file that the header's frame includes, or the header itself."""
        return f"tasks/{self.file}" if self.module.frame(self.header).exists() else self.header

    def file_in(self, folder):
        """The file of a folder that is judged: the student's file, or a whole header instead of it."""
        return next((p for p in (folder / self.path, folder / self.header) if p.exists()), folder / self.path)

    def hints(self):
        return json.loads((self.module.folder / "hints.json").read_text(encoding="utf-8"))[self.id]


SILENT = "[silent on a GPU]"


class Module:
    def __init__(self, entry):
        self.id, self.title, self.status = entry["id"], entry["title"], entry["status"]
        self.released, self.headers = entry.get("released", False), entry["headers"]
        self.needs = entry.get("needs", [])
        self.tasks = [Task(self, t) for t in entry.get("tasks", [])]
        self.folder = MODULES / self.id

    @property
    def number(self):
        return self.id[:2]

    @property
    def student(self):
        return self.folder / "student"

    def frame(self, header):
        return self.folder / "frame" / header

    def files(self):
        """The files that a student writes, each once, in the order of the tasks."""
        return list(dict.fromkeys(t.path for t in self.tasks))

    def reference(self, path):
        """The file that has the solution of a student's file: the one of the module, else the library's header."""
        own = self.folder / "solution" / path
        return own if own.exists() else INCLUDE / re.sub("^tasks/", "tinytorch/", path)

    def solution(self, path):
        """The solution of a student's file, which may be a part of the library's header."""
        sealed = seal.solution(self.id, path)
        if sealed is not None:
            return sealed
        source = self.reference(path)
        text, file = source.read_text(encoding="utf-8"), path.removeprefix("tasks/")
        if file == path or source != INCLUDE / "tinytorch" / file:
            return text
        if not frames.is_cut(self.frame(f"tinytorch/{file}").read_text(encoding="utf-8")):
            raise CourseError(f"{self.id} has no solution of {path}: this copy of the course was released without it")
        return frames.tasks_of(text, self.id, file, [t for t in self.tasks if t.file == file])

    def whole(self, path):
        return for_checks(self.solution(path))

    def starter(self, path, with_hidden=()):
        kept = self.folder / "starter" / path  # a release without solutions contains the starters
        if kept.exists():
            return kept.read_text(encoding="utf-8")
        text = self.whole(path)
        for task in self.tasks:
            if task.path == path:
                for name in task.hide:
                    text = remove(text, name) if name not in with_hidden else text
                for name in task.write:
                    text = cut(text, name, task.id)
        return text

    def wrong_answers(self, task, folder="wrong"):
        """[(name, {path: text}, silent)]: the solution with one edit each (modules/NN/wrong/SLUG.txt, or slow/SLUG.txt).
        silent: marked `[silent on a GPU]`, which only the emulator reliably detects."""
        source = self.folder / folder / f"{task.slug}.txt"
        answers = []
        for block in re.split(r"^== ", source.read_text(encoding="utf-8"), flags=re.M)[1:]:
            name, _, rest = block.partition("\n")
            name, silent = name.replace(SILENT, "").strip(), SILENT in name
            path, text = task.path, None
            for old, new in re.findall(r"^<<<<\n(.*?)^----\n(.*?)^>>>>$", rest, re.M | re.S):
                text = self.whole(path) if text is None else text
                if text.count(old) != 1:
                    raise CourseError(f"{source}: '{name}' edits text that occurs {text.count(old)} times in {path}:\n{old}")
                text = text.replace(old, new)
            if text is None:
                raise CourseError(f"{source}: '{name}' has no edit")
            answers.append((name, {path: text}, silent))
        return answers


def frame_of(header):
    """The frame of a header in any module, or None."""
    return next(iter(MODULES.glob(f"[0-9][0-9]_*/frame/{header}")), None)


def in_one_file(header, tasks):
    """A header's frame with the text of the tasks' file instead of its #include, which is the header of a submission."""
    frame = frame_of(header).read_text(encoding="utf-8")
    line = f"#include <tasks/{header.removeprefix('tinytorch/')}>\n"
    return frame.replace(line, tasks.replace("#pragma once\n", "", 1))


class Course:
    def __init__(self):
        document = json.loads((MODULES / "course.json").read_text(encoding="utf-8"))
        self.modules = [Module(m) for m in document["modules"]]
        self.tasks = [t for m in self.modules for t in m.tasks]
        self.milestones = document.get("milestones", [])

    def module(self, name):
        for m in self.modules:
            if m.id == name or m.number == str(name).zfill(2) or m.id[3:] == name:
                if not m.released:
                    raise CourseError(f"{m.id} is not yet released ({m.status}); there are "
                                      + ", ".join(x.id for x in self.modules if x.released))
                return m
        raise CourseError(f"no module {name}{similar(name, [m.id[3:] for m in self.modules])}\n  there are "
                          + ", ".join(m.id for m in self.modules))

    def task(self, name):
        for t in self.tasks:
            if name in (t.id, t.slug):
                return t
        known = [t.slug for t in self.tasks] + [t.id for t in self.tasks] + [m.id[3:] for m in self.modules]
        raise CourseError(f"no task {name}{similar(name, known)}\n  `modules/tt list` shows all")


def similar(name, known):
    """", did you mean ...?" if there are similar words, else nothing."""
    near = difflib.get_close_matches(str(name).lower().replace("-", "_"), known, 3, 0.6)
    return f"; did you mean {' or '.join(near)}?" if near else ""


# --- The workshop: objects, programs, verdicts --------------------------------------------------------------------

FIRST_BUILD = "building the library once (up to a minute); later verdicts take seconds"

SIGNALS = {  # possible reasons why the system stopped a program
    "SIGSEGV": "an access outside of memory: is there an index past the end, a size of 0, a null pointer, or an endless recursion?",
    "SIGFPE": "an integer division by 0, or its remainder",
    "SIGABRT": "the program was aborted: is there a failed assert, an exception that is not caught, or a write past the end of memory?",
}

NO_MEMORY = "the program asked for more memory than there is: is a size negative, or too large, or does something grow in an endless loop?"
MEMORY = "4"  # GiB, more than any check uses; the program stops itself (support/main.cpp)
MUCH_MEMORY = 1.0  # GiB; if a program uses more when its time is over, memory may be the reason


class Verdict:
    def __init__(self, task, stage, text="", tests=(), seconds=0.0):
        self.task, self.stage, self.text, self.tests, self.seconds = task, stage, text, list(tests), seconds

    def name_files(self, copy, original):
        """Replaces paths of a copy in the messages by those of the files that the student edits."""
        self.text = self.text.replace(str(copy), str(original))
        for test in self.tests:
            test["message"] = test["message"].replace(str(copy), str(original))

    @property
    def passed(self):
        return self.stage == "passed"

    def document(self):
        return {"task": self.task.id, "passed": self.passed, "stage": self.stage, "message": self.text,
                "tests": self.tests, "seconds": round(self.seconds, 2)}


# The emulator sees every memory access through the calls that the thread sanitizer inserts. At -Og a kernel compiles in half the time
# that it takes at -O1. Accesses are counted at -O1, which leaves fewer of them that a GPU would not make.
SIM_FLAGS, COUNTED_FLAGS = ["-Og", "-fsanitize=thread"], ["-O1", "-fsanitize=thread"]
# A check needs no optimization by nvcc; without it the verdict takes a third less time.
NVCC_QUICK = ["-O0", "-Xcicc", "-O0", "-Xptxas", "-O0,-split-compile=0"]
# For the linker: the library's kernels are in the task's object and in the object of the helpers.
TWICE_DEFINED = ["-Xlinker", "-zmuldefs"]

# The parts of the compiled library with their folders, and the names under which their bodies are compiled (core/config.hpp). No
# task needs "linalg", whose factorizations compile longer than the rest of the library.
PARTS = {"backend": ["backend/cpu"], "tensor": ["tensor", "autograd"], "layers": ["layers"], "linalg": ["tensor"]}
BODIES = {"backend": ["backend", "products"], "tensor": ["tensor"], "layers": ["layers"], "linalg": ["linalg"]}


class Workshop:
    """Builds checks and runs them. `student`: folders that come before include/, the nearest first.

    `common`: the folder of the library's own objects, which do not depend on a student's headers. Workshops with the same folder
    compile them once."""

    def __init__(self, folder=None, call=None, compiler=None, sanitize=False, say=lambda text: None, common=None):
        self.folder, self.say = Path(folder or ROOT / "build" / "tt"), say
        self.common = Path(common or self.folder)
        self.call, self.compiler = call, compiler or os.environ.get("CXX", "g++")
        self.jobs, self.gold = CORES, shutil.which("ld.gold")  # gold takes half the time
        self.guard, self.locks = threading.Lock(), {}
        self.sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"] if sanitize else []

    # An object is compiled again if its command or one of its source files has changed.
    def compile(self, source, name, flags, compiler=None):
        with self.guard:
            lock = self.locks.setdefault(name, threading.Lock())
        with lock:
            return self.compile_if_changed(*self.object(source, name, flags, compiler))

    def object(self, source, name, flags, compiler=None):
        """(object, the record of its last compilation, the command that compiles it)"""
        target = self.folder / name
        command = [compiler or self.compiler, *flags]
        command += ["-x", "c++-header", str(source)] if target.suffix == ".gch" else ["-c", str(source)]
        return target, target.with_name(target.name + ".json"), command

    @staticmethod
    def is_current(target, record, command):
        try:
            known = json.loads(record.read_text())
            return known["command"] == command and target.exists() and all(stamp(p) == s for p, s in known["files"].items())
        except (OSError, ValueError, KeyError):
            return False

    def compile_if_changed(self, target, record, command):
        if self.is_current(target, record, command):
            return None, target
        target.parent.mkdir(parents=True, exist_ok=True)
        source = command[-1]
        began, before, made = time.time_ns(), stamp(source), target.with_name(f"{target.name}.{os.getpid()}")
        depends = made.with_name(made.name + ".d")
        done = self.call([*command, "-MMD", "-MF", str(depends), "-o", str(made)], 600)
        if done.code != 0:
            return done, target
        os.replace(made, target)  # two copies of tt may build at once
        names = re.split(r"(?<!\\)\s+", depends.read_text().partition(":")[2].replace("\\\n", " "))
        # A compiler cache may name a file by its path from the folder where the compiler ran.
        files = {n: stamp(n) for n in (os.path.join(ROOT, n.replace("\\ ", " ")) for n in names if n)}
        depends.unlink()
        # Otherwise a file changed during the compilation, and the compiler may have read its old content: compile again next time.
        same = os.path.realpath(source)
        if all(s and (s[2] < began - CLOCK_STEP or (os.path.realpath(n) == same and s == before)) for n, s in files.items()):
            write_whole(record, json.dumps({"command": command, "files": files}))
        return None, target

    def base_flags(self, device):
        lines = "-g1" if device != "cpu" or self.sanitize else "-g0"  # reports need line numbers
        flags = ["-std=c++20", "-pipe", "-fdiagnostics-color=never", "-Wall", "-Wno-unknown-pragmas", "-Wno-unused", lines,
                 "-Werror=return-type"]  # a missing `return` crashes somewhere else
        if device != "cpu":
            flags.append("-DTINYTORCH_WITH_CUDA=1")
        if device == "sim":
            flags += ["-DTINYTORCH_CUDA_SIM=1", "-gdwarf-4"]  # include/cuda.cmake gives the reason
        return flags + (self.sanitize if device == "cpu" else [])  # not for the emulator, which has its own fibers and checks

    def include_flags(self, student):
        return [f"-I{p}" for p in [*(p for folder in student for p in (folder, *self.frames_of(folder))), INCLUDE, MODULES]]

    def frames_of(self, folder):
        """The folder with the frames of the files in `folder`/tasks. Only headers whose tasks are there are
        replaced; all others are the library's."""
        headers = {f"tinytorch/{p.relative_to(folder / 'tasks')}" for p in (folder / "tasks").rglob("*") if p.suffix in (".hpp", ".cuh")}
        base = self.folder / "frames" / key_of([folder])
        place = base / "generated"
        for old in place.rglob("*.[hc]*"):
            if str(old.relative_to(place)) not in headers and not old.name.startswith("."):  # those are being written
                old.unlink(missing_ok=True)
        for header in headers:
            frame = frame_of(header)
            if frame:  # named below modules/, so that the text is the same in every checkout
                self.generated(header, f"#include <{frame.relative_to(MODULES).as_posix()}>\n", base)
        return [place] if headers else []

    def generated(self, name, text, folder=None):
        path = (folder or self.folder) / "generated" / name
        if not path.exists() or path.read_text() != text:
            write_whole(path, text)
        return path

    def library(self, student, parts, device):
        """The compiled library. Functions of a check replace those of the library, which are weak symbols."""
        jobs, place = [], self.folder / f"library-{key_of(student)}" if student else self.common / "library"
        for part in parts:
            headers = sorted(p.relative_to(INCLUDE) for f in PARTS[part] for p in (INCLUDE / "tinytorch" / f).rglob("*.hpp"))
            text = "".join(f"#include <{h}>\n" for h in headers if h.name != "print.hpp")
            # At -O0 it compiles in half the time, and the checks run as fast as at -O1; only the sanitizers make them slow.
            flags = [*self.base_flags(device), "-O1" if self.sanitize else "-O0", "-fno-math-errno", "-fno-trapping-math", "-w",
                     "-DTINYTORCH_COMPILED", "-DTINYTORCH_REPLACEABLE", *self.include_flags(student)]
            for name in BODIES[part]:
                source = self.generated(f"{name}.cpp", f"#define TINYTORCH_IMPLEMENT_{name.upper()} 1\n" + text, self.common)
                jobs.append((source, place / f"{device}-{name}.o", flags))
        return jobs

    def support(self, device, names=("main", "check", "pattern", "values", "precompiled")):
        """The objects that checks and speed programs share; they do not depend on a student's headers."""
        flags = [*self.base_flags(device), "-O1", f"-I{INCLUDE}", f"-I{MODULES}"]
        return [(MODULES / "support" / f"{n}.cpp", f"support/{n}-{device}.o", flags) for n in names]

    def runtime(self, device):
        """The runtime that launches kernels, without kernels."""
        text = "#include <tinytorch/backend/cuda/runtime/runtime.cuh>\n#include <tinytorch/backend/cuda/device/fault.cuh>\n"
        flags = [*self.base_flags(device), "-w", f"-I{INCLUDE}"]
        if device == "sim":
            return [(self.generated("runtime.cpp", text, self.common), self.common / "runtime/sim.o", [*flags, *SIM_FLAGS]),
                    (self.generated("emulator.cpp", "#include <tinytorch/backend/cuda/sim/bodies.hpp>\n", self.common),
                     self.common / "runtime/emulator.o", [*flags, "-O2"])]
        return [(self.generated("runtime.cu", text, self.common), self.common / "runtime/cuda.o", self.nvcc_flags([]), "nvcc")]

    def nvcc_flags(self, student, optimize=("-O2",)):
        machine = os.environ.get("TT_CUDA_ARCH", "native")  # for sm_90a, `-arch` would compile everything a second time, to PTX
        target = "-arch=native" if machine == "native" else f"-gencode=arch={machine.replace('sm_', 'compute_')},code={machine}"
        return ["-std=c++20", *optimize, "-w", "--expt-relaxed-constexpr", target, "-DTINYTORCH_WITH_CUDA=1",
                *self.include_flags(student)]

    def build(self, jobs, progress=False):
        """Compiles [(source, object, flags[, compiler])] in parallel. Returns (the first failure or None, objects). With `progress`, it
        says after each part how much is done."""
        pool, began, done = ThreadPoolExecutor(max_workers=self.jobs), time.monotonic(), []

        def compiled(job):
            outcome = self.compile(*job)
            done.append(job)
            if progress:
                bar = "#" * (20 * len(done) // len(jobs))
                self.say(f"  [{bar:<20}] {len(done)} of {len(jobs)}, {time.monotonic() - began:3.0f} s: {Path(job[1]).stem} is built")
            return outcome

        try:
            outcomes = list(pool.map(compiled, jobs))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C does not wait for compilers; its handler stops them
        return next((failed for failed, _ in outcomes if failed), None), [target for _, target in outcomes]

    def precompiled(self, header, device, options):
        """(the job that compiles it, the flags that use it)"""
        folder = self.folder / f"{header}{''.join(options)}-{device}"
        stub = folder / "header.hpp"
        if not stub.exists():
            write_whole(stub, "#error the precompiled header was not used\n")
        flags = [*self.base_flags(device), *options, f"-I{INCLUDE}", f"-I{MODULES}"]
        return (MODULES / "support" / f"{header}.hpp", f"{folder.name}/header.hpp.gch", flags), ["-include", str(stub)]

    def check(self, task, student, below=(), device="sim", clean=False, seconds=None, name=None):
        """Runs the check of a task on the headers in `student[0]` and in the folders of `below`.

        clean: the library itself is compiled with these headers, too, as in `check NN`; otherwise it is the reference's, and only the
        check and the student's functions that it includes are compiled."""
        began = time.monotonic()
        guard = GUARD.search(task.file_in(student[0]).read_text(encoding="utf-8", errors="replace")) if student else None
        if guard:  # otherwise the library's bodies would be judged
            return Verdict(task, "compile", f"{task.header} contains `{guard.group()}`, as in the library's header, so its functions "
                           f"would not be compiled here.\n  Write `{for_checks(guard.group())}`, as in the starter.")
        device = "cpu" if task.device == "cpu" else device
        place = f"{name or key_of(student)}/{task.slug}-{device}"
        include = self.include_flags([*student, *below])
        flags = [*self.base_flags(device), task.optimize]
        defines = ["-DTINYTORCH_COMPILED"] if task.needs else []  # the precompiled header needs the definition, too
        task_flags = defines if clean and not task.bodies else [*defines, "-DTINYTORCH_TASK"]
        header, use_header = self.precompiled("precompiled", device, [task.optimize, *defines])
        headers = [header]
        own = place  # a check calls kernels through the declarations of the launchers, so its object is the same for every answer
        if task.device == "cuda":
            own, include, task_flags = f"checks/{task.slug}-{device}", self.include_flags([]), defines
        jobs = [*self.support(device), (task.check, f"{own}.o", [*flags, *use_header, *task_flags, *include])]
        if task.device == "cuda":
            header, use_header = self.precompiled("precompiled_kernels", device, SIM_FLAGS)
            quick = device == "sim" and not clean  # `clean` uses all headers of the student, including those below
            headers += [header] if quick else []
            how = NVCC_QUICK if device == "cuda" else use_header if quick else []
            jobs += self.kernels(task, student, below, device, place, how) + self.runtime(device)
        # Otherwise the reference's library serves, so that an edit of a header of an earlier module rebuilds nothing but the check.
        library = self.library([*student, *below] if clean else [], task.needs, device)
        if student and device != "cuda" and not all(self.is_current(*self.object(*job)) for job in [*headers, *library, *self.support(device)]):
            wrong = self.syntax_error(task, student, [*self.base_flags(device), *task_flags, *self.include_flags([*student, *below])])
            if wrong:
                return Verdict(task, "compile", wrong, seconds=time.monotonic() - began)
        first = not all((self.folder / job[1]).exists() for job in headers + ([] if clean else library))
        if first:
            self.say(FIRST_BUILD)
        failed, _ = self.build(headers)
        if not failed:  # the largest parts first, so that no core waits for one of them at the end
            failed, objects = self.build(library[::-1] + jobs, first and len(library) > 0)
            objects = objects[len(library):] + objects[:len(library)]  # the linker keeps the first definition, which is the student's
        program = self.folder / place
        failed = failed or self.link(objects, program, device, [] if student else TWICE_DEFINED)
        if failed:
            text = lacking(task, student, failed.text) or failed.text
            return Verdict(task, "compile", text, seconds=time.monotonic() - began)
        # On a busy machine the slowest check takes 2 s, or 7 s on a kernel of the library; sanitizers make it slower.
        verdict = self.run(task, program, seconds or int(os.environ.get("TT_SECONDS", "60" if self.sanitize else "20")))
        verdict.seconds = time.monotonic() - began
        return verdict

    def syntax_error(self, task, student, flags):
        """The compiler's errors in the student's file, or "". The header is read alone, before the parts of the library that are not
        built yet, because these take a minute. Errors elsewhere are left to the build."""
        source = self.generated(f"{task.module.number}-{task.slug}-alone.cpp", f"#include <{task.header}>\n")
        path = re.escape(str(task.file_in(student[0])))
        own, other = rf"^{path}:\d+(?::\d+)?: (?:fatal )?error", r": (?:fatal )?error:"
        job, use = self.neighbours(task.module, task.device)
        if not self.sanitize and self.is_current(*self.object(*job)):
            done = self.call([self.compiler, *self.include_flags(student[:1]), *job[2], *use, "-fsyntax-only", str(source)], 120)
            found = re.findall(own, done.text, re.M)
            if not found:
                return ""
            # It does not see the student's headers of earlier modules, so it is believed if each error is one of syntax.
            if len(found) == len(re.findall(other, done.text)) == len(re.findall(r"error: (?:expected|missing|stray)", done.text)):
                return done.text
        done = self.call([self.compiler, *flags, "-fsyntax-only", str(source)], 120)
        return done.text if done.code != 0 and re.search(own, done.text, re.M) else ""

    def neighbours(self, module, device):
        """(the job that compiles it, the flags that use it): the library's headers that the headers of a module's tasks for a device
        include, as one precompiled header. Those that need a header of the module itself are left out, because it is the student's."""
        frames_of_it = [module.frame(t.header) for t in module.tasks if t.device == device]
        device = "cpu" if device == "cpu" else "sim"
        texts = [p.read_text(encoding="utf-8") for p in frames_of_it if p.exists()]
        own, known = {t.header for t in module.tasks}, {}
        text = "".join(f"#include <{h}>\n" for h in sorted({h for t in texts for h in included(t) if not reaches(h, own, known)}))
        flags = [*self.base_flags(device), "-DTINYTORCH_COMPILED", "-DTINYTORCH_TASK"]
        folder = self.folder / f"neighbours-{module.number}-{device}"
        source = self.generated(f"{folder.name}.hpp", text)
        stub = folder / "header.hpp"
        if not stub.exists():
            write_whole(stub, "")
        return (source, f"{folder.name}/header.hpp.gch", [*flags, f"-I{INCLUDE}", f"-I{MODULES}"]), ["-include", str(stub)]

    def prepare(self, module):
        """Compiles what lets a syntax error be reported in a second; the precompiled headers of other modules are removed."""
        for old in self.folder.glob("neighbours-*"):
            if not old.name.startswith(f"neighbours-{module.number}-"):
                shutil.rmtree(old, ignore_errors=True)
        self.build([self.neighbours(module, device)[0] for device in sorted({t.device for t in module.tasks})])

    def judge(self, task, student, below=(), device="sim", **more):
        """The verdict of the emulator and, on device "cuda", then that of the GPU: a GPU does not report data races and accesses out of
        bounds, which the emulator reports."""
        verdict = self.check(task, student, below, "sim", **more)
        if verdict.passed and device == task.device == "cuda":
            return self.check(task, student, below, device, **more)
        return verdict

    def speed_program(self, task, student, below, device, name):
        """Builds the optimized speed program of a task. Returns (the failure or None, program)."""
        include, place = self.include_flags([*student, *below]), f"speed-{name}/{task.slug}-{device}"
        flags = [*self.base_flags(device), "-w", "-O3", "-fno-math-errno", "-fno-trapping-math"]
        flags += ["-march=native", "-fopenmp"] if device == "cpu" else []
        jobs = [(MODULES / "support" / "speed_main.cpp", f"{place}-main.o", [*flags, *include]),
                (task.speed_program, f"{place}.o", [*flags, *include]), *self.support(device, ["values"])]
        if device != "cpu":
            jobs += self.kernels(task, student, below, device, place, COUNTED_FLAGS if device == "sim" else ["-O2"]) + self.runtime(device)
        failed, objects = self.build(jobs)
        more = ["-fopenmp"] if device == "cpu" else [] if student else TWICE_DEFINED
        return failed or self.link(objects, self.folder / place, device, more), self.folder / place

    def kernels(self, task, student, below, device, place, how):
        """Jobs that compile a task's kernels with flags `how`. The library's headers call kernels of other headers; a student's
        headers do not."""
        folders, sources = [*student, *below], {f"{place}-kernels": task.kernels}
        if not student:
            helpers = ["activation_grad", "bias_activation", "column_sums", "dropout", "elementwise", "norm", "reduce", "scan"]
            sources["library-kernels"] = [f"tinytorch/backend/cuda/kernels/{h}.cuh" for h in helpers]
        jobs = []
        for name, headers in sources.items():
            text = "".join(f"#include <{h}>\n" for h in headers)
            source = name if name == "library-kernels" else task.slug
            if device == "sim":
                flags = [*self.base_flags(device), *SIM_FLAGS, *how, *self.include_flags(folders)]
                jobs.append((self.generated(f"{source}.cpp", text), f"{name}.o", flags))
            else:
                jobs.append((self.generated(f"{source}.cu", text), f"{name}.o", self.nvcc_flags(folders, how), "nvcc"))
        return jobs

    def link(self, objects, program, device, more=()):
        """The failure, or None."""
        command = [self.compiler if device != "cuda" else "nvcc", "-o", str(program), *map(str, objects)]
        command += {"cpu": ["-pthread", *more, *self.sanitize], "sim": ["-pthread", *more, "-lboost_context", "-ldl"],
                    "cuda": [*more, "-lcublasLt"]}[device]
        gold = device != "cuda" and self.gold
        if gold and self.call([*command, "-fuse-ld=gold"], 120).code == 0:
            return None
        done = self.call(command, 120)
        if done.code == 0 and gold:
            self.gold = None  # gold is installed, but does not find the libraries of this compiler
        return done if done.code != 0 else None

    def run(self, task, program, seconds):
        nonce, results = secrets.token_hex(8), program.with_name(program.name + "-results.jsonl")
        results.unlink(missing_ok=True)
        env = dict(os.environ, TT_RESULTS=str(results), TT_NONCE=nonce, OMP_NUM_THREADS="1", TINYTORCH_SIM_DEVICES="1")
        env.pop("ASAN_OPTIONS", None)
        env.setdefault("TT_MEMORY", MEMORY)
        if self.sanitize and task.device == "cpu":
            env["ASAN_OPTIONS"] = "detect_leaks=0:hard_rss_limit_mb=4096:max_allocation_size_mb=4096"
        done = self.call([str(program), "--no-version=true"], seconds, env=env)
        try:
            lines = [json.loads(l) for l in results.read_text(encoding="ascii", errors="replace").splitlines()]
        except (OSError, ValueError):
            lines = []
        tests = [l for l in lines if "test" in l]
        begun = [l["begins"] for l in lines if "begins" in l]
        in_test = f"{begun[-1]}\n" if len(begun) > len(tests) else ""
        ended = bool(lines) and lines[-1].get("done") == nonce
        for test in tests:
            test["message"] = own_lines_first(test["message"])
        bad = next((t for t in tests if not t["passed"]), None)
        if bad:
            hint = SIGNALS.get(bad["message"].partition(" ")[0]) or (NO_MEMORY if "bad_alloc" in bad["message"] else None)
            return Verdict(task, "failed", f"{bad['test']}\n{bad['message']}" + (f"\n  {hint}" if hint else ""), tests)
        used = getattr(done, "memory", 0.0)
        if done.timed_out and used >= MUCH_MEMORY or done.code in (-9, 137) and not done.timed_out:
            when = f" after {seconds} s," if done.timed_out else ""
            return Verdict(task, "memory", f"{in_test}the program was stopped{when} when it used {used:.1f} GiB of memory: does something grow "
                           "in an endless loop, or is a size wrong?", tests)
        if done.timed_out:
            return Verdict(task, "time", f"{in_test}the test was stopped after {seconds} s: is there an endless loop?", tests)
        if not ended or done.code != 0:
            return Verdict(task, "crash", f"{in_test}the program ended with code {done.code} before its tests did: a crash, or "
                           f"an early exit\n{done.text[-2000:]}", tests)
        ran = [t["test"] for t in tests]
        missing = [t for t in task.tests if t not in ran]
        extra = [t for t in ran if t not in task.tests]
        if missing or extra or not ran or any(t["checks"] == 0 for t in tests):
            return Verdict(task, "manifest", "tests in course.json that did not run: "
                           f"{missing}; tests that ran and are not in course.json: {extra}; tests without a check: "
                           f"{[t['test'] for t in tests if t['checks'] == 0]}", tests)
        return Verdict(task, "passed", "", tests)


def own_lines_first(text):
    """A message whose call stacks, as in TT-SIM-03, begin with the student's lines; the library's lines that these call follow."""
    def ordered(stack):
        places = re.findall(r"\n  (?:inlined )?at (\S+)", stack.group())
        own = [p for p in places if "/student/" in p]
        if not own or "/student/" in places[0]:
            return stack.group()
        first = places.index(own[0])  # the stack begins with the innermost line
        return (f"\n  at {own[0]}" + "".join(f"\n  which calls {p}" for p in reversed(places[:first]))
                + "".join(f"\n  inlined at {p}" for p in places[first + 1:]))
    return re.sub(r"\n  at \S+(?:\n  inlined at \S+)+", ordered, text)


def included(text):
    return re.findall(r"^#include <(tinytorch/[^>]+)>", text, re.M)


def reaches(header, own, known):
    """Does a header of the library include one of `own`, directly or through others? `known`: the answers so far."""
    if header not in known:
        known[header] = header in own
        path = INCLUDE / header
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        known[header] = known[header] or any(reaches(h, own, known) for h in included(text))
    return known[header]


def lacking(task, student, errors):
    """The message for a header from which functions were removed, if the compiler's errors are in other files, or None."""
    path = student[0] / task.path if student else None
    if not path or re.search(rf"^{re.escape(str(path))}:.*error", errors, re.M):
        return None
    text, lost = path.read_text(encoding="utf-8", errors="replace"), []
    for name in task.write:
        try:
            definition(text, name)
        except CourseError as problem:
            lost += [name.partition("#")[0]] if "there is no" in str(problem) else []
    return lost and (f"{task.path} does not define {', '.join(dict.fromkeys(lost))}\n  `modules/tt diff {task.id}` shows what was removed; "
                     f"`modules/tt reset "
                     f"{task.id}` brings the starter back, and a dated copy of your file is kept")


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


# Nanoseconds by which the time stamps of a file system may lag behind the clock: some advance 100 times a second.
CLOCK_STEP = 20_000_000


def stamp(path):
    """Numbers that identify a state of a file. The last one is the time at which its entry changed: a file that was written earlier
    and renamed later, as write_whole does, has an older modification time."""
    try:
        found = os.stat(path)
        return [found.st_mtime_ns, found.st_size, found.st_ctime_ns]
    except OSError:
        return None


def key_of(folders):
    """A name for these folders. It does not depend on the path of the checkout, so that a compiler cache serves other checkouts."""
    names = (str(f.relative_to(ROOT) if f.is_relative_to(ROOT) else f) for f in map(Path, folders))
    return hashlib.sha256("|".join(names).encode()).hexdigest()[:10]
