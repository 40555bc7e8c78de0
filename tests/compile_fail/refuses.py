#!/usr/bin/env python3
"""Checks one compile-fail case: CASE.cpp must be refused with the message of its first line, CASE_ok.cpp must be accepted."""
import argparse
import pathlib
import subprocess
import sys
import tempfile

MARK = "// error: "


def syntax(compiler, include, source):
    """(accepted, what the compiler said)"""
    done = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-I", str(include), str(source)], capture_output=True, text=True)
    return done.returncode == 0, done.stderr + done.stdout


def judge(compiler, include, source):
    """What is wrong with the case; empty when it does what it says."""
    first = source.read_text(encoding="utf-8").partition("\n")[0]
    if not first.startswith(MARK) or not first[len(MARK):].strip():
        return f"{source.name}: its first line must be '{MARK}PART OF THE MESSAGE'"
    wanted = first[len(MARK):].strip()
    twin = source.with_name(source.stem + "_ok.cpp")
    if not twin.exists():
        return f"{source.name}: has no accepted twin {twin.name}"
    accepted, text = syntax(compiler, include, twin)
    if not accepted:
        return f"{twin.name}: the accepted twin does not compile:\n{text}"
    accepted, text = syntax(compiler, include, source)
    if accepted:
        return f"{source.name}: compiles, but should be refused with: {wanted}"
    if not any("error:" in line and wanted in line for line in text.splitlines()):
        return f"{source.name}: refused, but no error line says '{wanted}':\n{text}"
    return ""


def self_test(compiler, include):
    good, bad = "int main() {}\n", 'static_assert(sizeof(int) == 1, "ints are wide");\n'
    cases = [  # (CASE.cpp, CASE_ok.cpp or None, a part of the verdict; empty: fine)
        (MARK + "ints are wide\n" + bad, good, ""),
        (MARK + "ints are narrow\n" + bad, good, "no error line says"),
        (MARK + "ints are wide\n" + good, good, "compiles, but should be refused"),
        (MARK + "ints are wide\n" + bad, bad, "the accepted twin does not compile"),
        (MARK + "ints are wide\n" + bad, None, "has no accepted twin"),
        (MARK + "\n" + bad, good, "its first line must be"),
        (bad, good, "its first line must be"),
    ]
    wrong = 0
    for text, twin, expected in cases:
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "planted.cpp"
            source.write_text(text, encoding="utf-8")
            if twin is not None:
                source.with_name("planted_ok.cpp").write_text(twin, encoding="utf-8")
            verdict = judge(compiler, include, source)
        if (verdict == "") != (expected == "") or expected not in verdict:
            wrong += 1
            print(f"self-test: expected '{expected}', got '{verdict}'")
    print(f"refuses --self-test: {len(cases)} planted cases, {wrong} judged wrongly")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", type=pathlib.Path, required=True)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("case", type=pathlib.Path, nargs="?")
    given = parser.parse_args()
    if given.self_test:
        return self_test(given.compiler, given.include)
    verdict = judge(given.compiler, given.include, given.case)
    print(verdict or f"{given.case.name}: refused as it says; its twin is accepted")
    return 1 if verdict else 0


if __name__ == "__main__":
    sys.exit(main())
