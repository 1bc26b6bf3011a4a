// The last to come does the operation for all, under the group's lock: slow for
// large arrays and many ranks, but with the semantics of the engines: transfers
// meet (a send is done when it has been received), time-outs and leavers break
// the group for all.
#include "comm/local_collective.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

namespace dtune {
namespace {

using Lock = std::unique_lock<std::mutex>;

MonoTime deadline_after(Duration timeout) {
  const MonoTime now = system_clock().now();
  return timeout > MonoTime::max() - now ? MonoTime::max() : now + timeout;
}

enum class Operation { all_reduce, broadcast, barrier };

// One rank's part of a collective operation.
struct Part {
  Operation operation = Operation::barrier;
  int root = 0;
  std::span<float> data;
};

// One end of a transfer that waits for the other end.
struct Posted {
  const std::byte* from = nullptr;  // a send's
  std::byte* to = nullptr;          // a receive's
  size_t size = 0;
  bool done = false;
};

// What the ranks of a group share.
class Hub {
 public:
  explicit Hub(int size) : parts_(static_cast<size_t>(size)) {}

  int size() const { return static_cast<int>(parts_.size()); }

  void operate(int rank, const Part& part, Duration timeout) {
    const MonoTime deadline = deadline_after(timeout);
    Lock lock(mutex_);
    throw_if_broken();
    if (!left_.empty()) fail(left_, "left the group");
    parts_[static_cast<size_t>(rank)] = part;
    const int64_t round = round_;
    if (missing().empty()) {
      finish_round();
      return;
    }
    changed_.wait_until(lock, deadline,
                        [&] { return round_ != round || broken_; });
    if (round_ != round) return;
    if (!broken_) fail(missing(), "did not come in time");
    throw *broken_;
  }

  std::shared_ptr<Posted> post(int from, int to, uint32_t tag,
                               const Posted& end) {
    const Lock lock(mutex_);
    throw_if_broken();
    const int peer = end.to != nullptr ? from : to;
    for (const int rank : left_) {
      if (rank == peer) fail({peer}, "left the group");
    }
    auto& queue = posted_[{from, to, tag}];
    auto mine = std::make_shared<Posted>(end);
    const bool meets =
        !queue.empty() && (queue.front()->to == nullptr) != (end.to == nullptr);
    if (!meets) {
      queue.push_back(mine);
      return mine;
    }
    const std::shared_ptr<Posted> other = queue.front();
    queue.pop_front();
    transfer(*mine, *other, peer);
    changed_.notify_all();
    return mine;
  }

  void wait(const Posted& posted, int peer, Duration timeout) {
    const MonoTime deadline = deadline_after(timeout);
    Lock lock(mutex_);
    changed_.wait_until(lock, deadline, [&] { return posted.done || broken_; });
    if (posted.done) return;
    if (!broken_) fail({peer}, "did not come in time");
    throw *broken_;
  }

  // A transfer is given up: its memory is not touched from now on.
  void abandon(const Posted& posted, int peer) {
    const Lock lock(mutex_);
    if (!posted.done && !broken_) {
      set_broken({peer}, "had not come when a transfer was given up");
    }
  }

  void leave(int rank) {
    const Lock lock(mutex_);
    left_.push_back(rank);
    const bool awaited = waits_for(rank);
    if (awaited && !broken_) set_broken({rank}, "left the group");
  }

 private:
  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < size(); ++rank) {
      if (!parts_[static_cast<size_t>(rank)]) ranks.push_back(rank);
    }
    return ranks;
  }

  // Is anybody inside an operation that needs `rank`?
  bool waits_for(int rank) const {
    if (missing().size() < parts_.size()) return true;
    for (const auto& [key, queue] : posted_) {
      const auto& [from, to, tag] = key;
      if ((from == rank || to == rank) && !queue.empty()) return true;
    }
    return false;
  }

  void throw_if_broken() const {
    if (broken_) throw *broken_;
  }

  void set_broken(const std::vector<int>& ranks, const char* what) {
    const std::string who = ranks.empty() ? "" : rank_names(ranks) + " ";
    broken_ = RanksMissing(ranks, "group of threads: " + who + what);
    posted_.clear();
    changed_.notify_all();
  }

  [[noreturn]] void fail(const std::vector<int>& ranks, const char* what) {
    set_broken(ranks, what);
    throw *broken_;
  }

  void transfer(Posted& mine, Posted& other, int peer) {
    Posted& sender = mine.from != nullptr ? mine : other;
    Posted& receiver = mine.from != nullptr ? other : mine;
    if (sender.size != receiver.size) {
      fail({peer}, "disagrees about the size of a transfer");
    }
    if (sender.size > 0) {
      std::memcpy(receiver.to, sender.from, sender.size);
    }
    mine.done = other.done = true;
  }

