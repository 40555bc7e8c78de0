"""A PyTorch custom operator whose kernel comes out of a tlx bundle: y = gelu(x @ w.T + bias), bf16, on the caller's stream and device.

  python3 tlx_linear.py LIBTLX_RUNTIME.so SHOP.tlxb      checks it: against torch, on another stream, in a CUDA graph, under torch.compile

Only the C interface is used (tlx/c.h), so nothing is compiled against this PyTorch, or any other.
"""
import ctypes
import sys

import torch


class Value(ctypes.Structure):  # tlx_value
    _fields_ = [("address", ctypes.c_uint64), ("rank", ctypes.c_int32), ("extents", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("scalar", ctypes.c_void_p), ("scalar_bytes", ctypes.c_size_t)]


class Bundle:
    """Kernels of one bundle, loaded once a device."""

    def __init__(self, library, path, sha256=None):
        self.tlx = ctypes.CDLL(library)
        self.tlx.tlx_last_error.restype = ctypes.c_char_p
        self.tlx.tlx_launch.argtypes = [ctypes.c_void_p, ctypes.POINTER(Value), ctypes.c_size_t, ctypes.c_uint64]
        self.bundle, self.machines, self.kernels = ctypes.c_void_p(), {}, {}
        self.call("tlx_bundle_open", path.encode(), sha256 and sha256.encode(), ctypes.byref(self.bundle))

    def call(self, name, *arguments):
        if getattr(self.tlx, name)(*arguments) != 0:
            raise RuntimeError(self.tlx.tlx_last_error().decode())

    def kernel(self, device, name, configuration):
        key = (device, name, configuration)
        if key not in self.kernels:
            if device not in self.machines:
                torch.cuda.init()  # the primary context of PyTorch is the one that tlx uses
                machine = ctypes.c_void_p()
                self.call("tlx_open", f"gpu:{device}".encode(), ctypes.byref(machine))
                self.machines[device] = machine
            kernel = ctypes.c_void_p()
            self.call("tlx_load_from", self.machines[device], self.bundle, name.encode(), configuration.encode(), ctypes.byref(kernel))
            self.kernels[key] = kernel
        return self.kernels[key]

    def launch(self, name, configuration, tensors):
        device = tensors[0].device.index
        values = (Value * len(tensors))()
        for value, t in zip(values, tensors):
            if t.device.index != device or not t.is_cuda:
                raise ValueError(f"{name}: all tensors lie on one GPU")
            sizes = ctypes.c_int64 * t.dim()
            value.address, value.rank, value.extents, value.strides = t.data_ptr(), t.dim(), sizes(*t.shape), sizes(*t.stride())
        self.call("tlx_launch", self.kernel(device, name, configuration), values, len(tensors), torch.cuda.current_stream(device).cuda_stream)


def define(shop):
    @torch.library.custom_op("shop::linear", mutates_args=(), device_types="cuda")
    def linear(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        y = torch.empty(x.shape[0], w.shape[0], device=x.device, dtype=x.dtype)
        shop.launch("linear", "128x256" if w.shape[0] > 128 else "128x128", (x, w, bias, y))
        return y

    @linear.register_fake
    def _(x, w, bias):
        return x.new_empty(x.shape[0], w.shape[0])

    return linear


def same(got, x, w, bias):
    expected = torch.nn.functional.gelu(x.double() @ w.double().T + bias.double())
    off, allowed = (got.double() - expected).abs(), expected.abs() * 2**-8 + (x.double().abs() @ w.double().abs().T + bias.double().abs()) * (1.2 * x.shape[1] * 2**-24) + 1e-6
    return bool((off <= allowed).all())


def main(library, path):
    if not torch.cuda.is_available():
        print("needs a GPU")
        return 77
    linear = define(Bundle(library, path))
    make = lambda *shape: torch.randn(*shape, device="cuda")
    results = {}
    for m, n, k in ((200, 264, 328), (130, 72, 64), (1, 256, 4096), (1024, 1024, 1024)):
        x, w, bias = (make(m, k) * 0.2).bfloat16(), (make(n, k) * 0.2).bfloat16(), make(n)
        results[f"{m} x {n} x {k}"] = same(linear(x, w, bias), x, w, bias)
    wide = (make(1024, 2048) * 0.2).bfloat16()[:, :1024]  # rows further apart than they are long
    results["strided rows"] = same(linear(wide, w, bias), wide, w, bias)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        on_side = linear(x, w, bias)
    torch.cuda.current_stream().wait_stream(side)
    results["another stream"] = same(on_side, x, w, bias)
    graph, still = torch.cuda.CUDAGraph(), x.clone()
    with torch.cuda.graph(graph):
        captured = linear(still, w, bias)
    still.copy_(-x)
    graph.replay()
    results["CUDA graph"] = same(captured, -x, w, bias)
    try:
        results["torch.compile"] = same(torch.compile(lambda a: linear(a, w, bias) * 1.0, fullgraph=True)(x), x, w, bias)
    except Exception as problem:  # a machine without a C++ compiler, say
        print(f"torch.compile: not tried, {type(problem).__name__}: {str(problem).splitlines()[0]}")
    try:
        linear(x[:, 1:], w[:, 1:], bias)
        results["an error that says what is wrong"] = False
    except RuntimeError as problem:
        results["an error that says what is wrong"] = "pointer-misaligned" in str(problem)
    for name, right in results.items():
        print(f"{name}: {'right' if right else 'WRONG'}")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
