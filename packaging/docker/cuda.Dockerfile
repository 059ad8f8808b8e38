# rooflens with Nsight Compute, for a node with NVIDIA GPUs and the NVIDIA container toolkit.
#   docker build -f packaging/docker/cuda.Dockerfile -t rooflens:cuda .
#   docker run -i --rm --gpus all -v rooflens:/data rooflens:cuda serve --allow-exec
# Counters need a host that grants them to everyone (NVreg_RestrictProfilingToAdminUsers=0); `rooflens doctor` tells.
ARG PYTHON=python:3.13-slim-trixie
ARG CUDA=nvidia/cuda:13.0.2-devel-ubuntu24.04
ARG PROFILER=cuda-nsight-compute-13-0

FROM ${PYTHON} AS wheel
COPY . /src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /src

FROM ${CUDA}
ARG PROFILER
USER 0
# Versions are those of the base's release. The compiler that comes with the base builds the recorder of launches.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 python3-venv "${PROFILER}" \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    python3 -m venv /opt/rooflens \
    && /opt/rooflens/bin/pip install --no-cache-dir "$(echo /wheels/*.whl)[cuda]"
# From here on the images are alike.
ENV PATH=/opt/rooflens/bin:$PATH ROOFLENS_STORE=/data PYTHONUNBUFFERED=1
LABEL org.opencontainers.image.title="rooflens" org.opencontainers.image.licenses="MIT"
# Writable for any user that `docker run --user` names; a new volume takes it over.
RUN useradd --uid 10001 --create-home rooflens && install --directory --mode=1777 /data
USER 10001
VOLUME /data
WORKDIR /data
# On stdio there is nothing to ask; with --http the server says itself how it is.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
  CMD ["python3", "-c", "import pathlib, urllib.request as u; b'--http' in pathlib.Path('/proc/1/cmdline').read_bytes() and u.urlopen('http://127.0.0.1:8321/health', timeout=4)"]
EXPOSE 8321
ENTRYPOINT ["rooflens"]
CMD ["serve"]
