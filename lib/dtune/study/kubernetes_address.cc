#include "dtune/study/kubernetes_address.h"

#include <array>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr int kMostPods = 1000;

const std::array<std::string, 11> kKubernetesKeys = {
    "image", "max",  "cpu",   "memory",  "gpu", "data",
    "pull",  "idle", "queue", "context", "poll"};

}  // namespace

std::span<const std::string> kubernetes_keys() { return kKubernetesKeys; }

void check_kubernetes_address(const EngineAddress& address) {
  check_engine_keys(address, kubernetes_keys());
  if (address.value("image").empty()) {
    throw Error(
        ErrorKind::config,
        fmt::format("'{}': image is missing "
                    "(image=registry.example.org/dtune:1; 'dtune image' "
                    "makes one)",
                    address.text));
  }
  kubernetes_max(address);
  kubernetes_idle(address);
  kubernetes_poll(address);
}

int kubernetes_max(const EngineAddress& address) {
  return engine_number(address, "max", 1, 1, kMostPods);
}

Duration kubernetes_idle(const EngineAddress& address) {
  return engine_duration(address, "idle", "2m");
}

Duration kubernetes_poll(const EngineAddress& address) {
  return engine_duration(address, "poll", "30s");
}

}  // namespace dtune
