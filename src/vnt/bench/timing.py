"""Timing on noisy machines: contenders take turns in one process, medians are compared, ratios are what counts."""

import platform
import shutil
import statistics
import time
from collections.abc import Callable, Mapping

import torch
from torch.profiler import ProfilerActivity, profile


def interleaved_medians(
    contenders: Mapping[str, Callable[[], object]], rounds: int, warmup: int = 2
) -> dict[str, float]:
    """The median seconds of each contender over ``rounds`` rounds in which each runs once."""
    for run in contenders.values():
        for _ in range(warmup):
            run()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak_memory(run: Callable[[], object]) -> float:
    """MiB that one run holds at most in tensors of its own, from the allocator's record."""
    run()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        run()
    results = record.profiler.kineto_results if record.profiler is not None else None
    if results is None:
        raise RuntimeError("the profiler kept no record of memory")
    memory_events = [event for event in results.events() if event.name() == "[memory]"]
    changes = [(event.start_ns(), event.nbytes()) for event in memory_events]  # type: ignore[missing-attribute]
    held = most = 0
    for _, change in sorted(changes, key=lambda pair: pair[0]):
        held += change
        most = max(most, held)
    return most / 2**20


def fastest(run: Callable[[], object], device: torch.device, rounds: int = 10) -> float:
    """Seconds of the fastest of several rounds, after two that do not count."""
    return min(durations(run, device, rounds))


def durations(run: Callable[[], object], device: torch.device, rounds: int) -> list[float]:
    """Seconds of each round, after two that do not count; waits for the device."""
    found = []
    for _ in range(rounds + 2):
        wait(device)
        start = time.perf_counter()
        run()
        wait(device)
        found.append(time.perf_counter() - start)
    return found[2:]


def wait(device: torch.device) -> None:
    """Until all that was asked of the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_bytes(run: Callable[[], object], device: torch.device) -> int:
    """Bytes that one run holds at the most beyond what is there already."""
    if device.type != "cuda":
        return int(peak_memory(run) * 2**20)
    run()
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    run()
    wait(device)
    return torch.cuda.max_memory_allocated(device) - before


def describe_machine(device: torch.device | None = None) -> str:
    """Processor, threads and versions: what a number means nothing without."""
    versions = f"torch {torch.__version__}, Python {platform.python_version()}"
    if device is not None and device.type == "cuda":
        return f"one {torch.cuda.get_device_name(device)}, {versions}"
    with open("/proc/cpuinfo") if platform.system() == "Linux" else open("/dev/null") as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    return f"{processor}, {torch.get_num_threads()} threads ({torch.backends.cpu.get_cpu_capability()}), {versions}"


def has_bfloat16() -> bool:
    """Whether the CPU multiplies in bfloat16, rather than torch converting to and fro."""
    known = torch.cpu.get_capabilities()
    return any(known.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def has_compiler() -> bool:
    """Whether `torch.compile` finds what it needs to generate code for the CPU."""
    return shutil.which("g++") is not None or shutil.which("clang++") is not None


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """A table that reads well as plain text and renders as Markdown."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    return "\n".join([line(header), "|" + "|".join("-" * (width + 2) for width in widths) + "|", *map(line, rows)])
