#!/usr/bin/env python3
"""What a user's translation unit costs: the fused-epilogue example must compile in 5 s of processor time and 1 GB.

compile_time.py COMPILER SOURCE INCLUDE_ROOT   On a slow machine the limit is a multiple of what a file that only includes Boost.Hana takes.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

SECONDS, KILOBYTES, TIMES_HANA = 5.0, 1 << 20, 16.0


def cost(command):
    """Processor seconds and peak kilobytes of one command and its children."""
    child = subprocess.Popen(command)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"failed ({child.returncode}): {' '.join(command)}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss


def main():
    compiler, source, include = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as folder:
        empty = pathlib.Path(folder) / "hana_only.cpp"
        empty.write_text("#include <boost/hana.hpp>\nint main() {}\n", encoding="utf-8")
        options = ["-std=c++20", "-O2", "-I", include, "-c", "-o", str(pathlib.Path(folder) / "out.o")]
        base, _ = min(cost([compiler, *options, str(empty)]) for _ in range(2))
        mine, peak = min(cost([compiler, *options, source]) for _ in range(2))
    limit = max(SECONDS, TIMES_HANA * base)
    print(f"{pathlib.Path(source).name}: {mine:.2f} s of processor time, {peak / 1024:.0f} MB; Hana alone {base:.2f} s, so {mine / base:.1f} times that; limit {limit:.1f} s, 1024 MB")
    return 0 if mine <= limit and peak <= KILOBYTES else 1


if __name__ == "__main__":
    sys.exit(main())
