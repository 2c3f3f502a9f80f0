"""Serves a scripted model with Terrace and runs real clients against it.

usage: run.py --terrace PROGRAM --dir FOLDER [CLIENT ...]

Each client has an environment of its own below FOLDER (a venv, or one npm folder), made once and
again when its pinned versions change. Prints a line for each check; what failed says more in
FOLDER/CLIENT.log. Exits with 1 if any check failed or any client could not be run.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHON_CLIENTS = ["litellm", "langchain", "instructor", "lm_eval"]
NODE_CLIENTS = ["openai", "ai"]
NODE_MAJOR = 22
CLIENT_SECONDS = 600


def main():
    parser = argparse.ArgumentParser(description="Runs real clients against Terrace.")
    parser.add_argument("--terrace", required=True, type=Path)
    parser.add_argument("--dir", required=True, type=Path)
    parser.add_argument("clients", nargs="*", metavar="CLIENT")
    args = parser.parse_args()
    known = PYTHON_CLIENTS + NODE_CLIENTS
    unknown = set(args.clients) - set(known)
    if unknown:
        sys.exit(f"no such client: {', '.join(unknown)}; there are {', '.join(known)}")
    folder = args.dir.resolve()
    clients = args.clients or known
    commands = {client: command(client, folder) for client in clients}
    model = folder / "model"
    subprocess.run([sys.executable, "-B", HERE / "scripted_model.py", model], check=True)
    with (folder / "terrace.log").open("w") as log:
        failed = [client for client in clients
                  if not run(client, commands[client], args.terrace, model, folder, log)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; see {folder}/CLIENT.log")


def run(client, command, terrace, model, folder, log):
    """Runs a client's script against a server of its own; whether all of it went well."""
    server = subprocess.Popen(
        [terrace, "serve", f"scripted={model}", "--port", "0", "--threads", "2"],
        stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        lines = iter(server.stdout.readline, "")
        base = next((found[1] for line in lines if (found := re.match("listening on (.*)", line))),
                    None)
        if base is None:
            print(f"FAILED {client}: the server did not start; see {log.name}", flush=True)
            return False
        with (folder / f"{client}.log").open("w") as errors:
            done = subprocess.run([*command, base, model], stderr=errors, timeout=CLIENT_SECONDS,
                                  env=environment(folder), cwd=folder)
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        print(f"FAILED {client}: not done after {CLIENT_SECONDS} s", flush=True)
        return False
    finally:
        server.kill()
        server.wait()


def environment(folder):
    """Clients keep what they keep below the folder, and reach nothing but the server."""
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANGSMITH_TRACING": "false",
             "AI_SDK_LOG_WARNINGS": "false", "NO_PROXY": "*", "TOKENIZERS_PARALLELISM": "false"}
    return os.environ | quiet | {"HF_HOME": str(folder / "hf"), "PYTHONDONTWRITEBYTECODE": "1"}


def command(client, folder):
    """The command that runs a client's script; makes its environment first."""
    if client in NODE_CLIENTS:
        target = folder / "node"
        make(target, HERE / "package.json", node_environment)
        for script in HERE.glob("*.mjs"):
            shutil.copy(script, target)
        return [node(target), target / f"{client}_client.mjs"]
    target = folder / client
    make(target, HERE / "requirements" / f"{client}.txt", python_environment)
    return [target / "bin" / "python", "-B", HERE / f"{client}_client.py"]


def make(target, pins, build):
    """Builds an environment unless it stands for these pins already."""
    built_for = target / "built_for"
    if built_for.is_file() and built_for.read_text() == pins.read_text():
        return
    print(f"       installing {pins.relative_to(HERE)}", flush=True)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    build(target, pins)
    built_for.write_text(pins.read_text())


def python_environment(target, pins):
    subprocess.run([sys.executable, "-m", "venv", target], check=True)
    pip = [target / "bin" / "python", "-m", "pip", "install", "--quiet", "--prefer-binary"]
    subprocess.run([*pip, "--disable-pip-version-check", "-r", pins], check=True)


def node_environment(target, pins):
    if not shutil.which("npm"):
        sys.exit("npm is needed for the clients of Node: install it, or name other clients")
    shutil.copy(pins, target)
    npm = ["npm", "install", "--no-fund", "--no-audit", "--no-package-lock", "--loglevel=error"]
    subprocess.run(npm, cwd=target, check=True)


def node(target):
    """The system's Node if it is new enough, else the one that came with the packages."""
    system = shutil.which("node")
    if system:
        version = subprocess.run([system, "--version"], capture_output=True, text=True).stdout
        if int(version.lstrip("v").split(".")[0]) >= NODE_MAJOR:
            return system
    found = sorted(target.glob("node_modules/node-linux-*/bin/node"))
    return found[0] if found else sys.exit(f"Node {NODE_MAJOR} or newer is needed")


if __name__ == "__main__":
    main()
