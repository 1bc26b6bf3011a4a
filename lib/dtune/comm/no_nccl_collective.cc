// What stands in for nccl_collective.cc in a build without NCCL.
#include "dtune/comm/collective.h"

namespace dtune {

bool has_nccl() { return false; }

std::unique_ptr<Collective> make_nccl_group(const GroupOptions& /*options*/,
                                            int /*device*/,
                                            RendezvousStore& /*store*/) {
  throw Error(
      ErrorKind::config,
      "this dtune was built without NCCL (build it with -DDTUNE_NCCL=ON "
      "where CUDA and NCCL are, or train on CPUs)");
}

}  // namespace dtune
