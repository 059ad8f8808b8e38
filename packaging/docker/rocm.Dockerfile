# rooflens with AMD's profilers, for a node with Instinct or Radeon GPUs and the amdgpu driver.
#   docker build -f packaging/docker/rocm.Dockerfile -t rooflens:rocm .
#   docker run -i --rm --device=/dev/kfd --device=/dev/dri --group-add "$(stat -c %g /dev/kfd)" -v rooflens:/data rooflens:rocm serve --allow-exec
ARG PYTHON=python:3.13-slim-trixie
ARG ROCM=rocm/dev-ubuntu-24.04:7.2.4-complete
ARG PROFILER=rocprofiler-sdk

FROM ${PYTHON} AS wheel
COPY . /src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /src

FROM ${ROCM}
ARG PROFILER
USER 0
# This package contains rocprofv3; the base image configures AMD's package repository. Versions are those of the base image.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 python3-venv "${PROFILER}" \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    python3 -m venv /opt/rooflens \
    && /opt/rooflens/bin/pip install --no-cache-dir /wheels/*.whl
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
