"""llama.cpp, built from the source that the PyPI package llama-cpp-python carries.

Two builds where the CPU has AMX: with all its other instruction sets, and with AMX too. They share
one build tree, so that the second compiles only what its flags change. cmake and ninja come from
PyPI as well; a C++ compiler must be there.
"""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench import machine
from bench.say import Failed, last_lines, say

PACKAGE = "llama-cpp-python"
VERSION = "0.3.36"
TOOLS = ["cmake==4.4.4", "ninja==1.13.2"]
TARGETS = ["llama-bench", "llama-server"]

# What ggml can be built to use, and the CPU's flags that it needs for it.
INSTRUCTIONS = {
    "GGML_SSE42": ["sse4_2"],
    "GGML_AVX": ["avx"],
    "GGML_AVX2": ["avx2"],
    "GGML_FMA": ["fma"],
    "GGML_F16C": ["f16c"],
    "GGML_BMI2": ["bmi2"],
    "GGML_AVX_VNNI": ["avx_vnni"],
    "GGML_AVX512": ["avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"],
    "GGML_AVX512_VBMI": ["avx512vbmi"],
    "GGML_AVX512_VNNI": ["avx512_vnni"],
    "GGML_AVX512_BF16": ["avx512_bf16"],
}
AMX = {
    "GGML_AMX_TILE": ["amx_tile"],
    "GGML_AMX_INT8": ["amx_int8"],
    "GGML_AMX_BF16": ["amx_bf16"],
}
# Up to version 12 at least, gcc believes that `ldtilecfg` reads 8 bytes of its 64, removes the
# stores to the others as dead, and the program dies at its first tile. These keep the stores.
KEEP_STORES = "-fno-tree-dse -fno-dse"


@dataclass(frozen=True)
class Build:
    name: str
    folder: Path
    # Of cmake, as they were given.
    flags: list


def builds(folder, jobs, skip_build):
    """The builds that could be made; says why when one could not."""
    made = []
    for name, key, flags in wanted():
        build = Build(name, folder / f"llama.cpp-{VERSION}" / key, flags)
        try:
            if not is_made(build):
                if skip_build:
                    raise Failed(f"it is not in {build.folder}, and --skip-build was given")
                make(build, folder, jobs)
            made.append(build)
        except Failed as failure:
            say(f"no {name}: {failure}")
    return made


def wanted():
    flags = machine.cpu_flags()
    if not flags & {"avx2", "avx512f"}:
        return [("llama.cpp", "native", ["-DGGML_NATIVE=ON"])]
    has = lambda needed: "ON" if flags.issuperset(needed) else "OFF"
    plain = ["-DGGML_NATIVE=OFF"]
    plain += [f"-D{option}={has(needed)}" for option, needed in INSTRUCTIONS.items()]
    without = [f"-D{option}=OFF" for option in AMX]
    if not flags.issuperset(AMX["GGML_AMX_INT8"]):
        return [("llama.cpp", "plain", plain + without)]
    if compiler_takes(KEEP_STORES):
        plain.append(f"-DCMAKE_CXX_FLAGS={KEEP_STORES}")
    with_amx = [f"-D{option}={has(needed)}" for option, needed in AMX.items()]
    return [
        ("llama.cpp without AMX", "without-amx", plain + without),
        ("llama.cpp with AMX", "with-amx", plain + with_amx),
    ]


def is_made(build):
    stamp = build.folder / "flags.json"
    return stamp.exists() and json.loads(stamp.read_text()) == build.flags


def make(build, folder, jobs):
    source = unpacked_source(folder)
    tree = folder / "build"
    fixed = [
        "-DCMAKE_BUILD_TYPE=Release",
        # So that a build can be copied out of its tree.
        "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON",
        # Else it takes the commit of the repository around it.
        "-DLLAMA_BUILD_NUMBER=0",
        f"-DLLAMA_BUILD_COMMIT={PACKAGE}-{VERSION}",
        "-DLLAMA_BUILD_TESTS=OFF",
        "-DLLAMA_BUILD_EXAMPLES=OFF",
        "-DLLAMA_BUILD_APP=OFF",
        "-DLLAMA_USE_PREBUILT_UI=OFF",
        "-DLLAMA_OPENSSL=OFF",
        "-DGGML_CCACHE=OFF",
    ]
    ninja = f"-DCMAKE_MAKE_PROGRAM={folder / 'python/bin/ninja'}"
    cmake = folder / "python/bin/cmake"
    log = folder / "build.log"
    log.unlink(missing_ok=True)
    say(f"building {build.name} in {tree}")
    run([cmake, "-G", "Ninja", ninja, "-S", source, "-B", tree, *fixed, *build.flags], log)
    run([cmake, "--build", tree, "-j", str(jobs), "--target", *TARGETS], log)
    shutil.rmtree(build.folder, ignore_errors=True)
    shutil.copytree(tree / "bin", build.folder, symlinks=True)
    (build.folder / "flags.json").write_text(json.dumps(build.flags))


def unpacked_source(folder):
    """Fetches the package's source and the tools to build it, once."""
    source = folder / f"llama_cpp_python-{VERSION}"
    pip = [folder / "python/bin/python", "-m", "pip", "--disable-pip-version-check"]
    log = folder / "download.log"
    if not (source / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        say(f"getting the source of {PACKAGE} {VERSION} (77 MB), cmake and ninja")
        run([sys.executable, "-m", "venv", folder / "python"], log)
        run([*pip, "install", "--quiet", *TOOLS], log)
        from_source = ["--no-deps", "--no-binary", PACKAGE, "--dest", folder]
        run([*pip, "download", "--quiet", *from_source, f"{PACKAGE}=={VERSION}"], log)
        shutil.unpack_archive(folder / f"{source.name}.tar.gz", folder)
        (source / "complete").touch()
    return source / "vendor/llama.cpp"


def run(command, log):
    """Shows how far it is; all that it says is in the log."""
    with open(log, "a") as written:
        running = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        shown = 0
        for line in running.stdout:
            written.write(line)
            percent = progress(line)
            if percent >= shown + 10:
                shown = percent - percent % 10
                say(f"  {shown}% compiled")
    if running.wait() != 0:
        text = log.read_text(errors="replace")
        raise Failed(f"{Path(command[0]).name} failed; the end of {log}:\n{last_lines(text)}")


def progress(line):
    """Percent, from ninja's `[12/216] ...`; 0 for other lines."""
    done, slash, rest = line.removeprefix("[").partition("/")
    total = rest.partition("]")[0]
    if line.startswith("[") and slash and done.isdigit() and total.isdigit():
        return 100 * int(done) // max(int(total), 1)
    return 0


def compiler_takes(flags):
    command = ["c++", *flags.split(), "-x", "c++", "-fsyntax-only", "-Werror", "/dev/null"]
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False
