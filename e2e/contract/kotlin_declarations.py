"""Reads the declarations of a Kotlin file: types with their constructors, functions, properties; bodies are passed over.

An owner is the package with the types around, so that a declaration in another package is another one. The name of an extension
begins with what it extends: Hotwire.registerBridgeComponents.
"""
import re

from e2e.contract.declarations import Declaration, split
from e2e.contract.source_tokens import Reader, tokens
from e2e.contract.swift_declarations import type_of as type_of_value

ACCESS = ("private", "internal", "protected", "public")
MODIFIERS = (
    *ACCESS, "open", "abstract", "final", "override", "suspend", "data", "sealed", "inner", "inline", "operator", "infix", "const",
    "lateinit", "companion", "enum", "annotation", "value", "external", "tailrec", "vararg", "noinline", "crossinline", "reified")
# How a value is made or kept, and what the compiler does with it, is no part of what others write.
UNSEEN = {"lateinit", "const", "tailrec", "external", "inline"}
GOES_ON = (".", "?.", "?:", "&&", "||", "else", "as", "catch", "finally", "where", "{")
JOINS = (".", "->", ":", ",", "=", "?:", "?.", "&&", "||", "+", "-", "by", "in", "is", "as", "where")


def read(text, file):
    """All declarations of a file's text."""
    return File(Reader(tokens(text, "${"), file)).declarations


