#!/usr/bin/env python3
"""No container is built here: this checks that what tools/container/Containerfile names exists, so that a renamed file or option is found.

  container.py ROOT       checks ROOT/tools/container/Containerfile, prints what is wrong; exit 1 if anything is
  container.py ROOT --self-test
"""
import json
import pathlib
import re
import sys

FILE = "tools/container/Containerfile"


def instructions(text):
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1) + [""])[:2] for line in "\n".join(lines).replace("\\\n", " ").splitlines()]


def slips(root, text):
    options = set(re.findall(r"\boption\((\w+)", (root / "CMakeLists.txt").read_text()))
    presets = {p["name"] for p in json.loads((root / "CMakePresets.json").read_text())["buildPresets"]}
    setup = (root / "tools/setup").read_text()
    packages = set(re.search(r"\npackages=\((.*?)\)", setup, re.S).group(1).split())
    toolkit = re.search(r'\nwheel_root="\$root/(.*?)"', setup).group(1)  # where tools/setup puts the assembler
    generates = {}  # stage: whether cmake finds a build program there without being told which
    stages, made, programs = [], {}, {"tlxc"}  # made: stage to its paths, each with what it is: a folder of the sources, an install prefix, or a file made there
    stage = None

    def has(where_made, path):
        for place, what in made[where_made].items():
            below = path[len(place) + 1:] if path.startswith(place + "/") else None
            if path == place or place.startswith(path + "/") or (below is not None and (what == "prefix" or isinstance(what, pathlib.Path) and (what / below).exists())):
                return True
        return False

    for number, (word, rest) in enumerate(instructions(text), 1):
        where = f"{FILE}, instruction {number} ({word} {rest[:40]})"
        if word == "FROM":
            base, _, stage = rest.partition(" AS ")
            if base not in stages and not re.fullmatch(r"debian:\d+", base):
                yield f"{where}: {base} is no stage above and no release of Debian by number"
            stages.append(stage)
            made[stage] = dict(made.get(base, {}))
            generates[stage] = generates.get(base, False)
        elif word == "COPY":
            source, target = rest.split()[-2:]
            origin = re.match(r"--from=(\w+)", rest)
            if not origin:
                if not (root / source).exists():
                    yield f"{where}: there is no {source}"
                made[stage][target] = root / source
                lists = root / source / "CMakeLists.txt"
                programs |= set(re.findall(r"install\(TARGETS (\w+)", lists.read_text())) if source != "." and lists.exists() else set()
            elif origin.group(1) not in stages:
                yield f"{where}: there is no stage {origin.group(1)} above"
            else:
                there = made[origin.group(1)]
                if not has(origin.group(1), source):
                    yield f"{where}: stage {origin.group(1)} makes no {source}"
                made[stage] |= {target + place[len(source):]: what for place, what in there.items() if place == source or place.startswith(source + "/")}
        elif word == "RUN":
            for script in re.findall(r"(?<![\w/.-])(tools/\w+)", rest):
                if not (root / script).is_file():
                    yield f"{where}: there is no {script}"
                if script == "tools/setup":
                    made[stage]["/src/" + toolkit] = "file"
            for option in re.findall(r"-D(TLX_\w+)=", rest):
                if option not in options:
                    yield f"{where}: CMakeLists.txt has no option {option}"
            for preset in re.findall(r"--preset (\S+)", rest):
                if preset not in presets:
                    yield f"{where}: there is no preset {preset}"
            generates[stage] |= bool(re.search(r"apt-get install .*\bmake\b", rest))
            if re.search(r"\bcmake -S", rest) and " -G" not in rest and not generates[stage]:
                yield f"{where}: cmake would look for make, which nobody installs there: -G, or CMAKE_GENERATOR in ENV"
            made[stage] |= {prefix: "prefix" for prefix in re.findall(r"--prefix (\S+)", rest)}
            apt = re.search(r"apt-get install (.*?)(&&|$)", rest)
            for package in apt.group(1).split() if apt else ():
                if not package.startswith("-") and package not in packages:
                    yield f"{where}: package {package} is not one that tools/setup installs"
        elif word == "ENV":
            generates[stage] |= "CMAKE_GENERATOR=" in rest
            for path in re.findall(r"[=:](/opt/[^\s:]*)", rest):
                if not has(stage, path):
                    yield f"{where}: nothing in this stage makes {path}"
        elif word == "CMD":
            program = json.loads(rest)[0]
            if program not in programs:
                yield f"{where}: nobody installs {program}"
        elif word != "WORKDIR":
            yield f"{where}: an instruction that this check does not know"


def self_test(root, text):
    planted = [("FROM debian:12 AS run", "FROM debian:latest AS run"), ("COPY examples/shipped", "COPY examples/shippd"), ("--from=program", "--from=prgram"), ("RUN tools/setup", "RUN tools/setpu"),
               ("-DTLX_BUILD_BENCH", "-DTLX_BUILD_BENCHES"), ("--preset dev ", "--preset deb "), ("libboost-dev", "libbost-dev"), ("CUDA_HOME=/opt/toolkit/nvidia/cu13", "CUDA_HOME=/opt/toolkit/nvidia/cu14"),
               ('CMD ["shipped"', 'CMD ["shiped"'), ("--from=build /opt/tlx ", "--from=build /opt/tlxx "), ("--from=build /src/.toolkit", "--from=build /src/toolkit"), (" CMAKE_GENERATOR=Ninja", "")]
    missed = [after for before, after in planted if before not in text or not list(slips(root, text.replace(before, after)))]
    print(f"container --self-test: {len(planted)} planted slips, {len(missed)} missed {missed}")
    return 1 if missed else 0


def main(root, *more):
    root = pathlib.Path(root)
    text = (root / FILE).read_text(encoding="utf-8")
    if more:
        return self_test(root, text)
    found = list(slips(root, text))
    print("\n".join(found + [f"{FILE}: {len(found)} slips"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
