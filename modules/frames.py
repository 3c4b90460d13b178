"""Cuts a course header of the library in two: the frame, which keeps the given parts, and the file of the tasks, which has
their functions. Together they are the library's header again, so that a solution and a frame need not be written by hand.

  python3 modules/frames.py             writes all frames that are cut again
  python3 modules/frames.py 1.1 2.2     writes those of the headers that have these tasks

The frame declares every function of a task, with its default arguments; the tasks' file defines it without them, a member
behind its class. A header that differs from its solution (modules/NN/solution/) has a frame that is written by hand.
"""
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

from starters import GUARD, CourseError, definition, for_checks, head_of, write_whole

WIDTH = 110
CUT = "It is cut from the library's header by modules/frames.py."
OPENS, CLOSES = "([{<", ")]}>"


class Part(NamedTuple):
    """A function of a task, as the library's header has it."""
    task: str
    name: str
    hidden: bool    # a helper of the solution that the starter lacks
    start: int      # of the comment above it
    head: int       # of its first line
    brace: int
    end: int
    owner: str      # the class in which it is defined, else ""
    spaces: tuple   # the namespaces around it, the outermost first


def is_cut(frame):
    return " ".join(CUT.split()) in " ".join(frame.replace("//", " ").split())


def parts_of(text, tasks):
    """The tasks' functions, in the order of the header."""
    found = []
    for task in tasks:
        for name in (*task.write, *task.hide):
            line, brace, end = definition(text, name)
            head = start = head_of(text, line)
            while text[text.rfind("\n", 0, start - 1) + 1:start].strip().startswith("//"):
                start = text.rfind("\n", 0, start - 1) + 1
            owner = name.rpartition("::")[0] if text[line] == " " else ""
            found.append(Part(task.id, name.partition("#")[0].rpartition("::")[2], name in task.hide, start, head, brace, end, owner,
                              namespaces_at(text, head)))
    return sorted(found, key=lambda p: p.start)


def namespaces_at(text, position):
    stack = []
    for line in text[:position].splitlines():
        opened = re.match(r"namespace (.*?) ?\{$", line)
        if opened:
            stack.append(opened[1])
        elif re.match(r"}\s*// namespace", line):
            stack.pop()
    return tuple(stack)


def signature(text, part):
    """(template line, what is before the name, name, parameters, what follows them, a constructor's initializers)"""
    head = text[part.head:part.brace].strip()
    template = re.match(r"template\s*<", head)
    at = after_bracket(head, template.end() - 1) if template else 0
    found = re.compile(rf"(?<![\w.>])(?:\w+::)?{re.escape(part.name)}\(").search(head, at)
    close = after_bracket(head, found.end() - 1)
    after, colon, inits = re.match(r"([^:]*)(:?)(.*)", head[close:], re.S).groups()
    return head[:at], head[at:found.start()].strip(), found.group()[:-1], head[found.end():close - 1], after.strip(), colon + inits


def after_bracket(text, start):
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] in OPENS) - (text[i] in CLOSES)
        if depth == 0:
            return i + 1
    raise CourseError("unbalanced brackets")


def without_defaults(parameters):
    """`class T = X, int n = f(1, 2)` without the defaults; TT_LOC stands for a parameter with one."""
    kept, depth, skips = "", 0, False
    for c in parameters.replace("TT_LOC", "Loc loc"):
        depth += (c in OPENS) - (c in CLOSES)
        skips = (skips or c == "=") and not (c == "," and depth == 0) if depth == 0 or skips else skips
        kept += "" if skips else c
    return re.sub(r"\s+(?=,|$)", "", kept)


def template_without_defaults(line):
    return re.sub(r"<(.*)>", lambda m: f"<{without_defaults(m[1])}>", line, flags=re.S)


def declared(text, part):
    """A function's declaration, as it stands in the frame."""
    template, before, name, parameters, after, _ = signature(text, part)
    indent = "  " if part.owner else ""
    lines = [indent + template] if template else []
    if after.endswith(("override", "final")) or before.startswith("virtual "):
        before = f"inline {before}"  # else every file that includes the class compiles its virtual functions
    return "\n".join([*lines, wrapped(indent + f"{before} {name}(".lstrip(), parameters, f") {after}".rstrip() + ";")])


