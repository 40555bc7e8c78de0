#!/usr/bin/env python3
"""The shared libraries as a process meets them: what they export, how large they are, and that a process with another LLVM is undisturbed.

  libraries.py sizes RUNTIME C [JIT]        stripped sizes, exported symbols, and what the runtime must not hold
  libraries.py two_llvms JIT PLUGIN         an LLVM of its own in the process, visible to all, and kernels compiled beside it
exit 1 if something is not so, 77 if something it needs is absent
"""
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

failures = []


def check(true, what):
    if not true:
        failures.append(what)
        print(f"NOT TRUE: {what}")


def nm(*words):
    return subprocess.run(["nm", "-C", *words], capture_output=True, text=True, check=True).stdout.splitlines()


def stripped_bytes(library):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["strip", "-o", f"{folder}/stripped", library], check=True)
        return os.path.getsize(f"{folder}/stripped")


def sizes(runtime, c, jit=None):
    if not shutil.which("strip") or not shutil.which("nm"):
        print("no strip or no nm")
        return 77
    instrumented = any("__asan" in line or "__tsan" in line for line in nm("-D", runtime))  # a sanitizer's build has other sizes
    for library, limit in ((runtime, 1_000_000), (jit, 40_000_000)):
        if library and not instrumented:
            size = stripped_bytes(library)
            print(f"{pathlib.Path(library).name}: {size} bytes stripped")
            check(size < limit, f"{library} has {size} bytes stripped, at most {limit}")
    for library in filter(None, (runtime, c, jit)):
        exported = [line.split()[-1] for line in nm("-D", "--defined-only", library)]
        check(exported and all(name.startswith("tlx_") for name in exported), f"{library} exports more than tlx_*: {[n for n in exported if not n.startswith('tlx_')][:5]}")
        check(not any("LLVM" in line or "llvm::" in line for line in nm("-D", "--undefined-only", library)), f"{library} wants an LLVM from outside")
        for name in ("tlx_bundle_open", "tlx_load_from", "tlx_launch"):
            check(name in exported, f"{library} exports {name}")
    for library in (runtime, c):
        inside = [line for line in nm(library) if "llvm::" in line or "LLVM" in line or "tlx::ir::" in line or "tlx::jit::" in line]
        check(not inside, f"{library} holds compiler: {inside[:3]}")
    check(not any("tlx::sim::" in line for line in nm(runtime)), f"{runtime} holds the simulator")
    needed = subprocess.run(["readelf", "-d", runtime], capture_output=True, text=True).stdout
    check("libcuda" not in needed and "libzstd" not in needed, "the runtime starts without a driver and without libzstd")
    return 0


def other_llvm():
    for name in ("libLLVM-14.so.1", "libLLVM-15.so.1", "libLLVM-16.so.1", "libLLVM.so.22.1", "libLLVM-19.so.1"):
        try:
            return name, ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)  # what it exports wins over whatever is loaded later and visible
        except OSError:
            continue
    return None, None


def module_text(llvm):
    """A module made by the process's own LLVM: the same before and after tlx ran."""
    llvm.LLVMContextCreate.restype = llvm.LLVMModuleCreateWithNameInContext.restype = llvm.LLVMPrintModuleToString.restype = ctypes.c_void_p
    context = ctypes.c_void_p(llvm.LLVMContextCreate())
    module = ctypes.c_void_p(llvm.LLVMModuleCreateWithNameInContext(b"theirs", context))
    return ctypes.string_at(llvm.LLVMPrintModuleToString(module))


class Value(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint64), ("rank", ctypes.c_int32), ("extents", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("scalar", ctypes.c_void_p), ("scalar_bytes", ctypes.c_size_t)]


def two_llvms(jit, plugin):
    name, llvm = other_llvm()
    if not llvm:
        print("no shared LLVM on this machine")
        return 77
    before = module_text(llvm)
    os.environ["TLX_CACHE"] = "off"
    tlx, kernels = ctypes.CDLL(jit), ctypes.CDLL(plugin)
    tlx.tlx_last_error.restype = kernels.tlx_registry_name.restype = tlx.tlx_compiled_manifest.restype = tlx.tlx_compiled_ptx.restype = ctypes.c_char_p
    call = lambda status: check(status == 0, tlx.tlx_last_error().decode())
    index = next(i for i in range(kernels.tlx_registry_count()) if kernels.tlx_registry_name(ctypes.c_size_t(i)) == b"only_sum")
    got = []
    receive = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t)(lambda user, text, size: got.append(text[:size]))
    check(kernels.tlx_registry_trace(ctypes.c_size_t(index), b"sm_90a", receive, None) == 0, f"only_sum is traced: {got}")

    compiled, machine, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    options = (ctypes.c_int32 * 3)(1, 1, 0)
    call(tlx.tlx_compile(got[0], ctypes.c_size_t(len(got[0])), options, ctypes.byref(compiled)))
    manifest, ptx = tlx.tlx_compiled_manifest(compiled, None), tlx.tlx_compiled_ptx(compiled, None)
    call(tlx.tlx_open(b"sim:sm_90a", ctypes.byref(machine)))
    call(tlx.tlx_load(machine, manifest, ctypes.c_size_t(len(manifest)), ptx, ctypes.c_size_t(len(ptx)), ctypes.byref(kernel)))
    rows, cols = 5, 70
    x, y = (ctypes.c_float * (rows * cols))(*range(rows * cols)), (ctypes.c_float * (rows * cols))(*([1.0] * rows * cols))
    extents, alpha = (ctypes.c_int64 * 2)(rows, cols), ctypes.c_float(0.5)
    values = (Value * 3)()
    for i, array in enumerate((x, y)):
        address = ctypes.c_uint64()
        call(tlx.tlx_allocate(machine, ctypes.c_size_t(ctypes.sizeof(array)), ctypes.byref(address)))
        call(tlx.tlx_write(machine, address, array, ctypes.c_size_t(ctypes.sizeof(array))))
        values[i] = Value(address.value, 2, extents, None, None, 0)
    values[2] = Value(0, 0, None, None, ctypes.cast(ctypes.byref(alpha), ctypes.c_void_p), 4)
    call(tlx.tlx_launch(kernel, values, ctypes.c_size_t(3), ctypes.c_uint64(0)))
    call(tlx.tlx_read(machine, y, ctypes.c_uint64(values[1].address), ctypes.c_size_t(ctypes.sizeof(y))))
    check(list(y) == [i * 0.5 + 1 for i in range(rows * cols)], "the kernel computes x * alpha + y")
    check(module_text(llvm) == before and b"theirs" in before, f"{name} works as before")
    bad = ctypes.c_void_p()
    check(tlx.tlx_compile(b"no kernel", ctypes.c_size_t(9), None, ctypes.byref(bad)) == 1, "text that is no kernel is a user error")
    print(f"compiled beside {name}")
    return 0


def main(group, *rest):
    code = {"sizes": sizes, "two_llvms": two_llvms}[group](*rest)
    return 1 if failures else code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
