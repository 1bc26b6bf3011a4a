// CIFAR files: whatever the bytes, whole records or an Error(data).
#include <cstdint>

#include "dtune/base/error.h"
#include "dtune/data/cifar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const auto kind :
       {dtune::CifarKind::cifar10, dtune::CifarKind::cifar100}) {
    try {
      dtune::ImageSet set;
      dtune::parse_cifar({data, size}, kind, "fuzz", set);
      DTUNE_CHECK(set.images.size() == set.labels.size() * 3072);
    } catch (const dtune::Error& error) {
      if (error.kind() != dtune::ErrorKind::data) throw;
    }
  }
  return 0;
}