def noted(text, part):
    """A declaration that names its task, at its right if there is room."""
    line, note = declared(text, part), f"task {part.task}" + (", where you may define it" if part.hidden else "")
    rest = text[part.end:text.index("\n", part.end)]
    if len(line.splitlines()[-1]) + len(note) + 5 > WIDTH or rest:
        return ("  " if part.owner else "") + f"// {note.capitalize()}.\n" + line
    return f"{line}  // {note}"


def defined(text, part):
    """A function's definition with its comment, as it stands in the tasks' file."""
    template, before, name, parameters, after, inits = signature(text, part)
    comment, body = text[part.start:part.head], text[part.brace:part.end]
    template = template_without_defaults(template)
    if part.owner:
        comment, body, inits = (re.sub(r"(?m)^  ", "", t) for t in (comment, body, inits))
        after = " ".join(w for w in after.split() if w not in ("override", "final"))
        before = " ".join(w for w in before.split() if w not in ("virtual", "static", "explicit"))
        of_class = class_template(text, part.owner)
        arguments = re.findall(r"(\w+)\s*(?:,|>$)", of_class)
        name = part.owner + (f"<{', '.join(arguments)}>" if of_class else "") + "::" + name
        before = f"inline {before}".strip() if not template and not of_class else before
        template = "\n".join(t for t in (of_class, template) if t)
    inits = ("\n    " if "\n" in inits else " ") + inits if inits else ""
    line = wrapped(f"{before} {name}(".lstrip(), without_defaults(parameters), f") {after}".rstrip() + inits + " {")
    if "\n" not in body and len(line) + len(body) - 1 > WIDTH and "\n" not in line:
        body = "{\n  " + body[1:-1].strip() + "\n}"
    return comment + (template + "\n" if template else "") + line + body[1:] + "\n"


def as_in_tasks(text, name):
    """A function's definition without the default arguments, which its frame has."""
    brace = definition(text, name)[1]
    template, before, shown, parameters, after, _ = signature(text, Part("", name, False, 0, 0, brace, 0, "", ()))
    shorter = template_without_defaults(template)
    if shorter == template and without_defaults(parameters) == parameters:
        return text
    line = wrapped(f"{before} {shown}(", without_defaults(parameters), f") {after}".rstrip() + " {")
    return (shorter + "\n" if shorter else "") + line + text[brace + 1:]


def class_template(text, name):
    """`template <class T>` of a class, without defaults, or ""."""
    at = re.search(rf"(?m)^(?:class|struct) {name}\b[^;]*?\{{", text).start()
    return template_without_defaults(text[head_of(text, at):at].strip())


def wrapped(begin, parameters, end):
    """A signature in lines of at most WIDTH columns, with the parameters below one another's beginning."""
    above, _, begin = begin.rpartition("\n")
    if above:
        return above + "\n" + wrapped(begin, parameters, end)
    one = " ".join(parameters.split())
    first = end.partition("\n")[0]
    if len(begin + one + first) <= WIDTH:
        return begin + one + end
    lines, depth, words, word = [begin], 0, [], ""
    for c in one + ",":
        depth += (c in OPENS) - (c in CLOSES)
        if c == "," and depth == 0:
            words.append(word.strip())
            word = ""
        else:
            word += c
    for i, word in enumerate(words):
        more = f"{word}," if i < len(words) - 1 else word + first
        if i == 0:
            lines[-1] += more
        elif len(lines[-1]) + 1 + len(more) <= WIDTH:
            lines[-1] += " " + more
        else:
            lines.append(" " * len(begin) + more)
    return "\n".join(lines) + end[len(first):]


def filled(words, width=WIDTH):
    """A comment in lines."""
    lines = ["//"]
    for word in words.split():
        if len(lines[-1]) + 1 + len(word) > width:
            lines.append("//")
        lines[-1] += " " + word
    return "\n".join(lines) + "\n"


def head_comment(text):
    return text[:re.search(r"(?m)^(?!//)", text).start()]


