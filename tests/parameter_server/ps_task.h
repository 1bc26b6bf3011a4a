// A parameter server with real sockets, its servers and workers being threads,
// and a task small enough for a test: logistic regression.
#pragma once

#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dtune/base/random.h"
#include "dtune/comm/zap.h"
#include "dtune/parameter_server/ps_server.h"
#include "dtune/parameter_server/ps_worker.h"
#include "dtune/study/trial_runner.h"

namespace dtune {

// Two clouds of points. Weights: [dimensions + 1], the last is the bias; more
// parameters than that have no gradient (they make messages large).
class PsTask {
 public:
  PsTask(int64_t samples, int64_t dimensions, uint64_t seed)
      : dimensions_(dimensions) {
    Rng rng(seed);
    for (int64_t i = 0; i < samples; ++i) {
      const bool one = i % 2 == 1;
      labels_.push_back(one ? 1 : 0);
      for (int64_t d = 0; d < dimensions; ++d) {
        const double center = (one ? 0.5 : -0.5) * (d % 3 == 0 ? 1 : 0.2);
        points_.push_back(static_cast<float>(center + rng.normal()));
      }
    }
  }

  int64_t samples() const { return std::ssize(labels_); }
  int64_t parameters() const { return dimensions_ + 1; }

  // Sums over the samples [first, first + size); their mean gradient.
  LossTotals gradient(std::span<const float> w, int64_t first, int64_t size,
                      std::vector<float>& g) const {
    std::fill(g.begin(), g.end(), 0.0F);
    LossTotals totals;
    for (int64_t i = first; i < first + size; ++i) {
      const double p = probability(w, i);
      const double y = labels_[static_cast<size_t>(i)];
      totals.loss -= std::log(std::max(1e-12, y > 0 ? p : 1 - p));
      totals.correct += (p > 0.5) == (y > 0) ? 1 : 0;
      const auto slope =
          static_cast<float>((p - y) / static_cast<double>(size));
      for (int64_t d = 0; d < dimensions_; ++d) {
        g[static_cast<size_t>(d)] += slope * at(i, d);
      }
      g[static_cast<size_t>(dimensions_)] += slope;
    }
    totals.samples = size;
    totals.weight = static_cast<double>(size);
    return totals;
  }

  LossTotals judge(std::span<const float> w) const {
    std::vector<float> ignored(w.size());
    return gradient(w, 0, samples(), ignored);
  }

 private:
  float at(int64_t i, int64_t d) const {
    return points_[static_cast<size_t>(i * dimensions_ + d)];
  }
  double probability(std::span<const float> w, int64_t i) const {
    double z = w[static_cast<size_t>(dimensions_)];
    for (int64_t d = 0; d < dimensions_; ++d) {
      z += double{w[static_cast<size_t>(d)]} * at(i, d);
    }
    return 1 / (1 + std::exp(-z));
  }

  int64_t dimensions_;
  std::vector<float> points_;
  std::vector<int> labels_;
};

// One fidelity step: servers and workers until all are done.
class PsCluster {
 public:
  // `curve`: as between machines.
  PsCluster(const PsTask& task, PsPlan plan, std::vector<float> start,
            bool curve = false)
      : task_(task), plan_(std::move(plan)), start_(std::move(start)) {
    if (curve) admit_members();
    const int servers = plan_.parallel.ps.servers;
    for (int i = 0; i < servers; ++i) {
      PsServerOptions options;
      options.server = i;
      options.servers = servers;
      options.listen = listen_for(i);
      options.patience = patience;
      if (i > 0) options.server0 = address_of(0, plan_.parallel.ranks + i);
      contexts_.push_back(std::make_unique<SocketContext>());
      servers_.push_back(make_ps_server(*contexts_.back(), options));
    }
  }

  // What a worker does besides: told before each gradient; may sleep, or throw
  // to die.
  std::function<void(int member, const ps::Grant&)> before_gradient;
  // And after it, with the sums of its samples.
  std::function<void(int member, const LossTotals&)> after_gradient;
  Duration patience = std::chrono::seconds(90);

  // Returns the final weights of worker 0 (of the first that is left).
  std::vector<float> run() {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < servers_.size(); ++i) {
      threads.emplace_back([this, i] { serve(*servers_[i]); });
    }
    for (const int member : plan_.workers) {
      threads.emplace_back([this, member] { guarded_work(member); });
    }
    for (std::thread& thread : threads) thread.join();
    return final_weights;
  }

  std::string endpoint(int server) const {
    return servers_[static_cast<size_t>(server)]->endpoint();
  }
  // The servers' public key, where there is CURVE.
  const std::string& server_key() const { return keys_->public_key; }
  // Those that the servers have refused.
  std::vector<Refusal> take_refusals() { return allowed_->take_refusals(); }

