"""A small scanner of the library's headers: declarations with their comments, and the bodies of functions.

It supports the C++ that these headers use: namespaces, classes, enumerations, functions, fields, templates. It skips declarations that it
cannot parse.
"""
import bisect
import dataclasses
import re

NOISE = re.compile(r"""//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"
                       |(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'""", re.M | re.S | re.X)
BRACE = re.compile(r"[{}]")
SPACE = re.compile(r"\s*")
STRUCTURE = re.compile(r"[{}();]|(?<!:):(?!:)")
OPERATOR = re.compile(r"\boperator\s*(\(\)|\[\]|[^\s\w(]+|\s*\w+)\s*\(")
SPECIFIERS = re.compile(r"\b(?:TT_API|inline|constexpr|explicit|virtual|override|final|friend|mutable|TT_HOST_DEVICE)\b\s*"
                        r"|\[\[[^\]]*\]\]\s*")


@dataclasses.dataclass
class Declaration:
    kind: str        # function, class, enum, field, alias
    name: str
    owner: str       # the class around it, else ""
    space: str       # namespaces below tinytorch, "statistics" for example
    signature: str   # one line, without the body
    comment: str     # the comment above the declaration, else the one at its right
    above: bool      # the comment is above the declaration
    section: str     # the text of the nearest line `// --- text ---` before it
    line: int
    last_line: int
    bases: str = ""
    body: str = ""
    public: bool = True
    helper: bool = False   # after a line `// -----`, or where bodies are compiled
    declared: bool = True  # false: a definition outside its class

    @property
    def full_name(self):
        return "::".join(part for part in (self.space, self.owner, self.name) if part)


