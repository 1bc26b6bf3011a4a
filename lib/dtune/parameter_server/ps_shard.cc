#include "dtune/parameter_server/ps_shard.h"

#include <algorithm>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/parameter_server/ps_cache.h"
#include "dtune/parameter_server/ps_rules.h"

namespace dtune {
namespace {

constexpr size_t kMostSpare = 8;
// Of a worker: it may be served once for each gradient that it is ahead, and
// still use what it was sent before.
constexpr size_t kMostBackups = PsCache::kMostOwn + 2;

std::vector<float> cut(std::span<const float> whole, const ps::Range& slice) {
  if (whole.empty()) return {};
  const auto part = whole.subspan(static_cast<size_t>(slice.begin),
                                  static_cast<size_t>(slice.size()));
  return {part.begin(), part.end()};
}

std::vector<DecayRun> cut_runs(std::span<const DecayRun> runs,
                               const ps::Range& slice) {
  std::vector<DecayRun> own;
  for (const DecayRun& run : runs) {
    const int64_t begin = std::max(run.begin, slice.begin);
    const int64_t end = std::min(run.end, slice.end);
    if (begin < end) {
      own.push_back({begin - slice.begin, end - slice.begin, run.l2});
    }
  }
  return own;
}

void add_scaled(std::span<float> sum, std::span<const float> values,
                double factor) {
  const auto f = static_cast<float>(factor);
  float* __restrict__ to = sum.data();
  const float* __restrict__ from = values.data();
  for (size_t i = 0; i < sum.size(); ++i) to[i] += f * from[i];
}

}  // namespace

PsShard::PsShard(const TrainSpec& train, const ParameterServerSpec& spec,
                 const ps::Layout& layout, int server, const PsArrays& arrays)
    : train_(train),
      spec_(spec),
      slice_(layout.slice(server)),
      pieces_(layout.pieces(server)),
      runs_(cut_runs(arrays.runs, slice_)),
      weights_(cut(arrays.weights, slice_)),
      first_(cut(arrays.first, slice_)),
      second_(cut(arrays.second, slice_)) {
  if (spec.compensation == Compensation::adaptive) {
    mean_square_.resize(weights_.size());
  }
}

std::vector<float> PsShard::fresh_array() {
  if (spare_.empty()) return std::vector<float>(weights_.size());
  std::vector<float> values = std::move(spare_.back());
  spare_.pop_back();
  return values;
}

void PsShard::release(std::vector<float> values) {
  if (spare_.size() < kMostSpare && values.size() == weights_.size()) {
    spare_.push_back(std::move(values));
  }
}

PsShard::Gradient* PsShard::gradient_for(int member, int64_t ticket) {
  const auto found = gradients_.find({member, ticket});
  if (found != gradients_.end()) return &found->second;
  const auto decided = decided_.find(member);
  if (decided != decided_.end() && ticket <= decided->second) return nullptr;
  const auto begin = gradients_.lower_bound({member, INT64_MIN});
  const auto end = gradients_.upper_bound({member, INT64_MAX});
  if (std::distance(begin, end) >= kMostTickets) return nullptr;
  Gradient gradient{fresh_array(), std::vector<bool>(pieces_.size()),
                    pieces_.size()};
  return &gradients_.emplace(Key{member, ticket}, std::move(gradient))
              .first->second;
}

void PsShard::receive(int member, const ps::Piece& piece) {
  const auto range =
      std::find_if(pieces_.begin(), pieces_.end(), [&](const ps::Range& r) {
        return r.begin == piece.offset &&
               static_cast<size_t>(r.size()) * sizeof(float) ==
                   piece.floats.size();
      });
  if (range == pieces_.end()) return;
  Gradient* gradient = gradient_for(member, piece.key);
  const auto index = static_cast<size_t>(range - pieces_.begin());
  if (gradient == nullptr || gradient->came[index]) return;
  ps::copy_floats(piece.floats,
                  std::span(gradient->values)
                      .subspan(static_cast<size_t>(range->begin - slice_.begin),
                               static_cast<size_t>(range->size())));
  gradient->came[index] = true;
  --gradient->missing;
}

bool PsShard::complete(int member, int64_t ticket) const {
  if (pieces_.empty()) return true;
  const auto found = gradients_.find({member, ticket});
  return found != gradients_.end() && found->second.missing == 0;
}

std::vector<float> PsShard::take(const ps::Term& term) {
  int64_t& decided = decided_[term.member];
  decided = std::max(decided, term.ticket);
  if (pieces_.empty()) return {};
  const auto found = gradients_.find({term.member, term.ticket});
  if (found == gradients_.end() || found->second.missing > 0) {
    throw Error(ErrorKind::comm,
                fmt::format("parameter server: the gradient {} of member {} is "
                            "not here",
                            term.ticket, term.member));
  }
  std::vector<float> values = std::move(found->second.values);
  gradients_.erase(found);
  return values;
}

double PsShard::combine(const ps::Combine& order) {
  if (order.terms.size() == 1 && order.terms.front().factor == 1) {
    release(std::move(sum_));
    sum_ = take(order.terms.front());
  } else {
    sum_.assign(weights_.size(), 0);
    // In the order of the members: the sum does not depend on which came first.
    std::vector<ps::Term> terms = order.terms;
    std::sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) {
      return Key{a.member, a.ticket} < Key{b.member, b.ticket};
    });
    for (const ps::Term& term : terms) {
      std::vector<float> values = take(term);
      add_scaled(sum_, values, term.factor);
      release(std::move(values));
    }
  }
  return order.wants_squares ? sum_of_squares(sum_) : 0;
}

