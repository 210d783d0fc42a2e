"""A server under attack, overload and kills: it never answers 5xx to what it is sent, and never wrongly.

Seven parts, each of which can be run alone (`--parts malformed,overload`). `--n` is the number of malformed requests;
the other parts shrink with it. With `--write`, what a part found is kept in docs/results/figures/, and the page is
written when all are there.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # the server and the local loop compute with as many threads
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import psutil

import kept
from common import ROOT, finish, write_page
from server_load import Connection, closed_loop, open_loop, quantile, texts
from server_page import CLIENTS, FLOOD, page
from server_stalled import never_read, read_slowly, smuggle, smuggling
from server_wrong import bombs, wrong_requests

sys.path.insert(0, str(ROOT / "tests"))
PARTS = ("malformed", "beside", "stalled", "smuggled", "overload", "kills", "throughput")
FULL = 1_000_000
LONG = " ".join(["the film was good and the plot was not boring but very great in paris"] * 4)
"""About 60 words, as many as a review has."""


class Server:
    """A `warmstart serve` of its own."""

    def __init__(self, run: Path, *options: str) -> None:
        command = [
            sys.executable,
            "-m",
            "warmstart.cli.main",
            "serve",
            f"model={run}",
            "--port",
            "0",
            "--json",
            *options,
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.port = int(json.loads(self.process.stdout.readline())["url"].rpartition(":")[2])

    def tree(self) -> list[psutil.Process]:
        main = psutil.Process(self.process.pid)
        return [main, *main.children(recursive=True)]

    def memory(self) -> float:
        """Megabytes of all its processes."""
        return sum(one.memory_info().rss for one in self.tree()) / 1e6

    def replica(self) -> psutil.Process | None:
        return next((one for one in self.tree() if "ServeReplica" in " ".join(one.cmdline())), None)


@contextmanager
def serving(run: Path, *options: str):
    """A server for as long as the block lasts; it must leave with 0."""
    server = Server(run, *options)
    try:
        yield server
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(120) == 0
    finally:
        server.process.kill()


def fitted(folder: Path, name: str, **changes: Any) -> Path:
    """A run of a model that has learned next to nothing; its size is what counts here."""
    import warmstart
    from small import reviews
    from tiny import save_tiny

    os.environ["WARMSTART_CACHE"] = str(folder / "cache")
    encoder = save_tiny(folder / f"{name}-encoder", initializer_range=0.2, **changes)
    train = folder / "train.csv"
    train.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in reviews(64)), encoding="utf-8")
    training = {"max_steps": 4, "batch_size": 8, "precision": "fp32"}
    warmstart.fit(
        model=str(encoder), train=str(train), out=folder / name, training=training, window={"max_tokens": 128}
    )
    return folder / name


def tiny(folder: Path) -> Path:
    """A model of seconds."""
    return fitted(folder, "tiny")


def real(folder: Path) -> Path:
    """A model in the shape of MiniLM, with random weights: computing it takes longer than sending a text."""
    shape = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    return fitted(folder, "real", **shape)


def say(text: str) -> None:
    """Tell how far it is."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def flood(port: int, count: int, seed: int, found: Any) -> None:
    """In a process of its own: malformed requests, counted by status."""
    # Attackers bring machines of their own; here they share two cores with the server, so they give way to it.
    os.nice(19)
    statuses: Counter[int] = Counter()
    requests = wrong_requests(seed, count)
    asyncio.run(closed_loop(port, FLOOD, requests, lambda raw, status, body, seconds: statuses.update([status])))
    found.put(statuses)


async def latencies(port: int, enough: Any) -> list[float]:
    """Seconds of well-formed requests, 50 in a second, until there are enough."""
    connection, seconds = Connection(port), []
    while not enough(len(seconds)):
        started = time.perf_counter()
        status, _ = await connection.ask(texts("the film was good"))
        seconds.append(time.perf_counter() - started)
        assert status in (200, 429), status
        await asyncio.sleep(0.02)
    return seconds


