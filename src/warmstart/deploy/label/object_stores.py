"""URIs of files in object stores: opened by Arrow, with options that its URIs lack."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit


def open_uri(uri: str) -> tuple[Any, str]:
    """The file system of a URI, and the path in it; `s3://…?anonymous=true` sends no credentials, as for public data.

    Endpoint, region and the like are Arrow's own options, as `endpoint_override`; profiles come from the environment.
    """
    from pyarrow import fs

    options = _options(uri)
    if not uri.startswith("s3://") or options.pop("anonymous", "false") != "true":
        system, path = fs.FileSystem.from_uri(uri)
        return system, path
    parts = urlsplit(uri)
    _, path = fs.FileSystem.from_uri(urlunsplit(parts._replace(query=urlencode(options))))  # Arrow checks the options
    known = ("region", "scheme", "endpoint_override")
    return fs.S3FileSystem(anonymous=True, **{name: options[name] for name in known if name in options}), path


def folder_of(uri: str) -> str:
    """The URI of the folder that a file is in, with the same credentials and options; `""` of a mere name."""
    if "://" not in uri:
        return uri.rstrip("/").rpartition("/")[0]
    place, mark, query = uri.partition("?")
    return place.rstrip("/").rpartition("/")[0] + mark + query


def _options(uri: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(uri).query, keep_blank_values=True))
