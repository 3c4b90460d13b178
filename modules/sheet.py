"""A sheet of what the headers of tasks may call (`tt api 01`, `tt api 1.4`). It is made from the headers: the functions that a student
writes, the frames, the headers that these include, and the few that every header knows, such as Shape and View, if they are reached. The
sheet of a module has only the names of what is in other headers than these few; the sheet of a task has all signatures."""
import functools
import re
import textwrap

from api import public_entries
from course import INCLUDE, frame_of, included
from headers import Scanner, summary

# Headers that are listed even if they are included only through others. All other headers are listed if a frame includes them.
EVERYWHERE = ("core/shape.hpp", "core/dtype.hpp", "core/error.hpp", "core/random.hpp", "backend/view.hpp", "backend/functors.hpp",
              "backend/parameters.hpp", "tensor/tensor.hpp", "tensor/operators.hpp", "tensor/functions.hpp")
# Many functions in one header: their names; `tt api NAME` describes each.
NAMES_ONLY = ("tensor/functions.hpp",)
# Headers of which a task needs a few names only, and these names.
OF_THESE = {"core/error.hpp": ("Error", "fail", "todo")}
SHORT = 110  # characters of a comment


@functools.lru_cache(maxsize=None)
def includes(header):
    path = INCLUDE / header
    return included(path.read_text(encoding="utf-8")) if path.is_file() else []


def reached(header, known=None):
    """The library's headers that a header includes, directly or through others, in the order in which they are found."""
    known = {} if known is None else known
    for name in includes(header):
        if name not in known:
            known[name] = True
            reached(name, known)
    return list(known)


def headers_of(tasks):
    """(the headers of the tasks, those that their text may use)"""
    own = list(dict.fromkeys(t.header for t in tasks))
    direct, all_of_them = [], []
    for header in own:
        frame = frame_of(header)
        names = included((frame or INCLUDE / header).read_text(encoding="utf-8"))
        direct += names
        all_of_them += [n for name in names for n in [name, *reached(name)]]
    umbrella = {n for n in direct if not entries(n)}  # a header of #includes, such as tensor/ops.hpp
    wanted = {f"tinytorch/{n}" for n in EVERYWHERE} | (set(direct) - umbrella)
    found = [n for n in dict.fromkeys([*direct, *all_of_them]) if n in wanted and n not in own]
    places = [f"tinytorch/{n}" for n in EVERYWHERE]
    return own, sorted(found, key=lambda n: (places.index(n) if n in places else -1, found.index(n)))


@functools.lru_cache(maxsize=None)
def entries(header):
    path = frame_of(header) or INCLUDE / header
    found = list(public_entries(scanned(path.read_text(encoding="utf-8")))) if path.is_file() else []
    special = {f"{e.owner}::{e.name}".strip(":") for e in found if e.signature.startswith("template <>")}
    wanted = OF_THESE.get(header.removeprefix("tinytorch/"))
    return [e for e in found if not e.signature.startswith("template <>") and e.owner not in special
            and (wanted is None or (e.owner or e.name) in wanted)]


def first_sentence(comment):
    text = re.split(r"(?<=[.:;]) ", comment.strip(), maxsplit=1)[0].rstrip(":;")
    return textwrap.shorten(text, SHORT, placeholder=" ...")


def scanned(text):
    """The declarations of a text, without words that say how a compiler places a kernel's code."""
    return Scanner(re.sub(r"__launch_bounds__\([^()]*(?:\([^()]*\))?[^()]*\) ?|__(?:forceinline|noinline|grid_constant)__ ", "", text)).found


def to_write(tasks, path):
    """The functions of a student's file, each as one line."""
    wanted = {name.partition("#")[0].split("::")[-1] for t in tasks if t.path == path for name in t.write}
    found = [e for e in scanned(tasks[0].module.starter(path)) if e.kind == "function" and e.name in wanted]
    return list(dict.fromkeys(f"{e.owner}::{e.signature}" if e.owner and not e.declared else e.signature for e in found))


def lines_of(header, names_only=False):
    """The public declarations of a header, each as one line, or their names."""
    found = entries(header)
    if names_only or header.removeprefix("tinytorch/") in NAMES_ONLY:
        return textwrap.wrap(", ".join(dict.fromkeys(e.name for e in found if not e.owner)), 120, break_long_words=False)
    lines = []
    for e in found:
        text = first_sentence(e.description) if e.description else ""
        lines.append("  " * (1 if e.owner else 0) + e.signature + (f"  // {text}" if text else ""))
    return lines


def page(tasks):
    """The sheet as [(heading, its lines)]."""
    own, others = headers_of(tasks)
    parts = [(f"<{path}>  you write", to_write(tasks, path)) for path in dict.fromkeys(t.path for t in tasks)]
    for header in [*own, *others]:
        ids = ", ".join(t.id for t in tasks if t.header == header)
        about = first_sentence(summary((INCLUDE / header).read_text(encoding="utf-8")))
        names_only = len(tasks) > 1 and header not in own and header.removeprefix("tinytorch/") not in EVERYWHERE
        lines = lines_of(header, names_only)
        if lines:
            parts.append((f"<{header}>" + (f"  task {ids}" if ids else "") + f"  {about}", lines))
    return parts


def command(console, title, tasks):
    parts = page(tasks)
    console.say(f"{title}: what the headers of its tasks may call; `modules/tt api NAME` describes one name")
    for heading, lines in parts:
        console.say("\n" + heading)
        for line in lines:
            console.say("  " + line)
    console.result({"command": "api", "passed": True, "name": title,
                    "headers": [{"header": re.match(r"<(.*?)>", heading).group(1), "lines": lines} for heading, lines in parts]})
    return 0
