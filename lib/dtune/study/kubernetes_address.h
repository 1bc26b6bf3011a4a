// "k8s://lab?image=registry/dtune:1&max=4": agents that Kubernetes starts.
#pragma once

#include <span>
#include <string>

#include "dtune/base/clock.h"
#include "dtune/study/engine_address.h"

namespace dtune {

// What a pod gets: image, cpu, memory, gpu; data (a volume's claim), pull (a
// Secret for the registry), queue (Kueue's), context (kubectl's); of agents
// that come and go: max, idle, poll.
std::span<const std::string> kubernetes_keys();
// Throws Error(config) for what an address in `nodes:` cannot have.
void check_kubernetes_address(const EngineAddress& address);

int kubernetes_max(const EngineAddress& address);
Duration kubernetes_idle(const EngineAddress& address);  // two minutes
Duration kubernetes_poll(const EngineAddress& address);  // half a minute

}  // namespace dtune