class File:
    def __init__(self, reader):
        self.reader, self.declarations, self.package = reader, [], ""
        self.members("", "file")
        if reader.peek():
            raise reader.problem(f"{reader.peek()!r} belongs to no declaration")

    def members(self, owner, around):
        reader = self.reader
        while True:
            reader.skip_lines()
            if reader.peek() in ("", "}"):
                return
            self.member(owner or self.package, around)

    def member(self, owner, around):
        reader = self.reader
        attributes, modifiers = self.words()
        line, kind = reader.tokens[min(reader.at, len(reader.tokens) - 1)].line, reader.next()
        common = self.common(owner, around, attributes, modifiers, line)
        if kind == "package":
            self.package = "".join(reader.until((";",)))
        elif kind == "import":
            reader.until((";",))
        elif kind in ("class", "interface", "object") or kind == "fun" and reader.peek() == "interface":
            self.type(reader.next() if kind == "fun" else kind, common)
        elif kind == "fun":
            self.function(common)
        elif kind in ("val", "var"):
            self.property(kind, common)
        elif kind == "typealias":
            name = reader.next()
            reader.until(("=",))
            reader.next()
            self.declarations.append(Declaration("typealias", name, signature=tuple(reader.until((";",))), **common))
        elif kind == "constructor":
            self.constructor(common, reader.group())
            if reader.peek() == ":":
                reader.until(("{",))
            reader.group() if reader.peek() == "{" else None
        elif kind == "init" and reader.peek() == "{":
            reader.group()
        else:
            raise reader.problem(f"{kind!r} isn't read here")

    def common(self, owner, around, attributes, modifiers, line):
        access = next((word for word in modifiers if word in ACCESS), "public")
        seen = frozenset(modifiers) - set(ACCESS) - UNSEEN
        return dict(
            owner=owner, access=access, attributes=frozenset(attributes), file=self.reader.file, line=line, modifiers=seen,
            place="requirement" if around == "interface" else "member")

    def words(self):
        reader, attributes, modifiers = self.reader, [], []
        while True:
            reader.skip_lines()
            if reader.peek() == "@":
                reader.next()
                words = reader.next()
                while reader.peek() in (".", ":"):
                    words += reader.next() + reader.next()
                attributes.append(words + "".join(reader.group() if reader.peek() == "(" else []))
            elif reader.peek() in MODIFIERS and (reader.peek(1) not in (":", "=", "(", ".")):
                modifiers.append(reader.next())
            else:
                return attributes, modifiers

    def type(self, kind, common):
        reader = self.reader
        name = reader.next() if re.fullmatch(r"[A-Za-z_]\w*", reader.peek()) else "Companion"
        found = Declaration(kind, name, **common)
        self.declarations.append(found)
        signature = reader.angles() if reader.peek() == "<" else []
        self.primary_constructor(found)
        if reader.behind_lines() == ":":
            reader.skip_lines()
            reader.next()
            found.inherits = tuple(self.supertypes())
        if reader.behind_lines() == "where":
            reader.skip_lines()
            signature += reader.until(("{",), joins=JOINS)
        found.signature = tuple(signature)
        reader.skip_to_body()
        if reader.peek() == "{":
            reader.next()
            if "enum" in found.modifiers:
                self.entries(found)
            self.members(found.full_name, kind)
            reader.next()
        if kind == "class" and not any(d.kind == "init" and d.owner == found.full_name for d in self.declarations):
            self.constructor(dict(common, owner=found.full_name, modifiers=frozenset(), attributes=frozenset(), access=(
                "private" if "enum" in found.modifiers else "public")), ["(", ")"])

    def primary_constructor(self, found):
        reader, begin = self.reader, self.reader.at
        attributes, modifiers = self.words()
        if reader.peek() == "constructor":
            reader.next()
        elif reader.peek() != "(" or modifiers or reader.at != begin:
            reader.at = begin
            return
        access = next((word for word in modifiers if word in ACCESS), "public")
        common = dict(owner=found.full_name, access=access, file=reader.file, line=found.line, attributes=frozenset(attributes))
        group = reader.group()
        self.constructor(common, group)
        for parameter in split(group[1:-1]):
            words = self.parameter_words(parameter)
            kind = next((word for word in words if word in ("val", "var")), "")
            if kind:
                name, signature = named(parameter[len(words):])
                access = next((word for word in words if word in ACCESS), "public")
                self.declarations.append(Declaration(
                    kind, name, found.full_name, access, frozenset(words) & set(MODIFIERS) - set(ACCESS) - UNSEEN, signature=signature,
                    settable=kind == "var", file=reader.file, line=found.line))

    def constructor(self, common, group):
        parameters = []
        for parameter in split(group[1:-1]):
            words = [word for word in self.parameter_words(parameter) if word == "vararg"]
            parameters += [*words, *parameter[len(self.parameter_words(parameter)):], ","]
        self.declarations.append(Declaration("init", "init", signature=("(", *parameters[:-1], ")"), **common))

    def parameter_words(self, parameter):
        """The words in front of a parameter's name, annotations included."""
        reader = Reader([], self.reader.file)
        reader.tokens = [type(self.reader.tokens[0])(text, 0) for text in parameter]
        while reader.peek() in (*MODIFIERS, "val", "var", "@") and reader.peek(1) != ":":
            if reader.next() == "@":
                reader.next()
                reader.group() if reader.peek() == "(" else None
        return parameter[:reader.at]

    def supertypes(self):
        for part in split(self.reader.until(("{", "where"), (",", "{"), joins=(",", ":", "by"))):
            yield tuple(part[:next((index for index, word in enumerate(part) if word in ("(", "by")), len(part))])

    def entries(self, found):
        """The constants of an enumeration, which come first."""
        reader = self.reader
        while True:
            reader.skip_to_word()
            self.words_of_entry()
            if reader.peek() in (";", "}"):
                reader.next() if reader.peek() == ";" else None
                return
            self.declarations.append(Declaration(
                "case", reader.next(), found.full_name, "public", file=reader.file, line=found.line))
            for opening in ("(", "{"):
                reader.skip_to_word()
                reader.group() if reader.peek() == opening else None
            reader.skip_to_word()
            if reader.peek() == ",":
                reader.next()

    def words_of_entry(self):
        reader = self.reader
        while reader.peek() == "@":
            reader.next()
            reader.next()
            reader.group() if reader.peek() == "(" else None
            reader.skip_to_word()

    def function(self, common):
        reader = self.reader
        signature = reader.angles() if reader.peek() == "<" else []
        name = receiver_and_name(reader.until(("(",)))
        signature += [part for part in reader.group()]
        declaration = Declaration("func", name, **common)
        if reader.behind_lines() == ":":
            reader.skip_lines()
            signature += reader.until(("{", "="), ("where",), joins=JOINS)
        reader.skip_to_body()
        if reader.behind_lines() == "=":
            reader.skip_lines()
            reader.next()
            value = reader.until((";",), GOES_ON, JOINS)
            declaration.has_body = True
            if ":" not in after_parameters(signature):
                kind = type_of(value)
                signature += [":", *kind] if kind else []
                declaration.inferred = not kind
        elif reader.peek() == "{":
            declaration.has_body = True
            reader.group()
        declaration.signature = tuple(signature)
        self.declarations.append(declaration)

    def property(self, kind, common):
        reader = self.reader
        signature = reader.angles() if reader.peek() == "<" else []
        name = receiver_and_name(reader.until((":", "=", "by", "get")))
        declaration = Declaration(kind, name, settable=kind == "var", **common)
        if reader.peek() == ":":
            reader.next()
            signature += reader.until(("=", "by", "{", "get"), joins=JOINS)
        if reader.behind_lines() in ("=", "by"):
            reader.skip_lines()
            is_value = reader.next() == "="
            value = reader.until((";",), GOES_ON[:-1], JOINS)
            if not signature:
                signature = list(type_of(value)) if is_value else []
                declaration.inferred = not signature
        while self.accessor(declaration):
            declaration.has_body = True
        declaration.inferred = declaration.inferred or not signature
        declaration.signature = tuple(signature)
        self.declarations.append(declaration)

    def accessor(self, declaration):
        """Passes over get() or set() of a property, if one comes."""
        reader, begin = self.reader, self.reader.at
        _, modifiers = self.words()
        word = reader.peek()
        if word not in ("get", "set") or reader.peek(1) not in ("(", "\n", "}", ";", "="):
            reader.at = begin
            return False
        reader.next()
        if word == "set" and set(modifiers) & {"private", "internal", "protected"}:
            declaration.settable = False
        if reader.peek() == "(":
            reader.group()
            if reader.peek() == ":":
                reader.until(("=", "{"))
            reader.skip_to_body()
            if reader.peek() == "{":
                reader.group()
            elif reader.behind_lines() == "=":
                reader.skip_lines()
                reader.next()
                reader.until((";",), GOES_ON[:-1], JOINS)
        return True


def type_of(value):
    kind = type_of_value(value)
    return ("Boolean",) if kind == ("Bool",) else kind


def named(parameter):
    """A parameter's name, and its type without the value that it has by itself."""
    rest = parameter[2:]
    end = rest.index("=") if "=" in rest else len(rest)
    return parameter[0], tuple(rest[:end])


def receiver_and_name(words):
    return "".join(words).replace("?.", ".")


def after_parameters(signature):
    """What stands behind the parameters' bracket."""
    depth = 0
    for index, token in enumerate(signature):
        depth += (token == "(") - (token == ")")
        if token == ")" and not depth:
            return signature[index + 1:]
    return []
