// The server of all gangs of a study: one thread beside the coordinator.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/comm/listener.h"
#include "dtune/gang/messages.h"
#include "dtune/study/parallel_spec.h"

namespace dtune {

struct GangOptions {
  std::string gang;  // RankInfo::gang
  ParallelSpec parallel;
  std::vector<std::string> nodes;  // of each member, for messages
  // Where there are more than 50 members, a millisecond for each.
  Duration heartbeat{50'000'000};
  Duration lease{15'000'000'000};  // a member silent for longer is gone
};

// What the owner of the gangs should know.
struct GangEvent {
  enum class Kind {
    lost,      // a member is gone; the others go on without it
    evicted,   // it cost more than it brought: its slot is free for a trial
    rejoined,  // a late or new member has caught up
    late,      // a round went on without it; its gradient was discarded
    balanced,  // shares of the batch were changed
    hanging,   // none has come for long: `text` names the missing
    closed,    // too few are left; the trial has to start from its checkpoint;
               // `member`: the one that it cannot do without, or -1
    untraced,  // the trace of all gangs cannot be written any more; once
  };
  std::string gang;  // untraced: any that is open, or empty
  Kind kind = Kind::lost;
  int member = -1;
  std::string text;  // a sentence for users
};

struct MemberStatus {
  std::string node;
  bool present = false;
  std::string phase;              // last heard
  double share = 0;               // of the batch, 0..1
  double samples_per_second = 0;  // compute time alone
  double predicted = 0;           // samples a second
  double wait_share = 0;          // of a round: waiting for others
  int64_t late = 0;               // rounds that went on without it
  gang::RoundTimes times;         // sums over all rounds
  std::map<std::string, double> gauges;
};

struct GangStatus {
  std::string gang;
  gang::Phase phase = gang::Phase::train;
  int64_t round = 0;
  double samples_per_second = 0;  // accepted
  std::vector<MemberStatus> members;
};

// Thread-safe. Nothing blocks.
class GangServer {
 public:
  // Listens at once: throws as Listener. `wake` is called, on the server's
  // thread, when take_events() has something; may be empty.
  GangServer(const ListenOptions& listen, std::function<void()> wake);
  ~GangServer();  // closes all gangs
  GangServer(const GangServer&) = delete;
  GangServer& operator=(const GangServer&) = delete;

  std::string local_endpoint() const;
  std::string remote_endpoint() const;

  void open(const GangOptions& options);
  // Members that still talk get `why`.
  void close(const std::string& gang, const std::string& why);
  // From now on processes with this key alone can take the member's place; "":
  // those that come over the local endpoint. Until then all can that know the
  // gang's name.
  void admit(const std::string& gang, int member, const std::string& key);
  // Whether the gang is open, and stays so where the member is lost.
  bool can_lose(const std::string& gang, int member) const;
  // The member's process is known to have ended.
  void member_lost(const std::string& gang, int member, const std::string& why);

  std::vector<GangEvent> take_events();
  // Empty where no such gang is open.
  GangStatus status(const std::string& gang) const;

  // From now on members record; everything goes into one trace file, which is
  // complete after close() and readable at any time after a crash. Throws
  // Error(temporary) where it cannot be written; later, that is an event.
  void trace_to(const std::filesystem::path& file);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtune
