"""The answers of a released tree: the release keeps them in one compressed file, `sealed.bin`, and include/ has TODOs in their place.

`modules/tt solution` reads an answer from this file after its task has passed. Programs are compiled on a copy of include/ in
build/reference/, in which the answers are filled in; there a function is one line without comments, so that an editor which follows
a name does not show an answer by accident. This is a seal, not a lock: whoever decompresses the file reads it.

  python3 modules/seal.py     brings build/reference/ up to date and prints its include folder (CMake calls this)
"""
import json
import re
import shutil
import zlib
from pathlib import Path

from starters import CourseError, cut, definition, head_of, write_whole

ROOT = Path(__file__).resolve().parent.parent
SEALED = ROOT / "modules" / "sealed.bin"
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|\s+', re.S)


def squeezed(code, gap=" "):
    """Code without comments and with `gap` for white space; strings stay. White space is needed between words only."""
    one = lambda m: m[0] if m[0][0] in "\"'" else gap
    return TOKEN.sub(one, code)


def one_line(text, name):
    """A header in which the body of a function is one line without comments."""
    _, brace, end = definition(text, name)
    body = text[brace:end]
    if re.search(r"^\s*#", body, re.M):  # a directive needs its own line; comments go
        return text[:brace] + re.sub(r"\n\s*\n", "\n", re.sub(r"//[^\n]*", "", body)) + text[end:]
    return text[:brace] + squeezed(body) + text[end:]


def names_in(text, tasks):
    """[(function, task)] of the tasks' functions that a header of the library defines. A constexpr function stays: the compiler
    calls it, so it cannot be a TODO."""
    found = []
    for task in tasks:
        for name in (*task.write, *task.hide):
            try:
                line, brace, _ = definition(text, name)
                if "constexpr " not in text[head_of(text, line):brace]:
                    found.append((name, task.id))
            except CourseError:
                pass  # the library divides the work otherwise than the course does
    return found


def opened(text, tasks):
    for name, _ in names_in(text, tasks):
        text = one_line(text, name)
    return text


def closed(text, tasks):
    """A header of the library with a TODO instead of each function of a task."""
    for name, task in sorted(names_in(text, tasks), key=lambda n: n[0].partition("#")[2], reverse=True):
        text = cut(text, name, task)
    if "todo(" in text and "<tinytorch/core/error.hpp>" not in text:
        text = re.sub(r"^#include <tinytorch", "#include <tinytorch/core/error.hpp>\n#include <tinytorch", text, count=1, flags=re.M)
    return text


def seal(target, course, upto):
    """Closes the headers of a released tree and writes its sealed file: the opened headers, and the solutions up to a module."""
    kept = {"include": {}, "solution": {}}
    headers = dict.fromkeys(t.header for t in course.tasks)
    for header in headers:
        tasks, path = [t for t in course.tasks if t.header == header], target / "include" / header
        text = path.read_text(encoding="utf-8")
        if names_in(text, tasks):
            kept["include"][header] = opened(text, tasks)
            write_whole(path, closed(text, tasks))
    for module in course.modules:
        for path in module.files() if module.released and module.number <= upto else []:
            kept["solution"][f"{module.id}/{path}"] = module.solution(path)
    (target / "modules" / SEALED.name).write_bytes(zlib.compress(json.dumps(kept).encode(), 9))


def content():
    return json.loads(zlib.decompress(SEALED.read_bytes()))


def solution(module, path):
    """The solution of a student's file in a released tree, or None in the project itself."""
    return content()["solution"].get(f"{module}/{path}") if SEALED.exists() else None


def include_folder(root=ROOT):
    """The headers on which everything is compiled: include/, or in a released tree its copy with the answers."""
    source = root / "include"
    if not SEALED.exists():
        return source
    target, answers = root / "build" / "reference" / "include", None
    for path in source.rglob("*"):
        copy = target / path.relative_to(source)
        if not path.is_file() or (copy.exists() and copy.stat().st_mtime_ns >= max(path.stat().st_mtime_ns, SEALED.stat().st_mtime_ns)):
            continue
        answers = content()["include"] if answers is None else answers
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = answers.get(str(path.relative_to(source)))
        if text is not None:
            write_whole(copy, text)
        else:
            part = copy.with_name(f".{copy.name}.part")
            shutil.copyfile(path, part)
            part.replace(copy)
    return target


if __name__ == "__main__":
    print(include_folder())
