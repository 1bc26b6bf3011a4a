#include "dtune/cluster/slurm_launcher.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "dtune/cluster/ssh_launcher.h"

namespace dtune {
namespace {

constexpr int kMostAgents = 1000;
constexpr const char* kIdle = "2m";
constexpr const char* kPoll = "30s";

const std::array<std::string, 15>& all_keys() {
  static const std::array<std::string, 15> keys = {
      "max",         "time",     "idle",    "poll", "gres",
      "cpus",        "mem",      "account", "qos",  "constraint",
      "reservation", "nodelist", "exclude", "gpus", "cluster"};
  return keys;
}

// What sbatch calls a key.
std::string sbatch_name(const std::string& key) {
  if (key == "cpus") return "cpus-per-task";
  if (key == "cluster") return "clusters";
  return key;
}

bool is_own_key(const std::string& key) {
  return key == "max" || key == "time" || key == "idle" || key == "poll";
}

Duration duration_of(const EngineAddress& address, const std::string& key,
                     const std::string& otherwise) {
  const std::string text = address.value(key);
  try {
    return parse_duration(text.empty() ? otherwise : text);
  } catch (const Error& e) {
    throw Error(ErrorKind::config,
                fmt::format("'{}': {}: {}", address.text, key, e.what()));
  }
}

ElasticOptions elastic_options(const EngineAddress& address) {
  ElasticOptions options;
  options.name = "slurm://" + address.place;
  options.most = engine_number(address, "max", 1, 1, kMostAgents);
  options.listing_interval = duration_of(address, "poll", kPoll);
  return options;
}

// Seconds before the end at which a job gets USR2; Slurm may be a quarter of a
// minute early.
int warning(const EngineAddress& address) {
  constexpr double kMost = 60;
  const double time = to_seconds(lifetime_of(address));
  return static_cast<int>(time > 0 ? std::min(kMost, time / 4) : kMost);
}

struct SlurmWord {
  std::initializer_list<const char*> any;
  const char* remedy;
  bool lasts;
};

// Slurm's own words, the same for many versions.
const SlurmWord kSlurmWords[] = {
    {{"invalid partition", "Invalid partition"},
     "sinfo lists the partitions",
     true},
    {{"Invalid generic resource", "Invalid GRES"},
     "sinfo -o '%P %G' lists the partitions' gres",
     true},
    {{"Invalid account", "account or partition"},
     "sacctmgr show assoc lists your accounts",
     true},
    {{"Invalid qos", "Invalid QOS"}, "sacctmgr show qos lists them", true},
    {{"time limit is invalid", "time limit specification"},
     "write the time as 30m or 4h, and below the partition's limit",
     true},
    {{"node configuration is not available", "Invalid feature",
      "More processors requested", "Memory required by task"},
     "ask for less, or for another partition",
     true},
    {{"not permitted", "Access denied", "User's group"},
     "ask who runs the cluster for access",
     true},
    {{"unrecognized option", "invalid option"},
     "this Slurm does not know it; leave the key out",
     true},
    {{"submit limit", "Limit", "temporarily unable"},
     "it is tried again; fewer jobs: max=",
     false},
    {{"Unable to contact", "timed out", "Connection refused", "Socket"},
     "the controller does not answer; it is tried again",
     false},
};

bool holds_any(const std::string& words,
               std::initializer_list<const char*> any) {
  return std::any_of(any.begin(), any.end(), [&words](const char* text) {
    return words.find(text) != std::string::npos;
  });
}

// The last line that says something, without the program's prefix.
std::string slurm_line(const std::string& words) {
  std::string last;
  std::istringstream lines(words);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  }
  return last.empty() ? "Slurm said nothing" : last;
}

}  // namespace

std::span<const std::string> slurm_keys() { return all_keys(); }

void check_slurm_address(const EngineAddress& address) {
  check_engine_keys(address, slurm_keys());
  for (const auto& [key, value] : address.values) {
    if (key == "time" || key == "idle" || key == "poll") {
      duration_of(address, key, value);
    }
  }
  engine_number(address, "max", 1, 1, kMostAgents);
  engine_number(address, "cpus", 1, 1, 4096);
}

Duration idle_of(const EngineAddress& address) {
  return duration_of(address, "idle", kIdle);
}

Duration lifetime_of(const EngineAddress& address) {
  return duration_of(address, "time", "0");
}

