#include <filesystem>

#include "comm/groups.h"
#include "skip.h"
#include <doctest/doctest.h>

using namespace dtune;  // NOLINT: a test

TEST_CASE("a group of GPUs is refused with a remedy where there is no NCCL") {
  if (has_nccl()) return skip("this build has NCCL");
  ThreadStore store;
  try {
    make_nccl_group({.name = "g"}, 0, store);
    FAIL("there is no NCCL");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::config);
    CHECK(std::string(e.what()).find("-DDTUNE_NCCL=ON") != std::string::npos);
  }
}

// NCCL needs a GPU for each rank, so one GPU allows a group of one.
TEST_CASE("a group of one GPU comes together and parts") {
  if (!has_nccl()) return skip("this build has no NCCL");
  if (!std::filesystem::exists("/dev/nvidiactl")) return skip("no CUDA device");
  ThreadStore store;
  const std::unique_ptr<Collective> group =
      make_nccl_group({.name = "g"}, 0, store);
  CHECK(group->size() == 1);
  group->barrier(std::chrono::seconds(60));
  // On the default stream.
  CHECK(group->queues());
  group->queue_all_reduce({}, nullptr, std::chrono::seconds(60));
  group->settle(std::chrono::seconds(60));
}

TEST_CASE("NCCL's group reports that a machine has no GPU") {
  if (!has_nccl()) return skip("this build has no NCCL");
  if (std::filesystem::exists("/dev/nvidiactl")) return skip("there is a GPU");
  ThreadStore store;
  try {
    make_nccl_group({.name = "g"}, 0, store);
    FAIL("there is no GPU");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).starts_with("group 'g': CUDA"));
  }
}