def malformed(folder: Path, n: int) -> dict[str, Any]:
    """Malformed requests and bombs, with well-formed ones beside them."""
    with serving(tiny(folder)) as server:
        told = asyncio.run(bombs(server.port))
        say(f"bombs: {told}")
        statuses: Counter[int] = Counter(told.values())
        _flooded(server, max(200, n // 50), 1, statuses)  # what grows once and no further has grown
        before = server.memory()
        started = time.monotonic()
        _flooded(server, n, 2, statuses)
        rate = n / (time.monotonic() - started)
        statuses.update(asyncio.run(bombs(server.port)).values())
        growth = server.memory() - before
    say(f"statuses {dict(sorted(statuses.items()))}, {rate:,.0f} a second, {growth:.1f} MB")
    return {
        "malformed": n,
        "bombs": told,
        "statuses": {str(one): count for one, count in sorted(statuses.items())},
        "answers_5xx": sum(count for status, count in statuses.items() if status >= 500),
        "requests_per_second": round(rate),
        "growth_mb": round(growth, 1),
    }


def beside(folder: Path, n: int) -> dict[str, Any]:
    """How long well-formed requests take beside so many malformed ones, and on the idle server before and after."""
    with serving(tiny(folder)) as server:
        asyncio.run(latencies(server.port, lambda count: count >= 100))
        few = min(2000, max(100, n // 50))
        before = asyncio.run(latencies(server.port, lambda count: count >= few))
        flooded = _flooded(server, n, 3, Counter())
        after = asyncio.run(latencies(server.port, lambda count: count >= few))
    # The quieter time: what else the machine did may have made an idle server look slow.
    idle = min(quantile(before, 0.99), quantile(after, 0.99))
    ratio = quantile(flooded, 0.99) / idle
    say(f"beside: p99 {1000 * quantile(flooded, 0.99):.1f} ms, {ratio:.2f} of idle")
    return {"beside": n, "p99_idle_ms": round(1000 * idle, 1), "p99_ratio": round(ratio, 2)}


def _flooded(server: Server, count: int, seed: int, statuses: Counter[int]) -> list[float]:
    """Send malformed requests; gives the seconds of well-formed ones beside them."""
    queue: Any = multiprocessing.Queue()
    child = multiprocessing.Process(target=flood, args=(server.port, count, seed, queue))
    child.start()
    beside = asyncio.run(latencies(server.port, lambda done: not child.is_alive() or not queue.empty()))
    statuses.update(queue.get())
    child.join()
    return beside


def stalled(folder: Path, seconds: float) -> dict[str, Any]:
    """How others are served beside slow clients, and more that never read than connections are allowed."""
    from warmstart.deploy.serve.connections import MAX_CONNECTIONS

    clients = MAX_CONNECTIONS + 300
    with serving(tiny(folder)) as server:
        few = max(100, round(10 * seconds))
        asyncio.run(latencies(server.port, lambda count: count >= 100))
        before = asyncio.run(latencies(server.port, lambda count: count >= few))
        memory, seen = [server.memory()], [time.monotonic()]
        children, queues = [], []
        for attack, count in ((never_read, clients), (read_slowly, 32)):
            queues.append(multiprocessing.Queue())
            children.append(multiprocessing.Process(target=attack, args=(server.port, count, seconds, queues[-1])))
            children[-1].start()

        def enough(count: int) -> bool:
            if time.monotonic() > seen[-1] + 1:
                seen.append(time.monotonic())
                memory.append(server.memory())
            return not all(child.is_alive() for child in children)

        others = asyncio.run(latencies(server.port, enough))
        (most, opened), slow = queues[0].get(), queues[1].get()
        for child in children:
            child.join()
        after = asyncio.run(latencies(server.port, lambda count: count >= few))
    idle = min(quantile(before, 0.99), quantile(after, 0.99))
    found = {
        "stalled_seconds": seconds,
        "never_reading_at_once": most,
        "never_reading_opened": opened,
        "stalled_5xx": sum(count for status, count in slow.items() if status >= 500),
        "stalled_others": len(others),
        "stalled_p99_idle_ms": round(1000 * idle, 1),
        "stalled_p99_ratio": round(quantile(others, 0.99) / idle, 2),
        "stalled_growth_mb": round(max(memory) - memory[0], 1),
    }
    say(f"stalled: {found}")
    return found


def smuggled(folder: Path, n: int) -> dict[str, Any]:
    """Requests of unclear length with others behind them."""
    with serving(tiny(folder)) as server:
        queue: Any = multiprocessing.Queue()
        child = multiprocessing.Process(target=smuggle, args=(server.port, smuggling(4, n), queue))
        child.start()
        asyncio.run(latencies(server.port, lambda count: not child.is_alive() or not queue.empty()))
        statuses, answered = queue.get()
        child.join()
    codes = {str(one): count for one, count in sorted(statuses.items())}
    say(f"smuggled: {codes}, {answered} answered")
    fives = sum(count for status, count in statuses.items() if status >= 500)
    return {"smuggled": n, "smuggled_codes": codes, "smuggled_5xx": fives, "smuggled_answered": answered}


def overload(folder: Path, seconds: float) -> dict[str, Any]:
    """Ten times the requests that the server can answer."""
    with serving(real(folder)) as server:
        rate = _capacity(server, 4 * CLIENTS)
        say(f"{rate:.0f} requests a second are answered; now ten times as many for {seconds:.0f} s")
        codes = asyncio.run(open_loop(server.port, 10 * rate, seconds, texts(LONG), 512))
        after = asyncio.run(Connection(server.port).ask(texts(LONG)))[0]
    say(f"overload: {dict(codes)}")
    told = {str(one): count for one, count in codes.items()}
    return {"overload_seconds": seconds, "overload_codes": told, "after_overload": after}


def _capacity(server: Server, count: int) -> float:
    """Requests of one text a second, by 64 clients that wait for their answers."""
    statuses: Counter[int] = Counter()

    def asked(number: int) -> None:
        requests = iter([texts(LONG)] * number)
        told = closed_loop(server.port, CLIENTS, requests, lambda raw, status, body, seconds: statuses.update([status]))
        asyncio.run(told)

    asked(CLIENTS)
    started = time.monotonic()
    asked(count)
    assert set(statuses) == {200}, statuses
    return count / (time.monotonic() - started)


def kills(folder: Path, count: int) -> dict[str, Any]:
    """The replica killed under load, again and again."""
    from small import reviews
    from warmstart.inference.predictor import Predictor

    run = tiny(folder)
    asked = [text for text, _ in reviews(50, start=9000)]
    right = {
        texts(text): one["probabilities"] for text, one in zip(asked, Predictor.load(run).predict(asked), strict=True)
    }
    statuses: Counter[int] = Counter()
    wrong: list[Any] = []
    going = True

    def requests():
        for raw in itertools.cycle(right):
            if not going:
                return
            yield raw

    def told(raw: bytes, status: int, body: bytes, seconds: float) -> None:
        statuses[status] += 1
        if status == 200:
            found = json.loads(body)["answers"][0]["probabilities"]
            if any(abs(found[name] - one) > 1e-5 for name, one in right[raw].items()):
                wrong.append(found)

    async def killed() -> list[float]:
        nonlocal going
        load = asyncio.create_task(closed_loop(server.port, 8, requests(), told, 0.05))
        away = [await _kill(server, number) for number in range(count)]
        going = False
        await load
        return away

    with serving(run, "--timeout", "20") as server:
        away = asyncio.run(killed())
    say(f"kills: {dict(statuses)}, back after {max(away):.1f} s at most")
    codes = {str(one): number for one, number in sorted(statuses.items())}
    return {
        "kills": count,
        "kill_codes": codes,
        "wrong_answers": len(wrong),
        "longest_away_seconds": round(max(away), 1),
    }


async def _kill(server: Server, number: int) -> float:
    """Kill the replica; gives the seconds until another one answers."""
    before = server.replica()
    assert before is not None
    before.kill()
    started = time.monotonic()
    connection = Connection(server.port)
    while True:
        await asyncio.sleep(0.25)
        now = server.replica()
        replaced = now is not None and now.pid != before.pid
        if replaced and (await connection.ask(texts("good"), 30))[0] == 200:
            say(f"kill {number + 1}: back after {time.monotonic() - started:.1f} s")
            away = time.monotonic() - started
            await asyncio.sleep(1)  # some answers between one kill and the next
            return away
        assert time.monotonic() - started < 300


def throughput(folder: Path, count: int) -> dict[str, Any]:
    """Texts a second of 64 clients, beside the same texts in a loop of one's own."""
    import torch

    from warmstart.inference.predictor import Predictor

    torch.set_num_threads(1)
    run = real(folder)
    predictor = Predictor.load(run)
    rows = [predictor.task.parse_input(LONG, 1)] * count
    pairs = []
    with serving(run) as server:
        for _ in range(3):
            started = time.monotonic()
            assert sum(1 for _ in predictor.stream(rows)) == count
            local = count / (time.monotonic() - started)
            pairs.append((_capacity(server, count), local))
            say(f"throughput: {pairs[-1][0]:.0f} texts a second served, {local:.0f} in a loop")
    served, local = sorted(pairs, key=lambda pair: pair[0] / pair[1])[1]
    figures = {"served_per_second": round(served, 1), "local_per_second": round(local, 1)}
    return {**figures, "throughput_ratio": round(served / local, 2)}


def measure_part(part: str, size: float) -> dict[str, Any]:
    """One of the parts, in a folder of its own."""
    say(f"{part}: {size}")
    with tempfile.TemporaryDirectory() as name:
        found: dict[str, Any] = globals()[part](Path(name), size)
        return found


def main() -> None:
    """Prove and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=FULL, help="malformed requests")
    parser.add_argument("--parts", default=",".join(PARTS), help="which of " + ", ".join(PARTS))
    parser.add_argument("--seconds", type=float, help="of overload (default 600 at full size)")
    parser.add_argument("--kills", type=int, help="of the replica (default 30 at full size)")
    parser.add_argument("--write", action="store_true", help="write the results page in docs/results/")
    args = parser.parse_args()
    share = min(1.0, args.n / FULL)
    seconds = args.seconds or max(5.0, 600 * share)
    count = args.kills or max(1, round(30 * share))
    sizes = {"malformed": args.n, "beside": max(200, args.n // 10), "overload": seconds, "kills": count}
    sizes |= {"stalled": args.seconds or max(5.0, 120 * share), "smuggled": max(100, args.n // 100)}
    sizes["throughput"] = max(256, round(4096 * share))
    found = kept.by_parts(
        "server", {part: partial(measure_part, part, sizes[part]) for part in args.parts.split(",")}, args.write
    )
    figures = kept.flat(found)
    if args.write and set(found) == set(PARTS):
        write_page("server", "A server under attack, overload and kills", "make proof-server", page(figures))
    finish(figures)


if __name__ == "__main__":
    main()
