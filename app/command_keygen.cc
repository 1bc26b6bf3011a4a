// dtune keygen: the key pair that a study's coordinator is known by.

#include <filesystem>
#include <memory>
#include <optional>

#include "app/command.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/json.h"
#include "dtune/cluster/job_key.h"
#include "dtune/comm/endpoint.h"
#include "dtune/comm/keys.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

struct KeygenOptions {
  std::string output;
  bool job = false;
  std::optional<uint64_t> port;
};

void explain(const Console& console, const fs::path& secret,
             const fs::path& open) {
  console.line(
      fmt::format("{}  secret: stays on the machine that runs 'dtune run'\n"
                  "{}  public: tokens carry it",
                  secret.string(), open.string()));
  std::string address = "ADDRESS";
  const std::vector<std::string> all = interface_addresses();
  if (!all.empty()) address = all.front().substr(all.front().find(' ') + 1);
  console.notice(fmt::format(
      "next, here:          dtune run RECIPE --listen tcp://{0}:5555\n"
      "                     (it prints a token, good for one machine; more:\n"
      "                     dtune token RECIPE)\n"
      "on another machine:  dtune agent --connect tcp://{0}:5555 "
      "--token-file FILE",
      address));
  for (size_t i = 1; i < all.size(); ++i) {
    console.notice(fmt::format("another address of this machine: {}", all[i]));
  }
}

// A secret is not shown on a terminal.
int make_key_of_job(const Console& console, const KeygenOptions& options) {
  JobKey key = make_job_key();
  key.port = static_cast<int>(options.port.value_or(0));
  if (!options.output.empty()) {
    write_job_key(options.output, key);
  } else if (console.out_terminal) {
    throw Error(ErrorKind::config,
                "--job: the key is a secret (write it to a file: --output "
                "FILE, or send it on: dtune keygen --job | srun --input=all "
                "dtune run RECIPE --job-key -)");
  } else {
    console.print(key.text());
  }
  return kExitOk;
}

int make_keys(const Console& console, const KeygenOptions& options) {
  if (options.job) return make_key_of_job(console, options);
  const fs::path folder = options.output.empty() ? config_directory()
                                                 : fs::absolute(options.output);
  const fs::path secret = folder / "dtune.key";
  const fs::path open = folder / "dtune.pub";
  const CurveKeys keys = generate_curve_keys();
  write_secret_key(secret, keys);
  write_public_key(open, keys.public_key);
  if (console.json) {
    console.print(
        json_text(nlohmann::ordered_json{{"secret_key_file", secret.string()},
                                         {"public_key_file", open.string()},
                                         {"public_key", keys.public_key}},
                  2) +
        '\n');
  } else {
    explain(console, secret, open);
  }
  return kExitOk;
}

}  // namespace

Action declare_keygen(Arguments& arguments) {
  auto options = std::make_shared<KeygenOptions>();
  arguments.describe(
      "Agents on other machines know the coordinator by this pair of keys, and "
      "everything between them is encrypted. Once per user is enough; a pair "
      "in the folder of a recipe is used for the studies there.");
  arguments.option("--output", options->output, "DIR",
                   "Where dtune.key and dtune.pub go (default: "
                   "~/.config/dtune); with --job the file (default: stdout).",
                   Complete::folder);
  arguments.flag("--job", options->job,
                 "A key for one job of an engine whose nodes share no folder: "
                 "for 'dtune run --job-key' on all of them.");
  arguments.option("--port", options->port, "N",
                   "With --job: where rank 0 listens.", {0, 65535});
  arguments.json();
  arguments.example("dtune keygen", "once, before agents can join");
  arguments.example(
      "dtune keygen --job --port 5555 | srun --input=all dtune run recipe.yaml "
      "--job-key -",
      "ranks that share no folder get their key through stdin");
  return [options](const Console& console) {
    return make_keys(console, *options);
  };
}

}  // namespace dtune