class Scanner:
    def __init__(self, text):
        self.text, self.found = text, []
        self.lines = [m.end() for m in re.finditer("\n", text)]
        self.beside, self.above, self.sections = {}, {}, []  # comments by line
        self.bodies, self.separator = [], None
        self.code = self.blank(text)
        self.scan(0, "", "", True)

    def line(self, position):
        return bisect.bisect_right(self.lines, position) + 1

    def blank(self, text):
        """The text with comments, strings and preprocessor lines replaced by spaces; stores the comments."""
        pieces, at, column, opened = [], 0, {}, []
        for found in NOISE.finditer(text):
            pieces += [text[at:found.start()], re.sub(r"[^\n]", " ", found.group())]
            at, word, line = found.end(), found.group(), self.line(found.start())
            if word.startswith("//"):
                start = text.rfind("\n", 0, found.start()) + 1
                alone, where = not text[start:found.start()].strip(), found.start() - start
                column[line] = where
                if re.fullmatch(r"//\s*-{20,}", word):
                    self.separator = self.separator or line
                elif alone and re.fullmatch(r"//\s*---\s.*\s---", word):
                    self.sections.append((line, re.sub(r"^//\s*---\s*|\s*---$", "", word)))
                elif alone and line - 1 in self.beside and column.get(line - 1) == where:  # continues the comment of the line before
                    self.beside[line] = self.beside[line - 1]
                    self.beside[line].append(word[2:])
                elif alone:
                    self.above[line] = word[2:]
                else:
                    self.beside[line] = [word[2:]]
            elif word.lstrip().startswith("#"):
                directive = word.split("#", 1)[1].lstrip()
                if directive.startswith("if"):
                    opened.append(line if "TT_BODIES" in directive else None)
                elif directive.startswith("endif") and opened:
                    begin = opened.pop()
                    if begin:
                        self.bodies.append((begin, line))
        return "".join(pieces) + text[at:]

    def comment(self, first, last):
        lines, at = [], first - 1
        while at in self.above:
            lines.insert(0, self.above[at])
            at -= 1
        return (one_line(lines), True) if lines else (one_line(self.beside.get(last, [])), False)

    def matching(self, brace):
        depth = 0
        for found in BRACE.finditer(self.code, brace):
            depth += 1 if found.group() == "{" else -1
            if depth == 0:
                return found.start()
        return len(self.code)

    def scan(self, at, space, owner, public):
        """Adds the declarations from `at` to the end of its scope. Returns the position after the scope."""
        while at < len(self.code):
            at = SPACE.match(self.code, at).end()
            depth, begin, signature_end, before = 0, at, None, at
            for found in STRUCTURE.finditer(self.code, at):
                sign, where = found.group(), found.start()
                if where < before:  # inside braces that were skipped
                    continue
                if sign in "()":
                    depth += 1 if sign == "(" else -1
                    continue
                if depth > 0:
                    continue
                head = self.code[begin:where].strip()
                if sign == ":":
                    if owner and head in ("public", "private", "protected"):
                        public, at = head == "public", where + 1
                        break
                    if head.endswith(")") or head.endswith("noexcept"):
                        signature_end = where  # the initializers of a constructor come next
                    continue
                if sign == "}":
                    return where + 1
                if sign == ";":
                    self.declare(begin, signature_end or where, where, space, owner, public)
                    at = where + 1
                    break
                # An opening brace.
                if re.match(r"(inline\s+)?namespace\b", head):
                    named = re.sub(r"(inline\s+)?namespace\b|\binline\b|tinytorch|TT_BUILD|\s|::", " ", head).split()
                    at = self.scan(where + 1, "::".join([space, *named]).strip(":"), owner, public)
                    break
                bare = without_angles(head)
                kind = re.match(r"(?:template\s*)?(?:requires\b.*?)?(class|struct|enum(?:\s+class)?)\s+(?:\[\[.*?\]\]\s*)?([\w:]+)", bare)
                if kind and "(" not in bare.split(" requires ")[0]:
                    at = self.enter(kind, begin, where, space, owner, public)
                    break
                initializer = signature_end and re.search(r"\w$", self.code[begin:where])
                if "(" in bare and not initializer and not re.search(r"(?<![=!<>])=(?!=)", bare.split("(")[0].replace("operator=", "")):
                    end = self.matching(where)
                    self.declare(begin, signature_end or where, end, space, owner, public, self.text[signature_end or where:end + 1])
                    at = end + 1
                    break
                before = self.matching(where) + 1  # a value in braces
            else:
                return len(self.code)
        return at

    def enter(self, kind, begin, brace, space, owner, public):
        end = self.matching(brace)
        word, name = kind.group(1).split()[0], kind.group(2)
        inside = "::".join(part for part in (owner, name) if part)
        shown = self.text[begin:end + 1] if word == "enum" else self.text[begin:brace]
        bases = self.code[begin:brace].partition(name)[2].partition(":")[2]
        self.add("enum" if word == "enum" else "class", name, space, owner, shown, begin, end, public, bases=bases)
        if word != "enum":
            self.scan(brace + 1, space, inside, word == "struct")
            first, last = self.line(brace), self.line(end)
            self.sections = [s for s in self.sections if not first < s[0] < last]  # they belong to the class
        return end + 1

    def declare(self, begin, signature_end, end, space, owner, public, body=""):
        head = self.code[begin:signature_end].strip()
        alias = re.match(r"using\s+(\w+)\s*=", head)
        if alias and public:
            self.add("alias", alias.group(1), space, owner, self.text[begin:end], begin, end, public)
        if not head or re.match(r"(using|typedef|static_assert|extern|friend|template\s+(class|struct)?\s*[A-Z])\b", head):
            return
        if re.match(r"(class|struct|enum)\s[\w\s]*$", head) or "= delete" in self.code[begin:end]:
            return
        bare = without_angles(head)
        operator = OPERATOR.search(head)
        named = operator or re.search(r"([\w:~]+)\s*\((?!.*\brequires\s*\($)", re.sub(r"\b(requires|noexcept|decltype|alignas|__attribute__)\s*\((?:[^()]|\([^()]*\))*\)", " ", bare))
        is_function = named and not re.search(r"(?<![=!<>])=(?!=)", bare.split("(")[0].replace("operator=", ""))
        if is_function:
            name = "operator" + operator.group(1).strip() if operator else named.group(1)
            if operator and head[:operator.start()].rstrip().endswith("::"):
                name = head[:operator.start()].split()[-1] + name
            self.add("function", name, space, owner, self.text[begin:signature_end], begin, end, public, body)
        else:
            value = re.split(r"[={]", bare)[0].split(",")[0].split("[")[0].split()
            if len(value) > 1:
                self.add("field", value[-1].strip("&*"), space, owner, self.text[begin:end], begin, end, public)

    def add(self, kind, name, space, owner, shown, begin, end, public, body="", bases=""):
        first, last = self.line(begin), self.line(end)
        head, _, tail = name.rpartition("::")
        declared = not head
        if head and not owner:
            owner = head
        name = tail if head else name
        comment, above = self.comment(first, last)
        section = max((s for s in self.sections if s[0] < first), default=(0, ""))[1]
        helper = bool(self.separator and first > self.separator) or any(b <= first <= e for b, e in self.bodies)
        self.found.append(Declaration(kind, name, owner, space, clean(shown, kind), comment, above, section, first, last,
                                      " ".join(bases.split()), body, public and not name.startswith("~"), helper, declared))


def one_line(lines):
    """Comment lines as one line; a line with a deeper indent is a formula, which is put in backquotes."""
    words = []
    for line in lines:
        indent, text = len(line) - len(line.lstrip()), line.strip()
        if text:
            words.append(f"`{text}`" if indent >= 3 and "`" not in text else text)
    return " ".join(words)


def without_angles(text):
    """The text without template arguments, so that parentheses in them are not taken for parameters."""
    text = re.sub(r"operator\s*[<>=!+*/%&|^-]+", "operator", text).replace("->", "  ").replace("<=", "  ").replace(">=", "  ")
    while True:
        shorter = re.sub(r"<[^<>]*>", "", text)
        if shorter == text:
            return text
        text = shorter


def clean(signature, kind):
    """The signature in one line: without the parameter for the caller's line, and without specifiers for the compiler."""
    text = re.sub(r"//[^\n]*", "", signature)
    text = SPECIFIERS.sub("", " ".join(text.split()))
    text = re.sub(r"\bLoc (\w+) = Loc::current\(\)", "TT_LOC", text)
    text = re.sub(r",\s*TT_LOC(?=\s*\))|\(TT_LOC(?=\s*\))", lambda m: "(" if m.group().startswith("(") else "", text)
    text = re.sub(r"\s*=\s*default$", "", text).replace("( ", "(").strip()
    return text if kind != "enum" else re.sub(r"\s*:\s*u?int\d*_t", "", text)


def summary(text):
    """The first paragraph of the head comment of a header."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//") or not line[2:].strip():
            break
        lines.append(line[2:])
    return one_line(lines)
