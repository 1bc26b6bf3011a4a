// A group of one rank: every operation is done when it begins.
#include "dtune/comm/collective.h"

namespace dtune {
namespace {

class SoloCollective final : public Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }

  void all_reduce(std::span<float> /*data*/, Duration /*timeout*/) override {}
  void broadcast(std::span<float> /*data*/, int root,
                 Duration /*timeout*/) override {
    DTUNE_CHECK(root == 0);
  }
  void barrier(Duration /*timeout*/) override {}

  std::unique_ptr<Transfer> start_send(
      int /*to*/, uint32_t /*tag*/,
      std::span<const std::byte> /*data*/) override {
    throw Error(ErrorKind::internal, "a group of one: no rank to send to");
  }
  std::unique_ptr<Transfer> start_receive(
      int /*from*/, uint32_t /*tag*/, std::span<std::byte> /*data*/) override {
    throw Error(ErrorKind::internal, "a group of one: no rank to receive from");
  }
};

}  // namespace

std::unique_ptr<Collective> make_solo_group() {
  return std::make_unique<SoloCollective>();
}

}  // namespace dtune
