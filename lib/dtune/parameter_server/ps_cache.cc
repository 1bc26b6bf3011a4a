#include "dtune/parameter_server/ps_cache.h"

#include <algorithm>
#include <utility>

#include "dtune/base/error.h"
#include "dtune/parameter_server/ps_rules.h"

namespace dtune {
namespace {

// Versions on their way at a time: servers send them in the same order.
constexpr size_t kMostIncoming = 8;

}  // namespace

PsCache::PsCache(const TrainSpec& train, const ps::Layout& layout,
                 std::vector<DecayRun> runs)
    : train_(worker_rule(train)),
      layout_(layout),
      runs_(std::move(runs)),
      weights_(static_cast<size_t>(layout.parameters())) {}

std::vector<float> PsCache::fresh_array() {
  if (spare_.empty()) return std::vector<float>(weights_.size());
  std::vector<float> array = std::move(spare_.back());
  spare_.pop_back();
  return array;
}

PsCache::Incoming* PsCache::incoming(int64_t version) {
  if (version <= version_) return nullptr;  // it is here
  const auto found = incoming_.find(version);
  if (found != incoming_.end()) return &found->second;
  if (incoming_.size() >= kMostIncoming) return nullptr;
  const auto servers = static_cast<size_t>(layout_.servers());
  Incoming fresh{.weights = fresh_array(),
                 .served = std::vector<bool>(servers),
                 .missing = servers};
  return &incoming_.emplace(version, std::move(fresh)).first->second;
}

bool PsCache::fits(int server, const ps::Piece& piece) const {
  const ps::Range slice = layout_.slice(server);
  const auto size = static_cast<int64_t>(piece.floats.size() / sizeof(float));
  return piece.offset >= slice.begin && size <= slice.size() &&
         piece.offset <= slice.end - size;
}

void PsCache::receive(int server, const ps::Piece& piece) {
  if (!fits(server, piece)) return;
  Incoming* to = incoming(piece.key);
  if (to == nullptr) return;
  ps::copy_floats(piece.floats,
                  std::span(to->weights)
                      .subspan(static_cast<size_t>(piece.offset),
                               piece.floats.size() / sizeof(float)));
}

void PsCache::served(int server, const ps::Served& served) {
  if (served.version == version_ && server == 0) {
    ticket_ = std::max(ticket_, served.ticket);
    min_clock_ = std::max(min_clock_, served.min_clock);
    drop_known();
    return;
  }
  Incoming* of = incoming(served.version);
  if (of == nullptr) return;
  // One version may be sent twice, the second time with a later ticket (whose
  // gradient was dropped).
  if (server == 0 && served.ticket >= of->last.ticket) of->last = served;
  if (of->served[static_cast<size_t>(server)]) return;
  of->served[static_cast<size_t>(server)] = true;
  if (--of->missing == 0) adopt(served.version);
}

void PsCache::adopt(int64_t version) {
  Incoming& whole = incoming_.at(version);
  weights_.swap(whole.weights);
  version_ = version;
  ticket_ = whole.last.ticket;
  min_clock_ = whole.last.min_clock;
  const auto newer = incoming_.upper_bound(version);
  for (auto old = incoming_.begin(); old != newer; ++old) {
    spare_.push_back(std::move(old->second.weights));
  }
  incoming_.erase(incoming_.begin(), newer);
  drop_known();
}

void PsCache::drop_known() {
  while (!own_.empty() && own_.front().ticket <= ticket_) own_.pop_front();
}

std::vector<int> PsCache::missing(int64_t version) const {
  std::vector<int> missing;
  if (version <= version_) return missing;
  const auto found = incoming_.find(version);
  for (int server = 0; server < layout_.servers(); ++server) {
    if (found == incoming_.end() ||
        !found->second.served[static_cast<size_t>(server)]) {
      missing.push_back(server);
    }
  }
  return missing;
}

void PsCache::read(std::span<float> weights) const {
  DTUNE_CHECK(weights.size() == weights_.size());
  std::copy(weights_.begin(), weights_.end(), weights.begin());
  for (const Own& own : own_) {
    if (own.change.empty()) continue;  // sent()
    for (size_t i = 0; i < weights.size(); ++i) weights[i] += own.change[i];
  }
}

void PsCache::wrote(int64_t ticket, std::span<const float> gradient, double lr,
                    double scale) {
  DTUNE_CHECK(gradient.size() == weights_.size());
  DTUNE_CHECK(!full());
  first_.resize(weights_.size());
  if (train_.optimizer != OptimizerKind::sgd) second_.resize(weights_.size());
  std::vector<float> before(weights_.size());
  read(before);
  std::vector<float> after = before;
  std::vector<float> used(gradient.begin(), gradient.end());
  apply_update(train_, {.lr = lr, .number = ++writes_, .gradient_scale = scale},
               runs_, {after, used, first_, second_});
  for (size_t i = 0; i < after.size(); ++i) after[i] -= before[i];
  own_.push_back({ticket, std::move(after)});
}

uint64_t PsCache::resident_bytes() const {
  const uint64_t arrays = 1 + incoming_.size() + own_.size() + spare_.size() +
                          (first_.empty() ? 0 : 1) + (second_.empty() ? 0 : 1);
  return arrays * weights_.size() * sizeof(float);
}

}  // namespace dtune
