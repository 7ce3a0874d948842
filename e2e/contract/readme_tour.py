"""Runs README.md's ten lines and the tour of docs/tour.md as a newcomer would paste them: `make run` serves already, at README.md's own
address, from the clone in which the commands run (scripts/stranger.sh). What is typed and printed is shown, and compared with what the
documents say.

`e2e/contract/documents.py` does the same in `make test`, for all documents and with a server of its own; readme_package.py for the Debian
package.
"""
import os
import sys

from e2e import ROOT
from e2e.contract.document_blocks import DocumentError, Shell, blocks, run_block

TOURS = ("README.md", "docs/tour.md")


def tour_of(name):
    return [block for block in blocks(ROOT / name, name) if block.language == "sh" and not block.not_run]


def main():
    tour = [block for name in TOURS for block in tour_of(name)]
    # As README.md says of the other terminal.
    shell = Shell(str(ROOT), f"{ROOT}/.build/release:{os.environ['PATH']}")
    try:
        for block in tour:
            run_block(shell, block, is_shown=True)
    finally:
        shell.close()
    compared = sum(block.output is not None for block in tour)
    print(f"readme_tour: {len(tour)} blocks ran, the output of {compared} was as {' and '.join(TOURS)} say")


if __name__ == "__main__":
    try:
        main()
    except DocumentError as error:
        sys.exit(f"readme_tour: {error}")
