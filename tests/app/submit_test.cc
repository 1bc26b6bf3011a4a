// Studies given to engines, from outside. The engines are scripts that run what
// they are given; real Slurm is in submit_slurm_test.sh.
#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "app/program.h"
#include "eventually.h"
#include "skip.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test

namespace {

namespace fs = std::filesystem;

// sbatch runs the script as Slurm does: in the background, its output to the
// file that the script names. squeue lists it while it runs; scancel ends it.
constexpr const char* kSbatch = R"sh(#!/bin/bash
here=$(dirname "$0")
[ "$1" = --parsable ] || exit 9
script=${@: -1}
for word; do
  case $word in --export=ALL,*) export "${word#--export=ALL,}" ;; esac
done
log=$(sed -n 's/^#SBATCH --output="\([^"]*\)".*/\1/p' "$script")
id=$(($(cat "$here/last" 2>/dev/null || echo 100) + 1))
echo $id >"$here/last"
SLURM_JOB_ID=$id setsid bash -c "echo \$\$ >$here/job.$id; exec bash '$script'" \
  >>"$log" 2>&1 </dev/null &
until [ -s "$here/job.$id" ]; do sleep 0.01; done
echo $id
)sh";
constexpr const char* kSqueue = R"sh(#!/bin/bash
pid=$(cat "$(dirname "$0")/job.$3") || exit 1
kill -0 "$pid" 2>/dev/null && echo 'RUNNING|None|n1'
exit 0
)sh";
constexpr const char* kScancel = R"sh(#!/bin/bash
[ "$1" = -n ] && exec echo "$2" >>"$(dirname "$0")/cancelled"
kill -TERM -- "-$(cat "$(dirname "$0")/job.$1")"
)sh";

// A place with an engine, and a home of its own.
struct Slurm : Workplace {
  Slurm() {
    fs::create_directory(path() / "bin");
    for (const auto& [name, text] :
         {std::pair{"bin/sbatch", kSbatch}, std::pair{"bin/squeue", kSqueue},
          std::pair{"bin/scancel", kScancel}}) {
      write(name, text);
      fs::permissions(path() / name, fs::perms::owner_all);
    }
    const char* paths = std::getenv("PATH");
    environment["PATH"] = (path() / "bin").string() + ":" +
                          (paths == nullptr ? "/usr/bin:/bin" : paths);
    environment["XDG_STATE_HOME"] = (path() / "state").string();
  }

  // Slurm's signal to the script of a job, some time before its limit.
  void warn(int job) const {
    const int process =
        std::atoi(read("bin/job." + std::to_string(job)).c_str());
    REQUIRE(::kill(process, SIGUSR2) == 0);
  }

  std::string submit(const std::string& recipe,
                     const std::string& to = "slurm://") const {
    const Outcome done = run({"submit", recipe, "--to", to, "--json"});
    REQUIRE_MESSAGE(done.code == 0, done.err);
    return nlohmann::json::parse(done.out)["name"];
  }
};

int shell(const std::string& script) {
  return std::system(script.c_str());  // NOLINT: a test's own script
}

bool has_namespaces() {
  return ::geteuid() == 0 && shell("unshare -m -n -u -p -f true") == 0;
}

}  // namespace

TEST_CASE("a dry run shows the script and leaves nothing behind") {
  const Slurm place;
  place.write("shell.yaml", shell_recipe(2, 1, "0"));
  const Outcome shown =
      place.run({"submit", "shell.yaml", "--to", "slurm://gpu?gres=gpu:1",
                 "--dry-run", "--raw", "#SBATCH --exclusive"});
  REQUIRE_MESSAGE(shown.code == 0, shown.err);
  CHECK(shown.out.starts_with("#!/bin/bash\n# Study "));
  CHECK(contains(shown.out, "#SBATCH --partition=gpu --gres=gpu:1\n"));
  CHECK(contains(shown.out, "\n#SBATCH --exclusive\n"));
  CHECK_FALSE(place.has("shell.files"));
  CHECK_FALSE(place.has("bin/last"));
  for (const char* to : {"slrm://gpu", "slurm://gpu?gress=1", "gpu"}) {
    const Outcome wrong =
        place.run({"submit", "shell.yaml", "--to", to, "--dry-run"});
    CHECK(wrong.code == 2);
    CHECK_MESSAGE(contains(wrong.err, to), wrong.err);
  }
  const Outcome by_hand =
      place.run({"submit", "shell.yaml", "--to", "pbs://night"});
  CHECK(by_hand.code == 2);
  CHECK_MESSAGE(contains(by_hand.err, "--dry-run >FILE, then: qsub FILE"),
                by_hand.err);
}

