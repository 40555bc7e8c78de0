#!/usr/bin/env python3
"""Checks that the names in the pages about the code exist: `lib/x/y.cpp` is a file or folder, `name()` is declared in include, lib or tools.

  check_names.py [ROOT]         looks through the pages below; exit 1 if a name is gone
  check_names.py --self-test    plants names that do not exist and expects them to be found
"""
import pathlib
import re
import sys
import tempfile

PAGES = ("docs/walk.md", "docs/layers.md", "docs/language.md", "docs/numerics.md", "docs/rings-and-roles.md", "docs/shipping.md", "docs/simulator.md", "docs/what-runs-when.md")
FOLDERS = ("include", "lib", "tools", "examples", "tests", "docs", "bench")
CODE = re.compile(r"`([^`\n]+)`")
CALL = re.compile(r"(?:[A-Za-z_]\w*(?:::|\.))*([A-Za-z_]\w*)\(\)")


def check(root):
    text = "\n".join(f.read_text(encoding="utf-8", errors="replace") for folder in ("include", "lib", "tools")
                     for f in sorted((root / folder).rglob("*")) if f.suffix in (".hpp", ".cpp", ".h", ".inc", ".def", ".py"))
    words = set(re.findall(r"[A-Za-z_]\w*", text))
    slips, count = [], 0
    for page in PAGES:
        if not (root / page).is_file():
            continue
        prose = re.sub(r"^```.*?^```", lambda b: "\n" * b.group(0).count("\n"), (root / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for number, line in enumerate(prose.splitlines(), 1):
            for code in CODE.findall(line):
                path = re.fullmatch(rf"((?:{'|'.join(FOLDERS)})/[\w./+-]+)", code)
                if path and not re.search(r"[A-Z]{4,}", code):  # include/tlx/LAYER speaks of any
                    count += 1
                    if not (root / code).exists():
                        slips.append(f"{page}:{number}: there is no {code}")
                call = CALL.fullmatch(code)
                if call:
                    count += 1
                    if call.group(1) not in words:
                        slips.append(f"{page}:{number}: nothing is called {call.group(1)}")
    return slips, count


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in ("include", "lib/a", "tools", "docs"):
            (root / name).mkdir(parents=True)
        (root / "lib/a/b.cpp").write_text("void here() {}\n", encoding="utf-8")
        (root / "docs/walk.md").write_text("`lib/a/b.cpp` `lib/a/gone.cpp` `here()` `x::gone()` `lib/LAYER`\n```\n`lib/no.cpp`\n```\n", encoding="utf-8")
        slips, count = check(root)
    good = count == 4 and [s.split()[-1] for s in slips] == ["lib/a/gone.cpp", "gone"]
    print(f"check_names --self-test: {count} names, {len(slips)} slips: {'as planted' if good else 'WRONG'}")
    return 0 if good else 1


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parent.parent
    slips, count = check(root)
    print("\n".join(slips + [f"check_names: {count} names, {len(slips)} slips"]))
    return 1 if slips or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
