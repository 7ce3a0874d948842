#!/usr/bin/env python3
"""Refuses doc comments of Swift that begin with one of the words of INSTEAD, and says what to write.

The control is a source whose comments begin with each of them, and with words that are near them: the first are to be found, and they
alone. Prints a line a comment; exit code 1 if there is one.
"""
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INSTEAD = {
    "Whether": "“True if …” on a value, “Returns whether …” on a function",
    "What": "the noun, as in “The counts that …”, or the verb, as in “Returns what …”",
    "Who": "the noun, as in “The users who …”",
    "The same": "the thing again, or what it does, as in “Reads several rows, as `first` reads one.”",
    "nil:": "the thing, and then “; nil when …”",
}
# Nil: and nil: alike; whatever, Whoever and The sameness aren't meant.
BEGINNING = re.compile(r"(Whether|What|Who|The same)\b|([Nn]il:)")
CONTROL = """\
/// Whether it is so.
let a = true
    /// What's there.
    let b = 1
/// Who did it.
///
/// The one who asks.
let c = 2
/// The same.
/// Nil: none.
let d: Int?

/// nil: none.
let e: Int?
/// Whatever there is; whether it is
/// What it was.
// What a plain comment says.
let f = "/// not one"  /// Whole numbers.
/// Nil when there is none.
///
/// The same holds for the next.
let g: Int?
/// Nil: there is none.
let h: Int?
"""
CONTROL_LINES = [1, 3, 5, 9, 13, 23]


def refused(text):
    """The line and the beginning of each comment that begins so. A comment is a run of lines."""
    is_inside = False
    for number, line in enumerate(text.splitlines(), 1):
        is_comment = (content := line.strip()).startswith("///")
        if is_comment and not is_inside and (found := BEGINNING.match(content[3:].lstrip())):
            yield number, found[1] or "nil:"
        is_inside = is_comment


def sources():
    for folder, folders, names in os.walk(ROOT):
        # .build and others of that kind hold what isn't ours.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (pathlib.Path(folder, name) for name in sorted(names) if name.endswith(".swift"))


def main():
    files, problems = [*sources()], []
    if [number for number, _ in refused(CONTROL)] != CONTROL_LINES:
        problems.append("control: the comments that begin so, and they alone, were to be found")
    for path in files:
        problems += [
            f"{path.relative_to(ROOT)}:{number}: a doc comment begins with “{word}”; write {INSTEAD[word]}"
            for number, word in refused(path.read_text(encoding="utf-8"))]
    for problem in problems:
        print(problem)
    print(f"check_comments: {len(files)} files, {len(problems)} problems")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
