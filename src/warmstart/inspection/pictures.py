"""Pictures of heads: all maps as thumbnails, one map as lines between tokens, and numbers by block and head."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from warmstart.inspection.attention import AttentionMaps
from warmstart.inspection.page import shade

LINES, WEAKEST = 5, 0.05
"""The most lines that leave a token, and the least attention that is drawn: a picture of 512 tokens must still open."""
PIXELS = 96
"""The most pixels of a thumbnail in either direction."""
ROW, COLUMN, GAP = 18, 120, 110
"""Pixels: the height of a token, the width of its column, and the space that lines cross."""
SHOWN = 14
"""Characters of a token that are shown; the rest is in its title."""


def thumbnails(maps: AttentionMaps, patterns: Mapping[str, str]) -> str:
    """A table of all maps of a text, a row for each layer.

    Args:
        patterns: By head, such as `3.7`, what is written below its map.
    """
    layers, heads = maps.weights.shape[:2]
    head_row = "".join(f'<th scope="col">head {head}</th>' for head in range(heads))
    rows = []
    for layer in range(layers):
        cells = []
        for head in range(heads):
            name = f"{layer}.{head}"
            picture = _data_uri(maps.weights[layer, head])
            cells.append(
                f'<td><img class="map" src="{picture}" alt="map of head {name}">{name} '
                f"{escape(patterns.get(name, ''))}</td>"
            )
        rows.append(f'<tr><th scope="row">block {layer}</th>{"".join(cells)}</tr>')
    return f'<table class="maps"><tr><td></td>{head_row}</tr>{"".join(rows)}</table>'


def lines(maps: AttentionMaps, layer: int, head: int) -> str:
    """One map as lines from each token, on the left, to those it attends to, on the right."""
    weights, count = maps.weights[layer, head], len(maps.tokens)
    right = COLUMN + GAP
    parts = []
    for token, row in enumerate(weights):
        y = _middle(token)
        strongest = [place for place in np.argsort(row)[::-1][:LINES] if row[place] >= WEAKEST]
        drawn = "".join(
            f'<line x1="{COLUMN}" y1="{y}" x2="{right}" y2="{_middle(place)}" stroke-width="1.5" '
            f'stroke-opacity="{row[place]:.2f}"/>'
            for place in strongest
        )
        parts.append(f'<g class="token">{drawn}{_token(maps.tokens[token], COLUMN - 6, y, "end")}</g>')
        parts.append(_token(maps.tokens[token], right + 6, y, "start"))
    width, height = 2 * COLUMN + GAP, ROW * count + 8
    label = f"Attention of head {layer}.{head}: lines from each token to those it attends to"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{"".join(parts)}</svg>'
    )


def head_table(values: NDArray[np.float64], digits: int = 3, marked: NDArray[np.bool_] | None = None) -> str:
    """A number for each block and head, shaded by its size.

    Args:
        marked: Which numbers get an asterisk.
    """
    largest = float(np.nanmax(np.abs(values), initial=0.0))
    heads = "".join(f'<th scope="col">{head}</th>' for head in range(values.shape[1]))
    rows = []
    for block, row in enumerate(values):
        cells = "".join(
            f'<td style="{shade(value, largest)}">{value:+.{digits}f}{"*" if marked is not None and star else ""}</td>'
            for value, star in zip(row, marked[block] if marked is not None else row, strict=True)
        )
        rows.append(f'<tr><th scope="row">{block}</th>{cells}</tr>')
    return f'<table><tr><th scope="col">block</th>{heads}</tr>{"".join(rows)}</table>'


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """A plain table of rows with the same names."""
    names = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{escape(_cell(value))}</td>' for value in row.values())}</tr>" for row in rows)
    return f"<table><tr>{names}</tr>{body}</table>"


def _cell(value: object) -> str:
    return "–" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def _middle(token: int) -> int:
    return ROW * token + ROW // 2 + 4


def _token(token: str, x: int, y: int, anchor: str) -> str:
    shown = token if len(token) <= SHOWN else f"{token[: SHOWN - 1]}…"
    title = f"<title>{escape(token)}</title>" if shown != token else ""
    return f'<text x="{x}" y="{y + 4}" text-anchor="{anchor}">{title}{escape(shown)}</text>'


def _smaller(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """A large map with fewer pixels, each the strongest of those it stands for, so that thin lines stay."""
    step = -(-len(weights) // PIXELS)
    starts = np.arange(0, len(weights), step)
    return np.maximum.reduceat(np.maximum.reduceat(weights, starts, axis=0), starts, axis=1)


def _data_uri(weights: NDArray[np.float32]) -> str:
    """A map as a picture with a pixel for each pair of tokens: black where a token attends most, white where not."""
    weights = _smaller(weights)
    strength = np.sqrt(weights / max(float(weights.max()), 1e-12))
    pixels = (255 - 255 * strength).round().astype(np.uint8)
    height, width = pixels.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels], axis=1).tobytes()  # each line without a filter
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
