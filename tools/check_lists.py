#!/usr/bin/env python3
"""Checks what is kept by hand in two places: sources against CMake lists, error ids against docs/errors.d, links against files, reported cases against tests, words to avoid.

  check_lists.py [ROOT]       checks, prints what is wrong; exit 1 if anything is
  check_lists.py --self-test  plants one slip of each kind in a temporary tree and expects each to be found
"""
import pathlib
import re
import subprocess
import sys
import tempfile

TEXT = {".hpp", ".cpp", ".h", ".inc", ".def", ".py", ".sh", ".md", ".txt", ".cmake", ".in", ".json", ".yml", ""}
# Words that promise something for later, and paths or hosts of one machine. Split, so that this file does not hold them itself.
WORDS = [
    (r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b", "says that something is unfinished: finish it or leave it out"),
    (r"(?i)\b(stu" r"bs?|stub" r"bed|place" r"holders?|not imple" r"mented|unimple" r"mented)\b", "stands in for something that is not there"),
    (r"\b(CE" r"O|sub-?ag" r"ents?|Cla" r"ude)\b", "speaks of who wrote it"),
    (r"(?<![\w.$}])/(work|root|home|farm|tmp)" r"/[A-Za-z]", "a path of one machine"),
    (r"(?i)\b(py" r"pi\.org|pythonhosted|deb\.deb" r"ian\.org|anaconda\.org|proxy\.golang\.org|registry\.npmjs)", "the host of a registry"),
]
# (file, word in it): why it may stand there.
ALLOWED = {
    (file, "stu" "b"): "what CUDA calls the libcuda of a toolkit's stubs folder"
    for file in ("lib/runtime/driver.cpp", "tests/runtime/CMakeLists.txt", "tests/runtime/loading.cpp")
}
LONGEST = 1500
ID = re.compile(r'\.id\s*=([^,;}]*)')  # the expression: one literal, or two and a question mark
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def files(root):
    """What git tracks or would track; in a tree without git, everything but build folders."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True)
    if listed.returncode == 0 and listed.stdout:
        names = [name for name in listed.stdout.decode().split("\0") if name]
    else:
        names = [p.relative_to(root).as_posix() for p in root.rglob("*")]
        names = [n for n in names if not re.match(r"(build[^/]*|\.git|\.toolkit)/", n) and "/__pycache__/" not in n]
    return sorted(pathlib.PurePosixPath(n) for n in set(names) if (root / n).is_file() and not (root / n).is_symlink())


def check_sources(root, tracked):
    """Every .cpp is named in the CMakeLists.txt of its folder or of one above it."""
    for path in tracked:
        if path.suffix != ".cpp" or path.parts[0] not in ("lib", "tools", "tests", "bench", "examples"):
            continue
        if path.parts[:2] == ("tests", "compile_fail") or path.parts[:2] == ("tests", "support"):
            continue  # read by the compile-fail harness; linked by tlx_test()
        folder, listed = path.parent, False
        while folder.parts and not listed:
            lists = root / folder / "CMakeLists.txt"
            if lists.exists():
                name = re.escape(path.relative_to(folder).as_posix())
                stem = re.escape(path.relative_to(folder).with_suffix("").as_posix())  # a foreach() over names without .cpp
                listed = re.search(rf"(?<![\w./-])({name}|{stem})(?![\w.-])", lists.read_text(encoding="utf-8")) is not None
            folder = folder.parent
        if not listed:
            yield f"{path}: in no CMakeLists.txt, so nobody compiles it"


def check_words(root, tracked):
    for path in tracked:
        if path.suffix not in TEXT or path.name in ("LICENSE", "check_lists.py"):
            continue
        try:
            lines = (root / path).read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue  # data
        if len(lines) > LONGEST and path.suffix in (".hpp", ".cpp", ".py"):
            yield f"{path}: {len(lines)} lines; over {LONGEST}, split it"
        for number, line in enumerate(lines, 1):
            if "/usr/bin/env" in line and number == 1:
                continue
            for pattern, why in WORDS:
                hit = re.search(pattern, line)
                if hit and (str(path), hit.group(0).lower().rstrip("s")) not in ALLOWED:
                    yield f"{path}:{number}: '{hit.group(0)}': {why}"


def check_errors(root, tracked):
    """Ids that sources raise and ids that docs/errors.d explains are the same set."""
    raised, quoted = {}, set()
    for path in tracked:
        if path.parts[0] in ("include", "lib", "tools", "bench") and path.suffix in (".hpp", ".cpp", ".inc", ".def"):
            text = (root / path).read_text(encoding="utf-8")
            for found in ID.finditer(text):
                for name in re.findall(r'"([a-z0-9]+(?:-[a-z0-9]+)*)"', found.group(1)):
                    raised.setdefault(name, f"{path}:{text.count(chr(10), 0, found.start()) + 1}")
            quoted.update(re.findall(r'"([a-z0-9]+(?:-[a-z0-9]+)*)"', text))
            if path.parts[:2] == ("lib", "sim"):  # kinds of faults are written with underscores there, as case folders have them
                quoted.update(kind.replace("_", "-") for kind in re.findall(r'"([a-z]+(?:_[a-z]+)+)"', text))
    explained = {}
    for path in tracked:
        if path.parts[:2] == ("docs", "errors.d") and path.suffix == ".md":
            for name in re.findall(r"^## `?([^`\n]*?)`?\s*$", (root / path).read_text(encoding="utf-8"), re.MULTILINE):
                explained.setdefault(name, path)
    for name, where in sorted(raised.items()):
        if name not in explained:
            yield f"{where}: error id '{name}' has no entry in docs/errors.d"
    for name, where in sorted(explained.items()):
        if name not in quoted:  # an id may reach raise() through a function that takes it as an argument
            yield f"{where}: no source raises '{name}'"


def check_links(root, tracked):
    for path in tracked:
        if path.suffix != ".md":
            continue
        text = re.sub(r"^```.*?^```", lambda block: "\n" * block.group(0).count("\n"), (root / path).read_text(encoding="utf-8"),
                      flags=re.MULTILINE | re.DOTALL)
        for number, line in enumerate(text.splitlines(), 1):
            for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                if re.match(r"[a-z]+:", target) or target.startswith("#"):
                    continue
                if not (root / path.parent / target.split("#")[0]).exists():
                    yield f"{path}:{number}: link to {target}, which does not exist"


def check_cases(root, tracked):
    """A row `| C27 | ... | `tests/a.cpp` |` of a page, and tests in those files whose names begin with "C27: "; and no such test without a row."""
    listed, named = set(), {}
    for path in tracked:
        text = (root / path).read_text(encoding="utf-8") if path.suffix in (".md", ".cpp") and path.parts[0] in ("docs", "tests") else ""
        if path.suffix == ".cpp":
            for case in re.findall(r'"(C\d\d): ', text):
                named.setdefault((case, path.as_posix()), None)
        for number, line in enumerate(text.splitlines() if path.suffix == ".md" else (), 1):
            row = re.match(r"\| (C\d\d) \|", line)
            for file in re.findall(r"`(tests/[^`]*)`", line) if row else ():
                listed.add((row.group(1), file, f"{path}:{number}"))
    for case, file, where in sorted(listed):
        if (case, file) not in named:
            yield f"{where}: no test of {file} is named {case}"
    for case, file in sorted(named):
        if not any(row[:2] == (case, file) for row in listed):
            yield f"{file}: its test {case} is in no table"


CHECKS = (check_sources, check_words, check_errors, check_links, check_cases)


def check(root):
    tracked = files(root)
    return [slip for one in CHECKS for slip in one(root, tracked)], len(tracked)


def self_test():
    machine_path = "/wo" + "rk/somewhere"
    planted = {
        "lib/sim/CMakeLists.txt": "tlx_layer(sim SOURCES listed.cpp)\n",
        "lib/sim/listed.cpp": 'raise({.id = "known-id"}); raise({.id = x ? "known-id" : "unknown-id", .what = "b"});\n',
        "lib/sim/isted.cpp": "\n",
        "lib/sim/long.hpp": "\n" * (LONGEST + 1),
        "tests/a/CMakeLists.txt": "foreach(t one two)\n",
        "tests/a/one.cpp": "\n",
        "docs/errors.d/sim.md": "## known-id\n\nMeans. Fix: do.\n\n## stale-id\n\nMeans. Fix: do.\n",
        "docs/a.md": f"[good](errors.d/sim.md) [bad](missing.md)\nTO" f"DO later\n{machine_path}\nbuild/tmp/x is fine\n",
        "docs/cases.md": "| C01 | a | `tests/b.cpp` |\n| C02 | b | `tests/b.cpp` |\n",
        "tests/CMakeLists.txt": "b.cpp\n",
        "tests/b.cpp": 'TEST_CASE("C01: x") {}\nTEST_CASE("C03: y") {}\n',
    }
    expected = [
        "lib/sim/isted.cpp: in no CMakeLists.txt",
        "lib/sim/long.hpp: 1501 lines",
        "lib/sim/listed.cpp:1: error id 'unknown-id' has no entry",
        "docs/errors.d/sim.md: no source raises 'stale-id'",
        "docs/a.md:1: link to missing.md",
        "docs/a.md:2: 'TO" "DO'",
        "docs/a.md:3: '/wo" "rk/s'",
        "docs/cases.md:2: no test of tests/b.cpp is named C02",
        "tests/b.cpp: its test C03 is in no table",
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in planted.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        found, _ = check(root)
    missed = [e for e in expected if not any(f.startswith(e) for f in found)]
    extra = [f for f in found if not any(f.startswith(e) for e in expected)]
    for text in missed:
        print(f"self-test: not found: {text}")
    for text in extra:
        print(f"self-test: found, but nothing is wrong there: {text}")
    print(f"check_lists --self-test: {len(expected)} planted slips, {len(missed)} missed, {len(extra)} false")
    return 1 if missed or extra else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parent.parent
    found, count = check(root)
    print("\n".join(found + [f"check_lists: {count} files, {len(found)} slips"]))
    return 1 if found or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
