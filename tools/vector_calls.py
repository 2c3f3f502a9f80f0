#!/usr/bin/env python3
"""Which functions of the release program call vector instructions instead of having them.

usage: vector_calls.py [--program target/release/terrace]

An instruction of a level, such as a fused multiplication of AVX-512, is a function of the standard
library that a kernel's code swallows whole where it is compiled for that level. Code that is not, such
as a closure that stays one, calls it: tens of times slower, and as right. Prints such functions of
Terrace's own, with how many calls they have, and ends with status 1 if there are any. Needs objdump.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter

FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
CALL = re.compile(r"\bcall\b.*<core::core_arch::")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="target/release/terrace")
    options = parser.parse_args()
    command = ["objdump", "--disassemble", "--demangle", "--no-show-raw-insn", options.program]
    calls, function, seen = Counter(), "", 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as disassembly:
        for line in disassembly.stdout:
            if begins := FUNCTION.match(line):
                function = begins[1]
                seen += "terrace" in function
            elif "terrace" in function and CALL.search(line):
                calls[function] += 1
    if disassembly.returncode != 0 or seen == 0:
        sys.exit(f"error: objdump finds no functions of Terrace in {options.program}")
    for function, count in calls.most_common():
        print(f"{count:5} {function}")
    sys.exit(1 if calls else 0)


if __name__ == "__main__":
    main()
