// Gangs whose members are threads of this process: real sessions from the
// private library, a real server, real sockets.
#pragma once

#include <atomic>
#include <cmath>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gang_recipe.h"
#include <doctest/doctest.h>

#include "dtune/base/safetensors.h"
#include "dtune/comm/listener.h"
#include "dtune/comm/zap.h"
#include "dtune/gang/server.h"

namespace dtune {

// Keys of members on other machines, as if there were some.
struct RemoteKeys {
  CurveKeys server = generate_curve_keys();
  std::vector<CurveKeys> members;
};

inline ListenOptions listen_options(const RemoteKeys* remote = nullptr) {
  ListenOptions options;
  options.local = "tcp://127.0.0.1:*";
  if (remote == nullptr) return options;
  options.remote = "tcp://127.0.0.1:0";
  auto allowed = std::make_shared<AllowList>();
  for (const CurveKeys& keys : remote->members) allowed->add(keys.public_key);
  options.security = ListenSecurity{remote->server, allowed};
  return options;
}

// One gang with its server.
class Gang {
 public:
  Gang(const Recipe& recipe, const std::string& name,
       Duration lease = GangOptions().lease, const RemoteKeys* remote = nullptr)
      : name_(name),
        members_(gang_members(recipe.parallel)),
        remote_(remote),
        server_(listen_options(remote), {}) {
    GangOptions options;
    options.gang = name_;
    options.parallel = recipe.parallel;
    options.lease = lease;
    options.nodes.assign(static_cast<size_t>(members_), "here");
    server_.open(options);
  }

  GangServer& server() { return server_; }
  const GangServer& server() const { return server_; }
  int members() const { return members_; }

  // Models and checkpoints are each member's own: what each has can be seen.
  TrialAssignment assign(const Workshop& shop, TrialAssignment assignment,
                         int member) const {
    assignment.rank = RankInfo{.gang = name_,
                               .member = member,
                               .members = members_,
                               .endpoint = server_.local_endpoint()};
    if (remote_ != nullptr) join_from_afar(*assignment.rank);
    assignment.model_file =
        shop.path(name_ + ".model." + std::to_string(member));
    return assignment;
  }

 private:
  // The last member is of the server's machine, the others are not.
  void join_from_afar(RankInfo& rank) const {
    const auto& keys = remote_->members.at(static_cast<size_t>(rank.member));
    rank.public_key = keys.public_key;
    rank.secret_key = keys.secret_key;
    if (rank.member + 1 == members_) {
      rank.address = "127.0.0.1";
    } else {
      rank.endpoint = server_.remote_endpoint();
      rank.server_key = remote_->server.public_key;
    }
  }

  std::string name_;
  int members_;
  const RemoteKeys* remote_;  // null: all are of this machine
  GangServer server_;
};

// What came of a member.
struct MemberEnd {
  std::vector<StepReport> reports;
  std::map<std::string, double> final_metrics;
  std::optional<Reason> failure;
  std::string text;  // of the failure
};

// Runs `work(member)` on a thread for each.
inline void on_threads(int members, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int member = 0; member < members; ++member) {
    threads.emplace_back(work, member);
  }
  for (std::thread& thread : threads) thread.join();
}

// What `work` throws becomes the end's failure.
inline void noting_failure(MemberEnd& end, const std::function<void()>& work) {
  try {
    work();
  } catch (const TrialFailure& failure) {
    end.failure = failure.reason();
    end.text = failure.what();
  } catch (const std::exception& error) {
    end.failure = Reason::crashed;
    end.text = error.what();
  }
}

// What a member does with its session, which it may end.
using MemberWork =
    std::function<void(int, std::unique_ptr<TrialSession>&, MemberEnd&)>;

// Starts a session on a thread for each member and runs `work` there.
inline std::vector<MemberEnd> with_sessions(const Workshop& shop, Gang& gang,
                                            const TrialAssignment& assignment,
                                            const MemberWork& work) {
  std::vector<MemberEnd> ends(static_cast<size_t>(gang.members()));
  load_engine();
  on_threads(gang.members(), [&](int member) {
    MemberEnd& end = ends[static_cast<size_t>(member)];
    noting_failure(end, [&] {
      const auto runner = load_engine().make_runner(1);
      auto session = runner->start(gang.assign(shop, assignment, member));
      work(member, session, end);
    });
  });
  return ends;
}

// All members train `steps` and, if the trial is a final one, test.
inline std::vector<MemberEnd> run_gang(const Workshop& shop, Gang& gang,
                                       const TrialAssignment& assignment,
                                       int steps) {
  return with_sessions(shop, gang, assignment,
                       [&](int, auto& session, MemberEnd& end) {
                         const std::atomic<bool> stop = false;
                         for (int i = 0; i < steps; ++i) {
                           end.reports.push_back(session->run_step(stop));
                         }
                         if (assignment.kind == TrialKind::final) {
                           end.final_metrics = session->finish_final();
                         }
                       });
}

// All members train a step, are stopped in the middle of the second one, and
// train that again.
inline std::vector<MemberEnd> run_with_a_stop(
    const Workshop& shop, Gang& gang, const TrialAssignment& assignment) {
  std::atomic<bool> stop = false;
  std::atomic<int> stopped = 0;
  std::atomic<int> arrived = 0;
  const auto meet = [&](int meeting) {
    ++arrived;
    while (arrived < meeting * gang.members()) std::this_thread::yield();
  };
  const auto ends = with_sessions(
      shop, gang, assignment, [&](int, auto& session, MemberEnd& end) {
        end.reports.push_back(session->run_step(stop));
        meet(1);
        std::thread watcher([&] {
          while (session->progress().fraction >= 1 && !stop) {
            std::this_thread::yield();
          }
          while (session->progress().fraction < 0.3 && !stop) {
            std::this_thread::yield();
          }
          stop = true;
        });
        try {
          session->run_step(stop);
        } catch (const StepStopped&) {
          ++stopped;
        }
        watcher.join();
        meet(2);
        stop = false;
        end.reports.push_back(session->run_step(stop));
      });
  CHECK(stopped == gang.members());
  return ends;
}

inline void check_no_failure(const std::vector<MemberEnd>& ends) {
  for (const MemberEnd& end : ends) {
    CAPTURE(end.text);
    CHECK_FALSE(end.failure.has_value());
  }
}

// All numbers that a checkpoint or a model holds.
inline std::vector<float> numbers_in(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::vector<float> numbers;
  for (const auto& [name, entry] : file.header().tensors) {
    const auto values = file.floats(name, entry.shape);
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  return numbers;
}

// What one process makes of a gang's trial.
struct Alone {
  std::vector<float> numbers;  // of its checkpoint
  StepReport report;           // the last
  std::map<std::string, double> final_metrics;
};

inline Alone train_alone(Workshop& shop, TrialAssignment assignment,
                         int steps) {
  assignment.recipe.parallel = {};
  assignment.checkpoint = shop.path("alone.safetensors");
  assignment.model_file = shop.path("alone.model");
  const auto session = shop.start(assignment);
  Alone alone;
  alone.report = Workshop::run(*session, steps);
  alone.numbers = numbers_in(assignment.checkpoint);
  if (assignment.kind == TrialKind::final) {
    alone.final_metrics = session->finish_final();
  }
  return alone;
}

// |a - b| / |b|, as long vectors.
inline double relative_error(const std::vector<float>& a,
                             const std::vector<float>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    size += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / size);
}

}  // namespace dtune
