"""Runs README.md's tour as a newcomer would paste it: `make run` serves already, at README.md's own address, from the clone in
which the commands run (scripts/stranger.sh). What is typed and printed is shown, and compared with what README.md says.

`e2e/contract/documents.py` does the same in `make test`, for all documents and with a server of its own.
"""
import sys

from e2e import ROOT
from e2e.contract.document_blocks import DocumentError, Shell, blocks, run_block


def main():
    tour = [block for block in blocks(ROOT / "README.md", "README.md") if block.language == "sh" and not block.not_run]
    shell = Shell(str(ROOT))
    try:
        for block in tour:
            run_block(shell, block, is_shown=True)
    finally:
        shell.close()
    compared = sum(block.output is not None for block in tour)
    print(f"readme_tour: {len(tour)} blocks ran, the output of {compared} was as README.md says")


if __name__ == "__main__":
    try:
        main()
    except DocumentError as error:
        sys.exit(f"readme_tour: {error}")
