#!/usr/bin/env python3
"""Checks that the programs given start on another x86-64 Linux: they may need the C library and the loader, nothing else.

  check_portable.py PROGRAM...     programs that do not exist are left out; exit 77 when none does
"""
import pathlib
import re
import subprocess
import sys

EVERYWHERE = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux[\w-]*)\.so(\.\d+)?$")


def main(programs):
    there = [p for p in programs if pathlib.Path(p).exists()]
    bad = 0
    for program in there:
        text = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
        extra = [name for name in needed if not EVERYWHERE.match(name)]
        if extra:
            bad += 1
            print(f"{program}: needs {', '.join(extra)}: link it statically, or load it at run time")
    print(f"check_portable: {len(there)} programs, {bad} that would not start elsewhere")
    return 1 if bad else 0 if there else 77


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
