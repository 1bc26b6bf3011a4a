#include "dtune/comm/gloo_watch.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include "dtune/comm/gloo_mesh.h"

namespace dtune {
namespace {

using std::chrono::milliseconds;
using Lock = std::unique_lock<std::mutex>;
using Buffer = gloo::transport::UnboundBuffer;

constexpr uint64_t kWatchSlot = 1;  // of the messages
constexpr milliseconds kWatchForever = std::chrono::hours(24 * 365);

// How often it is checked which connections were closed.
constexpr milliseconds kWatchLook(10);

// All ranks run the same program, so the bytes are sent as they are.
struct Farewell {
  int64_t operations = 0;  // of all ranks, begun
};

struct Peer {
  std::optional<Farewell> farewell;
  bool closed = false;  // its connection, when we said farewell
};

struct Verdict {
  std::vector<int> ranks;
  std::string text;
};

// "rank 2 is gone", "ranks 2 and 3 are gone"; joined by "; ".
void add_to(Verdict& verdict, const std::vector<int>& ranks,
            const std::string& one, const std::string& many) {
  if (ranks.empty()) return;
  if (!verdict.text.empty()) verdict.text += "; ";
  verdict.text += rank_names(ranks) + " " + (ranks.size() == 1 ? one : many);
  verdict.ranks.insert(verdict.ranks.end(), ranks.begin(), ranks.end());
  std::sort(verdict.ranks.begin(), verdict.ranks.end());
}

}  // namespace

struct GlooWatch::Impl {
  enum class State { open, giving_up, given_up };

  std::shared_ptr<gloo::Context> data;
  std::shared_ptr<gloo::Context> control;
  std::string group;
  Farewell incoming;
  std::unique_ptr<Buffer> inbox;

  mutable std::mutex mutex;
  std::condition_variable timer_wakes;
  mutable std::condition_variable changed;
  State state = State::open;
  bool stopping = false;
  bool asked = false;               // to give up
  std::vector<int> standing_still;  // ranks, of the operation under way
  std::vector<Peer> peers;
  int64_t operations = 0;
  // Of the operation under way.
  bool busy = false;
  std::optional<int> peer;  // none: all ranks
  Duration timeout{0};
  MonoTime deadline{};
  MonoTime timer_sleeps_until{};
  std::string failure;  // what Gloo said
  Verdict verdict;

  std::thread listener;
  std::thread timer;

  Impl(const Meshes& meshes, std::string a_group)
      : data(meshes.data),
        control(meshes.control),
        group(std::move(a_group)),
        inbox(control->createUnboundBuffer(&incoming, sizeof(incoming))),
        peers(static_cast<size_t>(control->size)) {
    listener = std::thread([this] { listen(); });
    timer = std::thread([this] { keep_time(); });
  }

  ~Impl() {
    {
      const Lock lock(mutex);
      stopping = true;
    }
    timer_wakes.notify_all();
    changed.notify_all();
    inbox->abortWaitRecv();
    timer.join();
    listener.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::vector<int> others() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < control->size; ++rank) {
      if (rank != control->rank) ranks.push_back(rank);
    }
    return ranks;
  }

  Peer& peer_of(int rank) { return peers[static_cast<size_t>(rank)]; }

  // The listener's thread: receives farewells.
  void listen() {
    try {
      for (;;) {
        int from = 0;
        inbox->recv(others(), kWatchSlot, 0, sizeof(incoming));
        if (!inbox->waitRecv(&from, kWatchForever)) return;
        const Lock lock(mutex);
        peer_of(from).farewell = incoming;
        timer_wakes.notify_all();
        changed.notify_all();
      }
    } catch (const std::exception&) {  // the connections are closed
    }
  }

  bool must_give_up() const {
    const bool heard = std::any_of(peers.begin(), peers.end(), [](auto& p) {
      return p.farewell.has_value();
    });
    return asked || heard || (busy && system_clock().now() >= deadline);
  }

  // The timer's thread. Sleeps until the deadline that it saw last, even if
  // that operation has long ended: so beginning one wakes no thread.
  void keep_time() {
    Lock lock(mutex);
    while (!stopping) {
      if (must_give_up()) {
        say_farewell(lock);
        return;
      }
      if (deadline > system_clock().now()) {
        timer_sleeps_until = deadline;
        timer_wakes.wait_until(lock, timer_sleeps_until);
      } else {
        timer_sleeps_until = MonoTime::max();
        timer_wakes.wait(lock);
      }
    }
  }

  void say_farewell(Lock& lock) {
    state = State::giving_up;
    lock.unlock();
    break_mesh(*data);
    lock.lock();
    Farewell mine{operations};
    const MonoTime end = system_clock().now() + kGrace;
    std::vector<std::unique_ptr<Buffer>> outbox(peers.size());
    for (const int rank : others()) {
      auto& buffer = outbox[static_cast<size_t>(rank)];
      buffer = control->createUnboundBuffer(&mine, sizeof(mine));
      try {
        buffer->send(rank, kWatchSlot, 0, sizeof(mine));
      } catch (const std::exception&) {
        peer_of(rank).closed = true;
      }
    }
    while (!stopping && !all_known() && system_clock().now() < end) {
      changed.wait_for(lock, kWatchLook);
      find_closed(outbox);
    }
    if (!stopping) verdict = judge();
    const bool patient = !stopping;
    lock.unlock();
    if (patient) finish_sending(outbox, end);
    break_mesh(*control);
    lock.lock();
    state = State::given_up;
    changed.notify_all();
  }

