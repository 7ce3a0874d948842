"""Reads the declarations of a Swift file: types, members, extensions; bodies and what is private are passed over."""
import re

from e2e.contract.declarations import ACCESS, Declaration, split
from e2e.contract.source_tokens import Reader, chosen, tokens

TYPES = ("class", "struct", "enum", "protocol", "actor", "extension")
MODIFIERS = (
    *ACCESS, "static", "class", "final", "override", "required", "convenience", "mutating", "nonmutating", "weak", "unowned",
    "lazy", "nonisolated", "isolated", "indirect", "dynamic", "optional", "prefix", "postfix", "infix")
EFFECTS = ("async", "throws", "rethrows")
# Of a variable: how it is kept is no part of what others see.
UNSEEN = {"lazy"}
CONTINUES = ("where", "->", "&", *EFFECTS)


def read(text, file, defined=frozenset()):
    """All declarations of a file's text."""
    return File(Reader(tokens(chosen(text, defined), "\\("), file)).declarations


class File:
    def __init__(self, reader):
        self.reader, self.declarations = reader, []
        self.members("", "internal", "member")
        if reader.peek():
            raise reader.problem(f"{reader.peek()!r} belongs to no declaration")

    def members(self, owner, access, place, kind=""):
        """Declarations up to the bracket that closes them, or the file's end."""
        reader = self.reader
        while True:
            reader.skip_lines()
            if reader.peek() in ("", "}"):
                return
            self.member(owner, access, place, kind)

    def member(self, owner, access, place, around):
        reader = self.reader
        attributes, modifiers, setter = self.words()
        line = reader.tokens[min(reader.at, len(reader.tokens) - 1)].line
        kind = reader.next()
        own = next((word for word in modifiers if word in ACCESS), access)
        common = dict(
            owner=owner, access=own, attributes=frozenset(attributes), place=place, file=reader.file, line=line,
            modifiers=frozenset(modifiers) - set(ACCESS) - UNSEEN)
        if kind in TYPES:
            self.type(kind, common, "public" if kind == "extension" and own == "public" else None)
        elif kind == "func":
            self.function(common)
        elif kind in ("init", "subscript"):
            mark = reader.next() if reader.peek() in ("?", "!") else ""
            self.parameters(Declaration(kind, kind + mark, **common))
        elif kind in ("var", "let"):
            self.variable(kind, setter, common)
        elif kind == "case" and around == "enum":
            self.cases(common)
        elif kind in ("typealias", "associatedtype"):
            name = reader.next()
            reader.until(("=", "\n"), ())
            if reader.peek() == "=":
                reader.next()
            self.add(Declaration(kind, name, signature=tuple(reader.until((";",), CONTINUES)), **common))
        elif kind == "import":
            reader.until((), ())
        elif kind == "deinit":
            reader.group()
        else:
            raise reader.problem(f"{kind!r} isn't read here")

    def words(self):
        """The attributes and modifiers in front of a declaration, and the access of a setter where it has its own."""
        reader, attributes, modifiers, setter = self.reader, [], [], ""
        while True:
            reader.skip_lines()
            if reader.peek() == "@":
                reader.next()
                name = reader.next()
                attributes.append(name + "".join(reader.group() if reader.peek() == "(" else []))
            elif reader.peek() in MODIFIERS and not (reader.peek() == "class" and self.is_type_here()):
                word = reader.next()
                if reader.peek() == "(":
                    inner = "".join(reader.group())
                    setter, word = (word, "") if inner == "(set)" else (setter, word + inner)
                if word:
                    modifiers.append(word)
            else:
                return attributes, modifiers, setter

    def is_type_here(self):
        return self.reader.peek(1) not in (*MODIFIERS, "func", "var", "let", "subscript")

    def type(self, kind, common, members_access):
        reader = self.reader
        name = [reader.next()]
        while reader.peek() == ".":
            name += [reader.next(), reader.next()]
        signature = reader.angles() if reader.peek() == "<" else []
        inherits = []
        if reader.peek() == ":":
            reader.next()
            inherits = split(reader.until(("{", "where"), ("where", "{")))
        if reader.behind_lines() == "where":
            reader.skip_lines()
            signature += reader.until(("{",), ("{",))
        found = Declaration(kind, "".join(name), signature=tuple(signature), inherits=tuple(map(tuple, inherits)), **common)
        self.add(found)
        full = f"{found.owner}.{found.name}" if found.owner else found.name
        access = members_access or (found.access if kind == "protocol" else "internal")
        reader.skip_lines()
        reader.next()
        before = len(self.declarations)
        place = {"protocol": "requirement", "extension": "extension"}.get(kind, "member")
        self.members(full, access, place, kind)
        if kind == "enum":
            for case in self.declarations[before:]:
                case.access = found.access if case.kind == "case" and case.owner == full else case.access
        reader.next()

    def function(self, common):
        reader, name = self.reader, ""
        while reader.peek() not in ("(", "<") or not name:
            name += reader.next()
        self.parameters(Declaration("func", name, **common))

    def parameters(self, declaration):
        """The rest of a function, an initialiser or a subscript."""
        reader = self.reader
        signature = reader.angles() if reader.peek() == "<" else []
        signature += reader.group()
        signature += reader.until(("{",), (*CONTINUES, "{"))
        reader.skip_to_body()
        if reader.peek() == "{":
            declaration.has_body = True
            body = reader.group()
            if declaration.kind == "subscript":
                declaration.settable = accessors(body)[0]
        declaration.signature = tuple(signature)
        self.add(declaration)

    def variable(self, kind, setter, common):
        reader = self.reader
        declaration = Declaration(kind, reader.next(), **common)
        if reader.peek() == ":":
            reader.next()
            declaration.signature = tuple(reader.until(("{", "=", ",")))
        is_set = kind == "var" and not setter
        if reader.peek() == "=":
            reader.next()
            # A closure that the value begins with or is called is a part of it.
            value = reader.group() if reader.peek() == "{" else []
            while (part := reader.until(("{", ","), (".", "?", "&&", "||"))):
                value += part
                if "<" in value and reader.peek() == "," and value.count("<") > value.count(">"):
                    value.append(reader.next())
            if not declaration.signature:
                declaration.signature, declaration.inferred = type_of(value), not type_of(value)
        if reader.peek() == "{":
            declaration.has_body = declaration.place != "requirement"
            can_set, is_stored = accessors(reader.group())
            is_set = is_set and (can_set or is_stored)
        declaration.settable = is_set
        self.add(declaration)
        if reader.peek() == ",":
            reader.next()
            self.variable(kind, setter, common)

    def cases(self, common):
        reader = self.reader
        while True:
            reader.skip_lines()
            declaration = Declaration("case", reader.next(), **common)
            if reader.peek() == "(":
                declaration.signature = tuple(reader.group())
            if reader.peek() == "=":
                declaration.signature += tuple(reader.until((",",)))
            self.add(declaration)
            if reader.peek() != ",":
                return
            reader.next()

    def add(self, declaration):
        self.declarations.append(declaration)


