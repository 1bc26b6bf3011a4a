#include "dtune/cluster/capability.h"

#include <random>

#include <fmt/format.h>

namespace dtune {

std::string new_capability() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(),
                     device());
}

}  // namespace dtune