std::vector<std::string> sbatch_options(const EngineAddress& address) {
  std::vector<std::string> out;
  if (!address.place.empty()) out.push_back("--partition=" + address.place);
  const Duration time = lifetime_of(address);
  if (time.count() > 0) {
    const auto minutes = std::chrono::ceil<std::chrono::minutes>(time).count();
    out.push_back(fmt::format("--time={}", minutes));
  }
  for (const auto& [key, value] : address.values) {
    if (is_own_key(key)) continue;
    out.push_back(fmt::format("--{}={}", sbatch_name(key), value));
  }
  return out;
}

std::vector<std::string> without_slurm_variables() {
  std::vector<std::string> words = {"env"};
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    const bool of_job =
        name.starts_with("SLURM_") || name.starts_with("SBATCH_");
    if (!of_job || name == "SLURM_CONF") continue;
    words.insert(words.end(), {"-u", name});
  }
  return words;
}

LaunchFailure explain_slurm(const std::string& name, const ExitStatus& status,
                            const std::string& words) {
  constexpr int kNoProgram = 127;
  if (status.exit_code == kNoProgram) {
    return {fmt::format("{}: {} (are Slurm's commands in PATH here?)", name,
                        slurm_line(words)),
            true};
  }
  const std::string said = slurm_line(words);
  for (const SlurmWord& word : kSlurmWords) {
    if (!holds_any(said, word.any)) continue;
    return {fmt::format("{}: {} ({})", name, said, word.remedy), word.lasts};
  }
  return {fmt::format("{}: {} ({}; it is tried again)", name, said,
                      describe(status)),
          false};
}

SlurmLauncher::SlurmLauncher(SlurmLauncherOptions options, const Clock& clock)
    : ElasticLauncher(elastic_options(options.address), clock),
      options_(std::move(options)) {}

SlurmLauncher::~SlurmLauncher() { finish(std::chrono::seconds(10)); }

EngineCommand SlurmLauncher::command(Action action) {
  EngineCommand out{without_slurm_variables(), ""};
  const std::string name = "dtune-" + options_.study_id;
  std::vector<std::string> words;
  if (action == Action::submit) {
    words = submission();
  } else if (action == Action::list) {
    words = {"squeue", "-h", "-r", "-n", name, "-o", "%A|%t|%r"};
  } else {
    words = {"scancel", "-n", name};
  }
  const std::string cluster = options_.address.value("cluster");
  if (!cluster.empty() && action != Action::submit) {
    words.insert(words.begin() + 1, {"-M", cluster});
  }
  out.argv.insert(out.argv.end(), words.begin(), words.end());
  return out;
}

std::vector<std::string> SlurmLauncher::submission() const {
  std::vector<std::string> words = {
      "sbatch",     "--parsable",   "--job-name=dtune-" + options_.study_id,
      "--ntasks=1", "--no-requeue", "--signal=B:USR2@60"};
  words.push_back("--output=" + (options_.logs / "slurm-%j.log").string());
  for (std::string& word : sbatch_options(options_.address)) {
    words.push_back(std::move(word));
  }
  std::string script = "exec";
  for (const std::string& word : options_.agent) {
    script += " " + shell_word(word);
  }
  words.push_back("--wrap=" + script);
  return words;
}

// "123" or "123;cluster", after what plug-ins of the site say.
std::string SlurmLauncher::submitted(const std::string& words) {
  const std::string line = slurm_line(words);
  const std::string job = line.substr(0, line.find(';'));
  const bool number =
      !job.empty() && std::all_of(job.begin(), job.end(), [](char c) {
        return std::isdigit(static_cast<unsigned char>(c)) != 0;
      });
  return number ? job : "";
}

std::vector<ListedJob> SlurmLauncher::listed(const std::string& words) {
  std::vector<ListedJob> jobs;
  std::istringstream lines(words);
  for (std::string line; std::getline(lines, line);) {
    const size_t state = line.find('|');
    const size_t reason = line.find('|', state + 1);
    if (state == std::string::npos || reason == std::string::npos) continue;
    const std::string short_state = line.substr(state + 1, reason - state - 1);
    ListedJob job;
    job.job = line.substr(0, state);
    // Pending, requeued, held back by its configuration; else it has started.
    job.pending = short_state == "PD" || short_state == "RQ" ||
                  short_state == "CF" || short_state == "RH";
    job.reason = line.substr(reason + 1);
    if (job.reason == "None") job.reason.clear();
    jobs.push_back(std::move(job));
  }
  return jobs;
}

LaunchFailure SlurmLauncher::explain(Action, const ExitStatus& status,
                                     const std::string& words) {
  return explain_slurm("slurm://" + options_.address.place, status, words);
}

}  // namespace dtune