void PsShard::compensate_sum(const ps::Apply& order) {
  if (spec_.compensation == Compensation::none) return;
  const auto found = backups_.find(order.worker);
  if (found == backups_.end()) return;
  forget_old(found->second, order.version);
  if (found->second.empty() || found->second.front().version != order.version) {
    return;
  }
  compensate(spec_,
             {sum_, weights_, found->second.front().weights, mean_square_});
}

void PsShard::apply(const ps::Apply& order) {
  if (sum_.size() != weights_.size()) {
    throw Error(ErrorKind::comm, "parameter server: nothing to apply");
  }
  if (order.scale != 1) {
    for (float& g : sum_) g *= static_cast<float>(order.scale);
  }
  const UpdateStep step{.lr = order.lr, .number = order.number};
  if (order.worker < 0) {
    apply_update(train_, step, runs_, {weights_, sum_, first_, second_});
  } else {
    compensate_sum(order);
    apply_update(worker_rule(train_), step, runs_,
                 {weights_, sum_, velocity_of(order.worker), second_});
  }
  ++version_;
}

// A worker begins with what the step began with.
std::vector<float>& PsShard::velocity_of(int worker) {
  if (!has_own_velocity(train_)) return first_;
  return velocities_.try_emplace(worker, first_).first->second;
}

// Once: all ask for the state at a step's end.
void PsShard::merge_velocities() {
  if (velocities_.empty()) return;
  first_.assign(first_.size(), 0);
  const double share = 1 / static_cast<double>(velocities_.size());
  for (const auto& [worker, velocity] : velocities_) {
    add_scaled(first_, velocity, share);
  }
  velocities_.clear();
}

void PsShard::drop(const ps::Drop& order) {
  int64_t& decided = decided_[order.member];
  decided = std::max(decided, order.ticket);
  const auto found = gradients_.find({order.member, order.ticket});
  if (found == gradients_.end()) return;
  release(std::move(found->second.values));
  gradients_.erase(found);
}

// A gradient is never of older weights than the one before it.
void PsShard::forget_old(std::deque<Backup>& backups, int64_t version) {
  while (!backups.empty() && backups.front().version < version) {
    release(std::move(backups.front().weights));
    backups.pop_front();
  }
}

void PsShard::serve(const ps::Serve& order) {
  if (spec_.compensation == Compensation::none) return;
  std::deque<Backup>& backups = backups_[order.member];
  if (!backups.empty() && backups.back().version == version_) return;
  if (backups.size() >= kMostBackups) {
    forget_old(backups, backups.front().version + 1);
  }
  Backup backup{version_, fresh_array()};
  std::copy(weights_.begin(), weights_.end(), backup.weights.begin());
  backups.push_back(std::move(backup));
}

void PsShard::forget(const ps::Forget& order) { backups_.erase(order.member); }

std::span<const float> PsShard::values(ps::Content content) {
  switch (content) {
    case ps::Content::weights:
      return weights_;
    case ps::Content::first:
      merge_velocities();
      return first_;
    case ps::Content::second:
      return second_;
    case ps::Content::gradient:
    case ps::Content::buffers:
      break;
  }
  return {};
}

uint64_t PsShard::resident_bytes() const {
  uint64_t arrays = 3 + spare_.size() + gradients_.size() + velocities_.size();
  if (!second_.empty()) ++arrays;
  if (!mean_square_.empty()) ++arrays;
  for (const auto& [member, backups] : backups_) arrays += backups.size();
  return arrays * weights_.size() * sizeof(float);
}

}  // namespace dtune
