# rooflens with Nsight Compute, for a node with NVIDIA GPUs and the NVIDIA container toolkit.
#   docker build -f packaging/docker/cuda.Dockerfile -t rooflens:cuda .
#   docker run -i --rm --gpus all -v rooflens:/data rooflens:cuda serve --allow-exec
# Counters need a host that permits them for all users (NVreg_RestrictProfilingToAdminUsers=0); `rooflens doctor` checks this.
ARG PYTHON=python:3.13-slim-trixie
ARG CUDA=nvidia/cuda:13.0.2-devel-ubuntu24.04
ARG PROFILER=cuda-nsight-compute-13-0

FROM ${PYTHON} AS wheel
COPY . /src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /src

FROM ${CUDA}
ARG PROFILER
USER 0
# Package versions are those of the base image. The compiler of the base image builds the launch recorder.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 python3-venv "${PROFILER}" \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    python3 -m venv /opt/rooflens \
    && /opt/rooflens/bin/pip install --no-cache-dir "$(echo /wheels/*.whl)[cuda]"
# The rest is the same in all images.
ENV PATH=/opt/rooflens/bin:$PATH ROOFLENS_STORE=/data PYTHONUNBUFFERED=1
LABEL org.opencontainers.image.title="rooflens" org.opencontainers.image.licenses="MIT"
# Writable for any user given with `docker run --user`; a new volume inherits the mode.
RUN useradd --uid 10001 --create-home rooflens && install --directory --mode=1777 /data
USER 10001
VOLUME /data
WORKDIR /data
# On stdio there is nothing to check; with --http the server reports its health.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
  CMD ["python3", "-c", "import pathlib, urllib.request as u; b'--http' in pathlib.Path('/proc/1/cmdline').read_bytes() and u.urlopen('http://127.0.0.1:8321/health', timeout=4)"]
EXPOSE 8321
ENTRYPOINT ["rooflens"]
CMD ["serve"]
