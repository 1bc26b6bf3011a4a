#include "dtune/study/kubernetes_address.h"

#include <doctest/doctest.h>

#include "dtune/base/error.h"

using namespace dtune;  // NOLINT: a test

namespace {

std::string pods_error(const std::string& text) {
  try {
    check_kubernetes_address(parse_engine_address(text));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("agents of Kubernetes need an image and known keys") {
  const EngineAddress address =
      parse_engine_address("k8s://lab?image=reg/dtune:1&max=4&poll=5s");
  CHECK(pods_error(address.text) == "");
  CHECK(kubernetes_max(address) == 4);
  CHECK(kubernetes_poll(address) == std::chrono::seconds(5));
  CHECK(kubernetes_idle(address) == std::chrono::minutes(2));
  CHECK(pods_error("k8s://lab").find("image is missing") != std::string::npos);
  CHECK(pods_error("k8s://lab?image=i&gpus=1").find("did you mean 'gpu'?") !=
        std::string::npos);
  CHECK(pods_error("k8s://lab?image=i&max=0") != "");
  CHECK(pods_error("k8s://lab?image=i&idle=x") != "");
}