TEST_CASE("a submitted study is followed by its name, to its end") {
  const Slurm place;
  place.hold();
  place.write("shell.yaml", held_recipe(3, 2, "0.05", 1));
  const std::string name = place.submit("shell.yaml");
  RunningProgram attached = place.start({"attach", name});
  CHECK(attached.wait_for_error("running on n1"));
  place.release();
  const Outcome log = attached.wait();
  CHECK_MESSAGE(log.code == 0, log.err);
  CHECK(contains(log.out, "finished after"));
  const Outcome status = place.run({"status", name});
  CHECK_MESSAGE(status.code == 0, status.err);
  CHECK(contains(status.err, "is not in the queue"));
  CHECK(contains(status.out, "finished"));
  CHECK(place.run({"best", "shell.db", "--json"}).code == 0);
  // Script and log are beside the study.
  CHECK(place.has("shell.files/" + name + ".sh"));
  CHECK(place.has("shell.files/" + name + ".log"));
}

TEST_CASE("a study is submitted once, and leaves the engine when cancelled") {
  const Slurm place;
  place.write("shell.yaml", shell_recipe(100'000, 5, "0.1"));
  const std::string name = place.submit("shell.yaml");
  const Outcome twice = place.run({"submit", "shell.yaml", "--to", "slurm://"});
  CHECK(twice.code == 2);
  CHECK_MESSAGE(contains(twice.err, "is submitted already, as " + name),
                twice.err);
  REQUIRE(eventually([&] {
    return place.run({"best", "shell.db"}).code == 0;
  }));
  const Outcome cancelled = place.run({"cancel", name});
  CHECK_MESSAGE(cancelled.code == 0, cancelled.err);
  CHECK(place.orphans().empty());
  // Of agents, had it asked for some.
  CHECK(read_file(place / "bin/cancelled").find("dtune-shell-") == 0);
  CHECK(place.run({"cancel", "nothing"}).code == 2);
}

TEST_CASE("where a job may not be requeued others follow it, so many at most") {
  const Slurm place;
  place.write("bin/scontrol", "#!/bin/sh\nexit 1\n");
  fs::permissions(place / "bin/scontrol", fs::perms::owner_all);
  place.write("shell.yaml", shell_recipe(100'000, 3, "0.05"));
  const std::string name = place.submit("shell.yaml", "slurm://?restarts=1");
  const auto says = [&, log = "shell.files/" + name +
                              ".log"](const std::string& text) {
    return eventually(
        [&] { return place.has(log) && contains(place.read(log), text); });
  };
  REQUIRE(says("complete"));
  place.warn(101);
  CHECK(says("dtune: job 102 goes on with the study"));
  REQUIRE(says("continuing the study"));
  const Outcome status = place.run({"status", name});
  CHECK_MESSAGE(contains(status.err, "job 102: running"), status.err);
  place.warn(102);
  CHECK(says("dtune: the job does not start again: restarts=1 is reached"));
  CHECK(eventually([&] { return place.orphans().empty(); }));
  CHECK_FALSE(place.has("bin/job.103"));
}

TEST_CASE("an image has what the program needs, and the same digest twice") {
  const Workplace place;
  place.write("shell.yaml", shell_recipe(1, 1, "0"));
  const std::string data = (place / "shell.yaml").string();
  const Outcome first =
      place.run({"image", "--output", "image", "--add", data, "--json"});
  REQUIRE_MESSAGE(first.code == 0, first.err);
  const Outcome second =
      place.run({"image", "--output", "image.tar", "--add", data, "--json"});
  REQUIRE_MESSAGE(second.code == 0, second.err);
  const auto made = nlohmann::json::parse(first.out);
  CHECK(made["digest"] == nlohmann::json::parse(second.out)["digest"]);
  CHECK(contains(place.read("image.Containerfile"), "FROM debian:bookworm"));
  CHECK(place.run({"image", "--output", "image"}).code == 2);
  if (!has_namespaces()) return skip("namespaces need root");
#ifdef __SANITIZE_ADDRESS__
  return skip("LeakSanitizer needs /proc, which a chroot has not");
#endif
  // As a container engine unpacks and starts it.
  const std::string unpack =
      "cd " + place.path().string() +
      " && mkdir root && for blob in image/blobs/sha256/*; do"
      " tar -xf $blob -C root 2>/dev/null; done;"
      " unshare -m chroot root "
      "/usr/local/bin/dtune ";
  CHECK(shell(unpack + "--version") == 0);
  CHECK(shell("cd " + place.path().string() +
              " && unshare -m chroot root "
              "/usr/local/bin/dtune validate " +
              data) == 0);
}

TEST_CASE("skopeo reads an image, and what it copies runs") {
  if (shell("command -v skopeo >/dev/null") != 0) {
    return skip("needs skopeo (Debian: skopeo)");
  }
  const Workplace place;
  const std::string there = "cd " + place.path().string() + " && ";
  for (const char* name : {"image", "image.tar"}) {
    REQUIRE(place.run({"image", "--output", name}).code == 0);
  }
  REQUIRE(shell(there + "skopeo inspect oci:image >seen") == 0);
  const auto seen = nlohmann::json::parse(place.read("seen"));
  CHECK(seen["Os"] == "linux");
  CHECK(seen["Layers"].size() == 2);
  REQUIRE(shell(there + "skopeo inspect --config oci:image >config") == 0);
  const auto config = nlohmann::json::parse(place.read("config"))["config"];
  CHECK(config["Entrypoint"][0] == "/usr/local/bin/dtune");
  CHECK(config["User"] == "65532:65532");
  // Checks each part's digest on the way.
  REQUIRE(shell(there +
                "skopeo --insecure-policy copy --quiet oci-archive:image.tar "
                "dir:copy") == 0);
  if (!has_namespaces()) return skip("namespaces need root");
#ifdef __SANITIZE_ADDRESS__
  return skip("LeakSanitizer needs /proc, which a chroot has not");
#endif
  std::string unpack = there + "mkdir root";
  for (const std::string digest : seen["Layers"]) {
    unpack +=
        " && tar -xf copy/" + digest.substr(digest.find(':') + 1) + " -C root";
  }
  CHECK(shell(unpack + " && unshare -m chroot "
                       "root /usr/local/bin/dtune "
                       "--version") == 0);
}

TEST_CASE("doctor --to checks an engine before a study is submitted") {
  const Slurm place;
  const Outcome none = place.run({"doctor", "--to", "k8s://lab"});
  CHECK(none.code == 2);
  CHECK(contains(none.err, "image is missing"));
  place.write("bin/sinfo", "#!/bin/sh\necho 'gpu: up, 4 nodes'\n");
  place.write("bin/srun", "#!/bin/sh\necho 'Unable to allocate' >&2; exit 1\n");
  place.write("bin/sbatch",
              "#!/bin/sh\n[ $1 = --test-only ] || exit 9\n"
              "grep -q -- --gres=gpu:9 $2 || exit 0\n"
              "echo 'Requested node configuration is not available' >&2\n"
              "exit 1\n");
  for (const char* tool : {"bin/sinfo", "bin/srun", "bin/sbatch"}) {
    fs::permissions(place / tool, fs::perms::owner_all);
  }
  const Outcome good = place.run({"doctor", "--to", "slurm://gpu"});
  CHECK_MESSAGE(good.code == 0, good.out);
  CHECK(contains(good.out, "gpu: up, 4 nodes"));
  const Outcome bad =
      place.run({"doctor", "--to", "slurm://gpu?gres=gpu:9", "--json"});
  CHECK(bad.code == 1);
  CHECK(contains(bad.out, "Requested node configuration is not available"));
}

namespace {

// /opt/ml as SageMaker lays it out for a host, and how a host is started there.
class SageMaker : public Workplace {
 public:
  explicit SageMaker(int hosts) : hosts_(hosts) {
    const Outcome key =
        run({"keygen", "--job", "--port", "5555", "--output", "job.key"});
    REQUIRE_MESSAGE(key.code == 0, key.err);
    for (int host = 1; host <= hosts; ++host) lay_out(host);
    std::string names = "127.0.0.1 localhost\n";
    for (int host = 1; host <= hosts; ++host) {
      names += "10.98.0." + std::to_string(host) + " " + name(host) + "\n";
    }
    write("hosts", names);
  }

  static std::string name(int host) { return "algo-" + std::to_string(host); }
  std::string ml(int host) const { return "ml." + std::to_string(host); }

  // Hosts in network namespaces of their own; the exit code of each.
  std::vector<int> train(const std::string& recipe) const {
    for (int host = 1; host <= hosts_; ++host) {
      write(ml(host) + "/input/data/dtune/recipe.yaml", recipe);
    }
    std::string script = "set -e; cd " + path().string() +
                         "; mount --bind hosts /etc/hosts; ip link set lo up;"
                         "ip link add br0 type bridge; ip link set br0 up;";
    for (int host = 1; host <= hosts_; ++host) script += start(host);
    // No trial goes on (held_recipe) before the last host has joined.
    script += "(for i in $(seq 900); do grep -q '" + name(hosts_) +
              " has joined' train.1.log && break; sleep 0.1; done;"
              " rm -f hold) &";
    for (int host = 1; host <= hosts_; ++host) {
      const std::string n = std::to_string(host);
      script += "wait $pid" + n + " && echo 0 >code." + n +
                " || echo $? >code." + n + ";";
    }
    write("train.sh", script);
    CHECK(shell("unshare -m -n -u -p -f --mount-proc bash " +
                (path() / "train.sh").string()) == 0);
    std::vector<int> codes;
    for (int host = 1; host <= hosts_; ++host) {
      codes.push_back(std::atoi(read("code." + std::to_string(host)).c_str()));
    }
    return codes;
  }

 private:
  void lay_out(int host) const {
    for (const char* folder : {"/input/config", "/input/data/dtune",
                               "/checkpoints", "/model", "/output"}) {
      fs::create_directories(path() / (ml(host) + folder));
    }
    nlohmann::json hosts = nlohmann::json::array();
    for (int one = hosts_; one >= 1; --one) hosts.push_back(name(one));
    write(
        ml(host) + "/input/config/resourceconfig.json",
        nlohmann::json{{"current_host", name(host)}, {"hosts", hosts}}.dump());
    write(ml(host) + "/input/config/hyperparameters.json",
          R"({"budget.trials": "4", "sagemaker_region": "x"})");
    write(ml(host) + "/input/data/dtune/job.key", read("job.key"));
  }

  std::string start(int host) const {
    const std::string n = std::to_string(host);
    const std::string inside =
        "hostname " + name(host) + "; ip link set lo up; touch ready." + n +
        "; until ip addr add 10.98.0." + n + "/24 dev e" + n +
        " 2>/dev/null; do sleep 0.02; done; ip link set e" + n +
        " up; mount -t tmpfs none /opt; mkdir /opt/ml; mount --bind " +
        ml(host) + " /opt/ml; export HOME=$PWD/home." + n +
        " XDG_CACHE_HOME=$PWD/cache XDG_STATE_HOME=$PWD/state." + n +
        "; exec " DTUNE_BINARY " train >train." + n + ".log 2>&1";
    return "unshare -m -n -u bash -c '" + inside + "' & pid" + n +
           "=$!; until [ -e ready." + n +
           " ]; do sleep 0.02; done;"
           "ip link add v" +
           n + " type veth peer name e" + n + "; ip link set e" + n +
           " netns $pid" + n + "; ip link set v" + n + " master br0 up;";
  }

  const int hosts_;
};

}  // namespace

TEST_CASE("SageMaker's one host runs a study by what lies in /opt/ml") {
  if (!has_namespaces()) return skip("namespaces need root");
  const SageMaker place(1);
  const std::vector<int> codes = place.train(shell_recipe(9, 1, "0"));
  CHECK_MESSAGE(codes == std::vector<int>{0}, place.read("train.1.log"));
  const Outcome status =
      place.run({"status", "ml.1/checkpoints/study.db", "--json"});
  REQUIRE_MESSAGE(status.code == 0, status.err);
  CHECK(nlohmann::json::parse(status.out)["budget"]["trials"] == 4);
  CHECK_FALSE(place.has("ml.1/output/failure"));
}

TEST_CASE("SageMaker gets the reason why a study failed") {
  if (!has_namespaces()) return skip("namespaces need root");
  const SageMaker place(1);
  CHECK(place.train("study: wrong\nbudgett: 3\n") == std::vector<int>{2});
  CHECK_MESSAGE(contains(place.read("ml.1/output/failure"), "budgett"),
                place.read("ml.1/output/failure"));
}

TEST_CASE("two hosts of SageMaker run one study, the first as text is head") {
  if (!has_namespaces()) return skip("namespaces need root");
  const SageMaker place(2);
  place.hold();
  const std::string hold = (place / "hold").string();
  const std::vector<int> codes = place.train(shell_recipe(
      9, 3, "0.1; while [ -e " + hold + " ]; do sleep 0.02; done"));
  CHECK_FALSE(place.has("hold"));
  CHECK(codes == std::vector<int>{0, 0});
  CHECK(place.has("ml.1/checkpoints/study.db"));
  CHECK_FALSE(place.has("ml.2/checkpoints/study.db"));
  CHECK_MESSAGE(contains(place.read("train.1.log"), "algo-2"),
                place.read("train.1.log"));
  // The key is in no log.
  const std::string key = place.read("job.key");
  const std::string secret =
      key.substr(key.rfind(' ', key.size() - 10) + 1, 30);
  for (const char* log : {"train.1.log", "train.2.log"}) {
    CHECK_FALSE(contains(place.read(log), secret));
  }
}
