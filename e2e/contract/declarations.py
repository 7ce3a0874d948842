"""What a declaration of Swift or Kotlin says, in a form that two of them can be compared in."""
import dataclasses

ACCESS = ("private", "fileprivate", "internal", "package", "protected", "public", "open")


@dataclasses.dataclass
class Declaration:
    """One declaration. A type's members stand beside it, with its name as their owner."""
    kind: str  # class, struct, enum, protocol, extension, func, init, var, let, case, typealias, subscript …
    name: str
    owner: str = ""  # the type's name with those around it, as in Navigation.Context; Kotlin: with the package
    access: str = "internal"
    modifiers: frozenset = frozenset()
    attributes: frozenset = frozenset()
    signature: tuple = ()  # parameters, effects, result; a variable's type; a case's values
    inherits: tuple = ()
    settable: bool = False
    inferred: bool = False  # a variable whose type no word of the source says
    place: str = "member"  # member, requirement of a protocol, or extension
    has_body: bool = False
    file: str = ""
    line: int = 0

    @property
    def key(self):
        kind = "variable" if self.kind in ("var", "let", "val") else self.kind
        kind = "type" if kind in ("class", "struct", "enum", "protocol", "actor", "interface", "object", "typealias") else kind
        return self.owner, kind, self.name

    @property
    def full_name(self):
        return f"{self.owner}.{self.name}" if self.owner else self.name

    def text(self):
        words = [*sorted(self.attributes), self.access, *sorted(self.modifiers), self.kind, self.full_name, joined(self.signature)]
        inherits = ": " + ", ".join(map(joined, self.inherits)) if self.inherits else ""
        accessors = " { get }" if self.kind == "var" and not self.settable else ""
        return " ".join(word for word in words if word) + inherits + accessors


def joined(tokens):
    """Tokens as a line to be read."""
    text = " ".join(tokens)
    for tight in (" .", ". ", "( ", " )", "[ ", " ]", " ?", " ,", " :", "< ", " >", "@ "):
        text = text.replace(tight, tight.strip())
    return text.replace(" (", "(").replace("->(", "-> (").replace(" <", "<")


def split(tokens, at=","):
    """Parts of a list, none of whose brackets is opened."""
    parts, depth = [[]], 0
    for before, token in zip([""] + list(tokens), tokens):
        if token in ("(", "[", "{", "<"):
            depth += 1
        elif token in (")", "]", "}") or token == ">" and before != "-":
            depth -= 1
        if token == at and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]
