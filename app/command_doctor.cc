// dtune doctor: what this machine has, and a remedy for what it lacks.

#include <algorithm>
#include <memory>
#include <utility>

#include "app/command.h"
#include "app/doctor.h"
#include "app/patience.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/json.h"
#include "dtune/base/port_range.h"
#include "dtune/report/text.h"

namespace dtune {
namespace {

std::string finding_text(const Finding& finding, const TextStyle& style) {
  const Color color = finding.health == Health::good   ? Color::green
                      : finding.health == Health::note ? Color::yellow
                                                       : Color::red;
  std::string text =
      paint(style, color, pad_right(to_string(finding.health), 9)) +
      pad_right(finding.topic, 10) + printable(finding.what) + '\n';
  if (!finding.remedy.empty()) {
    text += fmt::format("{:19}-> {}\n", "", finding.remedy);
  }
  return text;
}

std::string findings_json(const std::vector<Finding>& findings, bool healthy) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"topic", finding.topic},
                    {"health", to_string(finding.health)},
                    {"what", finding.what},
                    {"remedy", finding.remedy}});
  }
  return json_text(
             nlohmann::ordered_json{{"healthy", healthy}, {"findings", list}},
             2) +
         '\n';
}

struct DoctorOptions {
  std::string connect;
  std::string token_file;
  std::string ports;
  std::string to;
};

int examine(const Console& console, const DoctorOptions& options) {
  for (const auto& [name, given] :
       {std::pair("--token-file", &options.token_file),
        std::pair("--ports", &options.ports)}) {
    if (given->empty() || !options.connect.empty()) continue;
    throw Error(
        ErrorKind::config,
        fmt::format("{}: has no effect without --connect ENDPOINT", name));
  }
  use_ports(options.ports);
  const std::vector<Finding> findings = [&] {
    if (!options.connect.empty()) {
      return examine_connection(options.connect, options.token_file);
    }
    if (!options.to.empty()) return examine_engine(options.to);
    const Patience patience(
        [&console] { console.notice("measuring this machine ..."); });
    return examine_machine();
  }();
  const bool healthy = std::none_of(
      findings.begin(), findings.end(),
      [](const Finding& found) { return found.health == Health::problem; });
  if (console.json) {
    console.print(findings_json(findings, healthy));
  } else {
    for (const Finding& finding : findings) {
      console.print(finding_text(finding, style_of(console)));
    }
  }
  return healthy ? kExitOk : 1;
}

}  // namespace

Action declare_doctor(Arguments& arguments) {
  auto options = std::make_shared<DoctorOptions>();
  arguments.describe(
      "Checks what training needs: cores, memory, disk, LibTorch and the "
      "speed of its BLAS, CUDA, data sets. Exit code 1 if there is a problem.");
  arguments.option("--connect", options->connect, "ENDPOINT",
                   "Check the way to a coordinator instead: address, port, "
                   "keys, version.");
  arguments.option("--token-file", options->token_file, "FILE",
                   "With --connect: whether this token is good there; it is "
                   "not used up.",
                   Complete::file);
  arguments.option(
      "--ports", options->ports, "A-B",
      "With --connect: whether ranks of this machine can listen on "
      "these, as 'dtune agent --ports' has them do.");
  arguments.option("--to", options->to, "ENGINE",
                   "Check the way to an engine instead, as 'dtune submit --to' "
                   "takes it from this folder: slurm://PARTITION, ...");
  arguments.json();
  arguments.example("dtune doctor", "why is it slow?");
  arguments.example("dtune doctor --connect tcp://10.0.0.1:5555",
                    "why can this machine not join?");
  arguments.example("dtune doctor --to 'slurm://gpu?gres=gpu:1'",
                    "would Slurm take such a job?");
  return
      [options](const Console& console) { return examine(console, *options); };
}

}  // namespace dtune
