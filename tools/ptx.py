#!/usr/bin/env python3
"""Compile the CUDA kernels to PTX with NVRTC, which needs no GPU and no CUDA toolkit.

    tools/ptx.py            write crates/kernels/ptx/
    tools/ptx.py --check    compile again and compare with what is there
    tools/ptx.py --only project --out DIR    plain text of some kernels, to look at

A kernel file crates/kernels/src/<op>/<name>.cu may include any .cuh below crates/kernels/src by
its bare name. It names its variants at the top, one line each:

    // ptx: bf16 -DPAGE=bf16
    // ptx[90a]: fp8 -DPAGE=fp8

Each variant is compiled for compute_80 (every GPU since Ampere) and compute_90a (Hopper), or for
the one in brackets, into ptx/<name>.<variant>.<arch>.ptx.z: comments and empty lines removed, then
deflated. ptx/index.rs lists them for the program. The NVRTC version is part of the output, so it
is pinned in tools/test-requirements.txt.
"""

import argparse
import ctypes
import glob
import hashlib
import os
import re
import site
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "crates/kernels"
OUTPUT = KERNELS / "ptx"
ARCHITECTURES = ["80", "90a"]
VARIANT = re.compile(r"^// ptx(?:\[(\w+)\])?: (\w+)((?: -D\S+)*)$")


def main():
    options = parse_options()
    nvrtc = Nvrtc()
    headers = sorted((path.name, path.read_text()) for path in KERNELS.glob("src/**/*.cuh"))
    jobs = [job for source in sources() for job in jobs_of(source)]
    if options.only:
        jobs = [job for job in jobs if job.name in options.only]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda job: job.compile(nvrtc, headers), jobs))
    failures = [log for _, log in results if log]
    if failures:
        sys.exit("\n".join(failures))
    files = {job.file: text for job, (text, _) in zip(jobs, results)}
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (options.out / name.removesuffix(".z")).write_text(text)
    elif options.check:
        check(files, index_of(jobs))
    else:
        write(files, index_of(jobs))


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="these kernel files alone")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write plain PTX text there")
    options = parser.parse_args()
    if options.only and not options.out:
        parser.error("--only needs --out: the committed set is written whole")
    return options


def sources():
    return sorted(KERNELS.glob("src/**/*.cu"), key=lambda source: source.stem)


def jobs_of(source):
    text = source.read_text()
    jobs = []
    for line in text.splitlines():
        match = VARIANT.match(line)
        if match:
            only, variant, defines = match.groups()
            for arch in [only] if only else ARCHITECTURES:
                jobs.append(Job(source, text, variant, defines.split(), arch))
        elif not line.startswith("//"):
            break
    if not jobs:
        sys.exit(f"{source}: no line '// ptx: <variant>' at its top")
    return jobs


class Job:
    def __init__(self, source, text, variant, defines, arch):
        self.name, self.text, self.variant, self.arch = source.stem, text, variant, arch
        self.options = [f"--gpu-architecture=compute_{arch}", "--std=c++17", *defines]
        self.file = f"{self.name}.{variant}.{arch}.ptx.z"

    def compile(self, nvrtc, headers):
        """The PTX, and what the compiler had to say against it."""
        ptx, log = nvrtc.compile(f"{self.name}.cu", self.text, headers, self.options)
        if ptx is None:
            return None, f"{self.file}:\n{log}"
        included = [text for name, text in headers if f'#include "{name}"' in self.text]
        parts = [*included, self.text, *self.options, nvrtc.version]
        source = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return f"// source {source}\n" + compact(ptx), None


def compact(ptx):
    lines = (line.split("//")[0].strip() for line in ptx.splitlines())
    return "\n".join(line for line in lines if line) + "\n"


def index_of(jobs):
    lines = [
        "//! All PTX there is; written by tools/ptx.py.",
        "",
        "/// Kernel file, variant, architecture, deflated text.",
        "pub(super) const PTX: &[(&str, &str, &str, &[u8])] = &[",
    ]
    for job in jobs:
        names = f'    ("{job.name}", "{job.variant}", "{job.arch}",'
        text = f'include_bytes!("{job.file}")),'
        is_short = len(names) + 1 + len(text) <= 100
        lines += [f"{names} {text}"] if is_short else [names, f"     {text}"]
    return "\n".join(lines + ["];", ""])


def write(files, index):
    OUTPUT.mkdir(exist_ok=True)
    for stale in OUTPUT.glob("*.ptx.z"):
        if stale.name not in files:
            stale.unlink()
    for name, text in files.items():
        path = OUTPUT / name
        if not path.exists() or read(path) != text:
            path.write_bytes(zlib.compress(text.encode(), 9))
    (OUTPUT / "index.rs").write_text(index)
    total = sum((OUTPUT / name).stat().st_size for name in files)
    print(f"{len(files)} PTX files, {total / 1e6:.2f} MB")


def check(files, index):
    there = {path.name for path in OUTPUT.glob("*.ptx.z")}
    stale = sorted(there ^ files.keys())
    stale += [name for name in sorted(there & files.keys()) if read(OUTPUT / name) != files[name]]
    if (OUTPUT / "index.rs").read_text() != index:
        stale.append("index.rs")
    if stale:
        sys.exit(f"not what the sources compile to: {', '.join(stale)}; run `make ptx`")
    print(f"{len(files)} PTX files are what their sources compile to")


def read(path):
    return zlib.decompress(path.read_bytes()).decode()


class Nvrtc:
    """The few calls of the compiler's library that are needed."""

    def __init__(self):
        self.nvrtc = ctypes.CDLL(find_library())
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"{major.value}.{minor.value}"

    def compile(self, name, source, headers, options):
        program = ctypes.c_void_p()
        names, texts = strings(name for name, _ in headers), strings(text for _, text in headers)
        self.call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), name.encode(),
                  len(headers), texts, names)
        try:
            encoded = strings(options)
            failed = self.nvrtc.nvrtcCompileProgram(program, len(options), encoded)
            if failed:
                return None, self.text(program, "nvrtcGetProgramLog")
            return self.text(program, "nvrtcGetPTX"), None
        finally:
            self.nvrtc.nvrtcDestroyProgram(ctypes.byref(program))

    def text(self, program, getter):
        size = ctypes.c_size_t()
        self.call(f"{getter}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self.call(getter, program, buffer)
        return buffer.value.decode()

    def call(self, function, *arguments):
        code = getattr(self.nvrtc, function)(*arguments)
        if code:
            sys.exit(f"{function} failed with code {code}")


def strings(texts):
    encoded = [text.encode() for text in texts]
    return (ctypes.c_char_p * len(encoded))(*encoded)


def find_library():
    folders = site.getsitepackages() + [site.getusersitepackages()]
    found = [path for folder in folders
             for path in glob.glob(f"{folder}/nvidia/cuda_nvrtc/lib/libnvrtc.so.*")]
    if not found:
        sys.exit("no NVRTC for this Python; pip install -r tools/test-requirements.txt")
    return found[0]


if __name__ == "__main__":
    main()
