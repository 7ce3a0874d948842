"""Compares declarations with those of a library's sources."""
import fnmatch

from e2e.contract.declarations import joined

# Attributes that an app's compiler heeds.
SEEN = ("MainActor", "available", "discardableResult", "objc", "Deprecated", "preconcurrency")
# What Codable makes where a type doesn't write it.
MADE_BY_CODABLE = {("init", ("(", "from", "decoder", ":", "Decoder", ")", "throws")),
                   ("func", ("(", "to", "encoder", ":", "Encoder", ")", "throws"))}
TYPES = ("class", "struct", "enum", "protocol", "actor", "interface", "object")


class Library:
    """The declarations of all files of a library, or of those that stand for it."""
    def __init__(self, declarations, isolated=()):
        self.isolated = set(isolated)
        self.types = {found.full_name: found for found in declarations if found.kind in TYPES}
        self.extensions = [found for found in declarations if found.kind == "extension"]
        self.declarations = [found for found in declarations if found.kind != "extension"]
        self.by_key = {}
        for found in self.declarations:
            self.by_key.setdefault(found.key, []).append(found)

    def conformances(self, name):
        """What a type inherits and conforms to, by its extensions as well."""
        own = self.types[name].inherits if name in self.types else ()
        found = [*own, *(part for extension in self.extensions if extension.full_name == name for part in extension.inherits)]
        return {joined(part) for part in found}

    def superclass(self, name):
        """The first name that a class or a protocol inherits, where that is a class."""
        inherits = self.types[name].inherits
        first = joined(inherits[0]) if inherits and self.types[name].kind in ("class", "protocol") else ""
        is_class = first in self.isolated or first in self.types and self.types[first].kind == "class"
        return first if is_class else ""

    def is_isolated(self, name):
        """Tells if a type is the main actor's: by its own words, or by what it inherits."""
        if name in self.isolated:
            return True
        found = self.types.get(name)
        if found is None or found.kind in ("struct", "enum"):
            return False
        return "MainActor" in found.attributes or any(self.is_isolated(joined(part)) for part in found.inherits)

    def unwritten(self, found):
        """How a type comes to a member that its source doesn't show; empty if it doesn't."""
        if "Codable" in self.conformances(found.owner) and (found.kind, normal(found)) in MADE_BY_CODABLE:
            return "made by Codable"
        above = self.superclass(found.owner) if found.owner in self.types and found.kind == "init" else ""
        if any(one.kind == "init" and one.owner == found.owner and one.place == "member" for one in self.declarations):
            return ""
        inherited = self.by_key.get((above, *found.key[1:]), ())
        return f"inherited from {above}" if any(normal(one) == normal(found) for one in inherited) else ""

    def default(self, requirement):
        """A protocol's own implementation of a requirement."""
        if requirement.has_body:
            return requirement
        return next((found for found in self.by_key.get(requirement.key, ()) if found.place == "extension"
                     and normal(found) == normal(requirement)), None)


def without_any(signature):
    """(any Opening)? and any Opening as language mode 5 lets them be written: Opening? and Opening."""
    tokens = list(signature)
    while "any" in tokens:
        at = tokens.index("any")
        if at and tokens[at - 1] == "(" and tokens[at + 2:at + 3] == [")"]:
            tokens[at - 1:at + 3] = [tokens[at + 1]]
        else:
            del tokens[at]
    return tokens


def normal(found):
    """A signature with one spelling of what may be spelled in several ways."""
    around = {"Self", *found.owner.split(".")}
    tokens, result = without_any(found.signature), []
    for index, token in enumerate(tokens):
        before, behind = tokens[index - 1] if index else "", tokens[index + 1] if index + 1 < len(tokens) else ""
        qualifies = behind == "." and token in around and before != "."
        is_dot_of_one = token == "." and before in around and (index < 2 or tokens[index - 2] != ".")
        if not qualifies and not is_dot_of_one and not (token == "," and behind == ")"):
            result.append(token)
    for nothing in (["->", "Void"], [":", "Unit"]):
        if found.kind == "func" and result[-2:] == nothing:
            result = result[:-2]
    return tuple(result)


