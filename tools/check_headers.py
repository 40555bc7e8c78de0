#!/usr/bin/env python3
"""Compiles each public header alone, twice included, so that it names all it needs and guards itself. A .h is compiled as C too.

  check_headers.py --compiler g++ [--layer sim] [ROOT]

Without --layer: the headers directly under include/tlx. `detail` folders count too. Exit 77 when the layer has no header yet.
"""
import argparse
import pathlib
import subprocess
import sys

FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wno-missing-field-initializers", "-Werror"]
CXX, C = ["-std=c++20", "-x", "c++"], ["-std=c99", "-x", "c"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--layer")
    parser.add_argument("root", nargs="?", default=pathlib.Path(__file__).resolve().parent.parent, type=pathlib.Path)
    given = parser.parse_args()
    include = given.root / "include"
    folder = include / "tlx" / (given.layer or "")
    headers = sorted(p for p in (folder.rglob("*") if given.layer else folder.glob("*")) if p.suffix in (".hpp", ".h"))
    bad = 0
    for header in headers:
        name = header.relative_to(include).as_posix()
        text = f'#include "{name}"\n#include "{name}"\n'
        for language in (CXX, C) if header.suffix == ".h" else (CXX,):
            command = [given.compiler, *FLAGS, *language, "-I", str(include), "-"]
            done = subprocess.run(command, input=text, text=True, capture_output=True)
            if done.returncode != 0:
                bad += 1
                print(f"{name}: does not compile alone with {given.compiler} {language[0]}:\n{done.stderr}")
    print(f"check_headers: {len(headers)} headers, {bad} that do not stand alone ({given.compiler})")
    return 1 if bad else 77 if not headers else 0


if __name__ == "__main__":
    sys.exit(main())
