// A member's side of its gang: orders from the server, and the groups of the
// data plane, made as orders say.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dtune/comm/collective.h"
#include "dtune/gang/client.h"

namespace dtune {

// Tags of point-to-point messages.
inline constexpr uint32_t kStateTag = 1;
inline constexpr uint32_t kPredictionsTag = 2;

// For one operation where no order says how long.
inline constexpr Duration kDataPatience = std::chrono::seconds(30);

// Used by one thread at a time; the client's thread ends what waits for a member
// that the server gives up. Everything that is asked of the data plane
// throws Error(comm) where a peer does not answer; the groups are of no use
// then: leave_groups(), report it to the server, wait for its order.
class GangLink {
 public:
  explicit GangLink(const RankInfo& rank);
  ~GangLink();
  GangLink(const GangLink&) = delete;
  GangLink& operator=(const GangLink&) = delete;

  GangClient& client() { return client_; }
  int member() const { return member_; }

  // The next order; as GangClient::wait. StepStopped also where `given_up`
  // becomes true.
  gang::Order wait(const std::atomic<bool>& stop,
                   const std::atomic<bool>* given_up = nullptr);
  // The answer to ready(round): its go, or an order that makes it void. A go
  // that is `last` may be another round's: the step ended without this member.
  gang::Order wait_for(int64_t round, const std::atomic<bool>& stop,
                       const std::atomic<bool>* given_up = nullptr);
  // Whether an order waits already. Asked for while no answer is due, it means
  // that what is under way is void.
  bool has_order();

  // Whether an order waits that makes what this member computes void: any but
  // the go of a round.
  bool is_void();

  // Makes the data plane of an incarnation, unless this is the one that it has:
  // blocks until all its members have come, or another order, or `stop`.
  void regroup(const gang::Regroup& order, const std::atomic<bool>& stop);
  int incarnation() const { return incarnation_; }
  const std::vector<int>& members() const { return members_; }

  // All members of the incarnation; ranks count them in ascending order.
  Collective& whole_group();
  int rank_of(int member) const;
  // Just these, of the incarnation's; made at the first use, kept while it is
  // asked for again within kIdleRounds, at most until the next incarnation. All
  // of them must ask for it, in the same rounds. `device` >= 0: spans are
  // memory of this CUDA device.
  Collective& group(const std::vector<int>& participants, int64_t round,
                    Duration patience, int device = -1);
  static constexpr int64_t kIdleRounds = 32;
  size_t groups() const { return groups_.size(); }

  // Peers that wait for this member find out at once.
  void leave_groups();

 private:
  class Store;
  struct CachedGroup {
    std::unique_ptr<Collective> group;
    int64_t used = 0;  // the last round
  };
  using Groups = std::map<std::pair<std::vector<int>, int>, CachedGroup>;
  std::unique_ptr<Collective> make_group(const std::vector<int>& who,
                                         const std::string& name,
                                         Duration patience, int device,
                                         const std::atomic<bool>* stop);

  void give_up(const gang::GiveUp& order);

  int member_;
  std::deque<gang::Order> orders_;  // that have come but were not taken
  // The client's thread reads what follows; held for changes of it only, never
  // while groups are made, used or destroyed.
  std::mutex mutex_;
  int incarnation_ = -1;
  std::vector<int> members_;  // ascending
  std::unique_ptr<Collective> whole_group_;
  // By participants and device.
  Groups groups_;
  GangClient client_;  // last: its thread uses the others
};

}  // namespace dtune
