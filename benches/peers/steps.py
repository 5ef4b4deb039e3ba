"""How a step is measured in Python, as `benches/support` does it on our side."""

import time


def time_steps(step, times, seconds):
    """Milliseconds that `step` takes: minimum and median over at least `times` runs and `seconds` of them."""
    step()
    samples, begin = [], time.perf_counter()
    while len(samples) < times or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        step()
        samples.append(1e3 * (time.perf_counter() - start))
    samples.sort()
    return {"ms_min": round(samples[0], 3), "ms_median": round(samples[len(samples) // 2], 3)}


def resident(name):
    """Megabytes of this process: `VmRSS`, resident now, or `VmHWM`, the most that was resident (Linux)."""
    with open("/proc/self/status") as status:
        (line,) = (line for line in status if line.startswith(name))
    return int(line.split()[1]) * 1024 / 1e6


def forget_peak():
    """Lets `VmHWM` begin anew with what is resident now."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
