"""Executes every command and every code block of the lessons (modules/NN/README.md). Prints `ok - ` and `not ok - ` lines.

  ```sh      commands, run in order in a copy of the project; a command that must fail ends in `# fails`
  ```text    after another block: each line must occur in its output; numbers may differ
  ```cpp     with `int main`: a program, which must compile and exit with 0; a text block may follow
             with the first line `// in FILE`: an excerpt, which must occur in that file (below include/tinytorch, the module's
             folder or the project)
             otherwise: statements, compiled and run inside main with tinytorch.hpp

  python3 tests/course/lessons.py [--only 01]
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
failed = 0


def report(name, good, why=""):
    global failed
    failed += 0 if good else 1
    print(("ok - " if good else "not ok - ") + name)
    if not good:
        print("\n".join("  " + line for line in str(why).strip().splitlines()[-40:]))
    sys.stdout.flush()


def blocks(text):
    """[(language, content, line)]"""
    return [(m.group(1), m.group(2), text.count("\n", 0, m.start()) + 1)
            for m in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)]


def plain(line):
    """The line with N in place of numbers, without colors and with single spaces."""
    return re.sub(r"\s+", " ", re.sub(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "N", re.sub(r"\x1b\[[0-9;]*m", "", line))).strip()


def missing_lines(expected, output):
    have = [plain(l) for l in output.splitlines()]
    return [l for l in expected.splitlines() if l.strip() and l.strip() != "..." and not any(plain(l) in h for h in have)]


def clone(folder):
    """A copy of the project in `folder`, so that `start` and `reset` in a lesson do not change files of a student."""
    for path in ROOT.iterdir():
        if path.name not in ("modules", "build", ".git") and not path.name.startswith("build"):
            (folder / path.name).symlink_to(path)
    shutil.copytree(ROOT / "modules", folder / "modules", ignore=shutil.ignore_patterns("student", "student-kept", ".tt-*", "__pycache__"))
    (folder / "build").mkdir()
    return folder


def run_commands(content, cwd):
    output = ""
    for line in content.splitlines():
        command, _, note = line.partition("  #")
        if not command.strip() or command.startswith("#"):
            continue
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=cwd, stdin=subprocess.DEVNULL, timeout=900,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
        text = done.stdout.decode("utf-8", "replace")
        output += text
        if (done.returncode != 0) != (note.strip() == "fails"):
            return False, f"`{command.strip()}` ended with {done.returncode}\n{text}"
    return True, output


def run_cpp(content, cwd, module):
    excerpt = re.match(r"// in (\S+)\n", content)
    if excerpt:
        places = [ROOT / "include/tinytorch" / excerpt.group(1), module / excerpt.group(1), ROOT / excerpt.group(1)]
        found = next((p for p in places if p.is_file()), None)
        if not found:
            return False, f"there is no file {excerpt.group(1)}"
        squeezed = lambda text: re.sub(r"\s+", " ", text).strip()
        have = squeezed(found.read_text(encoding="utf-8"))
        lost = [part for part in re.split(r"^\s*// \.\.\.\s*$", content[excerpt.end():], flags=re.M) if squeezed(part) not in have]
        return not lost, f"not in {found.relative_to(ROOT)}:\n" + "\n".join(lost)
    source = cwd / "snippet.cpp"
    text = content
    if "int main" not in content:
        text = ("#include <iostream>\n#include <tinytorch/io/print.hpp>\n#include <tinytorch/tinytorch.hpp>\nnamespace tt = tinytorch;\n"
                "int main() {\n" + content + "}\n")
    source.write_text(text)
    built = subprocess.run(["g++", "-std=c++20", "-O0", "-I", str(ROOT / "include"), str(source), "-o", str(cwd / "snippet"), "-lfmt"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if built.returncode != 0:
        return False, built.stdout.decode("utf-8", "replace")
    done = subprocess.run([str(cwd / "snippet")], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    return done.returncode == 0, done.stdout.decode("utf-8", "replace")


def check_lesson(path):
    """[(name, good, why)] of one lesson, executed in its own copy of the project."""
    text, name, rows = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)), []

    def row(what, good, why=""):
        rows.append((f"{name}{what}", good, why))

    lines = text.count("\n")
    row(" has at most 300 lines", lines <= 300, f"{lines}")
    for image in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
        row(f": {image}", (path.parent / image).is_file(), "the image file does not exist")
    with tempfile.TemporaryDirectory() as folder:
        cwd, output, good = clone(Path(folder)), "", False
        for language, content, line in blocks(text):
            began = time.monotonic()
            if language == "text":
                if good:
                    lost = missing_lines(content, output)
                    row(f":{line} output", not lost, "these lines were not printed:\n" + "\n".join(lost) + "\nthe output:\n" + output[-3000:])
                continue
            try:
                if language == "sh":
                    good, output = run_commands(content, cwd)
                elif language in ("cpp", "cuda"):
                    good, output = run_cpp(content, cwd, path.parent)
                else:
                    good, output = False, f"blocks of `{language}` are not executed: use sh, text or cpp"
            except subprocess.TimeoutExpired as problem:
                good, output = False, f"{problem}"
            row(f":{line} {language} ({time.monotonic() - began:.1f} s)", good, output)
    row(" has commands", any(l == "sh" for l, _, _ in blocks(text)))
    return rows


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="")
    options = options.parse_args()
    lessons = sorted(p for p in ROOT.glob("modules/[0-9][0-9]_*/README.md") if p.parent.name.startswith(options.only))
    report("there are lessons", lessons, "there is no modules/NN/README.md")
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        for rows in pool.map(check_lesson, lessons):
            for row in rows:
                report(*row)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
