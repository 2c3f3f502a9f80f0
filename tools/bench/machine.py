"""The machine that is measured on."""

import os
import platform
from pathlib import Path

from bench.say import say


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def cpu_flags():
    """Names of the CPU's instruction sets as Linux tells them; empty elsewhere."""
    return set(cpuinfo("flags").split())


def describe():
    return {
        "cpu": cpuinfo("model name") or platform.processor() or platform.machine(),
        "cores": cores(),
        "instructions": sorted(flag for flag in cpu_flags() if flag.startswith(("avx", "amx"))),
        "system": f"{platform.system()} {platform.release()}",
    }


def warn_if_busy():
    load = os.getloadavg()[0]
    if load > 0.5:
        say(f"the machine is busy (load {load:.1f}): rates will be too low and differ")


def cpuinfo(name):
    path = Path("/proc/cpuinfo")
    for line in path.read_text().splitlines() if path.exists() else []:
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""
