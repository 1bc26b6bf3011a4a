#include "dtune/train/device.h"

#include <cstdlib>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "dtune/base/error.h"

using namespace dtune;  // NOLINT: a test

TEST_CASE(
    "without a GPU 'auto' is the CPU, and says why where it was given one") {
  if (at::hasCUDA()) return;
  CHECK(choose_device("auto").device.is_cpu());
  CHECK(choose_device("auto").why_cpu.empty());
  CHECK(choose_device("cpu").why_cpu.empty());
  ::setenv("DTUNE_SLOT_DEVICE", "0", 1);
  const DeviceChoice given = choose_device("auto");
  CHECK(given.device.is_cpu());
  CHECK(given.why_cpu.find("this LibTorch is built without CUDA") !=
        std::string::npos);
  CHECK(choose_device("cpu").why_cpu.empty());
  ::unsetenv("DTUNE_SLOT_DEVICE");
}

TEST_CASE(
    "a device that is asked for and not there is an error with the reason") {
  if (at::hasCUDA()) return;
  for (const char* device : {"cuda", "cuda:1"}) {
    CHECK_THROWS_WITH_AS(
        choose_device(device),
        doctest::Contains("is not there: this LibTorch is built without CUDA"),
        Error);
  }
  for (const char* device : {"gpu", "cuda:", "cuda:x", "cuda:-1", "CUDA"}) {
    CHECK_THROWS_WITH_AS(choose_device(device),
                         doctest::Contains("is not a device (use auto"), Error);
  }
}

TEST_CASE("a slot's part of a GPU's memory is between none and all") {
  CHECK(device_share(nullptr) == 1);
  CHECK(device_share("0.25") == 0.25);
  for (const char* text : {"", "1", "0", "-1", "2", "all", "nan"}) {
    CHECK(device_share(text) == 1);
  }
}