def accessors(body):
    """Says of a variable's braces if it can be set through them, and if they only watch a stored one."""
    depth, names = 0, set()
    for token, behind in zip(body, [*body[1:], ""]):
        depth += (token in ("{", "(", "[")) - (token in ("}", ")", "]"))
        if depth == 1 and token in ("set", "_modify", "didSet", "willSet") and behind in ("{", "(", "}", "get"):
            names.add(token)
    return bool(names & {"set", "_modify"}), bool(names & {"didSet", "willSet"})


def type_of(value):
    """The type of a variable that only its first value tells; empty if that doesn't."""
    if value in (["true"], ["false"]):
        return ("Bool",)
    if len(value) == 1 and value[0].startswith('"'):
        return ("String",)
    if len(value) == 1 and re.fullmatch(r"[0-9][0-9_]*", value[0]):
        return ("Int",)
    path = []
    for token in value:
        if token == "." and path and path[-1] != ".":
            path.append(token)
        elif re.fullmatch(r"[A-Z]\w*", token) and (not path or path[-1] == "."):
            path.append(token)
        else:
            break
    rest = value[len(path):]
    if path and path[-1] == ".":
        # A constant of the type: A.B.c
        return tuple(path[:-1]) if len(rest) == 1 and re.fullmatch(r"[a-z]\w*", rest[0]) else ()
    closed = rest[-1:] == [")"] and rest[0] == "(" and len(split(rest, at="\0")) == 1 and ends_once(rest)
    return tuple(path) if path and closed else ()


def ends_once(group):
    """Tells if the bracket that opens first closes last."""
    depth = 0
    for index, token in enumerate(group):
        depth += (token == "(") - (token == ")")
        if not depth:
            return index == len(group) - 1
    return False
