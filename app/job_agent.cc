#include "app/job_agent.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "app/machine.h"
#include "app/study_files.h"
#include "app/study_start.h"
#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/cluster/join.h"
#include "dtune/cluster/log.h"
#include "dtune/comm/endpoint.h"

namespace dtune {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(200);
// A coordinator that does not answer so long may be another by now.
constexpr Duration kTry = std::chrono::seconds(20);
constexpr Duration kFirstWord = std::chrono::seconds(30);

// Where the key can be read and says where to go.
std::optional<JobKey> find_job(const JobMeeting& meeting, std::string& why) {
  try {
    JobKey key = meeting.given ? *meeting.given : read_job_key(meeting.file);
    if (!meeting.endpoint.empty()) key.endpoint = meeting.endpoint;
    if (!key.endpoint.empty()) return key;
    why = meeting.file + ": the coordinator has not published its address yet";
  } catch (const Error& e) {
    why = e.what();
  }
  return std::nullopt;
}

// Waits for a key with an address; empty where `stop` is set or the study is
// over.
std::optional<JobKey> await_job(const JobMeeting& meeting,
                                const std::atomic<int>& stop) {
  const MonoTime began = system_clock().now();
  bool said = false;
  std::string why;
  while (stop == 0) {
    if (auto key = find_job(meeting, why)) return key;
    if (meeting.over && meeting.over()) return std::nullopt;
    const Duration waited = system_clock().now() - began;
    if (waited > meeting.wait) {
      throw Error(ErrorKind::temporary,
                  fmt::format("no coordinator was found within {}: {} (do the "
                              "nodes share this folder?)",
                              format_duration(meeting.wait), why));
    }
    if (!said && waited > kFirstWord) {
      said = true;
      log_info("waiting for the coordinator: {}", why);
    }
    std::this_thread::sleep_for(kLook);
  }
  return std::nullopt;
}

std::string rank_name(const JobEnvironment& job) {
  if (job.local_ranks == 1) return host_name();
  return fmt::format("{}-{}", host_name(), job.rank);
}

// The study needs no run: rank 0 shows its result and ends.
bool is_finished(const std::filesystem::path& database,
                 const RecipeFile& recipe) {
  try {
    return decide_run(database, recipe).kind == RunDecision::Kind::show_result;
  } catch (const Error&) {
    return false;  // rank 0 says what is wrong
  }
}

// Without a shared folder the key says the port, the engine the host.
std::string endpoint_of(const JobEnvironment& job, const JobKey& key) {
  if (!key.endpoint.empty()) return key.endpoint;
  if (key.port > 0 && !job.head.empty()) {
    return TcpEndpoint{job.head, key.port}.text();
  }
  throw Error(ErrorKind::config,
              fmt::format("--job-key: holds no {} for rank {} (dtune keygen "
                          "--job --port PORT; leave --job-key out where the "
                          "nodes share the study's folder)",
                          key.port > 0 ? "coordinator" : "port", job.rank));
}

}  // namespace

AgentOptions agent_of_job(const JobEnvironment& job) {
  AgentOptions agent;
  agent.worker_argv = {own_program(), "worker"};
  agent.guard_argv = {own_program(), "guard"};
  agent.job = job.job;
  if (job.ends_ms > 0) {
    const int64_t left = job.ends_ms - system_clock().wall_ms();
    agent.lifetime = std::chrono::milliseconds(std::max<int64_t>(left, 1));
  }
  return agent;
}

int serve_job(AgentOptions agent, const JobMeeting& meeting,
              const std::atomic<int>& stop) {
  agent.join_timeout = std::min(kTry, meeting.wait);
  MonoTime last = system_clock().now();  // that a coordinator was there
  while (true) {
    const auto key = await_job(meeting, stop);
    if (!key) return stop == 0 ? kExitOk : kExitTemporary;
    agent.endpoint = key->endpoint;
    agent.curve = key->client();
    const MonoTime began = system_clock().now();
    const int code = run_agent(agent, stop);
    if (code != kExitTemporary || stop != 0) return code;
    if (meeting.over && meeting.over()) return kExitOk;
    const MonoTime now = system_clock().now();
    if (now - began > 2 * agent.join_timeout) last = now;  // it had joined
    if (now - last > meeting.wait) return code;
  }
}

int serve_rank(const JobEnvironment& job, const RecipeFile& recipe,
               const std::filesystem::path& database, const std::string& given,
               const std::atomic<int>& stop) {
  log_warnings_only();  // rank 0 says what there is to say
  const SlotPlan plan = plan_slots(recipe.recipe());
  AgentOptions agent = agent_of_job(job);
  agent.node = rank_name(job);
  agent.slots = plan.slots * plan.fused;
  agent.seats = plan.fused;
  agent.threads_per_slot = plan.threads;
  agent.devices = plan.devices();
  JobMeeting meeting;
  meeting.file = files_of(database).job_key().string();
  if (!given.empty()) {
    meeting.given = read_job_key(given);
    meeting.endpoint = endpoint_of(job, *meeting.given);
  }
  meeting.over = [&] { return is_finished(database, recipe); };
  return serve_job(std::move(agent), meeting, stop);
}

}  // namespace dtune
