// A parameter server in virtual time: PsClock and PsShards as server processes
// have them, workers that a test moves by hand. Messages arrive at once.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "dtune/parameter_server/ps_clock.h"
#include "dtune/parameter_server/ps_shard.h"

namespace dtune {

struct VirtualWorker {
  std::deque<ps::Grant> grants;
  // The weights sent last, and what came with them.
  std::vector<float> weights;
  int64_t version = -1;
  int64_t min_clock = 0;
  bool finishing = false;
};

class VirtualServers {
 public:
  VirtualServers(const PsPlan& plan, std::vector<float> weights, int servers,
                 std::vector<DecayRun> runs = {}, PsSpeeds speeds = {})
      : plan_(plan),
        layout_(std::ssize(weights), servers),
        clock(plan, std::move(speeds)),
        zeros_(weights.size()) {
    if (runs.empty()) runs = {{0, std::ssize(weights), plan.train.l2}};
    const bool sgd = plan.train.optimizer == OptimizerKind::sgd;
    for (int i = 0; i < servers; ++i) {
      shards.emplace_back(
          plan.train, plan.parallel.ps, layout_, i,
          PsArrays{weights, zeros_, sgd ? std::span<const float>() : zeros_,
                   runs});
    }
  }

  void join(int member, uint64_t nonce = 1) {
    workers[member] = {};
    clock.present(member, nonce);
    run();
  }
  void join_all() {
    for (const int member : plan_.workers) join(member);
  }
  void kill(int member) {
    workers.erase(member);
    clock.gone(member);
    run();
  }

  void leave_out(int member) {
    clock.leave_out(member);
    run();
  }

  // The worker's oldest work is done, with this gradient (and as many samples
  // as were granted); it used the weights that it has now, or `version`.
  ps::Grant push(int member, std::vector<float> gradient, double weight = 0,
                 std::optional<int64_t> version = std::nullopt) {
    VirtualWorker& worker = workers.at(member);
    const ps::Grant grant = worker.grants.front();
    worker.grants.pop_front();
    for (PsShard& shard : shards) {
      for (const ps::Range& piece : shard.pieces()) {
        shard.receive(member,
                      {.session = plan_.session,
                       .key = grant.ticket,
                       .offset = piece.begin,
                       .floats = ps::bytes_of(std::span(gradient).subspan(
                           static_cast<size_t>(piece.begin),
                           static_cast<size_t>(piece.size())))});
      }
    }
    ps::Push push{
        .session = plan_.session,
        .ticket = grant.ticket,
        .version = version.value_or(worker.version),
        .totals = {.loss = loss,
                   .weight =
                       weight > 0 ? weight : static_cast<double>(grant.size),
                   .samples = grant.size},
        .seconds = seconds[member]};
    for (const float g : gradient) push.squares += double{g} * g;
    clock.came_back(member, &push);
    clock.pushed(member, push);
    run();
    return grant;
  }

  std::vector<float> weights() { return values(ps::Content::weights); }

  std::vector<float> values(ps::Content content) {
    std::vector<float> all;
    for (PsShard& shard : shards) {
      const auto part = shard.values(content);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  const ps::Grant& grant(int member) const {
    return workers.at(member).grants.front();
  }
  bool idle(int member) const { return workers.at(member).grants.empty(); }

  void finish() {
    for (const auto& [member, worker] : workers) clock.collected(member);
  }

 private:
  PsPlan plan_;
  ps::Layout layout_;

 public:
  PsClock clock;
  std::vector<PsShard> shards;
  std::map<int, VirtualWorker> workers;
  std::map<int, double> seconds;  // of a gradient, as told
  double loss = 1;
  std::vector<ps::Apply> applied;

 private:
  void run() {
    std::vector<PsAction> actions = clock.take_actions();
    while (!actions.empty()) {
      for (const PsAction& action : actions) execute(action);
      actions = clock.take_actions();
    }
  }

  void execute(const PsAction& action) {
    if (const auto* letter = std::get_if<PsToWorker>(&action)) {
      const auto worker = workers.find(letter->member);
      if (worker == workers.end()) return;
      if (const auto* grant = std::get_if<ps::Grant>(&letter->message)) {
        worker->second.grants.push_back(*grant);
      } else if (std::holds_alternative<ps::Finish>(letter->message)) {
        worker->second.finishing = true;
      }
      return;
    }
    const auto& order = std::get<ps::Order>(action);
    if (const auto* combine = std::get_if<ps::Combine>(&order)) {
      double squares = 0;
      for (PsShard& shard : shards) squares += shard.combine(*combine);
      if (combine->wants_squares) clock.combined(squares);
    } else if (const auto* apply = std::get_if<ps::Apply>(&order)) {
      applied.push_back(*apply);
      for (PsShard& shard : shards) shard.apply(*apply);
    } else if (const auto* drop = std::get_if<ps::Drop>(&order)) {
      for (PsShard& shard : shards) shard.drop(*drop);
    } else if (const auto* serve = std::get_if<ps::Serve>(&order)) {
      serve_worker(*serve);
    } else {
      for (PsShard& shard : shards) shard.forget(std::get<ps::Forget>(order));
    }
  }

  void serve_worker(const ps::Serve& serve) {
    for (PsShard& shard : shards) shard.serve(serve);
    const auto worker = workers.find(serve.member);
    if (worker == workers.end()) return;
    worker->second.weights = weights();
    worker->second.version = shards.front().version();
    worker->second.min_clock = serve.min_clock;
  }

  std::vector<float> zeros_;
};

// A step of `samples` (one epoch) in batches of 8 for `ranks` workers; sgd
// without momentum at lr 0.1, so that numbers can be followed by hand. Every
// worker's share is equal.
inline PsPlan virtual_plan(Consistency consistency, int ranks,
                           int64_t samples = 64) {
  PsPlan plan;
  plan.train.batch_size = 8;
  plan.train.lr = 0.1;
  plan.train.momentum = 0;
  plan.parallel.ranks = ranks;
  plan.parallel.stragglers = StragglerPolicy::off;
  plan.parallel.ps.consistency = consistency;
  plan.parallel.ps.staleness_lr = StalenessRule::none;
  plan.parallel.ps.discard = 1000;
  plan.epoch_samples = samples;
  plan.end = samples;
  plan.session = 1;
  for (int i = 0; i < ranks; ++i) plan.workers.push_back(i);
  return plan;
}

}  // namespace dtune
