"""Converts a student's files of an earlier version into the current form: `modules/tt migrate NN`.

An old file is a whole header. Its items (functions, types, constants) are the tasks' functions, given parts, or the student's
own. last_version.json has a short hash of every given part of the previous version, so a given part is recognized even if the
current text differs, and the names that have changed since. If the header has a frame, the tasks' functions and the student's own items
become student/tasks/PATH. If it has none, they are put into a copy of the current header. Includes of headers that have moved follow
moved.json.
"""
import hashlib
import json
import re
from typing import NamedTuple

import frames
from course import INCLUDE, MODULES
from starters import CourseError, definition, end_of, head_of, opening

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|[(){}\[\];=]', re.S)
NAMESPACE = re.compile(r"(?:inline )?namespace\s*([\w: ]*?)\s*\{")
CONDITION = re.compile(r"#\s*(if|ifdef|ifndef|else|elif|endif)\b")


class Item(NamedTuple):
    """A declaration or definition at the level of a namespace or a class, with the comment directly above it."""
    name: str
    comment: str
    text: str
    scope: tuple
    start: int

    @property
    def whole(self):
        return self.comment + self.text


def moved():
    return json.loads((MODULES / "moved.json").read_text(encoding="utf-8"))


def before(header):
    """The path of a header in the previous version."""
    return next((old for old, new in moved().items() if new == header), header)


def last_version():
    return json.loads((MODULES / "last_version.json").read_text(encoding="utf-8"))


def with_names_of_today(text):
    names, renamed = moved(), last_version()["renamed"]
    text = re.sub(r'(?m)^(\s*#\s*include\s*<)([^>]+)>', lambda m: f"{m[1]}{names.get(m[2], m[2])}>", text)
    return re.sub(rf"\b(?:{'|'.join(renamed)})\b", lambda m: renamed[m[0]], text) if renamed else text


def fingerprint(text):
    """A hash that is the same for texts that differ only in white space and in the line breaks of comments."""
    words = re.sub(r"//", " ", text).split()
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:8]


def name_of(text):
    """The name that an item declares."""
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    if plain.startswith("#"):
        return " ".join(plain.split()[:2]).partition("(")[0]
    plain = plain.lstrip()[after_template(plain.lstrip(), 0):]
    plain = re.sub(r"__launch_bounds__\s*\([^()]*\)", "", plain)
    found = re.match(r"\s*(?:struct|class|union|enum class|enum struct|enum)\s+(\w+)", plain) or re.match(r"\s*using\s+(\w+)\s*=", plain)
    if found:
        return found[1]
    head = re.split(r"[={;]", plain, maxsplit=1)[0]
    found = re.search(r"(~?\w+|operator\s*\S+?)\s*\(", head) or re.search(r"(\w+)(?:\s*\[[^\]]*\])*\s*$", head)
    return found[1] if found else ""


def after_template(text, start):
    """The position after the `template <...>` at `start`, or `start` if there is none."""
    found = re.match(r"template\s*<", text[start:])
    i, depth = start + (found.end() if found else 0), 1 if found else 0
    while depth:
        depth += {"<": 1, ">": -1}.get(text[i], 0)
        i += 1
    return i


def end_of_item(text, start):
    """The position after the function, type or variable that begins at `start`."""
    depth, valued, i = 0, False, after_template(text, start)
    typed = re.match(r"\s*(?:struct|class|union|enum)\b", text[i:])
    while True:
        found = TOKEN.search(text, i)
        if not found:
            return len(text)
        t, i = found.group(), found.end()
        depth += (t in ("(", "[", "{")) - (t in (")", "]", "}"))
        valued = valued or (t == "=" and depth == 0)
        if depth < 0:
            return found.start()
        if depth == 0 and t == ";":
            return i
        if depth == 0 and t == "}":
            more = re.match(r"\s*;", text[i:])
            if more and (typed or valued or not text[start:i].rstrip().endswith(")")):
                return i + more.end()
            if not typed and not valued and not re.match(r"\s*[,{(]", text[i:]):
                return i


