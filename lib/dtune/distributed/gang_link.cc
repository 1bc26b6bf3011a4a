#include "dtune/distributed/gang_link.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/base/encrypt_ranks.h"
#include "dtune/base/error.h"
#include "dtune/study/trial_runner.h"

namespace dtune {
namespace {

constexpr Duration kSlice = std::chrono::milliseconds(200);
constexpr Duration kGroupPatience = std::chrono::seconds(5);
constexpr Duration kLook = std::chrono::milliseconds(20);  // at `stop`

// Wire input: where `member` is among `members`.
int place_of(int member, const std::vector<int>& members) {
  const auto found = std::lower_bound(members.begin(), members.end(), member);
  if (found == members.end() || *found != member) {
    throw Error(ErrorKind::comm,
                fmt::format("gang: member {} is not among those that work "
                            "together now",
                            member));
  }
  return static_cast<int>(found - members.begin());
}

std::string group_name(int incarnation, const std::vector<int>& who,
                       int64_t round, int device) {
  return fmt::format("group.{}.{}.{}{}", incarnation, fmt::join(who, "-"),
                     round, device >= 0 ? ".device" : "");
}

}  // namespace

// The gang's store, but waiting in it ends when an order or `stop`
// says that the group will not come about.
class GangLink::Store final : public RendezvousStore {
 public:
  Store(GangLink& link, const std::atomic<bool>* stop)
      : link_(link), stop_(stop) {}

  void set(const std::string& key, const std::string& value) override {
    link_.client_.store().set(key, value);
  }

  std::string get(const std::string& key, Duration timeout) override {
    const MonoTime end = system_clock().now() + timeout;
    while (true) {
      const Duration left = end - system_clock().now();
      try {
        return link_.client_.store().get(key,
                                         std::clamp(left, Duration(1), kSlice));
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::comm || left <= kSlice) throw;
      }
      if (link_.has_order() || (stop_ != nullptr && stop_->load())) {
        throw Error(ErrorKind::comm,
                    "gang: the group will not come about any more");
      }
    }
  }

 private:
  GangLink& link_;
  const std::atomic<bool>* stop_;
};

GangLink::GangLink(const RankInfo& rank)
    : member_(rank.member),
      client_(rank, [this](const gang::GiveUp& order) { give_up(order); }) {}

GangLink::~GangLink() { leave_groups(); }

gang::Order GangLink::wait(const std::atomic<bool>& stop,
                           const std::atomic<bool>* given_up) {
  while (true) {
    if (stop.load() || (given_up != nullptr && given_up->load())) {
      throw StepStopped();
    }
    if (orders_.empty()) {
      if (auto order = client_.poll(kLook)) return std::move(*order);
      continue;
    }
    gang::Order order = std::move(orders_.front());
    orders_.pop_front();
    return order;
  }
}

gang::Order GangLink::wait_for(int64_t round, const std::atomic<bool>& stop,
                               const std::atomic<bool>* given_up) {
  while (true) {
    gang::Order order = wait(stop, given_up);
    const auto* go = std::get_if<gang::Go>(&order);
    if (go == nullptr || go->round == round || go->last) return order;
  }
}

bool GangLink::has_order() {
  if (!orders_.empty()) return true;
  std::optional<gang::Order> order = client_.poll(Duration(0));
  if (order) orders_.push_back(std::move(*order));
  return !orders_.empty();
}

bool GangLink::is_void() {
  const auto voids = [](const gang::Order& order) {
    const auto* go = std::get_if<gang::Go>(&order);
    return go == nullptr || go->last;
  };
  if (std::any_of(orders_.begin(), orders_.end(), voids)) return true;
  while (auto order = client_.poll(Duration(0))) {
    orders_.push_back(std::move(*order));
    if (voids(orders_.back())) return true;
  }
  return false;
}

void GangLink::regroup(const gang::Regroup& order,
                       const std::atomic<bool>& stop) {
  if (order.incarnation == incarnation_) {
    whole_group();  // throws where it has left since
    return;
  }
  leave_groups();
  {
    const std::lock_guard lock(mutex_);
    members_ = order.members;
    std::sort(members_.begin(), members_.end());
    incarnation_ = order.incarnation;
  }
  auto whole = make_group(members_, group_name(incarnation_, members_, 0, -1),
                          order.patience, -1, &stop);
  const std::lock_guard lock(mutex_);
  whole_group_ = std::move(whole);
}

Collective& GangLink::whole_group() {
  if (whole_group_ == nullptr) {
    throw Error(ErrorKind::comm, "gang: this member has left its groups");
  }
  return *whole_group_;
}

int GangLink::rank_of(int member) const { return place_of(member, members_); }

// All participants have used the group in the same rounds, so they agree on
// whether it is here still: no member reduces over one that a peer has dropped.
Collective& GangLink::group(const std::vector<int>& participants, int64_t round,
                            Duration patience, int device) {
  if (participants == members_ && device < 0) return whole_group();
  Groups idle;  // destroyed without the lock
  {
    const std::lock_guard lock(mutex_);
    for (auto it = groups_.begin(); it != groups_.end();) {
      const auto here = it++;
      if (round - here->second.used > kIdleRounds) {
        idle.insert(groups_.extract(here));
      }
    }
  }
  const std::pair key{participants, device};
  if (const auto found = groups_.find(key); found != groups_.end()) {
    found->second.used = round;
    return *found->second.group;
  }
  for (const int member : participants) rank_of(member);
  CachedGroup made;
  made.group = make_group(participants,
                          group_name(incarnation_, participants, round, device),
                          std::max(patience, kGroupPatience), device, nullptr);
  made.used = round;
  const std::lock_guard lock(mutex_);
  return *groups_.emplace(key, std::move(made)).first->second.group;
}

void GangLink::leave_groups() {
  Groups groups;
  std::unique_ptr<Collective> whole;
  const std::lock_guard lock(mutex_);
  groups.swap(groups_);
  whole.swap(whole_group_);
}

// On the client's thread.
void GangLink::give_up(const gang::GiveUp& order) {
  const std::lock_guard lock(mutex_);
  if (order.incarnation != incarnation_) return;
  const auto give_up_in = [&order](const std::vector<int>& who,
                                   Collective& group) {
    const auto place = std::find(who.begin(), who.end(), order.member);
    if (place == who.end()) return;
    group.give_up_on(static_cast<int>(place - who.begin()));
  };
  if (whole_group_ != nullptr) give_up_in(members_, *whole_group_);
  for (const auto& [key, cached] : groups_) {
    give_up_in(key.first, *cached.group);
  }
}

std::unique_ptr<Collective> GangLink::make_group(
    const std::vector<int>& who, const std::string& name, Duration patience,
    int device, const std::atomic<bool>* stop) {
  const int rank = place_of(member_, who);
  if (who.size() == 1) return make_solo_group();
  const GroupOptions options{.rank = rank,
                             .size = static_cast<int>(who.size()),
                             .name = name,
                             .address = client_.address(),
                             .connect_timeout = patience,
                             .ports = allowed_ports()};
  Store store(*this, stop);
  if (device >= 0 && encrypts_ranks()) {
    throw Error(ErrorKind::config,
                "ranks on GPUs talk over NCCL, which does not encrypt (leave "
                "--encrypt-ranks out, or set train.device: cpu)");
  }
  if (device >= 0) return make_nccl_group(options, device, store);
  return make_gloo_group(options, store);
}

}  // namespace dtune