  // A message that waits for a peer fails when the connection closes.
  void find_closed(const std::vector<std::unique_ptr<Buffer>>& outbox) {
    for (const int rank : others()) {
      Buffer& buffer = *outbox[static_cast<size_t>(rank)];
      try {
        buffer.abortWaitSend();  // does not wait, then
        buffer.waitSend(nullptr, kWatchForever);
      } catch (const std::exception&) {
        peer_of(rank).closed = true;
      }
    }
  }

  bool all_known() const {
    for (int rank = 0; rank < control->size; ++rank) {
      const Peer& p = peers[static_cast<size_t>(rank)];
      const bool answers = !p.farewell && !p.closed &&
                           std::ranges::count(standing_still, rank) == 0;
      if (rank != control->rank && answers) return false;
    }
    return true;
  }

  // Ranks that answered get ours before the connections are closed.
  void finish_sending(const std::vector<std::unique_ptr<Buffer>>& outbox,
                      MonoTime end) {
    for (const int rank : others()) {
      if (!peer_of(rank).farewell || peer_of(rank).closed) continue;
      const Duration left =
          std::max(end - system_clock().now(), Duration(milliseconds(50)));
      try {
        outbox[static_cast<size_t>(rank)]->waitSend(
            nullptr, std::chrono::duration_cast<milliseconds>(left));
      } catch (const std::exception&) {  // it has heard enough, and closed
      }
    }
  }

  Verdict judge() {
    std::vector<int> gone;
    std::vector<int> silent;
    std::vector<int> late;
    std::vector<int> heard;
    for (const int rank : others()) {
      const Peer& p = peer_of(rank);
      if (!p.farewell) {
        (p.closed ? gone : silent).push_back(rank);
        continue;
      }
      heard.push_back(rank);
      const bool awaited =
          busy && (peer ? *peer == rank : p.farewell->operations < operations);
      if (awaited) late.push_back(rank);
    }
    Verdict found;
    add_to(found, gone, "is gone", "are gone");
    add_to(found, silent, "does not answer", "do not answer");
    if (gone.empty() && silent.empty()) {
      const std::string not_come =
          fmt::format("did not come within {:g} s", to_seconds(timeout));
      add_to(found, late, not_come, not_come);
    }
    if (found.text.empty()) found.text = reason_without_names(heard);
    return found;
  }

  std::string reason_without_names(const std::vector<int>& heard) const {
    if (!failure.empty()) return failure;
    if (busy && system_clock().now() >= deadline) {
      return fmt::format("not done within {:g} s", to_seconds(timeout));
    }
    return heard.empty() ? "given up" : rank_names(heard) + " gave up";
  }

  [[noreturn]] void throw_verdict() const {
    throw RanksMissing(verdict.ranks, group + ": " + verdict.text);
  }

  void wait_until_given_up(Lock& lock) {
    changed.wait(lock, [this] { return state == State::given_up; });
  }
};

GlooWatch::GlooWatch(const Meshes& meshes, std::string group)
    : impl_(std::make_unique<Impl>(meshes, std::move(group))) {}

GlooWatch::~GlooWatch() = default;

void GlooWatch::begin(std::optional<int> peer, Duration timeout) {
  Impl& w = *impl_;
  Lock lock(w.mutex);
  if (w.state != Impl::State::open) {
    w.wait_until_given_up(lock);
    w.throw_verdict();
  }
  const MonoTime now = system_clock().now();
  w.deadline =
      timeout > MonoTime::max() - now ? MonoTime::max() : now + timeout;
  w.timeout = timeout;
  w.peer = peer;
  w.busy = true;
  if (!peer) ++w.operations;
  w.standing_still.clear();
  if (w.deadline < w.timer_sleeps_until) w.timer_wakes.notify_all();
}

void GlooWatch::end() {
  const Lock lock(impl_->mutex);
  impl_->busy = false;
}

void GlooWatch::fail(const std::string& what) {
  Impl& w = *impl_;
  Lock lock(w.mutex);
  w.asked = true;
  w.failure = what;
  w.timer_wakes.notify_all();
  w.wait_until_given_up(lock);
  w.throw_verdict();
}

void GlooWatch::give_up() {
  Impl& w = *impl_;
  Lock lock(w.mutex);
  w.asked = true;
  w.timer_wakes.notify_all();
  w.wait_until_given_up(lock);
}

void GlooWatch::give_up_on(int rank) {
  Impl& w = *impl_;
  const Lock lock(w.mutex);
  const bool open = w.state == Impl::State::open;
  const bool needed = w.busy && (!w.peer || *w.peer == rank);
  if (open && !needed) return;
  w.asked = true;
  w.standing_still.push_back(rank);
  w.timer_wakes.notify_all();
  w.changed.notify_all();
}

void GlooWatch::throw_if_given_up() const {
  Impl& w = *impl_;
  Lock lock(w.mutex);
  if (w.state == Impl::State::open) return;
  w.wait_until_given_up(lock);
  w.throw_verdict();
}

}  // namespace dtune
