// Which device a recipe's `train.device` means on this machine.
#pragma once

#include <string>
#include <vector>

#include <ATen/ATen.h>

namespace dtune {

// "auto" (the first CUDA device, else the CPU), "cpu", "cuda", "cuda:1".
// Throws Error(config) with what is there where it is not.
at::Device find_device(const std::string& text);

// Names of the CUDA devices; empty where there are none.
std::vector<std::string> cuda_device_names();

}  // namespace dtune