def items(text, begin=0, stop=None, scope=()):
    """The items of a text, including its #include and #define lines."""
    found, scopes, i, comment, stop = [], [scope], begin, None, len(text) if stop is None else stop
    while i < stop:
        line_end = text.find("\n", i, stop)
        line_end = stop if line_end < 0 else line_end + 1
        line = text[i:line_end].strip()
        first = i + len(text[i:line_end]) - len(text[i:line_end].lstrip())
        named = NAMESPACE.match(line)
        if not line:
            comment, i = None, line_end
        elif line.startswith("//"):
            comment, i = i if comment is None else comment, line_end
        elif line.startswith("#"):
            while text[:line_end].endswith("\\\n"):
                line_end = text.find("\n", line_end) + 1
            if re.match(r"#\s*(include|define)", line):
                found.append(Item(name_of(line), text[comment:i] if comment is not None else "", text[i:line_end], scopes[-1], i))
            comment, i = None, line_end
        elif named:
            scopes.append((*scopes[-1], *[p for p in re.split(r"::(?:inline )?", named[1]) if p]) if named[1] else (*scopes[-1], ""))
            comment, i = None, first + named.end()
        elif line.startswith("}"):
            scopes.pop() if len(scopes) > 1 else None
            comment, i = None, first + 1
            i = line_end if text[i:line_end].strip().startswith(("//", ";")) else i
        elif re.match(r"(public|private|protected):", line):
            comment, i = None, line_end
        else:
            end = min(end_of_item(text, first), stop)
            rest = re.match(r"[ \t]*(//[^\n]*)?\n", text[end:stop])  # a comment at the right of the item belongs to it
            end = end + rest.end() if rest else end
            body = text[i:end] if end > i else text[i:line_end]
            found.append(Item(name_of(text[first:end]), text[comment:i] if comment is not None else "", body, scopes[-1], i))
            comment, i = None, max(end, i + 1)
    return found


def members(item):
    """The items inside a class."""
    brace = re.search(r"\{", re.sub(r"//[^\n]*", lambda m: " " * len(m[0]), item.text))
    return items(item.text, brace.end(), end_of(item.text, brace.start()) - 1, (*item.scope, item.name)) if brace else []


def is_class(item):
    text = item.text.lstrip()
    return re.match(r"\s*(struct|class)\b[^;{(]*\{", text[after_template(text, 0):]) is not None


def given_parts(text, names):
    """The hashes of a header's items, comments, members of classes and conditional lines, without the definitions of the functions in
    `names`."""
    hashes = {fingerprint(l) for l in text.splitlines() if CONDITION.match(l)}
    for item in items(text):
        for i in (item, *(members(item) if is_class(item) else [])):
            hashes |= {fingerprint(i.comment)} if i.comment else set()
            hashes |= {fingerprint(i.text)} if i.name not in names or i.text.rstrip().endswith(";") else set()
    return sorted(hashes)


def plain_names(names):
    return {n.partition("#")[0].rpartition("::")[2] for n in names}


