// The arrays of one parameter server: its slice of weights and optimizer state,
// and the gradients that wait for a decision. No LibTorch.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "dtune/parameter_server/ps_protocol.h"
#include "dtune/study/parallel_spec.h"
#include "dtune/study/train_spec.h"
#include "dtune/train/update_rule.h"

namespace dtune {

// A network's arrays, whole: what a server takes its slice of. `second` is
// empty for sgd.
struct PsArrays {
  std::span<const float> weights;
  std::span<const float> first;
  std::span<const float> second;
  std::span<const DecayRun> runs;
};

// Not thread-safe. Offsets and pieces are those of the layout, in parameters of
// the whole network.
class PsShard {
 public:
  PsShard(const TrainSpec& train, const ParameterServerSpec& spec,
          const ps::Layout& layout, int server, const PsArrays& arrays);

  // A piece of a gradient. What is no piece of this slice, has come before, is
  // of a ticket that was decided, or of more than a worker may have under way,
  // is ignored.
  void receive(int member, const ps::Piece& piece);
  // All pieces are here.
  bool complete(int member, int64_t ticket) const;

  // Orders. Gradients that are not complete are an Error(comm): server 0
  // orders complete ones only. Combine returns the sum's squares where they are
  // wanted.
  double combine(const ps::Combine& order);
  void apply(const ps::Apply& order);
  void drop(const ps::Drop& order);
  // Keeps the weights that the worker is sent, where they are needed later.
  void serve(const ps::Serve& order);
  void forget(const ps::Forget& order);

  ps::Range slice() const { return slice_; }
  const std::vector<ps::Range>& pieces() const { return pieces_; }
  // Updates applied since it was made.
  int64_t version() const { return version_; }
  // Of the slice; it has no `buffers` and no `gradient`. Where workers have
  // velocities of their own, `first` makes their mean of them: only once the
  // step is trained.
  std::span<const float> values(ps::Content content);
  uint64_t resident_bytes() const;

  // Gradients of a worker that wait for a decision. An honest one never has
  // more: ahead it has as many as PsCache::kMostOwn, in a synchronous batch one
  // and one for each other that died in it.
  static constexpr int kMostTickets = 16;

 private:
  struct Gradient {
    std::vector<float> values;
    std::vector<bool> came;  // by piece
    size_t missing = 0;
  };
  using Key = std::pair<int, int64_t>;  // member, ticket

  struct Backup {
    int64_t version = 0;
    std::vector<float> weights;
  };

  Gradient* gradient_for(int member, int64_t ticket);
  std::vector<float> take(const ps::Term& term);
  void release(std::vector<float> values);
  std::vector<float> fresh_array();
  std::vector<float>& velocity_of(int worker);
  void merge_velocities();
  void compensate_sum(const ps::Apply& order);
  void forget_old(std::deque<Backup>& backups, int64_t version);

  TrainSpec train_;
  ParameterServerSpec spec_;
  ps::Range slice_;
  std::vector<ps::Range> pieces_;
  std::vector<DecayRun> runs_;  // of the slice
  std::vector<float> weights_;
  std::vector<float> first_;
  std::vector<float> second_;
  std::map<int, std::vector<float>> velocities_;  // by worker; see ps_rules.h
  std::vector<float> sum_;                        // what is applied next
  std::vector<float> mean_square_;                // adaptive compensation
  std::map<Key, Gradient> gradients_;
  std::map<int, int64_t> decided_;  // ticket, by member
  std::map<int, std::deque<Backup>> backups_;
  std::vector<std::vector<float>> spare_;
  int64_t version_ = 0;
};

}  // namespace dtune
