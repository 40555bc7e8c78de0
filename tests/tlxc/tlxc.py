#!/usr/bin/env python3
"""Drives tlxc as a user would and checks exit codes, messages and files.

  tlxc.py GROUP TLXC [PLUGIN BROKEN_PLUGIN PREBUILT PROGRAM COMPILER]     one group of checks; exit 1 if any fails, 77 if something it needs is absent
"""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
CASES = SOURCE / "tests/sim/cases"
failures = []


def check(true, what):
    if not true:
        failures.append(what)
        print(f"NOT TRUE: {what}")


def run(*words, **more):
    environment = dict(os.environ, TLX_CACHE="off", **more)
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, env=environment)


def expect(code, *words, out=(), err=(), **more):
    """Runs, checks the exit code and that each text stands on standard output or error; the output."""
    ran = run(*words, **more)
    line = " ".join(str(w) for w in words)
    check(ran.returncode == code, f"{line}: exit {ran.returncode}, expected {code}\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    for text in (out,) if isinstance(out, str) else out:
        check(text in ran.stdout, f"{line}: its output holds {text!r}\n{ran.stdout[-1500:]}")
    for text in (err,) if isinstance(err, str) else err:
        check(text in ran.stderr, f"{line}: its messages hold {text!r}\n{ran.stderr[-1500:]}")
    return ran.stdout


def usage(tlxc, folder, *_):
    for verb in ("build", "inspect", "sign", "list", "print", "run", "sim", "show", "explain", "cache"):
        expect(0, tlxc, "--help", out=verb)
        expect(0, tlxc, verb, "--help", out=f"usage: tlxc {verb}")
    version = next(line.split('"')[1] for line in (SOURCE / "include/tlx/version.hpp").read_text().splitlines() if "version_string" in line)
    expect(0, tlxc, "--version", out=version)
    expect(1, tlxc, "--assembler", TLX_HIDE_TOOLKIT="1", err="[assembler-missing]")
    expect(2, tlxc)
    expect(2, tlxc, "frobnicate", err='no verb "frobnicate"')
    expect(2, tlxc, "print", err="expected KERNEL")
    expect(2, tlxc, "print", "gemm", "--wings", err="no option --wings")
    expect(2, tlxc, "print", "no_such_kernel", err="no_such_kernel")
    expect(2, tlxc, "print", "gemm_bf16_128x128_nt", "--target", "sm_120", err="sm_100a")
    expect(2, tlxc, "print", "gemm_bf16_128x128_nt", "--after", "lunch", err="insert-barriers")
    expect(2, tlxc, "build", "--arch", "sm_90a", err="--out")
    expect(2, tlxc, "build", "--arch", "sm_90a", "--out", folder, "--header", folder / "x.hpp", err="--header describes a bundle")
    expect(2, tlxc, "build", "--arch", "sm_90a", "-o", err="-o needs a value")
    expect(2, tlxc, "build", "--arch", "sm_90a", "--object", folder / "x.o", "--machine", "vax", "--kernels", "only_nothing", err="matches none")
    expect(2, tlxc, "build", "--arch", "sm_90a", "-o", folder / "x.tlxb", "--namespace", "my kernels", err="no identifier")
    expect(2, tlxc, "sign", folder / "x.tlxb", err="--signature FILE or --remove")
    expect(2, tlxc, "build", "--arch", "sm_90a", "--out", folder, "--kernels", "nothing_like_it", err="matches none")
    expect(2, tlxc, "build", "--arch", "sm_90a", "--out", folder, "--jobs", "0", err="at least 1")
    expect(3, tlxc, "sim", err="expected CASE_DIR")
    expect(1, tlxc, "list", "--from", folder / "absent.so", err=("[kernel-library-unreadable]", "because", "fix"))


def explain(tlxc, folder, *_):
    ids = expect(0, tlxc, "explain", "--list").split()
    check(len(ids) > 50 and ids == sorted(set(ids)), "explain --list is sorted and holds each id once")
    expect(0, tlxc, "explain", "file-unreadable", out=("file-unreadable (raised by support)", "Fix:"))
    expect(0, tlxc, "explain", "[target-differs]", out="Fix:")
    expect(2, tlxc, "explain", "ring-never-eaten", err=("ring-never-eaten", "ring-never-"))
    for name in ids[:: max(1, len(ids) // 12)]:
        expect(0, tlxc, "explain", name, out=(name, "Fix:"))


def small_case(folder, name, expected, entry="k", body=""):
    """A case whose kernel writes 7 to out[0]; `expected`: what its file holds."""
    case = folder / name
    case.mkdir()
    (case / "kernel.ptx").write_text(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n.reg .b64 %p; .reg .b32 %v;\n"
        f"ld.param.u64 %p, [out];\nmov.u32 %v, 7;\n{body}\nst.global.u32 [%p], %v;\nret;\n}}\n")
    (case / "want.bin").write_bytes(expected.to_bytes(4, "little"))
    (case / "case.json").write_text(json.dumps({
        "ptx": "kernel.ptx", "entry": entry, "target": "sm_90a", "grid": [1, 1, 1], "block": [32, 1, 1], "cluster": [1, 1, 1], "dynamic_shared_bytes": 0,
        "buffers": {"out": {"dtype": "u32", "shape": [1], "fill": "zero"}}, "params": [{"buffer": "out"}], "expect": [{"buffer": "out", "file": "want.bin", "file_dtype": "u32", "exact": True}]}))
    return case


def sim(tlxc, folder, *_):
    right = small_case(folder, "right", 7)
    expect(0, tlxc, "sim", right, "--dump", folder / "dump", out="ok")
    check((folder / "dump/out.bin").read_bytes() == (7).to_bytes(4, "little"), "--dump writes the buffer")
    report = json.loads(expect(0, tlxc, "sim", right, "--json", "--seed", "5", "--schedules", "3"))
    check(report["exit"] == 0 and report["seed"] == 7 and report["schedules"] == 3 and report["results"][0]["ok"], f"the JSON report: {report}")
    expect(1, tlxc, "sim", small_case(folder, "wrong", 8), out="WRONG")
    fault = small_case(folder, "fault", 7, body="add.u64 %p, %p, 1048576;")
    expect(2, tlxc, "sim", fault, out="out_of_bounds")
    check(json.loads(expect(2, tlxc, "sim", fault, "--json"))["fault"]["kind"] == "out_of_bounds", "the JSON report names the fault")
    expect(3, tlxc, "sim", small_case(folder, "refused", 7, body="tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4}, [t, {%v}];"))
    expect(3, tlxc, "sim", folder / "absent")
    expect(3, tlxc, "sim", right, "--wings")
    expect(3, tlxc, "sim", right, "--seed", "many")


def sim_cases(tlxc, folder, *_):
    cases = sorted(p.parent for p in CASES.glob("*/case.json"))
    if not cases:
        return 77
    for case in cases:
        text = json.loads((case / "case.json").read_text())
        if {"expect", "expect_exit", "expect_fault"} & set(text):
            expect(0, tlxc, "sim", case, "--json")
    print(f"{len(cases)} cases")


def print_stages(tlxc, folder, *_):
    name = "gemm_bf16_128x256_nt_bias_silu"
    for target in ("sm_90a", "sm_100a"):
        trace = expect(0, tlxc, "print", name, "--target", target, out=("tlx.ir 1", "ring.fill"))
        file = folder / f"{target}.tlx"
        file.write_text(trace)
        check(expect(0, tlxc, "print", file) == trace, "IR text reads back as it was printed")
        late = expect(0, tlxc, "print", name, "--target", target, "--after", "insert-barriers", out="mbarrier.init")
        check("ring.fill" not in late, "no ring is left after insert-barriers")
        check(expect(0, tlxc, "print", file, "--after", "insert-barriers") == late, "a file gives what its kernel gives")
        expect(0, tlxc, "print", name, "--target", target, "--after", "ptx", out=(f".target {target}", name))
    expect(1, tlxc, "print", folder / "sm_90a.tlx", "--target", "sm_100a", err="[target-differs]")
    expect(0, tlxc, "print", name, "--after", "llvm", out="define")
    expect(0, tlxc, "print", name, "--after", "protocol", out="protocol check: nothing found in ")
    (folder / "bad.tlx").write_text("tlx.ir 1\nkernel what\n")
    expect(1, tlxc, "print", folder / "bad.tlx", err="[ir-malformed]")
    # what a user's program prints: the same, to standard error
    expect(0, tlxc, "print", name, "--after", "ptx", TLX_PRINT="after:insert-barriers,llvm", err=("after insert-barriers", "mbarrier.init", "define"))
    expect(1, tlxc, "print", name, "--after", "ptx", TLX_PRINT="after:lunch", err="[print-stage-unknown]")
    ran = run(tlxc, "print", name, "--after", "sass")
    missing = "[disassembler-missing]" in ran.stderr or "[assembler-missing]" in ran.stderr
    check((ran.returncode == 0 and "HGMMA" in ran.stdout) or (ran.returncode == 1 and missing), f"SASS, or a clear reason why not: {ran.stderr[-500:]}")
    expect(1, tlxc, "print", name, "--after", "sass", TLX_HIDE_TOOLKIT="1", err="[assembler-missing]")


def show(tlxc, folder, *_):
    import xml.etree.ElementTree as xml
    picture = folder / "picture.svg"
    boxes = lambda: [e for e in xml.parse(picture).iter() if e.tag.endswith("rect")]
    # PTX ISA, wgmma m64n8 D fragment: row 9, columns 2 and 3 belong to lane 5 of warp 0, registers 2 and 3
    text = expect(0, tlxc, "show", "layout", "wgmma_accumulator 64x64 4", "--svg", picture, out="32 registers in each of 128 threads")
    row = next(line for line in text.splitlines() if line.split()[:1] == ["9"]).split()
    check(row[3:5] == ["t5.r2", "t5.r3"], f"row 9 of the fragment: {row}")
    check(len(boxes()) == 64 * 64 + 1, "the picture has a box for each element")
    written = text.splitlines()[0]
    check(expect(0, tlxc, "show", "layout", written).splitlines()[0] == written, "the text form reads back")
    expect(0, tlxc, "show", "layout", "shared", "bf16", "64x64", "128", "--svg", picture, out="8192 bytes")
    expect(1, tlxc, "show", "layout", "spiral 8x8", err="[layout-unknown]")
    expect(1, tlxc, "show", "layout", "wgmma_accumulator 63x64 4", err="[layout-extent-invalid]")
    expect(2, tlxc, "show", "layout", "blocked 8x8 1", "--colour", "taste", err="--colour")
    expect(2, tlxc, "show", "carpet", err="layout, ring and tmem")
    name = "gemm_bf16_128x256_nt_bias_silu"
    expect(0, tlxc, "show", "ring", name, "--svg", picture, out=("ring   ab: 4 stages", "filled by load (bulk copies)", "wgmma", "8 arrivals a phase", "of 232448 bytes"))
    check(len(boxes()) > 10, "the picture has stages and memory")
    expect(0, tlxc, "show", "ring", name, "--target", "sm_100a", "--svg", picture, out=("ring   d: 2 stages", "tcgen05 mma", "4 arrivals a phase"))
    expect(0, tlxc, "show", "tmem", name, "--svg", picture, out=("columns   0..511  ring d", "allocated: 512 of 512"))
    expect(1, tlxc, "show", "tmem", name, "--target", "sm_90a", err="[no-tensor-memory]")


def run_kernels(tlxc, folder, *_):
    expect(0, tlxc, "run", "gemm_bf16_128x256_nt_bias_residual", "--device", "sim:sm_100a", "--shape", "130,136,72", out=("result     right", "warp instructions", "resources"))
    expect(0, tlxc, "run", "block_attention_bf16_d64", "--device", "sim:sm_90a", "--shape", "0,1,65", "--heads", "1", "--schedules", "4", out=("result     right", "4 agree to the bit"))
    expect(1, tlxc, "run", "gemm_bf16_128x128_nt", "--device", "sim:sm_90a", "--shape", "64,64,20", err=("[stride-misaligned]", "fix"))
    expect(1, tlxc, "run", "gemm_bf16_128x128_nt", "--device", "toaster", err="[machine-unknown]")
    expect(2, tlxc, "run", "gemm_bf16_128x128_nt", "--shape", "64", err="M,N,K")
    expect(2, tlxc, "run", "no_such_kernel", err="no_such_kernel")
    expect(2, tlxc, "run", "gemm_bf16_batched_64x64_nt", err="has no inputs for")


def cache(tlxc, folder, *_):
    entry = folder / "cache/ab" / ("c" * 62)
    entry.parent.mkdir(parents=True)
    entry.write_bytes(b"no cache entry")
    here = str(folder / "cache")
    environment = dict(os.environ, TLX_CACHE=here)
    call = lambda *words: subprocess.run([tlxc, "cache", *words], capture_output=True, text=True, env=environment)
    check("1 entries, 14 bytes" in call("list").stdout, "list counts entries")
    verified = call("verify")
    check(verified.returncode == 1 and "1 damaged" in verified.stdout and not entry.exists(), "verify removes what is damaged")
    entry.write_bytes(b"no cache entry")
    check("0 of 1 entries removed" in call("prune").stdout and entry.exists(), "prune keeps what is within the limit")
    check("1 of 1 entries removed" in call("prune", "--limit-mb", "0").stdout and not entry.exists(), "prune keeps to its limit")
    entry.write_bytes(b"no cache entry")
    check("1 of 1 entries removed" in call("clear").stdout and not entry.exists(), "clear removes all")
    expect(1, tlxc, "cache", "list", err="[cache-off]")
    expect(2, tlxc, "cache", "polish", err="none of list")


def check_bundle(folder, cubins):
    bundle = json.loads((folder / "manifest.json").read_text())
    check(bundle["format"] == "tlx-bundle" and bundle["tlx"] and bundle["llvm"], "the manifest says what made it")
    for kernel in bundle["kernels"]:
        check(kernel["manifest"]["entry"] == kernel["name"] and kernel["manifest"]["target"] == kernel["target"], f"{kernel['name']}: manifest and row agree")
        check(("cubin" in kernel["files"]) == cubins, f"{kernel['name']}: a cubin exactly when there is an assembler")
        for file in kernel["files"].values():
            data = (folder / file["path"]).read_bytes()
            check(len(data) == file["bytes"] and hashlib.sha256(data).hexdigest() == file["sha256"], f"{file['path']}: size and digest")
        check(json.loads((folder / kernel["files"]["manifest"]["path"]).read_text()) == kernel["manifest"], "the kernel's own manifest is the same")
        if cubins:
            cubin = (folder / kernel["files"]["cubin"]["path"]).read_bytes()
            check(cubin[:4] == b"\x7fELF" and f".text.{kernel['name']}\0".encode() in cubin, f"{kernel['name']}: its cubin is an ELF file with that entry")
            check(kernel["manifest"]["used"]["registers"] > 0, f"{kernel['name']}: its registers are known")
    return bundle


def build(tlxc, folder, plugin, broken, prebuilt, *_):
    names = expect(0, tlxc, "list", "--from", plugin).split()
    check(names[:3] == ["scaled_sum_16x64", "scaled_sum_32x128", "only_sum"] and "block_attention_bf16_d64" in names, f"kernels of the library: {names[:5]}")
    words = [tlxc, "build", "--from", plugin, "--kernels", "^(scaled_sum|gemm_bf16_128x128|block_attention_bf16_d64)", "--arch", "sm_90a,sm_100a", "--arch", "sm_103a"]
    cubins = "[assembler-missing]" not in run(*words, "--out", folder / "probe", "--kernels", "only_sum").stderr
    mode = [] if cubins else ["--ptx-only"]
    expect(0, *words, *mode, "--out", folder / "one", "--jobs", "2", err="[12/12]")
    expect(0, *words, *mode, "--out", folder / "two", "--jobs", "1")
    files = {p.name: p.read_bytes() for p in (folder / "one").iterdir()}
    check(files == {p.name: p.read_bytes() for p in (folder / "two").iterdir()}, "two builds give the same bytes")
    check(str(SOURCE).encode() not in b"".join(files.values()), "no file holds the path of a source")
    bundle = check_bundle(folder / "one", cubins)
    check([k["name"] for k in bundle["kernels"]].count("scaled_sum_32x128") == 3 and len(bundle["kernels"]) == 12, "four kernels for three targets")
    for target in ("sm_90a", "sm_100a"):
        for name in ("scaled_sum_16x64", "scaled_sum_32x128"):
            stem = folder / "one" / f"{name}.{target}"
            expect(0, prebuilt, f"sim:{target}", f"{stem}.json", f"{stem}.ptx", out=f"{name}: 0 of")

    expect(0, tlxc, "build", "--from", plugin, "--kernels", "only_sum", "--arch", "sm_100f", "--ptx-only", "--out", folder / "ptx", TLX_HIDE_TOOLKIT="1")
    check_bundle(folder / "ptx", False)
    expect(0, tlxc, "build", plugin, "--kernels", "only_sum", "--arch", "sm_90a", "--out", folder / "or_ptx", "--or-ptx", TLX_HIDE_TOOLKIT="1")
    check_bundle(folder / "or_ptx", False)
    expect(1, tlxc, "build", "--from", plugin, "--kernels", "only_sum", "--arch", "sm_90a", "--out", folder / "none", TLX_HIDE_TOOLKIT="1", err="[assembler-missing]")
    check(not (folder / "none").exists(), "nothing is written without an assembler")
    expect(1, tlxc, "build", "--from", broken, "--arch", "sm_90a", "--ptx-only", "--out", folder / "none",
           err=("[nothing-recorded]", "[kernel-registered-twice]", "[kernel-name-invalid]", "[build-failed]", "4 of 4"))
    ran = run(tlxc, "build", "--from", broken, "--kernels", "nothing", "--arch", "sm_90a,sm_100a", "--ptx-only", "--out", folder / "none")
    check(ran.stderr.count("[nothing-recorded]") == 1 and "for sm_100a, sm_90a: tlx error" in ran.stderr, f"an error of a kernel is said once, for all of its targets: {ran.stderr}")
    check(not (folder / "none").exists(), "a bundle that failed is not written")


def has_assembler(tlxc, folder, plugin):
    return "[assembler-missing]" not in run(tlxc, "build", plugin, "--arch", "sm_90a", "--out", folder / "probe", "--kernels", "only_sum").stderr


def bundle(tlxc, folder, plugin, broken, prebuilt, *_):
    words = [tlxc, "build", plugin, "--kernels", "^(scaled_sum|only_sum|block_attention_bf16_d64)", "--arch", "sm_90a,sm_100a", "--package", "shop", "--package-version", "1.2"]
    cubins = has_assembler(tlxc, folder, plugin)
    if not cubins:
        words.append("--ptx-only")
    one, two, file = folder / "one", folder / "two", folder / "one/shop.tlxb"
    for out, jobs in ((one, 1), (two, 3)):
        out.mkdir()
        expect(0, *words, "--ptx", "-o", out / "shop.tlxb", "--header", out / "shop.hpp", "--object", out / "shop.o", "--jobs", jobs, err=("[8/8]", "bundle of", "ms each"))
    for name in ("shop.tlxb", "shop.hpp", "shop.o"):
        check((one / name).read_bytes() == (two / name).read_bytes(), f"two builds give the same {name}")
    data = file.read_bytes()
    check(str(SOURCE).encode() not in data and data[96:97] == b"{" and data in (one / "shop.o").read_bytes(), "the list is text, the object holds the file, and no path is in them")

    digest = expect(0, tlxc, "inspect", file, "--digest").strip()
    length = int.from_bytes(data[16:24], "little")
    check(digest == hashlib.sha256(data[96:96 + length]).hexdigest() == data[32:96].decode() and digest in (one / "shop.hpp").read_text(), "the digest is that of the list, and stands in the header")
    expect(0, tlxc, "inspect", file, out=("package    shop 1.2", digest, "scaled_sum_32x128", "4 kernels, 2 targets (sm_100a, sm_90a)"))
    shown = json.loads(expect(0, tlxc, "inspect", file, "--json"))
    check(shown["sha256"] == digest and shown["package"] == {"name": "shop", "version": "1.2"} and len(shown["kernels"]) == 8, "inspect --json shows the package")
    stored = sum(k["cubin"]["stored_bytes"] for k in shown["kernels"]) if cubins else 0
    alone = folder / "alone.tlxb"
    expect(0, *words, "-o", alone)
    check(not cubins or alone.stat().st_size < 2 * stored, f"a bundle of {alone.stat().st_size} bytes is at most twice its {stored} bytes of compressed cubins")
    expect(0, *words, "-o", alone, "--no-compression", "--arch", "sm_103a")
    expect(0, tlxc, "inspect", alone, out="sm_103a")

    for target in ("sm_90a", "sm_100a"):
        expect(0, prebuilt, f"sim:{target}", file, "scaled_sum", "32x128", digest, out=("shop 1.2, 8 entries, last scaled_sum 32x128 sm_90a", "scaled_sum_32x128: 0 of"))
        expect(0, prebuilt, f"sim:{target}", file, "only_sum", "", digest, out="only_sum: 0 of")
    expect(1, prebuilt, "sim:sm_103a", file, "only_sum", "", digest, out=("[bundle-target-missing]", "it was built for: sm_100a, sm_90a"))
    expect(1, prebuilt, "sim:sm_90a", file, "only_sum", "", "0" * 64, out="[bundle-not-expected]")
    expect(1, prebuilt, "sim:sm_90a", file, "scaled_sum", "", digest, out="[bundle-configuration-missing]")

    (folder / "signature").write_bytes(b"\x00signed\xff")
    expect(0, tlxc, "sign", file, "--signature", folder / "signature")
    expect(0, tlxc, "inspect", file, out=("signature  8 bytes", digest))
    expect(0, tlxc, "sign", file, "--remove")
    check(file.read_bytes() == data, "a bundle whose signature was removed is as it was")
    file.write_bytes(data[:-40] + bytes([data[-40] ^ 1]) + data[-39:])
    expect(1, tlxc, "inspect", file, err="[bundle-damaged]")
    file.write_bytes(data[:-40])
    expect(1, tlxc, "inspect", file, err="[bundle-malformed]")
    expect(1, tlxc, "build", broken, "--arch", "sm_90a", "--ptx-only", "-o", folder / "none.tlxb", err="[build-failed]")
    check(not (folder / "none.tlxb").exists(), "a bundle that failed is not written")


def parameters_in_cubin(cubin, entry):
    """Offset and size of each entry parameter, as ptxas wrote them: records of kind KPARAM_INFO (0x17) in section .nv.info.ENTRY."""
    u = lambda at, size: int.from_bytes(cubin[at:at + size], "little")
    sections = [(u(u(40, 8) + 64 * i, 4), u(u(40, 8) + 64 * i + 24, 8), u(u(40, 8) + 64 * i + 32, 8)) for i in range(u(60, 2))]
    names = sections[u(62, 2)][1]
    start, size = next((at, size) for name, at, size in sections if cubin[names + name:].split(b"\0", 1)[0] == f".nv.info.{entry}".encode())
    found, at = {}, start
    while at < start + size:
        form, kind, value = cubin[at], cubin[at + 1], u(at + 2, 2)
        if form == 4 and kind == 0x17:  # ordinal, offset; the size stands in the upper 14 bits of the last word
            found[u(at + 8, 2)] = (u(at + 10, 2), u(at + 12, 4) >> 18)
        at += 4 + (value if form == 4 else 0)
    return [found[i] for i in sorted(found)]


def kernels_header(tlxc, folder, plugin, broken, prebuilt, program, compiler):
    if not has_assembler(tlxc, folder, plugin):
        return 77
    out, bundle_file = folder / "out", folder / "x.tlxb"
    expect(0, tlxc, "build", plugin, "--kernels", "^(scaled_sum|gemm_bf16_128x128|block_attention_bf16_d64)", "--arch", "sm_90a,sm_100a", "--out", out, "-o", bundle_file)
    for kernel in json.loads(expect(0, tlxc, "inspect", bundle_file, "--json"))["kernels"]:
        name = kernel["manifest"]["entry"]
        ours = [(f["offset"], f["bytes"]) for f in kernel["parameter_block"]]
        theirs = parameters_in_cubin((out / f"{name}.{kernel['target']}.cubin").read_bytes(), name)
        theirs = [(offset - theirs[0][0], size) for offset, size in theirs]
        check(ours == theirs, f"{name}: parameters at {ours}, in the cubin at {theirs}")
    (folder / "use.c").write_text('''#include "out/kernels.h"
#include <stdio.h>
int main(void) {
  static gemm_bf16_128x128_nt_sm_90a_parameters p;
  void *pointers[gemm_bf16_128x128_nt_sm_90a_field_count];
  int64_t grid[3];
  gemm_bf16_128x128_nt_sm_90a_pointers(&p, pointers);
  if (pointers[0] != p.a_map || pointers[gemm_bf16_128x128_nt_sm_90a_field_count - 1] != (void *)&p.alpha) return 1;
  p.c_extent_0 = 300, p.c_extent_1 = 1000;
  gemm_bf16_128x128_nt_sm_90a_grid(&p, 132, grid);
  printf("%s %d %d: %d %d %d; %s %d %d\\n", gemm_bf16_128x128_nt_sm_90a_entry, gemm_bf16_128x128_nt_sm_90a_block, gemm_bf16_128x128_nt_sm_90a_shared_bytes > 100000, (int)grid[0], (int)grid[1], (int)grid[2],
         gemm_bf16_128x128_nt_sm_90a_maps[0].view, gemm_bf16_128x128_nt_sm_90a_maps[0].rank, gemm_bf16_128x128_nt_sm_90a_maps[0].swizzle_bytes);
  return 0;
}
''')
    for options in (["-x", "c", "-std=c11"], ["-x", "c++", "-std=c++20"]):
        ran = run(compiler, *options, "-Wall", "-Wextra", "-Wno-unused", "-Werror", folder / "use.c", "-o", folder / "use")
        check(ran.returncode == 0, f"kernels.h compiles: {ran.stderr[-1500:]}")
        # 3 x 8 tiles on 132 processors: a persistent kernel starts as many CTAs as there are tiles, at most
        expect(0, folder / "use", out="gemm_bf16_128x128_nt 384 1: 24 1 1; a 2 128")


def program_kernels(tlxc, folder, plugin, broken, prebuilt, program, *_):
    check(expect(0, program).strip() == "its own work", "a user starts it and it does its own work")
    check(expect(0, tlxc, "list", program).split() == ["add_one"], "its kernels have names")
    expect(0, tlxc, "build", program, "--arch", "sm_90a,sm_103a", "--ptx-only", "-o", folder / "program.tlxb", err="[2/2]")
    expect(0, tlxc, "inspect", folder / "program.tlxb", out=("add_one", "sm_103a"))
    expect(0, tlxc, "print", "add_one", "--from", program, "--after", "ptx", out=".target sm_90a")
    expect(1, tlxc, "list", prebuilt, err=("[kernel-library-foreign]", "was not started"))
    expect(1, tlxc, "list", "/bin/true", err="[kernel-library-foreign]")


GROUPS = {"usage": usage, "explain": explain, "sim": sim, "sim_cases": sim_cases, "print": print_stages, "show": show, "run": run_kernels, "cache": cache, "build": build,
          "bundle": bundle, "kernels_header": kernels_header, "program": program_kernels}


def main(group, tlxc, *rest):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tlxc-test-"))
    try:
        code = GROUPS[group](tlxc, folder, *rest)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{group}: {len(failures)} failures")
    return 1 if failures else code or 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