class Comparison:
    """`declared` is what stands for `library`; `explained` has a reason for each difference that is meant: by
    "full name: what differs", with * for any words."""
    def __init__(self, declared, library, explained):
        self.declared, self.library, self.explained = declared, library, explained
        self.used = set()

    def lines(self):
        """A line a declaration, and how many differ without a reason."""
        lines, wrong = [], 0
        for found in self.declared.declarations:
            differences = self.differences(found)
            reasons = [self.reason(found, label) for label, _ in differences]
            wrong += not all(reasons)
            state = "DIFFERS" if not all(reasons) else "explained" if reasons else "same" + self.note(found)
            lines.append(f"{state}: {found.text()}")
            lines += [f"    {label}: {words}{f'; {reason}' if reason else ''}" for (label, words), reason in zip(differences, reasons)]
        for name, one in self.demanded():
            reason = self.reason(one, "demanded")
            wrong += not reason
            lines.append(f"{'explained' if reason else 'MISSING'}: {one.text()}")
            lines.append(f"    demanded: by {name} in {one.file}:{one.line}{f'; {reason}' if reason else ''}")
        return lines, wrong

    def reason(self, found, label):
        for pattern, reason in self.explained.items():
            if fnmatch.fnmatchcase(f"{found.full_name}: {label}", pattern):
                self.used.add(pattern)
                return reason
        return ""

    def note(self, found):
        """Where a declaration that is the same comes from, or why a requirement stands without the default that the library has."""
        if self.is_unwritten(found):
            return f", {self.library.unwritten(found)}"
        if found.place != "requirement" or self.declared.default(found):
            return ""
        original = next((one for one in self.library.by_key.get(found.key, ()) if one.place == "requirement"), None)
        is_less = original and self.library.default(original)
        return ", its default left out so that a near miss is an error" if is_less else ""

    def is_unwritten(self, found):
        written = any(normal(one) == normal(found) for one in self.library.by_key.get(found.key, ()))
        return not written and bool(self.library.unwritten(found))

    def differences(self, found):
        """Where the library says something else; of several with this name, the one that is most alike counts."""
        candidates = [one for one in self.library.by_key.get(found.key, ()) if one.place == found.place or found.place != "requirement"
                      and one.place != "requirement"]
        if self.is_unwritten(found):
            return []
        if not candidates:
            return [("name", "the library has nothing of this name")]
        return min((self.between(found, one) for one in candidates), key=len)

    def between(self, found, one):
        pairs = [
            ("kind", found.kind, one.kind), ("access", found.access, one.access),
            ("modifiers", words(found.modifiers), words(one.modifiers)),
            ("attributes", words(seen(found)), words(seen(one))),
            ("signature", joined(normal(found)), joined(normal(one)))]
        if found.kind == "var":
            pairs.append(("setter", found.settable, one.settable))
        if found.kind in TYPES:
            pairs.append(("superclass", self.declared.superclass(found.full_name), self.library.superclass(one.full_name)))
            pairs.append(("main actor", self.declared.is_isolated(found.full_name), self.library.is_isolated(one.full_name)))
            more = self.declared.conformances(found.full_name) - self.library.conformances(one.full_name)
            pairs.append(("conformances", words(more), ""))
        if found.place == "requirement" and found.has_body:
            pairs.append(("default", True, one.has_body))
        if one.inferred:
            pairs = [pair for pair in pairs if pair[0] != "signature"] + [("type", joined(found.signature), "not written")]
        return [(label, f"{here or 'none'} here, {there or 'none'} in {one.file}:{one.line}") for label, here, there in pairs
                if here != there]

    def demanded(self):
        """What the library demands of an app that conforms to a protocol, switches over an enumeration or inherits a class."""
        for name, declared in self.declared.types.items():
            mine = {(found.key, normal(found)) for found in self.declared.declarations if found.owner == name}
            has_cases = any(key[1] == "case" for key, _ in mine)
            if "sealed" in declared.modifiers:
                yield from ((name, one) for one in self.library.types.values()
                            if declared.name in map(joined, one.inherits) and one.full_name not in self.declared.types)
                continue
            for one in self.library.declarations:
                if one.owner != name or (one.key, normal(one)) in mine or one.kind in ("typealias", *TYPES):
                    continue
                is_required = one.place == "requirement" and not self.library.default(one) or "abstract" in one.modifiers
                is_initialiser = declared.kind == "class" and one.kind == "init" and "required" in one.modifiers
                if is_required or is_initialiser or one.kind == "case" and has_cases:
                    yield name, one


def seen(found):
    """An isolation is compared by itself, of a type."""
    return {attribute for attribute in found.attributes
            if attribute.startswith(SEEN) and not (found.kind in TYPES and attribute == "MainActor")}


def words(values):
    return " ".join(sorted(values))
