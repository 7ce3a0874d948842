"""The program from outside, as a process: contract/ holds it to openapi.yaml and the documents, trust/ breaks what is around it, browser/
looks at its pages in Chromium; harness/ starts and stops it for all of them, and for bench/."""
import pathlib

# The folder of the repository.
ROOT = pathlib.Path(__file__).resolve().parent.parent
