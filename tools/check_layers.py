#!/usr/bin/env python3
"""Reads every #include of include/tlx, lib and tools against the table of layers, and fails where one points up or sideways.

  check_layers.py [ROOT]       checks, prints the violations; exit 1 if there are any
  check_layers.py --table      prints the table as Markdown (docs/layers.md quotes it, and the check compares the two)
  check_layers.py --self-test  plants violations in a temporary tree and expects each to be found
"""
import pathlib
import re
import sys
import tempfile

# layer: (layers it may include besides itself, what it holds)
LAYERS = {
    "support": ("", "source location, errors, text"),
    "tile": ("support", "constexpr values: element types, layouts, swizzles, boxes, budgets"),
    "ir": ("tile support", "typed SSA with regions, builder, verifier, text form; no templates"),
    "dsl": ("ir tile support", "what a kernel is written in; checks types, then calls ir"),
    "pass": ("ir tile support", "one pass a file, and the table of passes"),
    "check": ("ir tile support", "the protocol check of lowered IR, before code is generated; nothing of pass"),
    "codegen": ("ir tile support", "IR to LLVM IR to PTX"),
    "device": ("support", "what a GPU and the simulator both offer; a launch as plain data"),
    "bundle": ("device support", "many compiled kernels in one file: writing, opening, choosing, launching"),
    "runtime": ("device support", "a device over the CUDA driver"),
    "sim": ("device support", "a device that runs PTX text"),
    "jit": ("dsl pass check codegen runtime sim device ir tile support", "the spine: trace, verify, passes, PTX, binary, cache"),
    "kernels": ("dsl tile support", "library kernels: plain users of the dsl"),
    "host": ("kernels jit dsl bundle runtime sim device ir tile support", "one-call functions for programs: a GEMM, an attention, on a machine by name"),
    "c": ("host kernels jit dsl bundle runtime sim device ir tile support", "the C interface"),
    "tools": ("c host kernels jit dsl pass check codegen bundle runtime sim device ir tile support", "tlxc and the demo"),
}
# Foreign headers that belong to one place. (pattern of the header, where it may be included, how it is called)
FOREIGN = [
    (r"(llvm|llvm-c)/", ("lib/codegen/",), "LLVM"),
    (r"cuda(\w*)\.h$", ("lib/runtime/",), "the CUDA driver"),
    (r"nvPTXCompiler\.h$", ("lib/jit/",), "nvPTXCompiler"),
    (r"zstd\.h$", ("lib/bundle/",), "zstd"),
    (r"boost/", ("include/tlx/dsl/detail/",), "Boost.Hana"),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES = {".hpp", ".cpp", ".h", ".inc", ".def"}


def layer_of(path):
    """Layer of a file by its folder. None: an umbrella directly under include/tlx (tlx.hpp, version.hpp)."""
    parts = path.parts
    if parts[0] == "tools":
        return "tools"
    rest = parts[2:] if parts[:2] == ("include", "tlx") else parts[1:]
    return rest[0] if len(rest) > 1 else None


def problem(path, bracket, header):
    """What is wrong with this #include, or None."""
    where = path.as_posix()
    for pattern, homes, name in FOREIGN:
        if re.match(pattern, header):
            if not where.startswith(homes):
                return f"includes <{header}>: headers of {name} belong to {', '.join(homes)} only"
            if name == "Boost.Hana":
                if not header.startswith("boost/hana"):
                    return f"includes <{header}>: of Boost, only Hana is used"
                if bracket != "<":
                    return f'includes "{header}": use <{header}>, so that it is a system header'
    layer = layer_of(path)
    if layer is not None and layer not in LAYERS:
        return f"lies in unknown layer '{layer}': give it a row in tools/check_layers.py"
    public = re.match(r"tlx/(?:([\w-]+)/)?[^/]", header)
    if public:
        if bracket != '"':
            return f'includes <{header}>: own headers are included with quotes, "{header}"'
        target = public.group(1)
        if target is None:
            if header == "tlx/version.hpp" or layer in (None, "kernels", "tools") or (layer, header) in (("c", "tlx/c.h"), ("c", "tlx/c_jit.h"), ("dsl", "tlx/c_registry.h"), ("tools", "tlx/c_registry.h")):
                return None
            return f'includes "{header}": the umbrella header is for users, a layer names what it needs'
        if target not in LAYERS:
            return f'includes "{header}" of unknown layer \'{target}\''
        if layer is None or target == layer or target in LAYERS[layer][0].split():
            return None
        return f'includes "{header}": {layer} may include {LAYERS[layer][0] or "nothing"}, not {target}'
    first = header.split("/")[0]
    if bracket == '"' and "/" in header and first in LAYERS and first != layer:
        return f'includes "{header}": a private header of layer {first}'
    if bracket == '"' and header.startswith(".."):
        return f'includes "{header}": no paths upwards; name the header from its include root'
    return None


def check(root):
    """All violations under `root`, and how many includes were read."""
    found, read = [], 0
    for top in ("include/tlx", "lib", "tools"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SOURCES or not path.is_file():
                continue
            relative = path.relative_to(root)
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                read += 1
                wrong = problem(relative, match.group(1), match.group(2))
                if wrong:
                    found.append(f"{relative.as_posix()}:{number}: {wrong}")
    page = root / "docs/layers.md"
    if page.exists() and table() not in page.read_text(encoding="utf-8"):
        found.append("docs/layers.md: its table differs from `tools/check_layers.py --table`; paste that in")
    return found, read


def table():
    rows = ["| layer | may include | holds |", "| --- | --- | --- |"]
    rows += [f"| {name} | {', '.join(may.split()) or 'nothing'} | {holds} |" for name, (may, holds) in LAYERS.items()]
    return "\n".join(rows) + "\n"


def self_test():
    # (file, its line, a part of the violation; None: allowed)
    planted = [
        ("lib/sim/a.cpp", '#include "tlx/ir/op.hpp"', "not ir"),
        ("lib/sim/b.cpp", '#include "tlx/device/device.hpp"', None),
        ("lib/ir/a.cpp", '#include "tlx/dsl/ring.hpp"', "not dsl"),
        ("lib/pass/a.cpp", '  #  include "tlx/codegen/emit.hpp"', "not codegen"),
        ("lib/jit/a.cpp", "#include <llvm/IR/Module.h>", "headers of LLVM belong"),
        ("lib/codegen/a.cpp", "#include <llvm/IR/Module.h>", None),
        ("lib/sim/c.cpp", "#include <cuda.h>", "headers of the CUDA driver"),
        ("lib/runtime/a.cpp", "#include <cuda.h>", None),
        ("include/tlx/runtime/a.hpp", "#include <cuda.h>", "headers of the CUDA driver"),
        ("include/tlx/dsl/a.hpp", "#include <boost/hana.hpp>", "headers of Boost.Hana"),
        ("include/tlx/dsl/detail/a.hpp", "#include <boost/hana.hpp>", None),
        ("include/tlx/dsl/detail/b.hpp", '#include "boost/hana.hpp"', "system header"),
        ("include/tlx/dsl/detail/c.hpp", "#include <boost/mp11.hpp>", "only Hana"),
        ("include/tlx/support/a.hpp", "#include <tlx/support/text.hpp>", "with quotes"),
        ("lib/runtime/b.cpp", '#include "sim/machine.hpp"', "private header of layer sim"),
        ("lib/sim/d.cpp", '#include "sim/machine.hpp"', None),
        ("lib/sim/e.cpp", '#include "../ir/op.hpp"', "no paths upwards"),
        ("lib/graph/a.cpp", '#include "tlx/support/text.hpp"', "unknown layer 'graph'"),
        ("lib/ir/b.cpp", '#include "tlx/tlx.hpp"', "umbrella"),
        ("include/tlx/tlx.hpp", '#include "tlx/dsl/ring.hpp"', None),
        ("tools/tlxc/a.cpp", '#include "tlx/jit/compile.hpp"', None),
        ("tools/tlxc/b.cpp", '#include "jit/assemble.hpp"', "private header of layer jit"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, line, _ in planted:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(line + "\n", encoding="utf-8")
        found, _ = check(root)
    bad = 0
    for name, line, expected in planted:
        got = [text for text in found if text.startswith(name + ":")]
        right = (not got) if expected is None else (len(got) == 1 and expected in got[0])
        if not right:
            bad += 1
            print(f"self-test: {name}: {line}: expected {expected!r}, got {got}")
    print(f"check_layers --self-test: {len(planted)} planted includes, {bad} judged wrongly")
    return 1 if bad else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if arguments == ["--table"]:
        print(table(), end="")
        return 0
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parent.parent
    found, read = check(root)
    print("\n".join(found + [f"check_layers: {read} includes, {len(found)} violations"]))
    return 1 if found or read == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
