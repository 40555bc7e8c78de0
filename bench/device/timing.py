"""Contenders of one case, timed in turns: for the scripts beside this file."""
import random
import statistics

import torch


def captured(call, sets):
    """call(s) for each of several input sets, as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for s in range(sets):  # on the stream of the capture: tlx has a workspace for each stream, and none may be made while one is captured
            call(s)
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        for s in range(sets):
            call(s)
    return graph


def interleaved(contenders, sets, rounds):
    """Medians of milliseconds of one call, a contender each, over rounds in a new random order; and why those that are missing failed."""
    graphs, repeats, times, failed = {}, {}, {}, {}
    for name, call in contenders.items():
        try:
            graphs[name] = captured(call, sets)
            graphs[name].replay()
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record(); graphs[name].replay(); b.record(); b.synchronize()
            repeats[name], times[name] = max(1, int(4 / a.elapsed_time(b))), []
        except Exception as problem:
            failed[name] = f"{type(problem).__name__}: {str(problem)[:200]}"
            graphs.pop(name, None)
    for _ in range(rounds):
        order = list(graphs)
        random.shuffle(order)
        pairs = []
        for name in order:
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            graphs[name].replay()
            a.record()
            for _ in range(repeats[name]):
                graphs[name].replay()
            b.record()
            pairs.append((name, a, b))
        torch.cuda.synchronize()
        for name, a, b in pairs:
            times[name].append(a.elapsed_time(b) / repeats[name] / sets)
    return {name: statistics.median(t) for name, t in times.items()}, failed
