// What is between this machine and an engine (dtune doctor --to).

#include <filesystem>

#include "app/doctor.h"
#include "app/machine.h"
#include <fmt/format.h>
#include <sys/statfs.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/base/tcp_socket.h"
#include "dtune/cluster/launch_failure.h"
#include "dtune/comm/endpoint.h"
#include "dtune/store/open_database.h"
#include "dtune/submit/engine_commands.h"
#include "dtune/submit/tool.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

using Findings = std::vector<Finding>;

Finding trouble(const std::string& topic, const std::string& what,
                const std::string& remedy) {
  return {topic, Health::problem, what, remedy};
}

// What a tool says of a question; a problem where it fails. False then.
bool ask_engine(Findings& findings, const std::string& topic,
                const std::vector<std::string>& argv, const std::string& input,
                const std::string& remedy) {
  try {
    const ToolResult said = run_tool(argv, input);
    const std::string line =
        last_line_of(said.out, last_line_of(said.err, argv[0] + " answers"));
    if (said.good()) {
      findings.push_back({topic, Health::good, line, ""});
      return true;
    }
    findings.push_back(trouble(
        topic, last_line_of(said.err, last_line_of(said.out, "it failed")),
        remedy));
  } catch (const Error& error) {
    findings.push_back(trouble(topic, error.what(), remedy));
  }
  return false;
}

// A study as it would be submitted from this folder.
SubmitJob example_job(const EngineAddress& to) {
  SubmitJob job;
  job.to = to;
  job.name = "dtune-doctor";
  job.recipe = fs::current_path() / "recipe.yaml";
  job.database = fs::current_path() / "recipe.db";
  job.folder = fs::current_path() / "recipe.files";
  job.recipe_text = "study: doctor\n";
  job.program = own_program();
  return job;
}

// All nodes have to see the study's folder; SQLite does not like every disk.
Finding check_shared_folder() {
  const std::string folder = fs::current_path();
  struct statfs info {};
  if (::statfs(folder.c_str(), &info) != 0) {
    return trouble("disk", folder + ": " + errno_text(errno), "");
  }
  if (is_network_file_system(static_cast<int64_t>(info.f_type))) {
    return {"disk", Health::good,
            folder + " is on a network disk, which other nodes may share", ""};
  }
  return {"disk", Health::note,
          folder + " is on a disk of this machine alone, it seems",
          "a study has to lie where all nodes see it, as on the shared home"};
}

// A port of this machine, open for as long as the descriptor.
Descriptor open_port(const std::string& address) {
  const AddressList at = numeric_address(address, 0);
  Descriptor listening = at ? listen_at(*at, 1) : Descriptor();
  if (listening.get() >= 0) return listening;
  throw Error(ErrorKind::temporary,
              address + ": no port can be opened: " + errno_text(errno));
}

// Agents connect to the coordinator at any port. Here that of this machine is
// tried: from a job, if one starts at once.
void check_way_back(Findings& findings, const EngineAddress& to) {
  const std::vector<std::string> addresses = interface_addresses();
  if (addresses.empty()) return;
  const std::string address = addresses[0].substr(addresses[0].find(' ') + 1);
  const Descriptor listening = open_port(address);
  std::vector<std::string> argv = {"srun", "--immediate=20", "--ntasks=1",
                                   "--time=1", "--quiet"};
  if (!to.place.empty()) argv.push_back("--partition=" + to.place);
  argv.insert(argv.end(),
              {"timeout", "5", "bash", "-c",
               fmt::format("</dev/tcp/{}/{} && echo reached {}", address,
                           port_of(listening.get()), address)});
  Findings asked;
  if (ask_engine(
          asked, "way", argv, "",
          "no node was free, or a fire wall is between; 'dtune submit' puts "
          "the coordinator on a node, which needs no way to this machine")) {
    findings.push_back(
        {"way", Health::good, "a node reaches this machine at " + address, ""});
    return;
  }
  asked.back().health = Health::note;
  findings.push_back(asked.back());
}

Findings examine_slurm(const EngineAddress& to) {
  Findings findings;
  if (!ask_engine(
          findings, "Slurm", {"sinfo", "--version"}, "",
          "install Slurm's commands (Debian: slurm-client) and the cluster's "
          "slurm.conf, or run this on a login node")) {
    return findings;
  }
  std::vector<std::string> partition = {
      "sinfo", "--noheader", "--format",
      "%P: %a, %D nodes, at most %l, gres %G"};
  if (!to.place.empty()) {
    partition.insert(partition.end(), {"--partition", to.place});
  }
  ask_engine(findings, "partition", partition, "",
             "sinfo lists the partitions");
  // The same script as would be submitted.
  const TemporaryDirectory folder;
  const fs::path script = folder.path() / "test.sh";
  write_file_atomic(script, render_request(example_job(to)), false);
  const bool accepted =
      ask_engine(findings, "job", {"sbatch", "--test-only", script.string()},
                 "", "change what --to asks for");
  findings.push_back(check_shared_folder());
  if (accepted) check_way_back(findings, to);
  return findings;
}

Findings examine_kubernetes(const EngineAddress& to) {
  Findings findings;
  const std::string text = render_request(example_job(to));
  if (!ask_engine(
          findings, "kubectl", kubectl(to, {"version"}), "",
          "install kubectl and say where the cluster is (kubectl config)")) {
    return findings;
  }
  for (const char* kind : {"statefulsets", "jobs", "secrets", "services"}) {
    if (!ask_engine(findings, "rights",
                    kubectl(to, {"auth", "can-i", "create", kind}), "",
                    fmt::format("ask for the right to create {}", kind))) {
      return findings;
    }
  }
  // What admission says, without an object that stays.
  ask_engine(findings, "manifest",
             kubectl(to, {"create", "--dry-run=server", "-f", "-"}), text,
             "change what --to asks for, or add lines with --raw");
  return findings;
}

Findings examine_sagemaker(const EngineAddress& to) {
  Findings findings;
  const std::string bucket =
      submit_engine(to).values(example_job(to)).texts.at("output");
  if (!ask_engine(findings, "aws",
                  aws(to, {"sts", "get-caller-identity", "--output", "text"}),
                  "", "install the aws CLI and log in (aws configure)")) {
    return findings;
  }
  ask_engine(findings, "S3",
             aws(to, {"s3", "ls", bucket.substr(0, bucket.find('/', 5))}), "",
             "make the bucket, or ask for the right to use it");
  findings.push_back({"SageMaker", Health::note,
                      "quotas, role and image are checked when a job is "
                      "submitted",
                      ""});
  return findings;
}

}  // namespace

std::vector<Finding> examine_engine(const std::string& to) {
  const EngineAddress address = parse_engine_address(to);
  const SubmitEngine& engine = submit_engine(address);
  engine.values(example_job(address));  // says what the address lacks
  if (address.engine == "slurm") return examine_slurm(address);
  if (address.engine == "k8s") return examine_kubernetes(address);
  if (address.engine == "sagemaker") return examine_sagemaker(address);
  engine_commands(address.engine);  // says that it is started by hand
  return {};
}

}  // namespace dtune
