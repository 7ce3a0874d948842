"""The libraries of this folder that stand before the C library (LD_PRELOAD)."""
import os
import pathlib
import subprocess

from e2e import harness

HERE = pathlib.Path(__file__).resolve().parent


def build_library(source, folder):
    """Compiles one of them into a folder; gives its path."""
    library = os.path.join(folder, pathlib.Path(source).stem + ".so")
    done = subprocess.run(
        [harness.c_compiler(), "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o", library, str(HERE / source),
         "-ldl", "-pthread"],
        capture_output=True, text=True)
    if done.returncode != 0:
        raise harness.HarnessError(f"{source} doesn't compile: {done.stderr}")
    return library