class Old:
    """A whole header of a student, compared with its given parts."""

    def __init__(self, module, header, text):
        record = last_version()["headers"].get(before(header), {"parts": [], "names": {}})
        self.text, self.given, self.header = with_names_of_today(text), set(record["parts"]), header
        # A given include was recorded with any of the names that its header has had.
        self.given |= {fingerprint(f"#include <{new}>") for old, new in moved().items() if fingerprint(f"#include <{old}>") in self.given}
        for item in items(text):  # given parts that use a name that has changed
            for i in (item, *(members(item) if is_class(item) else [])):
                self.given |= {fingerprint(with_names_of_today(t)) for t in (i.comment, i.text) if fingerprint(t) in self.given}
        self.write = [n for t in module.tasks if t.header == header for n in t.write]
        self.items = items(self.text)
        self.warnings = []
        hidden = [n for t in module.tasks if t.header == header for n in t.hide]  # the student may have such a function
        self.hidden = [n for n in hidden if n.rpartition("::")[2] in {m.name for i in self.items if is_class(i) for m in members(i)}]
        self.names = {n: record["names"].get(n, n) for n in (*self.write, *self.hidden)}  # as the version before counted overloads

    def function(self, name):
        """(comment, definition) of a task's function, or None if the student's file does not have it. A given comment is returned as "",
        so that the current comment is used."""
        try:
            line, _, end = definition(self.text, self.names[name])
        except CourseError:
            self.warnings.append(f"{name} was not found: the new file has its TODO")
            return None
        start = above = head_of(self.text, line)
        while self.text[:above].rstrip(" ").endswith("\n") and self.text[self.text.rfind("\n", 0, above - 1) + 1:above].strip().startswith("//"):
            above = self.text.rfind("\n", 0, above - 1) + 1
        comment = self.text[above:start]
        return ("" if fingerprint(comment) in self.given else comment), self.text[start:end]

    def own(self, today):
        """The items that a student added: not given, not of a task, and not in the current text."""
        known, found = {i.name for i in items(today)}, []
        for item in self.items:
            if fingerprint(item.text) in self.given or self.is_task(item) or item.text.strip() == "#pragma once":
                continue
            if is_class(item) and any("::" in n and n.split("::")[0] == item.name for n in self.write):
                continue
            if item.name in known and not (item.text.startswith("#include") and item.text.strip() not in today):
                self.warnings.append(f"{item.name} is a given part that you changed: the new file has the current one")
            else:
                found.append(item)
        if any(CONDITION.match(l) and fingerprint(l) not in self.given and "TT_BODIES" not in l and l.split() != ["#endif"]
               for l in self.text.splitlines()):
            self.warnings.append("#if lines were not copied")
        return found

    def is_task(self, item):
        return "{" in item.text and item.name in {n.partition("#")[0] for n in self.write if "::" not in n} \
            and not is_class(item) and not item.text.rstrip().endswith(";")

    def own_members(self, today):
        """{class: members that a student added to it}"""
        found = {}
        current = {i.name: {m.name for m in members(i)} for i in items(today) if is_class(i)}
        for item in self.items:
            if is_class(item) and item.name in current:
                added = [m for m in members(item) if fingerprint(m.text) not in self.given and m.name not in current[item.name]
                         and m.name not in plain_names(self.write)]
                found.update({item.name: added} if added else {})
        return found


def after_class(definition_text, name):
    """The parts of a member's definition as it is written outside its class."""
    owner, _, plain = name.partition("#")[0].rpartition("::")
    lines = definition_text.split("\n")
    text = "\n".join(l[2:] if l.startswith("  ") else l for l in lines)
    brace = opening(text, text.index(f"{plain}(") + len(plain))
    head, body = text[:brace], text[brace:]
    head = re.sub(r"\b(override|final|virtual|static|explicit|inline)\b ?", "", head)
    first = head.index(f"{plain}(") + len(plain) + 1
    last = frames.after_bracket(head, first - 1) - 1
    parameters = " ".join(frames.without_defaults(head[first:last]).split())
    return owner, plain, head[:first] + parameters + head[last:], body


def replaced(text, name, comment, new):
    """`text` with the definition of a function replaced, and also the comment above it unless `comment` is ""."""
    line, _, end = definition(text, name)
    start = above = head_of(text, line)
    while comment and text[text.rfind("\n", 0, above - 1) + 1:above].strip().startswith("//"):
        above = text.rfind("\n", 0, above - 1) + 1
    return text[:above if comment else start] + comment + new + text[end:]


def in_namespace(text, names):
    text = text.strip("\n") + "\n"
    if not names:
        return text
    name = "::".join(("inline " if n == "TT_BUILD" else "") + n for n in names)
    return f"namespace {name + ' ' if name else ''}{{\n{text}}}\n"


def before_first(text, names, added):
    """`text` with `added` inserted before the first of these functions and its comment."""
    at = min(head_of(text, definition(text, n)[0]) for n in names)
    while text[text.rfind("\n", 0, at - 1) + 1:at].strip().startswith("//"):
        at = text.rfind("\n", 0, at - 1) + 1
    return text[:at] + added + "\n" + text[at:]


