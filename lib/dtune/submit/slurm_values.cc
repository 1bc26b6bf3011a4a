#include <algorithm>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/study/slurm_address.h"
#include "dtune/submit/engine_values.h"
#include "dtune/submit/value_forms.h"

namespace dtune {
namespace {

constexpr int kMostSlurmNodes = 10'000;

// Keys of submission alone: nodes of one job; where and how long the
// coordinator of agents runs; how often a job starts again at most.
const std::vector<std::string> kJobKeys = {"nodes", "head", "head_time",
                                           "restarts"};

// What is no business of the job that is submitted, or of its agents.
EngineAddress without_keys(EngineAddress to,
                           const std::vector<std::string>& keys) {
  for (const std::string& key : keys) to.values.erase(key);
  return to;
}

// What the coordinator asks for, as an address of `nodes:`.
std::string agents_address(const EngineAddress& to) {
  std::string text = "slurm://" + to.place;
  char sign = '?';
  for (const auto& [key, value] : without_keys(to, kJobKeys).values) {
    text += fmt::format("{}{}=", sign, key);
    for (const char c : value) {
      const bool special = c == '%' || c == '&' || c == '"' || c == '\\';
      text += special ? fmt::format("%{:02X}", c) : std::string(1, c);
    }
    sign = '&';
  }
  return text;
}

// The job with the coordinator of agents needs their partition, and no more of
// what they need than leave to run there.
EngineAddress job_of_coordinator(const EngineAddress& to) {
  EngineAddress head;
  head.engine = to.engine;
  head.text = to.text;
  head.place = to.value("head").empty() ? to.place : to.value("head");
  if (!to.value("head_time").empty())
    head.values["time"] = to.value("head_time");
  for (const char* key : {"account", "qos", "reservation", "cluster"}) {
    if (!to.value(key).empty()) head.values[key] = to.value(key);
  }
  return head;
}

std::string directives(const EngineAddress& to) {
  std::string text;
  for (const std::string& option : sbatch_options(to)) {
    text += (text.empty() ? "" : " ") + plain_value(to, "sbatch", option);
  }
  return text;
}

// In a file name of sbatch's "%" begins a pattern.
std::string without_patterns(const std::string& path) {
  std::string out;
  for (const char c : path) out += c == '%' ? "%%" : std::string(1, c);
  return out;
}

void check_shape(const EngineAddress& to) {
  if (to.value("max").empty() || to.value("nodes").empty()) return;
  throw Error(
      ErrorKind::config,
      fmt::format("'{}': has both nodes and max (nodes=N is one job on N "
                  "nodes; max=N agents come and go)",
                  to.text));
}

// Seconds before the end of a job: a quarter of a short one.
int64_t warning_before_end(const EngineAddress& to, const std::string& time) {
  constexpr int64_t kUsual = 180;
  return std::min(whole_seconds(to, time, 4 * kUsual) / 4, kUsual);
}

}  // namespace

std::vector<std::string> slurm_submit_keys() {
  std::vector<std::string> keys = kJobKeys;
  keys.insert(keys.end(), slurm_keys().begin(), slurm_keys().end());
  return keys;
}

TemplateValues slurm_values(const SubmitJob& job) {
  const EngineAddress& to = job.to;
  check_shape(to);
  check_slurm_address(without_keys(to, kJobKeys));
  TemplateValues values = common_values(job);
  const bool elastic = !to.value("max").empty();
  const int nodes = engine_number(to, "nodes", 1, 1, kMostSlurmNodes);
  const auto text = [&](const char* name, const std::string& value) {
    values.texts[name] = value;
  };
  text("elastic", elastic ? "yes" : "");
  text("many", nodes > 1 ? "yes" : "");
  text("single", !elastic && nodes == 1 ? "yes" : "");
  text("alone", nodes > 1 ? "" : "yes");
  text("nodes", std::to_string(nodes));
  text("options", directives(elastic ? job_of_coordinator(to)
                                     : without_keys(to, kJobKeys)));
  text("warning", std::to_string(warning_before_end(
                      to, to.value(elastic ? "head_time" : "time"))));
  text("restarts",
       std::to_string(engine_number(to, "restarts", 100, 0, 10'000)));
  text("log_pattern", without_patterns(values.texts["log"]));
  text("script", (job.folder / (job.name + ".sh")).string());
  text("job_file", (job.folder / (job.name + ".job")).string());
  if (elastic) {
    values.lists["command"].insert(
        values.lists["command"].end(),
        {"--set", fmt::format("nodes=[\"{}\"]", agents_address(to))});
  }
  return values;
}

}  // namespace dtune
