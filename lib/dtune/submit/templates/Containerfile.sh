# dtune {{version}} with CUDA, written by dtune image. In a folder with a wheel of
# dtune that was built with PyPI's PyTorch (third_party/README.md, "Packages"):
#   podman build -f THIS_FILE -t dtune:{{version}}-cuda .
# PyTorch brings CUDA, cuDNN and NCCL; the host's container runtime the driver.
FROM debian:bookworm-slim
RUN apt-get update && apt-get install --yes --no-install-recommends \
      ca-certificates python3-venv && rm -rf /var/lib/apt/lists/*
COPY dtune-{{version}}-*.whl /wheels/
RUN python3 -m venv /opt/dtune && \
    /opt/dtune/bin/pip install --no-cache-dir --find-links /wheels \
      'dtune[train]=={{version}}' && rm -r /wheels
RUN useradd --uid 65532 --no-create-home dtune && mkdir /study && \
    chown 65532 /study
USER 65532:65532
WORKDIR /study
ENV HOME=/tmp NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
ENTRYPOINT ["/opt/dtune/bin/dtune"]