def migrated(module, header, text):
    """(text of the new file, warnings that a person should look at)."""
    task = next(t for t in module.tasks if t.header == header)
    old, framed = Old(module, header, text), task.path != header
    new = module.starter(task.path, old.hidden)
    frame = module.frame(header).read_text(encoding="utf-8") if framed else new
    for name in (*old.write, *old.hidden):
        found = old.function(name)
        if found is None:
            continue
        comment, body = found
        if framed and "::" in name:
            owner, plain, head, rest = after_class(body, name)
            line, brace, _ = definition(new, name)
            today = new[head_of(new, line):brace]  # template line, return type and owner are the current ones
            taken = head[head.index(f"{plain}(") + len(plain):]
            last = frames.after_bracket(taken, 0) - 1
            begin = today[:today.index(f"::{plain}(") + 3 + len(plain)]
            body = frames.wrapped(begin, taken[1:last], taken[last:].rstrip() + " ") + rest
            comment = re.sub(r"(?m)^  ", "", comment)
        elif framed and frames.is_cut(frame):
            body = frames.as_in_tasks(body, name.partition("#")[0])
        new = replaced(new, name, comment, body)
    own = old.own(frame + "\n" + new)
    includes = "".join(i.text for i in own if i.text.startswith("#include"))
    if includes:
        new = new.replace("#pragma once\n", "#pragma once\n\n" + includes, 1)
    base = next(i.scope for i in items(new) if i.name in plain_names(old.write) or any(n.startswith(i.name + "::") for n in old.write))
    helpers, outside = [], []
    for item in (i for i in own if not i.text.startswith("#include")):
        inner = item.scope[len(base):] if item.scope[:len(base)] == base else None
        (outside if inner is None else helpers).append(in_namespace(item.whole, item.scope if inner is None else inner))
    if outside:
        at = max([m.end() for m in re.finditer(r"(?m)^#(?:pragma once|include .*)\n", new[:new.index("\nnamespace")])] or [0])
        new = new[:at] + "\n" + "\n".join(outside) + new[at:]
    helpers = "\n".join(helpers)
    if helpers:
        free = [n for n in old.write if "::" not in n] if not framed else old.write
        if free:
            new = before_first(new, free, helpers)
        else:  # before the class with the tasks' functions
            owner = re.search(rf"(?m)^(?:class|struct) {old.write[0].split('::')[0]}\b", new)
            at = head_of(new, owner.start())
            new = new[:at] + helpers + "\n" + new[at:]
    for owner, added in old.own_members(frame).items():
        inside = [n for n in old.write if n.startswith(owner + "::")]
        if framed or not inside:
            old.warnings.append(f"{owner} had members that you added, {', '.join(m.name for m in added)}: make them functions outside the class")
        else:
            new = before_first(new, inside, "\n".join(m.whole.strip("\n") for m in added) + "\n")
    return new, old.warnings


def lacking(module, header, text):
    """The names of the given parts of the current header that a student's whole header does not have."""
    written = plain_names(n for t in module.tasks if t.header == header for n in (*t.write, *t.hide))
    names = {i.name for i in items((INCLUDE / header).read_text(encoding="utf-8")) if not i.text.startswith("#")}
    return sorted(names - written - {i.name for i in items(text)})


def is_old(module, header, text):
    """The reason why a student's whole header needs `migrate`, or ""."""
    if module.frame(header).exists():
        return "has the form of an earlier version: it contains given parts, which are now in the library"
    code, renamed = re.sub(r"//[^\n]*", "", text), last_version()["renamed"]
    name = next((n for n in renamed if re.search(rf"\b{n}\b", code)), None)
    return includes_moved(text) or (f"uses {name}, which is {renamed[name]} now" if name else "")


def includes_moved(text):
    """The complaint about the first include of a header that has moved, or ""."""
    code, names = re.sub(r"//[^\n]*", "", text), moved()
    name = next((n for n in re.findall(r"(?m)^\s*#\s*include\s*<([^>]+)>", code) if n in names), None)
    return f"includes <{name}>, which is <{names[name]}> now" if name else ""
