#!/usr/bin/env python3
"""A CUDA toolkit made of links to what pip installed beside this Python's PyTorch.

    pip_cuda.py FOLDER

makes it in FOLDER and prints FOLDER, which is to be CUDAToolkit_ROOT. Prints
nothing where none is needed: PyTorch is for CPUs, or there is an nvcc in PATH
or CUDA_HOME. Exit code 1, with a remedy on stderr, where the compiler is missing.
"""
import importlib.metadata
import importlib.util
import os
import pathlib
import runpy
import shutil
import sys

PARTS = "nvcc,nvvm,crt,cccl"


def has_own_toolkit():
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    return shutil.which("nvcc") or (home and (pathlib.Path(home) / "bin/nvcc").exists())


def link(folder, files):
    folder.mkdir(parents=True)
    for file in files:
        (folder / file.name).symlink_to(file)


def make(toolkit, folder):
    """pip's folder has neither lib64 nor names of libraries without a version."""
    shutil.rmtree(folder, ignore_errors=True)
    # nvcc looks for all else beside the folder that it is started from.
    link(folder / "bin", toolkit.glob("bin/*"))
    link(folder / "lib64", toolkit.glob("lib/lib*"))
    for library in toolkit.glob("lib/lib*.so.*"):
        plain = folder / "lib64" / (library.name.split(".so.")[0] + ".so")
        if not plain.exists():
            plain.symlink_to(library)
    for part in ("include", "nvvm"):
        (folder / part).symlink_to(toolkit / part)


def main():
    # Its version alone: to import all of it takes seconds.
    torch = pathlib.Path(importlib.util.find_spec("torch").origin).resolve().parent
    cuda = runpy.run_path(torch / "version.py")["cuda"]
    if cuda is None or has_own_toolkit():
        return 0
    toolkit = torch.parent / "nvidia" / f"cu{cuda.split('.')[0]}"
    if (toolkit / "bin/nvcc").exists() and (toolkit / "nvvm/bin/cicc").exists():
        folder = pathlib.Path(sys.argv[1])
        make(toolkit, folder)
        print(folder)
        return 0
    try:
        version = importlib.metadata.version("cuda-toolkit")
    except importlib.metadata.PackageNotFoundError:
        version = f"{cuda}.*"
    print(f"bootstrap: error: this PyTorch is for CUDA {cuda}, and its compiler is "
          f"missing: '{sys.executable}' -m pip install "
          f"'cuda-toolkit[{PARTS}]=={version}' (or install NVIDIA's toolkit, or a "
          "PyTorch for CPUs)", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
