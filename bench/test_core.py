"""The core benchmark under pytest-benchmark: `pytest bench`. Figures only, no assertion on time."""

import numpy as np
import pytest

from bench.measure import job_file
from emunet._core import load_engine
from emunet.run import prepare


@pytest.mark.parametrize("job", ["perm-128", "incast-128"])
def test_engine_run(benchmark, job):
    """Engine.run alone on a permutation and an incast; policy and messages are there beforehand."""
    prepared = prepare(job_file(job))
    compiled = prepared.compiled
    compiled.plan.congestion.addresses()

    def setup():
        engine = load_engine()(compiled.plan)
        for chunk in prepared.stream.chunks():
            ids = np.arange(chunk.first_id, chunk.first_id + len(chunk.src))
            engine.submit(ids, chunk.src, chunk.dst, chunk.size_bytes, chunk.start_ps, chunk.klass,
                          compiled.paths.base_rtt_ps(chunk.src, chunk.dst))
        return (engine,), {}

    engines = []

    def run(engine):
        engines[:] = [engine]
        while engine.run(1 << 62) == 2:
            engine.drain()

    benchmark.pedantic(run, setup=setup, rounds=5)
    benchmark.extra_info["packet_hops"] = engines[0].totals()["packet_hops"]
