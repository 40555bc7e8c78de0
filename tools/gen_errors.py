#!/usr/bin/env python3
"""Collects docs/errors.d/*.md, the error ids of each layer, into docs/errors.md and into the table behind `tlxc explain`.

  gen_errors.py             writes docs/errors.md
  gen_errors.py --check     exit 1 if docs/errors.md is not what would be written
  gen_errors.py --inc FILE  writes rows {"id", "layer", "meaning", "fix"}, sorted by id and layer, for a C++ initialiser
  gen_errors.py --sources   prints the files it reads, one a line

An entry is `## id`, one to three sentences on what it means, then a paragraph that starts with "Fix:". Two layers may raise the same id;
each then has an entry, and the page shows both.
"""
import pathlib
import re
import sys

HEAD = """# Errors

<!-- Made by tools/gen_errors.py from docs/errors.d/; change an entry there. -->

Every error of tlx has an id in square brackets: `tlx error [ring-never-drained]: ...`. `tlxc explain ID` prints the entry below.
Families: `error` (mend the kernel or the call), `device error` (mend the machine or the launch), `sim error` (the simulator found a fault
in the kernel), `internal error` (a bug in tlx: please report it).
What a C++ compiler says before tlx sees the kernel is in [compiler messages](compiler-messages.md).
"""


class malformed(Exception):
    pass


def read_entries(root):
    """{id: [(layer, meaning, fix), ...]} of all files, sorted; raises malformed with file and id."""
    entries = {}
    for path in sorted((root / "docs/errors.d").glob("*.md")):
        for block in re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            heading, _, body = block.partition("\n")
            name = heading.strip().strip("`")
            where = f"docs/errors.d/{path.name}: {name}"
            if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
                raise malformed(f"{where}: an id is lower-case words joined by hyphens")
            if any(layer == path.stem for layer, _, _ in entries.get(name, [])):
                raise malformed(f"{where}: is there twice; keep one of them")
            meaning, found, fix = body.partition("Fix:")
            meaning, fix = (" ".join(part.split()) for part in (meaning, fix))
            if not found or not meaning or not fix:
                raise malformed(f"{where}: needs what it means, then a paragraph that starts with 'Fix:'")
            entries.setdefault(name, []).append((path.stem, meaning, fix))
    return dict(sorted(entries.items()))


def page(entries):
    parts = [HEAD]
    for name, sides in entries.items():
        parts.append(f"\n## {name}\n")
        for layer, meaning, fix in sides:
            parts.append(f"\n{meaning}\n\nFix: {fix}\n\nRaised by: {layer}.\n")
    return "".join(parts)


def quoted(text):
    """A C++ string literal; long ones are fine for g++ and clang."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def include(entries):
    rows = ["{" + ", ".join(quoted(part) for part in (name, *side)) + "},\n" for name, sides in entries.items() for side in sides]
    return "// Made by tools/gen_errors.py from docs/errors.d/.\n" + "".join(rows)


def main(arguments):
    root = pathlib.Path(__file__).resolve().parent.parent
    target = root / "docs/errors.md"
    if arguments == ["--sources"]:
        print("\n".join(str(p) for p in sorted((root / "docs/errors.d").glob("*.md"))))
        return 0
    try:
        entries = read_entries(root)
    except malformed as slip:
        print(f"gen_errors: {slip}")
        return 1
    if arguments[:1] == ["--inc"] and len(arguments) == 2:
        pathlib.Path(arguments[1]).write_text(include(entries), encoding="utf-8")
    elif arguments == ["--check"]:
        if not target.exists() or target.read_text(encoding="utf-8") != page(entries):
            print("gen_errors: docs/errors.md is out of date: run tools/gen_errors.py and commit it")
            return 1
        print(f"gen_errors: {len(entries)} entries, docs/errors.md is up to date")
    elif not arguments:
        target.write_text(page(entries), encoding="utf-8")
        print(f"gen_errors: wrote {len(entries)} entries to docs/errors.md")
    else:
        print(__doc__)
        return 64
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
