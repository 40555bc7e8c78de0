#!/usr/bin/env python3
"""Checks that code in README.md and docs is the code that is compiled: every ```cpp block follows a line that names its source.

  <!-- quote: examples/01_copy.cpp kernel -->      the lines between "// [kernel]" and "// [/kernel]" of that file, dedented
  <!-- not compiled: why -->                       a fragment that cannot be: one that must not compile, say

  check_quotes.py [ROOT]          checks, prints what differs; exit 1 if anything does
  check_quotes.py --fix [ROOT]    writes the regions into the blocks
  check_quotes.py --self-test     plants one slip of each kind and expects each to be found
"""
import pathlib
import re
import sys
import tempfile
import textwrap

BLOCK = re.compile(r"(?P<mark><!--[^\n]*-->\n)?(?P<open>```(?:cpp|c\+\+)\n)(?P<body>.*?)(?P<close>^```)", re.MULTILINE | re.DOTALL)
QUOTE = re.compile(r"<!-- quote: (\S+) (\S+) -->")
EXCUSE = re.compile(r"<!-- not compiled: \S.* -->")


def region(root, path, name):
    file = root / path
    if not file.is_file():
        return None, f"quotes {path}, which does not exist"
    text = file.read_text(encoding="utf-8")
    found = re.findall(rf"^[ \t]*// \[{re.escape(name)}\]\n(.*?)^[ \t]*// \[/{re.escape(name)}\]", text, re.MULTILINE | re.DOTALL)
    if len(found) != 1:
        return None, f"quotes region {name} of {path}, which has {len(found)} of that name"
    return textwrap.dedent(found[0]), None


def pages(root):
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("examples/**/*.md")])


def check(root, fix=False):
    slips, count = [], 0
    for page in pages(root):
        text = page.read_text(encoding="utf-8")

        def look(block):
            nonlocal count
            count += 1
            where = f"{page.relative_to(root)}:{text.count(chr(10), 0, block.start('open')) + 1}"
            mark = block.group("mark") or ""
            if EXCUSE.match(mark):
                return block.group(0)
            quote = QUOTE.match(mark)
            if not quote:
                slips.append(f"{where}: a code block without <!-- quote: FILE REGION --> above it")
                return block.group(0)
            wanted, problem = region(root, quote.group(1), quote.group(2))
            if problem:
                slips.append(f"{where}: {problem}")
                return block.group(0)
            if block.group("body") != wanted and not fix:
                slips.append(f"{where}: differs from region {quote.group(2)} of {quote.group(1)} (tools/check_quotes.py --fix)")
            return mark + block.group("open") + wanted + block.group("close")

        new = BLOCK.sub(look, text)
        if fix and new != text:
            page.write_text(new, encoding="utf-8")
    return slips, count


def self_test():
    source = "int x;\n  // [a]\n  int y;\n    int z;\n  // [/a]\n"
    block = "```cpp\n{}```\n"
    good = "int y;\n  int z;\n"
    page = ("<!-- quote: examples/e.cpp a -->\n" + block.format(good) + "<!-- not compiled: must not -->\n" + block.format("if (x) y;\n")
            + block.format("int bare;\n") + "<!-- quote: examples/e.cpp a -->\n" + block.format("int y;\n")
            + "<!-- quote: examples/e.cpp b -->\n" + block.format("") + "<!-- quote: examples/none.cpp a -->\n" + block.format(""))
    expected = ["without <!-- quote", "differs from region a", "has 0 of that name", "does not exist"]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "examples").mkdir()
        (root / "examples/e.cpp").write_text(source, encoding="utf-8")
        (root / "README.md").write_text(page, encoding="utf-8")
        found, count = check(root)
        check(root, fix=True)
        repaired, _ = check(root)
    wrong = count != 6 or len(found) != 4 or len(repaired) != 3 or any(e not in f for e, f in zip(expected, found))
    print(f"check_quotes --self-test: {count} blocks, {len(found)} slips found, {len(repaired)} after --fix: {'WRONG' if wrong else 'as planted'}")
    return 1 if wrong else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    fix = "--fix" in arguments
    rest = [a for a in arguments if a != "--fix"]
    root = pathlib.Path(rest[0]) if rest else pathlib.Path(__file__).resolve().parent.parent
    slips, count = check(root, fix)
    print("\n".join(slips + [f"check_quotes: {count} blocks, {len(slips)} slips"]))
    return 1 if slips or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
