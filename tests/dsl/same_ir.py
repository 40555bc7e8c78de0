#!/usr/bin/env python3
"""Builds one program with a second compiler and compares what it prints with what the first compiler's build prints. 77: there is no second compiler."""
import argparse
import difflib
import pathlib
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--first", required=True)
parser.add_argument("--second", required=True)
parser.add_argument("--scratch", type=pathlib.Path, required=True)
parser.add_argument("--include", required=True)
parser.add_argument("--source", required=True)
parser.add_argument("--libraries", nargs="+", required=True)
given = parser.parse_args()
if not given.second or given.second.endswith("NOTFOUND"):
    print("skipped: there is no clang++")
    sys.exit(77)
given.scratch.mkdir(parents=True, exist_ok=True)
program = given.scratch / "print_recorded"
built = subprocess.run([given.second, "-std=c++20", "-I", given.include, given.source, *given.libraries, *given.libraries, "-o", str(program)], capture_output=True, text=True)
if built.returncode != 0:
    sys.exit(f"the second compiler refuses the program:\n{built.stderr}")
first = subprocess.run([given.first], capture_output=True, text=True, check=True).stdout.splitlines()
second = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.splitlines()
difference = list(difflib.unified_diff(first, second, "first compiler", "second compiler", lineterm=""))
print("\n".join(difference) or f"{len(first)} lines, the same from both compilers")
sys.exit(1 if difference or len(first) < 50 else 0)
