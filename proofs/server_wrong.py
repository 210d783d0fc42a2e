"""Requests that are wrong in every way we could think of, drawn at random over the shape of a right one."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from collections.abc import Callable, Iterator

from server_load import CLOSED, Connection, post

WORDS = ["good", "", " ", "\u0000", "é", "\U0001f600", "<b>", "a" * 300]
NUMBERS = ["NaN", "Infinity", "-Infinity", "1e999", "-0", "1" * 400, "9" * 5000, "0x10", "1.", "--1"]
METHODS = ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "BREW"]
PATHS = [
    "/",
    "/v1",
    "/v1/models/none/predict",
    "/v1/models//predict",
    "/../etc/passwd",
    "/%00",
    "/v1/predict/",
    "/" + "a" * 900,
]
KINDS = ["text/plain", "application/xml", "multipart/form-data; boundary=x", "", "application/json\x0b"]


def wrong_requests(seed: int, count: int) -> Iterator[bytes]:
    """So many malformed requests."""
    chance = random.Random(seed)
    for _ in range(count):
        yield chance.choice(WAYS)(chance)


def _value(chance: random.Random, depth: int = 0) -> str:
    """A JSON value, or nearly one."""
    kind = chance.randrange(8 if depth < 4 else 5)
    if kind == 0:
        return json.dumps(chance.choice(WORDS))
    if kind == 1:
        return chance.choice(NUMBERS)
    if kind == 2:
        return chance.choice(["null", "true", "nul", "'a'", "undefined", '"\\ud800"', '"\\x"', '"unended'])
    if kind in (3, 4):
        return str(chance.randrange(-(10**12), 10**12))
    inner = [_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind == 5:
        return "[" + ",".join(inner) + "]"
    return "{" + ",".join(f'"{chance.choice("abt")}": {one}' for one in inner) + "}"


def _typed(chance: random.Random) -> bytes:
    return post(f'{{"texts": [{_value(chance, 1)}, 1]}}'.encode())


def _keyed(chance: random.Random) -> bytes:
    key = chance.choice(["text", "Texts", "texts ", "", "inputs"])
    return post(json.dumps({key: ["good"], **({"texts": ["a"]} if chance.random() < 0.3 else {})}).encode())


def _loose(chance: random.Random) -> bytes:
    return post(_value(chance).encode())


def _bytes(chance: random.Random) -> bytes:
    return post(b'{"texts": ["' + chance.randbytes(chance.randrange(1, 40)) + b'\xff"]}')


def _deep(chance: random.Random) -> bytes:
    depth = chance.randrange(17, 3000)
    return post(b'{"texts": ' + b"[" * depth + b"]" * depth + b"}")


def _cut(chance: random.Random) -> bytes:
    whole = b'{"texts": ["good", "bad"]}'
    return post(whole[: chance.randrange(len(whole))])


def _path(chance: random.Random) -> bytes:
    return post(b'{"texts": ["good"]}', chance.choice(PATHS[1:]))


def _method(chance: random.Random) -> bytes:
    return (
        f"{chance.choice(METHODS[1:5])} /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n".encode()
    )


def _kind(chance: random.Random) -> bytes:
    body = b'{"texts": ["good"]}'
    head = f"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: {chance.choice(KINDS[:4])}\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def _encoded(chance: random.Random) -> bytes:
    body = gzip.compress(b"[" * chance.randrange(1000), mtime=0)
    return post(body, headers=f"content-encoding: {chance.choice(['gzip', 'br', 'deflate', 'x'])}\r\n")


def _host(chance: random.Random) -> bytes:
    body = b'{"texts": ["good"]}'
    head = f"POST /v1/predict HTTP/1.1\r\nhost: evil{chance.randrange(9)}.example\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def _no_http(chance: random.Random) -> bytes:
    return chance.choice(
        [b"nothing of the kind\r\n\r\n", b"GET\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\r\n\r\n"]
    )


def _lengths(chance: random.Random) -> bytes:
    said = chance.choice(["-1", "x", "1, 2", "1" * 30, "99999999999"])
    return f"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: {said}\r\n\r\n{{}}".encode()


def _chunks(chance: random.Random) -> bytes:
    head = b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return (
        head
        + b"transfer-encoding: chunked\r\n\r\n"
        + chance.choice([b"zz\r\n", b"5\r\n{}{}{}{}\r\n0\r\n\r\n", b"2\r\n{}\r\n0\r\n\r\n"])
    )


def _many(chance: random.Random) -> bytes:
    return post(json.dumps({"texts": ["a"] * chance.randrange(257, 2000)}).encode())


# What costs the client a new connection comes less often, so that most are asked on kept ones.
WAYS: list[Callable[[random.Random], bytes]] = [
    *[_typed, _keyed, _loose, _bytes, _deep, _cut, _path, _method, _kind, _encoded, _host] * 4,
    *[_no_http, _lengths, _chunks, _many],
]


async def bombs(port: int, slow: int = 20) -> dict[str, int]:
    """The status that each kind of bomb is told; 0 where the connection was closed on it.

    Args:
        slow: Clients that send a byte a second, of their headers and of their bodies.
    """
    hundred = 100_000_000
    asked = {
        "depth 10^5": post(b"[" * 100_000),
        "depth 10^5 in a list": post(b'{"texts": ' + b"[" * 100_000),
        "100 MB, told": post(b" " * hundred),
        "100 MB, in chunks": _endless(hundred),
        "gzip of 100 MB": post(gzip.compress(b" " * hundred), headers="content-encoding: gzip\r\n"),
        "10^6 texts": post(b'{"texts": [' + b'"a",' * 999_999 + b'"a"]}'),
        "1 MB of quotes": post(b'{"texts": [' + b'"\\"' * 340_000 + b"]}"),
        "headers of 1 MB": post(b"{}", headers="x: " + "a" * 1_000_000 + "\r\n"),
    }
    found = {}
    for name, raw in asked.items():
        connection = Connection(port)
        found[name] = (await connection.ask(raw, 60))[0]
        connection.close()
    for name, head in (("slow headers, the worst", True), ("slow bodies, the worst", False)):
        if slow:
            found[name] = max(await asyncio.gather(*(_slow(port, head) for _ in range(slow))))
    return found


def _endless(size: int) -> bytes:
    """A body in chunks that never says how large it is."""
    head = b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return head + b"transfer-encoding: chunked\r\n\r\n" + (b"10000\r\n" + b" " * 65536 + b"\r\n") * (size // 65536)


async def _slow(port: int, head: bool) -> int:
    """A client that sends a byte a second, of its headers or its body."""
    raw = post(b'{"texts": ["good"]}' + b" " * 100)
    start = 10 if head else raw.index(b"\r\n\r\n") + 4
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(raw[:start])
        for byte in raw[start:]:
            writer.write(bytes([byte]))
            await writer.drain()
            try:
                async with asyncio.timeout(1):
                    first = await reader.read(12)
                return int(first[9:12] or CLOSED)
            except TimeoutError:
                continue
        return 599
    except OSError:
        return CLOSED
    finally:
        writer.close()
