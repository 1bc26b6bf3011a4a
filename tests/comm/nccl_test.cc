#include "comm/groups.h"
#include <doctest/doctest.h>

using namespace dtune;  // NOLINT: a test

TEST_CASE("a group of GPUs is refused with a remedy where there is no NCCL") {
  if (has_nccl()) return;
  ThreadStore store;
  try {
    make_nccl_group({.name = "g"}, 0, store);
    FAIL("there is no NCCL");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::config);
    CHECK(std::string(e.what()).find("-DDTUNE_NCCL=ON") != std::string::npos);
  }
}

// NCCL wants a GPU for each rank, so one GPU shows a group of one.
TEST_CASE("a group of one GPU comes together and parts") {
  if (!has_nccl()) {
    MESSAGE("skipped: this build has no NCCL");
    return;
  }
  ThreadStore store;
  std::unique_ptr<Collective> group;
  try {
    group = make_nccl_group({.name = "g"}, 0, store);
  } catch (const Error& e) {
    MESSAGE("skipped: no CUDA device: ", std::string(e.what()));
    CHECK(std::string(e.what()).starts_with("group 'g': CUDA"));
    return;
  }
  CHECK(group->size() == 1);
  group->barrier(std::chrono::seconds(60));
}
