"""How a step is timed in Python, as `support::time` does it on our side."""

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
