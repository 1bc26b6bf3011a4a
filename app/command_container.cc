// dtune pod, train: what runs in containers of Kubernetes and SageMaker, where
// no shell is. Users do not type them.

#include <algorithm>
#include <memory>
#include <thread>

#include "app/command.h"
#include "app/signals.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/file.h"
#include "dtune/base/json.h"
#include "dtune/cluster/job_environment.h"
#include "dtune/comm/keys.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

using RunWords = std::vector<std::string>;

// dtune run in this process.
int run_in_container(const Console& console, const RunWords& words) {
  const Command* run = find_command("run");
  DTUNE_CHECK(run != nullptr);
  Arguments arguments("dtune run", run->summary);
  const Action action = run->declare(arguments);
  arguments.parse(words);
  return action(console);
}

// A StatefulSet starts its pod again however it ends. What is final stays, so
// that it can be looked at; all else is worth another start.
bool is_final(int code) { return code >= kExitOk && code <= kExitStudyFailed; }

int run_pod(const Console& console) {
  int code = kExitOk;
  try {
    code = run_in_container(
        console, {"/etc/dtune/recipe/recipe.yaml", "--db", "/study/study.db",
                  "--job-key", "/etc/dtune/key/job.key"});
  } catch (const Error& error) {
    code = exit_code(error.kind());
    if (!is_final(code)) throw;
    console.error(error);
  }
  if (!is_final(code)) return code;
  console.notice(
      fmt::format("the run has ended with exit code {}; the pod stays until "
                  "'dtune cancel'",
                  code));
  const StopSignals signals(true);
  while (signals.stop() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return code;
}

// Where SageMaker puts things: docs.aws.amazon.com/sagemaker, "How Amazon
// SageMaker Processes Training Output" and "... Provides Training Information".
const fs::path kMl = "/opt/ml";
const fs::path kChannels = kMl / "input" / "data";
const fs::path kDatabase = kMl / "checkpoints" / "study.db";

// {"train.epochs": "4"}: each is a --set; the engine's own begin with
// sagemaker.
void add_hyperparameters(RunWords& words) {
  constexpr uint64_t kMostBytes = 1 << 20;
  const fs::path file = kMl / "input" / "config" / "hyperparameters.json";
  if (!fs::exists(file)) return;
  const auto json = try_parse_json(read_file(file, kMostBytes));
  if (!json.is_object()) {
    throw Error(ErrorKind::config, file.string() + ": is not a JSON object");
  }
  for (const auto& [key, value] : json.items()) {
    if (key.starts_with("sagemaker_")) continue;
    const std::string text =
        value.is_string() ? value.get<std::string>() : json_text(value);
    words.insert(words.end(), {"--set", fmt::format("{}={}", key, text)});
  }
}

// The one channel beside dtune's own, or that of the name "data".
void add_data(RunWords& words) {
  std::vector<fs::path> channels;
  for (const auto& entry : fs::directory_iterator(kChannels)) {
    if (entry.is_directory() && entry.path().filename() != "dtune") {
      channels.push_back(entry.path());
    }
  }
  const auto named = std::ranges::find(channels, kChannels / "data");
  const bool said = std::ranges::any_of(words, [](const std::string& word) {
    return word.starts_with("data.path=");
  });
  if (said || channels.empty()) return;
  if (named == channels.end() && channels.size() > 1) {
    throw Error(ErrorKind::config,
                "several channels: which one has the data? (call it 'data', or "
                "set the hyperparameter data.path)");
  }
  const fs::path& data = named == channels.end() ? channels[0] : *named;
  words.insert(words.end(), {"--set", "data.path=" + data.string()});
}

// Channels are readable by all users of the container; a key is not.
void add_key(RunWords& words, const fs::path& private_folder) {
  constexpr uint64_t kMostBytes = 1 << 16;
  const fs::path given = kChannels / "dtune" / "job.key";
  if (!fs::exists(given)) return;
  const fs::path file = private_folder / "job.key";
  write_private_file(file, read_file(given, kMostBytes), true);
  words.insert(words.end(), {"--job-key", file.string()});
}

// SageMaker shows the first 1,024 characters.
void write_cause(const std::string& cause) {
  std::error_code error;
  fs::create_directories(kMl / "output", error);
  write_file_atomic(kMl / "output" / "failure", cause.substr(0, 1024) + '\n',
                    false);
}

void keep_model() {
  const fs::path model =
      kMl / "checkpoints" / "study.files" / "model.safetensors";
  if (!fs::exists(model)) return;
  fs::create_directories(kMl / "model");
  fs::copy_file(model, kMl / "model" / model.filename(),
                fs::copy_options::overwrite_existing);
}

int run_training(const Console& console) {
  const TemporaryDirectory secrets;
  RunWords words = {(kChannels / "dtune" / "recipe.yaml").string(), "--db",
                    kDatabase.string()};
  add_hyperparameters(words);
  add_data(words);
  add_key(words, secrets.path());
  fs::create_directories(kDatabase.parent_path());
  const int code = run_in_container(console, words);
  if (job_environment().rank == 0) keep_model();
  if (code == kExitExpectationFailed) {
    write_cause("an expectation of 'expect:' failed: see the log");
  } else if (code != kExitOk) {
    write_cause(
        fmt::format("the run ended with exit code {}: see the log", code));
  }
  return code;
}

int train_for_sagemaker(const Console& console) {
  if (!fs::is_directory(kChannels)) {
    throw Error(ErrorKind::config,
                "dtune train: there is no /opt/ml/input/data (SageMaker runs "
                "this command; you want dtune run)");
  }
  try {
    return run_training(console);
  } catch (const std::exception& error) {
    write_cause(error.what());
    throw;
  }
}

}  // namespace

Action declare_pod(Arguments& arguments) {
  arguments.describe(
      "Runs a study in a pod of Kubernetes; 'dtune submit' has it started.");
  return [](const Console& console) { return run_pod(console); };
}

Action declare_train(Arguments& arguments) {
  arguments.describe(
      "Runs a study as SageMaker lays it out below /opt/ml; 'dtune submit' has "
      "it started. Hyperparameters are --set, a channel is data.path, the "
      "model "
      "goes to /opt/ml/model and the cause of a failure to "
      "/opt/ml/output/failure.");
  return [](const Console& console) { return train_for_sagemaker(console); };
}

}  // namespace dtune