def listed(ids):
    return f"task {ids[0]}" if len(ids) == 1 else f"tasks {', '.join(ids[:-1])} and {ids[-1]}"


def needs_no_declaration(text, part):
    """Kernels, which only their launchers name, launchers, which backend/cuda/launch.hpp declares, and what the header itself
    declares above."""
    _, before, name, _, _, _ = signature(text, part)
    return ("__global__" in before or "::" in name or before.startswith("TT_API") or
            not part.owner and "inline" not in before and "template" not in text[part.head:part.brace])


def frame_of(text, file, tasks):
    """The frame of a header: declarations in place of the tasks' functions, which it includes at its end."""
    head = head_comment(text)
    first = head.split("\n//\n")[0].rstrip("\n") + "\n"
    ids = [t.id for t in tasks]
    about = first + "//\n" + filled(f"The frame of a course header: it has the given parts, and includes the functions of {listed(ids)}. {CUT}")
    pieces, at, before = [], len(head), None
    for part in parts_of(text, tasks):
        between = text[at:part.start]
        if needs_no_declaration(text, part):
            pieces.append(between)
        else:
            pieces += ["\n" if before and before.task == part.task and not between.strip() else between, noted(text, part)]
            before = part
        at = part.end
    kept = "".join([*pieces, text[at:]])
    while re.search(r"(?m)^namespace [^\n]*\{\s*\}[^\n]*\n", kept):
        kept = re.sub(r"(?m)^namespace [^\n]*\{\s*\}[^\n]*\n\n?", "", kept)
    include = f"#include <tasks/{file}>\n"
    if GUARD.search(kept):
        kept = for_checks(kept)
        end = kept.rindex("#endif")
        kept = kept[:end].rstrip("\n") + "\n\n" + include + kept[end:]
    else:
        kept = kept.rstrip("\n") + "\n\n" + include
    return re.sub(r"\n{3,}", "\n\n", about + kept)


def tasks_of(text, module, file, tasks):
    """The functions of the tasks, as a file that the frame includes."""
    by_task = " ".join(f"Task {t.id}: {', '.join(dict.fromkeys(n.partition('#')[0] for n in t.write))}." for t in tasks)
    frame = f"modules/{module}/frame/tinytorch/{file}"
    out = head_comment(text) + "//\n" + filled(f"{by_task} The given parts of this header are in {frame}, which includes this file.")
    out, opened = out + "#pragma once\n", ()
    for part in parts_of(text, tasks):
        common = 0
        while common < min(len(opened), len(part.spaces)) and opened[common] == part.spaces[common]:
            common += 1
        out += "".join(f"\n}}  // namespace {n}\n" for n in reversed(opened[common:]))
        out += "".join(f"\nnamespace {n} {{\n" for n in part.spaces[common:])
        opened = part.spaces
        out += "\n" + defined(text, part)
    return out + "".join(f"\n}}  // namespace {n}\n" for n in reversed(opened))


def cut_headers(modules):
    """[(module, file, tasks)] of the course's headers that are their own solutions."""
    found = []
    for module in modules:
        for file in dict.fromkeys(t.file for t in module.tasks):
            if not (module.folder / "solution" / "tasks" / file).exists():
                found.append((module, file, [t for t in module.tasks if t.file == file]))
    return found


def same(one, other):
    """Returns True if two texts differ at most in white space and in the line breaks of comments."""
    return one.replace("//", "").split() == other.replace("//", "").split()


def main():
    import course
    for module, file, tasks in cut_headers(course.Course().modules):
        path = module.frame(f"tinytorch/{file}")
        if not (path.exists() if len(sys.argv) == 1 else any(t.id in sys.argv[1:] for t in tasks)):
            continue
        text = frame_of((course.INCLUDE / "tinytorch" / file).read_text(encoding="utf-8"), file, tasks)
        if path.exists() and same(text, path.read_text(encoding="utf-8")):
            continue
        write_whole(path, text)
        if shutil.which("clang-format"):
            subprocess.run(["clang-format", "-i", str(path)], check=True)
        print(f"{path.relative_to(course.ROOT)} is written")


if __name__ == "__main__":
    main()
