// Groups of every engine, as the contract tests want them.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/local_collective.h"
#include "comm/threads.h"

#include "dtune/comm/collective.h"

namespace dtune {

// One rank alone.
class SoloGroup {
 public:
  explicit SoloGroup(int size) { REQUIRE(size == 1); }
  Collective& group(int /*rank*/) const { return *group_; }

 private:
  std::unique_ptr<Collective> group_ = make_solo_group();
};

class LocalGroups {
 public:
  explicit LocalGroups(int size) : groups_(make_local_groups(size)) {}
  Collective& group(int rank) const {
    return *groups_[static_cast<size_t>(rank)];
  }
  void leave(int rank) { groups_[static_cast<size_t>(rank)].reset(); }

 private:
  std::vector<std::unique_ptr<Collective>> groups_;
};

// For ranks that are threads of the test.
class ThreadStore final : public RendezvousStore {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::string get(const std::string& key, Duration timeout) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout,
                           [&] { return values_.count(key) > 0; })) {
      throw Error(ErrorKind::comm, key + ": it was not set");
    }
    return values_[key];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

// Ranks that talk over TCP, though in one process.
class GlooGroups {
 public:
  explicit GlooGroups(int size) : groups_(static_cast<size_t>(size)) {
    ThreadStore store;
    on_ranks(size, [&](int rank) {
      groups_[static_cast<size_t>(rank)] = make_gloo_group(
          {.rank = rank, .size = size, .name = "g", .address = "127.0.0.1"},
          store);
    });
  }
  Collective& group(int rank) const {
    return *groups_[static_cast<size_t>(rank)];
  }
  void leave(int rank) { groups_[static_cast<size_t>(rank)].reset(); }

 private:
  std::vector<std::unique_ptr<Collective>> groups_;
};

}  // namespace dtune
