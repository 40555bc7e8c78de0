#!/usr/bin/env python3
"""Runs binaries of known outcome through ctest, tools/count_tests.py and tools/test, and checks exit codes and counts."""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

problems = []


def expect(what, got, wanted):
    if got != wanted:
        problems.append(f"{what}: expected {wanted!r}, got {got!r}")


def run(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout


def last_line(text):
    return text.rstrip().splitlines()[-1] if text.strip() else ""


def write_ctest_folder(folder, binaries, gpu):
    """A folder that ctest and tools/test take for a build."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "bin").mkdir(parents=True)
    lines = []
    for name, path in binaries.items():
        lines.append(f'add_test({name} "{path}")\nset_tests_properties({name} PROPERTIES SKIP_RETURN_CODE 77)\n')
        if path.exists():
            shutil.copy2(path, folder / "bin" / path.name)
    (folder / "CTestTestfile.cmake").write_text("".join(lines))
    (folder / "gpu_tests.txt").write_text("".join(f"{path.name} \n" for path in gpu.values()))


def main():
    parser = argparse.ArgumentParser()
    for option in ("--source", "--binaries", "--scratch", "--ctest"):
        parser.add_argument(option, type=pathlib.Path, required=True)
    given = parser.parse_args()
    binary = {outcome: given.binaries / f"harness_{outcome}" for outcome in ("passes", "fails", "skips", "crashes", "is_not_built")}

    # The binaries themselves.
    for outcome, code, counts in (("passes", 0, "2 passed, 0 failed, 0 skipped"), ("fails", 1, "1 passed, 1 failed, 0 skipped"),
                                  ("skips", 77, "0 passed, 0 failed, 1 skipped")):
        got, text = run(binary[outcome])
        expect(f"exit code of {outcome}", got, code)
        expect(f"count line of {outcome}", f"cases: {counts}" in text, True)
    expect("exit code when the filter selects nothing", run(binary["passes"], "--test-case=no such case")[0], 1)
    expect("exit code of --list-test-cases", run(binary["passes"], "--list-test-cases")[0], 0)

    # Through tools/test, as a build of its own: (tests in it, exit code is 0, last line).
    for names, green, counts in (
        (("passes",), True, "2 passed, 0 failed, 0 skipped"),
        (("passes", "skips"), True, "2 passed, 0 failed, 1 skipped"),
        (("passes", "fails", "skips"), False, "3 passed, 1 failed, 1 skipped"),
        (("passes", "crashes"), False, "2 passed, 1 failed, 0 skipped"),
        (("passes", "is_not_built"), False, "2 passed, 1 failed, 0 skipped"),
        ((), False, None),
    ):
        chosen = {name: binary[name] for name in names}
        for way in ((), ("--gpu",), ("--from-list", given.scratch / "tests.txt")):
            write_ctest_folder(given.scratch, chosen, chosen)
            (given.scratch / "tests.txt").write_text("".join(f"{name}|unit|{path}\n" for name, path in chosen.items()))
            got, text = run(given.source / "tools/test", "--no-build", "--build-dir", given.scratch, *way)
            what = f"tools/test {way[0] if way else ''} with {'+'.join(names) or 'no test'}"
            expect(f"{what} is green", got == 0, green)
            if counts:
                expect(f"last line of {what}", last_line(text), counts)
            elif re.fullmatch(r"[1-9]\d* passed.*", last_line(text)):
                problems.append(f"{what}: claims that something passed: {last_line(text)}")

    print("\n".join(problems + [f"red_is_red: {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
