#!/usr/bin/env python3
"""Runs tools/setup with a dpkg-query that knows fewer packages, and checks what it says and how it ends. Installs nothing."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

root = pathlib.Path(__file__).resolve().parent.parent.parent
problems = []


def setup(*options, hide_toolkit=True, absent=()):
    """(exit code, output, seconds) of tools/setup where dpkg-query leaves out `absent`."""
    with tempfile.TemporaryDirectory() as folder:
        names = "g++ cmake ninja-build python3 pkg-config llvm-22-dev libzstd-dev zlib1g-dev libboost-dev doctest-dev libbenchmark-dev nlohmann-json3-dev clang"
        known = " ".join(f"{name}:installed" for name in names.split() if name not in absent)
        fake = pathlib.Path(folder) / "dpkg-query"
        fake.write_text(f"#!/bin/sh\necho '{known} '\nexit 1\n")
        fake.chmod(0o755)
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TLX_HIDE_TOOLKIT": "1" if hide_toolkit else "0"}
        start = time.monotonic()
        done = subprocess.run([root / "tools/setup", *options], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout, time.monotonic() - start


def expect(what, condition, text):
    if not condition:
        problems.append(f"{what}; it said:\n{text}")


code, text, seconds = setup("--check")
expect("with every package there, --check is green", code == 0, text)
expect(f"a run that finds everything is fast ({seconds:.2f} s)", seconds < 5, text)  # 0.03 s alone; the bound allows a busy machine
expect("a hidden toolkit is said to be missing, and what works without", "no ptxas" in text and "everything up to PTX and the simulator works" in text, text)

code, text, _ = setup("--check", absent=("doctest-dev", "llvm-22-dev"))
expect("a missing package is red", code == 1, text)
expect("the line to run is printed once and names just what is missing",
       text.count("\n") == 1 and text.rstrip().endswith("install -y --no-install-recommends llvm-22-dev doctest-dev"), text)

code, text, _ = setup("--ptxas")
expect("a hidden toolkit has no ptxas", code == 0 and text == "", text)

code, text, _ = setup("--no-such-option")
expect("an unknown option is red and named", code == 1 and "--no-such-option" in text, text)

print("\n".join(problems + [f"setup_says: {len(problems)} problems"]))
sys.exit(1 if problems else 0)
