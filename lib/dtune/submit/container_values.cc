#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/json.h"
#include "dtune/base/text.h"
#include "dtune/submit/engine_values.h"
#include "dtune/submit/value_forms.h"

namespace dtune {
namespace {

constexpr const char* kProgram = "/usr/local/bin/dtune";
constexpr const char* kKeyFile = "/etc/dtune/key/job.key";
constexpr int kMostNodes = 10'000;

std::string or_else(const std::string& value, const std::string& otherwise) {
  return value.empty() ? otherwise : value;
}

void add_set(const SubmitJob& job, std::vector<std::string>& command) {
  for (const std::string& one : job.set) {
    command.insert(command.end(), {"--set", one});
  }
}

// The Service's name for the coordinator's pod.
std::string coordinator_address(const SubmitJob& job) {
  return fmt::format("tcp://{0}-0.{0}:{1}", job.name, kSubmitPort);
}

// What the pods of coordinator and agents have in common.
TemplateValues pod_values(const SubmitJob& job) {
  const EngineAddress& to = job.to;
  TemplateValues values = common_values(job);
  values.texts["image"] =
      needed_value(to, "image", "registry.example.org/dtune:1");
  values.texts["cpu"] = or_else(to.value("cpu"), "1");
  values.texts["memory"] = or_else(to.value("memory"), "2Gi");
  values.texts["storage"] = or_else(to.value("storage"), "10Gi");
  values.texts["secret"] = job.name + "-agents";
  for (const char* key : {"gpu", "pull", "data", "queue", "class"}) {
    values.texts[key] = to.value(key);
  }
  return values;
}

nlohmann::ordered_json set_object(const SubmitJob& job) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const std::string& one : job.set) {
    const size_t equals = one.find('=');
    object[one.substr(0, equals)] = one.substr(equals + 1);
  }
  return object;
}

}  // namespace

TemplateValues kubernetes_values(const SubmitJob& job) {
  TemplateValues values = pod_values(job);
  values.texts["recipe"] = job.recipe_text;
  std::string whole = "dtune submit puts the key here";
  std::string of_agents = whole;
  if (job.key) {
    whole = job.key->text();
    JobKey key = job.key->for_agents();
    key.endpoint = coordinator_address(job);
    of_agents = key.text();
  }
  values.texts["job_key"] = base64(whole);
  values.texts["agents_key"] = base64(of_agents);
  values.lists["command"] = {kProgram, "pod"};
  return values;
}

TemplateValues kubernetes_agent_values(const SubmitJob& job, int number) {
  TemplateValues values = pod_values(job);
  values.texts["agent"] = fmt::format("{}-agent-{}", job.name, number);
  values.texts["agents_key"] = "";  // a Secret of all agents holds it
  values.lists["agent_command"] = {kProgram, "agent", "--job-key", kKeyFile};
  return values;
}

TemplateValues sagemaker_values(const SubmitJob& job) {
  const EngineAddress& to = job.to;
  TemplateValues values = common_values(job);
  auto& texts = values.texts;
  if (to.place.empty()) {
    throw Error(ErrorKind::config,
                fmt::format("'{}': the role is missing "
                            "(sagemaker://arn:aws:iam::ACCOUNT:role/NAME?...)",
                            to.text));
  }
  texts["place"] = to.place;
  texts["image"] =
      needed_value(to, "image", "ACCOUNT.dkr.ecr.REGION.amazonaws.com/dtune:1");
  std::string bucket = needed_value(to, "s3", "s3://BUCKET/PREFIX");
  if (!bucket.starts_with("s3://")) bucket = "s3://" + bucket;
  while (bucket.ends_with('/')) bucket.pop_back();
  const std::string folder = bucket + "/" + job.name;
  texts["input"] = folder + "/input";
  texts["output"] = folder + "/output";
  texts["checkpoints"] = folder + "/checkpoints";
  texts["instance"] = or_else(to.value("instance"), "ml.m5.xlarge");
  texts["count"] = std::to_string(engine_number(to, "count", 1, 1, 100));
  texts["volume"] = std::to_string(engine_number(to, "volume", 30, 1, 16384));
  constexpr int64_t kDay = 24 * 3600;
  texts["seconds"] = std::to_string(whole_seconds(to, to.value("time"), kDay));
  for (const char* key : {"kms", "spot", "data"}) texts[key] = to.value(key);
  texts["set_object"] = json_text(set_object(job));
  return values;
}

TemplateValues rank_values(const SubmitJob& job) {
  const EngineAddress& to = job.to;
  TemplateValues values = common_values(job);
  auto& texts = values.texts;
  texts["place"] = plain_value(to, "queue", to.place);
  texts["account"] = plain_value(to, "account", to.value("account"));
  texts["nodes"] = std::to_string(engine_number(to, "nodes", 1, 1, kMostNodes));
  texts["cpus"] = std::to_string(engine_number(to, "cpus", 1, 1, 4096));
  const std::string time = to.value("time");
  texts["time"] = time.empty() ? "" : hours_minutes_seconds(to, time);
  // LSF has no seconds.
  texts["hours_minutes"] = texts["time"].substr(
      0, texts["time"].empty() ? 0 : texts["time"].size() - 3);
  texts["seconds"] = std::to_string(whole_seconds(to, time, 1));
  for (const char* key : {"mem", "gpu"}) {
    texts[key] = plain_value(to, key, to.value(key));
  }
  // HTCondor's own quotes: a single quote holds a word, twice is one of it.
  std::string& arguments = texts["arguments"];
  for (size_t i = 1; i < values.lists["command"].size(); ++i) {
    std::string word;
    for (const char c : values.lists["command"][i]) {
      word += c == '\'' ? "''" : c == '"' ? "\"\"" : std::string(1, c);
    }
    arguments += (i > 1 ? " '" : "'") + word + "'";
  }
  return values;
}

TemplateValues container_values(const SubmitJob& job) {
  const EngineAddress& to = job.to;
  TemplateValues values = common_values(job);
  auto& texts = values.texts;
  const bool sky = to.engine == "skypilot";
  texts["place"] = to.place;
  texts["nodes"] = std::to_string(engine_number(to, "nodes", 1, 1, kMostNodes));
  texts["cpus"] = std::to_string(engine_number(to, "cpus", 2, 1, 4096));
  texts["mem"] = or_else(to.value("mem"), "4096");
  texts["gpu"] = to.value("gpu");
  texts["accelerators"] = to.value("accelerators");
  texts["image"] = needed_value(to, "image", "registry.example.org/dtune:1");
  texts["docker"] = "docker:" + texts["image"];
  texts["filesystem"] =
      sky ? "" : needed_value(to, "filesystem", "fs-0123456789abcdef0");
  std::vector<std::string>& command = values.lists["command"];
  command = {kProgram, "run",
             sky ? "/study-input/recipe.yaml" : "/study/recipe.yaml", "--db",
             "/study/study.db"};
  add_set(job, command);
  for (const std::string& word : command) {
    texts["shell_command"] +=
        (texts["shell_command"].empty() ? "" : " ") + shell_word(word);
  }
  return values;
}

}  // namespace dtune
