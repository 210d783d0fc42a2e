"""The page of results about a server under attack, in words."""

from __future__ import annotations

from typing import Any

from server_load import CLOSED, NOT_SENT

FLOOD = 4
"""Connections that malformed requests come by."""
CLIENTS = 64


def _counts(codes: dict[str, int]) -> str:
    """How often each status was the answer."""
    names = {str(CLOSED): "closed without an answer", NOT_SENT: "not sent, as all connections were waiting,"}
    return ", ".join(f"{names.get(code, code)} {count:,} times" for code, count in sorted(codes.items()))


def page(figures: dict[str, Any]) -> str:
    """The text of the page, of the figures of all parts."""
    bombed = "".join(f"| {name} | {status or 'closed'} |\n" for name, status in figures["bombs"].items())
    return (
        f"Of {figures['malformed']:,} malformed requests, **{figures['answers_5xx']}** were answered with 5xx, and "
        f"through {figures['kills']} kills under load, **{figures['wrong_answers']}** answers were wrong.\n\n"
        f"**{figures['malformed']:,} malformed requests** over {FLOOD} open connections, "
        f"{figures['requests_per_second']:,} per second: {figures['answers_5xx']} responses with 5xx "
        f"({_counts(figures['statuses'])}). The memory of all server processes "
        f"grew by {figures['growth_mb']} MB. During {figures['beside']:,} more of them, well-formed requests had a p99 "
        f"{figures['p99_ratio']} times that of an idle server, {figures['p99_idle_ms']} ms.\n\n"
        f"| bomb | response |\n| --- | ---: |\n{bombed}\n"
        f"**{figures['never_reading_at_once']:,} clients at once that never read**, "
        f"{figures['never_reading_opened']:,} in {figures['stalled_seconds']:.0f} s, and 32 that read 200 bytes per "
        f"second: {figures['stalled_5xx']} "
        f"responses with 5xx; {figures['stalled_others']:,} other requests had a p99 {figures['stalled_p99_ratio']} "
        f"times that of an idle server, {figures['stalled_p99_idle_ms']} ms, and memory grew by "
        f"{figures['stalled_growth_mb']} MB at most.\n\n"
        f"**{figures['smuggled']:,} requests of unclear length** (Content-Length with Transfer-Encoding, two lengths, "
        f"malformed chunks …) with others behind them: {_counts(figures['smuggled_codes'])}; what was behind them was "
        f"answered {figures['smuggled_answered']} times.\n\n"
        f"**Ten times as many requests as it can answer**, for {figures['overload_seconds']:.0f} s, with a model of "
        f"MiniLM's size: {_counts(figures['overload_codes'])}; afterwards, {figures['after_overload']}.\n\n"
        f"**The replica killed {figures['kills']} times** under load: {figures['wrong_answers']} wrong answers, "
        f"{_counts(figures['kill_codes'])}, a new replica answered after {figures['longest_away_seconds']} s at "
        "most.\n\n"
        f"**Throughput** with {CLIENTS} clients and one text per request: {figures['served_per_second']} texts per "
        f"second, {figures['throughput_ratio']} of a loop over `Predictor.stream` with as many threads "
        f"({figures['local_per_second']})."
    )
