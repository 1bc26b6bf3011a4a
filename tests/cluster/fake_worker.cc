// The processes of a toy study.
//
//   cluster_fake_worker worker --connect E --slot K --threads N
//   cluster_fake_worker agent ENDPOINT STUDY SLOTS
//   cluster_fake_worker coordinator FOLDER STUDY SLOTS TRIALS MS
//
// `worker`: where the study's recipe text is not empty, it is a shell script
// that is tuned as a command. `coordinator` runs, or resumes, a study in
// FOLDER/study.db.
#include <cstdio>
#include <string>

#include "cluster/local_study.h"
#include "cluster/toy.h"
#include <unistd.h>

#include "dtune/cluster/worker.h"

namespace {

using namespace dtune;  // NOLINT: a program of the tests

Recipe command_recipe(const std::string& script) {
  Recipe recipe = toy::recipe(1);
  recipe.command = CommandSpec{};
  recipe.command->argv = {"sh", "-c", script, "sh", "{lr}"};
  return recipe;
}

int run_worker_process(int argc, char** argv, const std::atomic<int>& stop) {
  WorkerOptions options;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--connect") options.endpoint = value;
    if (name == "--slot") options.slot = std::stoi(value);
    if (name == "--seats") options.seats = std::stoi(value);
    if (name == "--threads") options.threads = std::stoi(value);
  }
  options.parse_recipe = [](const std::string& yaml, const Point&) {
    TrialRecipe out;
    if (!yaml.empty()) out.recipe = command_recipe(yaml);
    out.yaml = yaml;
    return out;
  };
  return run_worker(
      options,
      [](const Recipe& recipe) {
        return recipe.command ? make_command_runner() : toy::make_runner();
      },
      stop);
}

int run_coordinator_process(char** argv, const std::atomic<int>& stop) {
  toy::LocalStudy local(argv[2], argv[3], std::stoi(argv[4]),
                        toy::recipe(std::stoi(argv[5])),
                        {toy::point(0.5, "learn", std::stoi(argv[6]))});
  const StudyOutcome outcome = local.run(stop);
  std::printf("%s: %s\n", to_string(outcome.state), outcome.why.c_str());
  return outcome.state == StudyState::finished ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  return toy::run_process([&](const std::atomic<int>& stop) {
    if (what == "worker") return run_worker_process(argc, argv, stop);
    if (what == "agent" && argc == 5) {
      return run_agent(toy::agent_options("/proc/self/exe", argv[2], argv[3],
                                          std::stoi(argv[4])),
                       stop);
    }
    if (what == "coordinator" && argc == 7) {
      return run_coordinator_process(argv, stop);
    }
    std::fprintf(stderr, "see the head of fake_worker.cc\n");
    return 2;
  });
}
