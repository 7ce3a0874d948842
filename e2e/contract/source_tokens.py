"""The tokens of Swift and of Kotlin: without comments, a string as one token, every line break kept.

Branches of `#if` are chosen before: a word that is defined is true, and so is what an iPhone's compiler says of itself.
"""
import dataclasses
import re

OPENING, CLOSING = "([{", ")]}"
PAIRS = dict(zip(OPENING, CLOSING))
TRUE = {"os(iOS)", "canImport(UIKit)", "canImport(SwiftUI)"}
WORD = re.compile(r"`[^`\n]+`|[A-Za-z_$][A-Za-z0-9_$]*|[0-9][0-9A-Za-z_]*(?:\.[0-9][0-9A-Za-z_]*)?")
# Longest first. Nothing that could end one bracket of types and begin another is one token.
OPERATOR = re.compile(r"->|\.\.\.|\.\.<|::|\?\.|\?:|==|!=|<=|>=|&&|\|\||[^\sA-Za-z0-9_]")


class SyntaxProblem(Exception):
    """What a source has that isn't read here."""


@dataclasses.dataclass(frozen=True)
class Token:
    text: str
    line: int

def skip_comment(text, at):
    """Behind a comment that begins here; comments may stand in comments. The same place if none does."""
    if text.startswith("//", at):
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    if not text.startswith("/*", at):
        return at
    depth, at = 1, at + 2
    while depth:
        found = re.compile(r"/\*|\*/").search(text, at)
        if not found:
            raise SyntaxProblem("a comment without an end")
        depth += 1 if found.group() == "/*" else -1
        at = found.end()
    return at


def skip_string(text, at, interpolation):
    """Behind a string that begins here, with the code in it that `interpolation`, `\\(` or `${`, opens."""
    quote = '"""' if text.startswith('"""', at) else '"'
    at += len(quote)
    while at < len(text):
        if text.startswith(quote, at):
            return at + len(quote)
        if text.startswith(interpolation, at):
            at = skip_code(text, at + len(interpolation), PAIRS[interpolation[-1]], interpolation)
        else:
            at += 2 if text[at] == "\\" and quote == '"' else 1
    raise SyntaxProblem("a string without an end")


def skip_code(text, at, closing, interpolation):
    """Behind the bracket that closes the code in a string."""
    opening = next(key for key, value in PAIRS.items() if value == closing)
    depth = 1
    while at < len(text):
        behind = skip_comment(text, at)
        if behind != at:
            at = behind
        elif text[at] == '"':
            at = skip_string(text, at, interpolation)
        else:
            depth += (text[at] == opening) - (text[at] == closing)
            at += 1
            if not depth:
                return at
    raise SyntaxProblem("code in a string without an end")


def holds(condition, defined):
    """Tells if a condition of `#if` is true."""
    def is_true(term):
        name = term.strip().lstrip("!")
        if not re.fullmatch(r"\w+(?:\(\w+\))?", name):
            raise SyntaxProblem(f"a condition that isn't read here: {condition}")
        return (name in TRUE or name in defined) != term.strip().startswith("!")

    return any(all(is_true(term) for term in part.split("&&")) for part in condition.split("//")[0].split("||"))


def chosen(text, defined):
    """The source with the branches that aren't compiled left empty, so that lines keep their numbers."""
    lines, branches = [], []
    for line in text.split("\n"):
        directive = re.match(r"\s*#(if|elseif|else|endif)\b(.*)", line)
        if directive:
            word, condition = directive.groups()
            if word == "if":
                branches.append([holds(condition, defined)])
            elif not branches:
                raise SyntaxProblem(f"#{word} without an #if")
            elif word == "endif":
                branches.pop()
            else:
                branches[-1].append(not any(branches[-1]) and (word == "else" or holds(condition, defined)))
        lines.append("" if directive or not all(branch[-1] for branch in branches) else line)
    return "\n".join(lines)


def tokens(text, interpolation):
    """All tokens, line breaks as tokens "\\n" among them."""
    at, line, found = 0, 1, []
    while at < len(text):
        begin, character = at, text[at]
        at = skip_comment(text, at)
        if at != begin:
            line += text.count("\n", begin, at)
            continue
        if character == "\n":
            found.append(Token("\n", line))
            at += 1
        elif character.isspace():
            at += 1
            continue
        elif character == '"':
            at = skip_string(text, at, interpolation)
            found.append(Token(text[begin:at], line))
        elif character == "'" and (literal := re.compile(r"'(?:\\.[0-9a-fA-F]{0,4}|[^'\n])'").match(text, at)):
            at = literal.end()
            found.append(Token(literal.group(), line))
        else:
            match = WORD.match(text, at) or OPERATOR.match(text, at)
            at = match.end()
            found.append(Token(match.group().strip("`"), line))
        line += text.count("\n", begin, at)
    return found


class Reader:
    """Goes through the tokens of a file."""
    def __init__(self, found, file):
        self.tokens, self.file, self.at = found, file, 0

    def problem(self, words):
        line = self.tokens[min(self.at, len(self.tokens) - 1)].line if self.tokens else 0
        return SyntaxProblem(f"{self.file}:{line}: {words}")

    def peek(self, ahead=0):
        place = self.at + ahead
        return self.tokens[place].text if place < len(self.tokens) else ""

    def next(self):
        self.at += 1
        if self.at > len(self.tokens):
            raise self.problem("the file ends in the middle of a declaration")
        return self.tokens[self.at - 1].text

    def skip_lines(self):
        while self.peek() in ("\n", ";"):
            self.at += 1

    def skip_to_word(self):
        while self.peek() == "\n":
            self.at += 1

    def skip_to_body(self):
        """To the brace that opens on a later line, if one does."""
        if self.behind_lines() == "{":
            self.skip_lines()

    def behind_lines(self):
        """The token behind the line breaks that stand here."""
        ahead = 0
        while self.peek(ahead) == "\n":
            ahead += 1
        return self.peek(ahead)

    def group(self):
        """The tokens of a bracket that opens here, both ends included, without line breaks."""
        begin, depth = self.at, 0
        while True:
            text = self.next()
            depth += (text in OPENING and len(text) == 1) - (text in CLOSING and len(text) == 1)
            if not depth:
                return [token.text for token in self.tokens[begin:self.at] if token.text != "\n"]

    def angles(self):
        """The tokens of a list of generic parameters that opens here."""
        found, depth = [], 0
        while True:
            if self.peek() in PAIRS:
                found += self.group()
                continue
            text = self.next()
            depth += (text == "<") - (text == ">")
            found += [] if text == "\n" else [text]
            if not depth:
                return found

    def until(self, ends, continues=(), joins=(".", "&", "->", ":", ",", "=", "where", "?:", "?.")):
        """The tokens before one of `ends`, or before the end of a line: neither one of `joins` stands before it nor one of `continues` behind."""
        found = []
        if self.at and self.tokens[self.at - 1].text in joins:
            self.skip_to_word()
        while (text := self.peek()) and text not in ends:
            if text == "\n":
                behind = self.behind_lines()
                if found and found[-1] in joins or behind in continues:
                    self.at += 1
                    continue
                break
            if text in CLOSING:
                break
            found += self.group() if text in PAIRS else [self.next()]
        return found