  // All parts are here.
  void finish_round() {
    const Part& first = *parts_.front();
    for (const auto& part : parts_) {
      if (part->operation != first.operation || part->root != first.root ||
          part->data.size() != first.data.size()) {
        fail({}, "the ranks run different operations");
      }
    }
    if (first.operation == Operation::all_reduce) {
      add_up();
    } else if (first.operation == Operation::broadcast) {
      copy_from(static_cast<size_t>(first.root));
    }
    for (auto& part : parts_) part.reset();
    ++round_;
    changed_.notify_all();
  }

  void add_up() {
    const std::span<float> sum = parts_.front()->data;
    for (size_t rank = 1; rank < parts_.size(); ++rank) {
      const std::span<const float> data = parts_[rank]->data;
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += data[i];
    }
    copy_from(0);
  }

  void copy_from(size_t root) {
    const std::span<const float> data = parts_[root]->data;
    for (size_t rank = 0; rank < parts_.size(); ++rank) {
      if (rank == root) continue;
      std::copy(data.begin(), data.end(), parts_[rank]->data.begin());
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<Part>> parts_;  // of the round under way
  int64_t round_ = 0;
  // By from, to and tag; all entries of a queue are of the same end.
  std::map<std::tuple<int, int, uint32_t>, std::deque<std::shared_ptr<Posted>>>
      posted_;
  std::vector<int> left_;
  std::optional<RanksMissing> broken_;
};

class LocalTransfer final : public Transfer {
 public:
  LocalTransfer(std::shared_ptr<Hub> hub, std::shared_ptr<Posted> posted,
                int peer)
      : hub_(std::move(hub)), posted_(std::move(posted)), peer_(peer) {}
  ~LocalTransfer() override {
    if (!waited_) hub_->abandon(*posted_, peer_);
  }
  LocalTransfer(const LocalTransfer&) = delete;
  LocalTransfer& operator=(const LocalTransfer&) = delete;

  void wait(Duration timeout) override {
    waited_ = true;
    hub_->wait(*posted_, peer_, timeout);
  }

 private:
  std::shared_ptr<Hub> hub_;
  std::shared_ptr<Posted> posted_;
  int peer_;
  bool waited_ = false;
};

class LocalCollective final : public Collective {
 public:
  LocalCollective(std::shared_ptr<Hub> hub, int rank)
      : hub_(std::move(hub)), rank_(rank) {}
  ~LocalCollective() override { hub_->leave(rank_); }
  LocalCollective(const LocalCollective&) = delete;
  LocalCollective& operator=(const LocalCollective&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }

  void all_reduce(std::span<float> data, Duration timeout) override {
    hub_->operate(rank_, {Operation::all_reduce, 0, data}, timeout);
  }
  void broadcast(std::span<float> data, int root, Duration timeout) override {
    DTUNE_CHECK(is_rank(root));
    hub_->operate(rank_, {Operation::broadcast, root, data}, timeout);
  }
  void barrier(Duration timeout) override {
    hub_->operate(rank_, {Operation::barrier, 0, {}}, timeout);
  }

  std::unique_ptr<Transfer> start_send(
      int to, uint32_t tag, std::span<const std::byte> data) override {
    DTUNE_CHECK(is_rank(to) && to != rank_);
    // An empty span may have no address; it distinguishes the ends.
    static constexpr std::byte kNothing{};
    const std::byte* from = data.empty() ? &kNothing : data.data();
    auto posted = hub_->post(rank_, to, tag, {from, nullptr, data.size()});
    return std::make_unique<LocalTransfer>(hub_, std::move(posted), to);
  }
  std::unique_ptr<Transfer> start_receive(int from, uint32_t tag,
                                          std::span<std::byte> data) override {
    DTUNE_CHECK(is_rank(from) && from != rank_);
    static std::byte nothing{};
    std::byte* to = data.empty() ? &nothing : data.data();
    auto posted = hub_->post(from, rank_, tag, {nullptr, to, data.size()});
    return std::make_unique<LocalTransfer>(hub_, std::move(posted), from);
  }

 private:
  bool is_rank(int rank) const { return rank >= 0 && rank < size(); }

  std::shared_ptr<Hub> hub_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Collective>> make_local_groups(int size) {
  auto hub = std::make_shared<Hub>(size);
  std::vector<std::unique_ptr<Collective>> groups;
  for (int rank = 0; rank < size; ++rank) {
    groups.push_back(std::make_unique<LocalCollective>(hub, rank));
  }
  return groups;
}

}  // namespace dtune
