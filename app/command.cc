#include "app/command.h"

#include <algorithm>

namespace dtune {

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      {"run", "Tune", "Tune and train what a recipe describes", declare_run},
      {"resume", "Tune", "Go on with a study, with more budget if asked",
       declare_resume},
      {"submit", "Tune", "Give a study to Slurm, Kubernetes or SageMaker",
       declare_submit},
      {"cancel", "Tune", "Remove a submitted study from its engine",
       declare_cancel},
      {"init", "Tune", "Write a commented recipe to start from", declare_init},
      {"validate", "Tune", "Check a recipe", declare_validate},
      {"plan", "Tune", "Show what a recipe would run, before spending",
       declare_plan},
      {"show-batch", "Tune", "Draw training images as a network gets them",
       declare_show_batch},
      {"ask", "Tune", "Ask for a point to try by other means", declare_ask},
      {"tell", "Tune", "Report the outcome of a point from 'dtune ask'",
       declare_tell},
      {"status", "Look", "Show how far a study is", declare_status},
      {"attach", "Look", "Show the log of a study that was submitted",
       declare_attach},
      {"best", "Look", "Show the best point of a study", declare_best},
      {"show", "Look", "Show one trial and why it ended", declare_show},
      {"explain", "Look", "Explain the course of a study or a trial",
       declare_explain},
      {"report", "Look", "Write a study as one HTML page", declare_report},
      {"serve", "Look", "Show that page live, in a browser of this machine",
       declare_serve},
      {"replay", "Look", "Repeat every decision of a study, and compare",
       declare_replay},
      {"ls", "Look", "List the studies below a folder", declare_ls},
      {"export", "Look", "Export a study or its model for other programs",
       declare_export},
      {"import", "Look", "Continue a study of another tuner", declare_import},
      {"eval", "Use", "Evaluate a model again", declare_eval},
      {"predict", "Use", "Classify images with a model", declare_predict},
      {"record", "Use", "Train a grid and write its curves", declare_record},
      {"simulate", "Use", "Compare ways of tuning on recorded curves",
       declare_simulate},
      {"surrogate", "Use", "Train or evaluate the predictors of curves",
       declare_surrogate},
      {"speeds", "Use", "Train or evaluate predictors of ranks' speeds",
       declare_speeds},
      {"bench", "Use", "Measure training by several ranks, and transports",
       declare_bench},
      {"doctor", "Use", "Check this machine, with a remedy for each problem",
       declare_doctor},
      {"help", "Use", "Show a command's help, or a topic at length",
       declare_help},
      {"image", "Use", "Write this program as a container image",
       declare_image},
      {"keygen", "Use", "Make the keys that agents of other machines need",
       declare_keygen},
      {"token", "Use", "Let machines join a running study, or revoke them",
       declare_token},
      {"completion", "Use", "Print a completion script for a shell",
       declare_completion},
      {"agent", "Use", "Serve a study with this machine's slots",
       declare_agent},
      {"worker", "", "Train trials in one slot", declare_worker},
      {"rank", "", "Train as one rank of a benchmark", declare_rank},
      {"pod", "", "Run a study in a pod of Kubernetes", declare_pod},
      {"train", "", "Run a study as SageMaker lays it out", declare_train},
      {"guard", "", "Kill what a dead agent has left behind", declare_guard},
  };
  return all;
}

std::vector<DeclaredCommand> declared_commands() {
  std::vector<DeclaredCommand> declared;
  for (const Command& command : commands()) {
    if (command.group.empty()) continue;
    Arguments arguments("dtune " + command.name, command.summary);
    const Action action = command.declare(arguments);
    declared.push_back({command.name, command.summary, arguments.infos()});
  }
  return declared;
}

const Command* find_command(const std::string& name) {
  const std::vector<Command>& all = commands();
  const auto it = std::find_if(
      all.begin(), all.end(),
      [&](const Command& command) { return command.name == name; });
  return it == all.end() ? nullptr : &*it;
}

}  // namespace dtune
