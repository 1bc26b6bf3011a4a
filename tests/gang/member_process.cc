// A process that is one member of a gang, to be killed or stopped:
//   gang_member_process ENDPOINT MEMBER MEMBERS SAMPLES MILLISECONDS_A_ROUND
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "gang/toy_member.h"

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  dtune::RankInfo rank;
  rank.gang = "7.1";
  rank.endpoint = argv[1];
  rank.member = std::atoi(argv[2]);
  rank.members = std::atoi(argv[3]);
  dtune::gang::Begin begin;
  begin.end = begin.epoch_samples = std::atoi(argv[4]);
  begin.batch_size = 32;
  const std::chrono::milliseconds labour(std::atoi(argv[5]));
  const std::atomic<bool> never{false};
  dtune::GangClient client(rank);
  const auto seen =
      dtune::toy::run_step(client, begin, never, [&](const auto&) {
        std::this_thread::sleep_for(labour);
        client.gauge("stood_still", dtune::to_seconds(client.stood_still()));
      });
  return seen.ended.empty() ? 0 : 1;
}
