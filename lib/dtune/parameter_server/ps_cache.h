// A worker's copy of the weights: the newest that has come whole, and its own
// updates that are not in it yet (read my writes). No LibTorch.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "dtune/parameter_server/ps_protocol.h"
#include "dtune/study/train_spec.h"
#include "dtune/train/update_rule.h"

namespace dtune {

// Not thread-safe.
class PsCache {
 public:
  PsCache(const TrainSpec& train, const ps::Layout& layout,
          std::vector<DecayRun> runs);

  // What server `server` sent. Pieces that do not fit are ignored.
  void receive(int server, const ps::Piece& piece);
  void served(int server, const ps::Served& served);

  // Of the copy; -1: there is none.
  int64_t version() const { return version_; }
  // The last of this worker's tickets that is in the copy, and the clock of
  // which all updates are.
  int64_t ticket() const { return ticket_; }
  int64_t min_clock() const { return min_clock_; }
  // Servers that have not sent all of `version`.
  std::vector<int> missing(int64_t version) const;

  // The copy with the own updates that it lacks.
  void read(std::span<float> weights) const;

  // Own updates that no copy has, at most. A worker that has them must wait for
  // newer weights: servers keep no more of its gradients than that.
  static constexpr size_t kMostOwn = 4;
  bool full() const { return own_.size() >= kMostOwn; }

  // REQUIRES: !full(). Remembers the update that this gradient will be, at
  // `lr`, until a copy has it. Its velocity begins at zero; Adam's moments are
  // of this worker's gradients alone, not of all as the server's.
  void wrote(int64_t ticket, std::span<const float> gradient, double lr,
             double scale);

  // REQUIRES: !full(). Likewise, but read() does not show it.
  void sent(int64_t ticket) { own_.push_back({ticket, {}}); }

  uint64_t resident_bytes() const;

 private:
  struct Incoming {
    std::vector<float> weights;
    std::vector<bool> served;  // by server
    size_t missing = 0;
    ps::Served last{};  // server 0's
  };
  struct Own {
    int64_t ticket = 0;
    std::vector<float> change;
  };

  Incoming* incoming(int64_t version);
  std::vector<float> fresh_array();
  bool fits(int server, const ps::Piece& piece) const;
  void adopt(int64_t version);
  void drop_known();

  TrainSpec train_;
  ps::Layout layout_;
  std::vector<DecayRun> runs_;
  std::vector<float> weights_;
  int64_t version_ = -1;
  int64_t ticket_ = 0;
  int64_t min_clock_ = 0;
  std::map<int64_t, Incoming> incoming_;
  std::vector<std::vector<float>> spare_;
  std::deque<Own> own_;
  std::vector<float> first_;
  std::vector<float> second_;
  int64_t writes_ = 0;
};

}  // namespace dtune
