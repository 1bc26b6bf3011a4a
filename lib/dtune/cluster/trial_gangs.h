// The gangs of trials that take several slots: their names at the gang server,
// which slots belong to them, which have left. Leases are the caller's.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dtune/cluster/lease_book.h"
#include "dtune/cluster/protocol.h"
#include "dtune/gang/server.h"
#include "dtune/study/study.h"

namespace dtune {

struct TrialGangsOptions {
  ListenOptions listen;
  std::string address;  // where ranks on this machine are reached by others
  std::filesystem::path trace;  // "": none
  std::function<void()> wake;   // events are there; called from any thread
};

// Not thread-safe.
class TrialGangs {
 public:
  TrialGangs(const Recipe& recipe, TrialGangsOptions options);

  // Trials take several slots each; else nothing below does anything.
  bool enabled() const { return server_ != nullptr; }
  int size() const;  // slots that a trial takes

  // A lease begins: a gang of members on these nodes. One node alone
  // makes no gang.
  void begin(const Trial& trial, const std::vector<std::string>& nodes);
  // It has left its slots. It keeps its name: reports of its ranks may still be
  // on their way.
  void end(TrialId id);
  bool has(TrialId id) const { return !of(id).name.empty(); }
  const std::string& name(TrialId id) const { return of(id).name; }
  // What the member on a slot has to know.
  void describe(TrialId id, int member, bool remote,
                control::Assign& assign) const;
  // The member's place is that of its worker's key alone; "": of processes of
  // this machine.
  void admit(const control::Assign& assign, const std::string& key);

  // Whether those that are left, `rest`, can do without a member that has
  // ended.
  bool goes_on_without(const Trial& trial, const std::vector<LeasedSlot>& rest,
                       int member, const control::Ended& ended) const;
  // It has left. False: as all do.
  bool member_left(const Trial& trial, const LeasedSlot& held,
                   const control::Ended& ended);
  // A member that was reported to have left is back: true the first time.
  bool is_news_that_back(TrialId id, int member);
  // A place that a new member can take beside `held`.
  std::optional<int> vacancy(TrialId id,
                             const std::vector<LeasedSlot>& held) const;
  // Slots that the gangs of these trials do better without: waiting for a gang
  // of their own they would idle until the other one ends.
  std::set<size_t> lone_slots(const std::vector<TrialId>& trials) const;

  std::vector<GangEvent> take_events() { return server_->take_events(); }
  GangStatus status(TrialId id) const { return server_->status(name(id)); }

 private:
  struct Gang {
    std::string name;       // its last at the server; "": one rank
    int members = 1;        // when all are there
    std::set<int> evicted;  // members that it does without
    std::set<int> missed;   // members that were said to have left it
    std::set<size_t> lone;  // their slots: they get trials of their own
  };
  const Gang& of(TrialId id) const;
  bool is_server(int member) const;

  const ParallelSpec parallel_;
  const Duration lease_;
  const TrialGangsOptions options_;
  std::unique_ptr<GangServer> server_;
  std::map<TrialId, Gang> gangs_;
};

}  // namespace dtune
