"""Grading: a student's headers are built from a clean copy and run in a sandbox with sanitizers; the grade is JSON.

The sandbox is bubblewrap (namespaces: no network, only a folder for results is writable, all processes end with the
first one) with limits on memory, processes, file sizes and time. It protects the machine against accidents and pranks.
A header is compiled into the program that tests it, so a determined cheater can forge the results of that program: `review`
lists words that no honest header needs, and a person should look at them.
"""
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
import xml.etree.ElementTree as xml
from pathlib import Path

import seal
import speed
from course import MODULES, ROOT, CourseError, Workshop, digest, write_whole
from tools import Finished, SetupProblem, call, finish, program_version, start

LIMITS = {"as": 8 << 30, "fsize": 64 << 20, "nproc": 512, "core": 0}
RESERVED = (9 << 40) + (22 << 30)  # addresses that the emulator reserves for its device memory and its shadow memory (sim/memory.hpp)
SEEN = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")  # files of the machine that the sandbox can read
SUSPICIOUS = re.compile(r"\b(getenv|system|popen|fork|exec[lv]p?e?|_exit|quick_exit|exit|abort|signal|ptrace|dlopen|dlsym|mmap|syscall|"
                        r"fopen|ofstream|ifstream|remove|unlink|rename|asm|__asm__|constructor|TT_RESULTS|TT_NONCE|doctest|main)\b")


class Sandbox:
    def __init__(self, trust=False):
        self.results = Path(tempfile.mkdtemp(prefix="tt-grade-"))
        self.results.chmod(0o777)
        self.kind = "none"
        # Limits on the number of processes have no effect for root.
        self.drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        if shutil.which("bwrap") and call(self.wrap(["true"]), 20).code == 0:
            self.kind = "bubblewrap"
        elif not trust:
            raise SetupProblem("grading runs programs of others in a sandbox: sudo apt-get install -y bubblewrap\n"
                               "  (and a system that allows user namespaces), or --trust to run them without one")

    def wrap(self, command, sanitized=False, emulated=False):
        # AddressSanitizer reserves more addresses than any such limit allows; it has its own memory limit.
        values = {**LIMITS, "as": LIMITS["as"] + (RESERVED if emulated else 0)}
        limits = ["prlimit", *(f"--{name}={value}" for name, value in values.items() if not (sanitized and name == "as"))]
        seen = [word for path in SEEN for word in ("--ro-bind-try", path, path)]
        return [*self.drop, "bwrap", "--unshare-all", "--die-with-parent", "--new-session", *seen, "--dev", "/dev", "--proc", "/proc",
                "--bind", str(self.results), str(self.results), "--chdir", str(self.results), "--", *limits, "--", *map(str, command)]

    def call(self, command, seconds=600, env=None):
        """Compilers run without the sandbox, with a timeout. A student's program runs in the sandbox, with an empty environment."""
        if "TT_RESULTS" not in (env or {}):
            return call(command, min(seconds, 120), env=env)
        kept = {k: v for k, v in env.items() if k.startswith(("TT_", "OMP_", "TINYTORCH_SIM", "ASAN_", "UBSAN_"))}
        inside = self.results / "results.jsonl"
        inside.unlink(missing_ok=True)
        program = self.results / "check"  # a copy, because the project is not visible in the sandbox
        shutil.copyfile(command[0], program)
        program.chmod(0o755)
        emulated = str(command[0]).endswith("-sim")
        command = [program, *command[1:]]
        asked = kept["TT_RESULTS"]
        kept.update(TT_RESULTS=str(inside), PATH="/usr/bin:/bin", HOME=str(self.results))
        began = time.monotonic()
        with tempfile.TemporaryFile() as log:  # a file, so that endless output reaches a limit and does not fill our memory
            child = start(self.wrap(command, "ASAN_OPTIONS" in kept, emulated) if self.kind != "none" else command, capture=False, env=kept, log=log)
            done = finish(child, seconds, began)
            log.seek(0)
            text = log.read(1 << 20).decode("utf-8", "replace")
        if inside.exists() and not inside.is_symlink():
            shutil.copyfile(inside, asked)
        return Finished(done.code, text, done.seconds, done.timed_out)

    def close(self):
        shutil.rmtree(self.results, ignore_errors=True)


def review(folder, names):
    """Words that no task needs."""
    notes = []
    for name in names:
        for number, line in enumerate((folder / name).read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            code = line.split("//")[0]
            notes += [f"{name}:{number}: {word}" for word in sorted(set(SUSPICIOUS.findall(code)))]
    return notes[:100]


def grade_speed(student, sandbox, copy, task, device):
    """(the `speed` of the task's row, the measurements, which differ each time) of a task that has passed.

    Speed programs are built without sanitizers. The library's program, with which a student's is compared, runs without the sandbox."""
    device = "cpu" if task.device == "cpu" else device
    row = {"device": {"sim": "emulator", "cuda": "gpu"}.get(device, device), "earned": 0, "points": task.speed["points"], "message": ""}
    shop = Workshop(student.shop.folder / "grade", sandbox.call)
    try:
        rows = speed.measure(shop, task, [copy], student.below(task.module, task.device), device, f"grade-{task.module.number}", student.shop)
    except CourseError as problem:
        return {**row, "message": str(problem)[:4000]}, None
    judged = speed.judge(task.speed, device, rows)
    row["earned"] = speed.earned(task.speed, judged)
    if device == "sim":
        return {**row, "works": rows, "judged": judged}, None
    return row, {"works": rows, "judged": judged}


def grade(student, module, tasks, seed=None, trust=False, device="sim", speed_too=False):
    """The grade of a module: a dictionary that is the same whenever the same files are graded, except for `times`.

    Speed points have a separate sum. Those of CPU tasks are measured: the measurements are in `times`, and the earned points
    are the same unless a measurement is near its limit."""
    began, sandbox = time.monotonic(), Sandbox(trust)
    try:
        names = student.replaced(module)
        shop = Workshop(student.shop.folder / "grade", sandbox.call, sanitize=True, say=student.console.say)
        copy = shop.folder / "student"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(module.student, copy, ignore=shutil.ignore_patterns(".*"))
        files = [{"path": n, "sha256": digest(copy / n), "bytes": (copy / n).stat().st_size} for n in names]
        if seed is None:
            seed = int(hashlib.sha256("".join(f["sha256"] for f in files).encode()).hexdigest()[:8], 16)
        os.environ["TT_SEED"] = str(seed)
        rows, times, measured = [], {}, {}
        for task in tasks:
            verdict = shop.judge(task, [copy], student.below(module, task.device), device, clean=True, name=f"grade-{module.number}")
            verdict.name_files(copy, module.student.relative_to(ROOT))
            tests = [{k: t[k] for k in ("test", "passed", "checks", "message")} for t in verdict.tests]
            message = re.sub(r"0x[0-9a-f]{6,}|==\d+==", "0x...", verdict.text)  # addresses and process numbers differ in each run
            for t in tests:
                t["message"] = re.sub(r"0x[0-9a-f]{6,}", "0x...", t["message"])
            rows.append({"id": task.id, "slug": task.slug, "title": task.title, "points": task.points,
                         "earned": task.points if verdict.passed else 0, "stage": verdict.stage, "message": message[:4000],
                         "tests": tests})
            times[task.id] = round(verdict.seconds, 2)
            if speed_too and task.speed:
                rows[-1]["speed"] = {"earned": 0, "points": task.speed["points"], "message": "the task has not passed"}
                if verdict.passed:
                    rows[-1]["speed"], measured[task.id] = grade_speed(student, sandbox, copy, task, device)
        commit = call(["git", "-C", ROOT, "rev-parse", "HEAD"], 20)
        document = {
            "schema": "tinytorch-grade-1", "module": module.id, "commit": commit.text.strip() if commit.code == 0 else None,
            "files": files, "replaced": names, "device": {"sim": "emulator", "cuda": "gpu"}[device], "sandbox": sandbox.kind,
            "toolchain": {"compiler": f"{shop.compiler} {program_version(shop.compiler)}", "sanitizers": ["address", "undefined"],
                          "nvcc": program_version("nvcc") if device == "cuda" else None},
            "seed": seed, "tasks": rows, "earned": sum(r["earned"] for r in rows), "points": sum(r["points"] for r in rows),
            "hints": {t.id: student.state.data["hints"].get(t.id, 0) for t in tasks}, "review": review(copy, names),
            "times": {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "seconds": round(time.monotonic() - began, 1),
                      "tasks": times}}
        if speed_too:
            document["speed"] = {k: sum(r["speed"][k] for r in rows if "speed" in r) for k in ("earned", "points")}
            document["times"]["speed"] = {k: v for k, v in measured.items() if v}
        return document
    finally:
        sandbox.close()


# --- Grades for other systems -------------------------------------------------------------------------------------

def gradescope(document):
    """results.json of a Gradescope autograder (its "Autograder Specifications")."""
    extra = document.get("speed", {"earned": 0, "points": 0})
    return json.dumps({
        "score": document["earned"] + extra["earned"], "max_score": document["points"] + extra["points"], "execution_time": int(document["times"]["seconds"]),
        "output": f"{document['module']}: {document['earned']} of {document['points']} points", "stdout_visibility": "hidden",
        "tests": [{"number": t["id"], "name": t["title"], "score": t["earned"], "max_score": t["points"],
                   "status": "passed" if t["stage"] == "passed" else "failed", "output": t["message"], "visibility": "visible"}
                  for t in document["tasks"]]
        + [{"number": t["id"] + " speed", "name": t["title"] + ": speed", "score": t["speed"]["earned"],
            "max_score": t["speed"]["points"], "status": "passed" if t["speed"]["earned"] else "failed", "output": t["speed"]["message"],
            "visibility": "visible"} for t in document["tasks"] if "speed" in t]}, indent=1) + "\n"


def junit(document):
    """JUnit XML, which every build server reads: a suite per task, a case per test."""
    root = xml.Element("testsuites", name=document["module"])
    clean = lambda text: re.sub(r"[^\t\n\x20-\x7e\xa0-\ud7ff]", "?", text)
    for task in document["tasks"]:
        cases = task["tests"] or [{"test": task["title"], "passed": task["stage"] == "passed", "message": task["message"]}]
        if task["stage"] not in ("passed", "failed") and task["tests"]:
            cases = cases + [{"test": "the program ends normally", "passed": False, "message": task["message"]}]
        bad = [c for c in cases if not c["passed"]]
        suite = xml.SubElement(root, "testsuite", name=f"{task['id']} {task['title']}", tests=str(len(cases)), failures=str(len(bad)),
                               time=str(document["times"]["tasks"][task["id"]]))
        for c in cases:
            case = xml.SubElement(suite, "testcase", name=clean(c["test"]), classname=f"{document['module']}.{task['slug']}")
            if not c["passed"]:
                xml.SubElement(case, "failure", message=clean(c["message"].splitlines()[0] if c["message"] else "failed")).text = clean(c["message"])
    return xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


ADAPTERS = {"gradescope": gradescope, "junit": junit}


def release(student, target, upto):
    """Makes a copy of the project for students: starters instead of solutions, TODOs in the library's headers where a task's function
    was (seal.py), no wrong or slow answers, modules up to `upto`."""
    target = Path(target).resolve()
    if target.exists() and any(target.iterdir()):
        raise CourseError(f"{target} is not empty: choose an empty folder for the release")
    listed = call(["git", "-C", ROOT, "ls-files", "-z"], 60)
    if listed.code != 0:
        raise CourseError("a release can be made only from a git checkout")
    modules = {m.id: m for m in student.course.modules}
    for name in filter(None, listed.text.split("\0")):
        parts = Path(name).parts
        module = modules.get(parts[1]) if parts[0] == "modules" and len(parts) > 2 else None
        if name == "modules/course.json" or not (ROOT / name).is_file():
            continue
        if module and (parts[2] in ("solution", "wrong", "slow") or module.number > upto or not module.released):
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)
    for module in modules.values():
        for path in module.files() if module.released and module.number <= upto else []:
            write_whole(target / "modules" / module.id / "starter" / path, module.starter(path))
    manifest = json.loads((MODULES / "course.json").read_text(encoding="utf-8"))
    for entry in manifest["modules"]:
        if entry["id"][:2] > upto:
            entry.pop("tasks", None)
            entry["released"] = False
            entry["status"] = "not yet released"
    write_whole(target / "modules" / "course.json", json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    seal.seal(target, student.course, upto)
    return target
