#!/usr/bin/env python3
"""Counts test cases in ctest's JUnit files and prints "N passed, N failed, N skipped".

A doctest binary prints "cases: P passed, F failed, S skipped"; any other test counts as one. A test that ctest calls failed counts at
least one failure, whatever it printed before it crashed. Exits 1 when something failed or when nothing ran.

count_tests.py --list ROOT: reads `ctest --show-only=json-v1` and prints "name|labels|command" lines, commands as they are from folder ROOT.
"""
import json
import re
import shlex
import sys
import xml.etree.ElementTree as xml

CASES = re.compile(r"^cases: (\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)


def count(test):
    """(passed, failed, skipped) of one <testcase> element."""
    status = test.get("status")
    found = CASES.findall(test.findtext("system-out") or "")
    passed, failed, skipped = (int(n) for n in found[-1]) if found else (0, 0, 0)
    if status == "fail" or test.find("failure") is not None:
        return passed, max(failed, 1), skipped
    if status == "run":
        return (passed, failed, skipped) if found else (1, 0, 0)
    # "notrun": exit code 77, or a test that was never there to run (a binary that nobody built): the first is a skip, the second a failure.
    if status == "disabled" or "SKIP_" in (test.find("skipped").get("message") or ""):
        return passed, failed, max(skipped, 1)
    return 0, 1, 0


def as_commands(root):
    for test in json.load(sys.stdin)["tests"]:
        if "command" not in test:
            continue  # not built
        of = {p["name"]: p["value"] for p in test.get("properties", [])}
        environment = " ".join(shlex.quote(e) for e in of.get("ENVIRONMENT", []))
        words = ["python3" if re.fullmatch(r"/.*/python3[.0-9]*", word) else word.replace(root + "/", "") for word in test["command"]]  # the interpreter of that machine
        command = " ".join(shlex.quote(word) for word in words)
        print(f"{test['name']}|{','.join(of.get('LABELS', []))}|{'env ' + environment + ' ' if environment else ''}{command}".replace(root + "/", ""))


def main(files):
    total = (0, 0, 0)
    for name in files:
        for test in xml.parse(name).getroot().iter("testcase"):
            total = tuple(a + b for a, b in zip(total, count(test)))
    passed, failed, skipped = total
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or passed + skipped == 0 else 0


if __name__ == "__main__":
    sys.exit(as_commands(sys.argv[2]) if sys.argv[1:2] == ["--list"] else main(sys.argv[1:]))