  std::vector<float> final_weights;
  std::vector<float> first_moment;  // fetched by the one that finished first
  std::optional<ps::Final> final;
  std::vector<std::string> errors;
  PsReads reads;  // of all workers
  PsFigures figures;
  std::vector<float> buffers;  // as the workers get them

 private:
  ListenOptions listen_for(int server) {
    ListenOptions listen;
    if (!keys_) {
      listen.local = folder_.endpoint("s" + std::to_string(server));
      return listen;
    }
    listen.remote = "tcp://127.0.0.1:0";
    listen.security = ListenSecurity{*keys_, allowed_};
    return listen;
  }
  // Workers and followers.
  void admit_members() {
    keys_ = generate_curve_keys();
    std::vector<std::string> open;
    for (int i = 0; i < plan_.parallel.ranks + plan_.parallel.ps.servers; ++i) {
      members_.push_back(generate_curve_keys());
      open.push_back(members_.back().public_key);
    }
    allowed_->replace(open);
  }
  PsAddress address_of(int server, int member) {
    PsAddress address{.endpoint = endpoint(server)};
    if (keys_) {
      address.security =
          CurveClient{keys_->public_key, members_[static_cast<size_t>(member)]};
    }
    return address;
  }

  void serve(PsServer& server) {
    try {
      const std::vector<float> zeros(start_.size());
      const std::vector<DecayRun> runs = {{0, std::ssize(start_), 0}};
      const std::vector<float> running = {0, 0};
      PsStep step{.plan = plan_, .buffers = running};
      step.arrays = {start_, zeros, {}, runs};
      server.begin(step);
      while (!server.trained()) server.poll(std::chrono::milliseconds(50));
      // Until all workers have what they want.
      while (busy_ > 0) server.poll(std::chrono::milliseconds(5));
      if (&server == servers_.front().get()) figures = server.take_figures();
    } catch (const std::exception& error) {
      note(error);
    }
  }

  void guarded_work(int member) {
    try {
      work(member);
    } catch (const std::exception& error) {
      note(error);
    }
    --busy_;
  }

  void work(int member) {
    SocketContext context;
    PsWorkerOptions options;
    options.member = member;
    options.train = plan_.train;
    options.spec = plan_.parallel.ps;
    options.parameters = std::ssize(start_);
    options.runs = {{0, std::ssize(start_), 0}};
    options.patience = patience;
    for (int i = 0; i < plan_.parallel.ps.servers; ++i) {
      options.servers.push_back(address_of(i, member));
    }
    PsWorker worker(context, options);
    std::vector<float> weights(start_.size()), gradient(start_.size());
    while (const auto grant = worker.next(weights)) {
      const MonoTime begin = system_clock().now();
      if (before_gradient) before_gradient(member, *grant);
      const LossTotals totals =
          task_.gradient(weights, grant->first, grant->size, gradient);
      if (after_gradient) after_gradient(member, totals);
      worker.push(gradient, totals, to_seconds(system_clock().now() - begin));
    }
    std::vector<float> own = {static_cast<float>(member), 1};
    const ps::Final result = worker.finish(weights, own);
    std::vector<float> first(start_.size());
    worker.fetch_state(first, {});
    const std::lock_guard lock(mutex_);
    reads.all += worker.reads().all;
    reads.cached += worker.reads().cached;
    if (final) return;
    final = result;
    final_weights = weights;
    first_moment = first;
    buffers = own;
  }

  void note(const std::exception& error) {
    const std::lock_guard lock(mutex_);
    errors.emplace_back(error.what());
  }

  const PsTask& task_;
  PsPlan plan_;
  std::vector<float> start_;
  SocketDirectory folder_;
  std::optional<CurveKeys> keys_;   // the servers'
  std::vector<CurveKeys> members_;  // workers', then servers' as clients
  std::shared_ptr<AllowList> allowed_ = std::make_shared<AllowList>();
  std::vector<std::unique_ptr<SocketContext>> contexts_;
  std::vector<std::unique_ptr<PsServer>> servers_;
  std::atomic<int> busy_ = static_cast<int>(plan_.workers.size());
  std::mutex mutex_;
};

inline PsPlan task_plan(const PsTask& task, Consistency consistency,
                        int workers, double epochs) {
  PsPlan plan;
  plan.train.batch_size = 32;
  plan.train.lr = 0.2;
  plan.train.momentum = 0.5;
  plan.parallel.ranks = workers;
  plan.parallel.ps.consistency = consistency;
  plan.epochs = epochs;
  plan.epoch_samples = task.samples();
  plan.end = static_cast<int64_t>(epochs * static_cast<double>(task.samples()));
  for (int i = 0; i < workers; ++i) plan.workers.push_back(i);
  return plan;
}

}  // namespace dtune
