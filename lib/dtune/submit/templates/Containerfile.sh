# dtune {{version}} with CUDA, written by dtune image. In the folder of its source:
#   podman build -f THIS_FILE -t dtune:{{version}}-cuda .
# It was not built by the tests of dtune: they have no CUDA.
FROM nvidia/cuda:12.4.1-devel-ubuntu22.04 AS build
RUN apt-get update && apt-get install --yes --no-install-recommends \
      python3 python3-venv python3-pip && rm -rf /var/lib/apt/lists/*
COPY . /src
WORKDIR /src
# LibTorch of PyPI brings CUDA, cuDNN and NCCL.
RUN sh third_party/bootstrap.sh --torch python install /usr/local

FROM build
RUN useradd --uid 65532 --no-create-home dtune && mkdir /study && \
    chown 65532 /study
USER 65532:65532
WORKDIR /study
ENV HOME=/tmp NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
ENTRYPOINT ["/usr/local/bin/dtune"]
