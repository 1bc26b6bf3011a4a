#include "dtune/train/fused_trainer.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "dtune/study/trial_runner.h"
#include "dtune/train/device.h"
#include "dtune/train/fused_batch.h"

namespace dtune {
namespace {

std::string shape_of(Trainer& trainer) {
  const TrainSpec& train = trainer.train_spec();
  return fmt::format("{} {} {} {} {} {} {}", trainer.architecture(),
                     static_cast<int>(train.precision),
                     trainer.options().device.str(), trainer.count(),
                     train.batch_size, train.optimizer == OptimizerKind::sgd,
                     train.ema > 0);
}

}  // namespace

// A call of train_to.
struct FusedTrainer::Job {
  Trainer* trainer;
  int64_t end;
  const std::atomic<bool>* stop;
  const Trainer::AfterBatch* after_batch;
  std::atomic<int>* together;
  LossTotals totals{};
  std::exception_ptr failure{};
  bool done = false;  // guarded by the mutex

  bool over() const { return failure != nullptr || trainer->position() >= end; }
};

// The jobs of one shape.
struct FusedTrainer::Group {
  std::vector<Job*> jobs;  // guarded by the mutex
  bool led = false;        // likewise
  std::condition_variable changed;

  // Of the thread that leads:
  size_t* most = nullptr;  // trainers of the shape that fit; outlives this
  std::unique_ptr<FusedBatch> batch;
  std::vector<Job*> members;  // of the batch, row by row
  bool fresh = false;         // it has trained nothing yet

  static void train_alone(Job& job);
  static int64_t usual_size(const std::vector<Job*>& jobs);
  bool has(const Job& job) const;
  void train_one_batch(std::vector<Job*> now);
  bool fuse(const std::vector<Job*>& now);
  void train(const std::vector<Job*>& now, bool fused);
  void train_fused(const std::vector<Job*>& now);
  bool train_odd_sizes(const std::vector<Job*>& now);
  void leave(Job& job);
  void store_all();
  void give_up(size_t trainers);
  void fail(const std::vector<Job*>& now, const std::exception_ptr& failure);
};

// One batch.
void FusedTrainer::Group::train_alone(Job& job) {
  try {
    job.totals += job.trainer->train_to(job.trainer->position() + 1, *job.stop,
                                        *job.after_batch);
  } catch (...) {
    job.failure = std::current_exception();
  }
}

// Whether the weights that it has trained are in the batch.
bool FusedTrainer::Group::has(const Job& job) const {
  return batch != nullptr &&
         std::ranges::count(batch->trainers(), job.trainer) > 0;
}

// The size of most trainers' next batch; of two, the larger.
int64_t FusedTrainer::Group::usual_size(const std::vector<Job*>& jobs) {
  std::map<int64_t, size_t> counts;
  for (const Job* job : jobs) {
    ++counts[job->trainer->next_batch().size];
  }
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) {
                            return std::pair(a.second, a.first) <
                                   std::pair(b.second, b.first);
                          })
      ->first;
}

void FusedTrainer::Group::store_all() {
  if (batch == nullptr) return;
  for (size_t row = 0; row < batch->trainers().size(); ++row) {
    if (batch->trainers()[row] != nullptr) batch->store(row);
  }
  batch.reset();
}

// What it has trained is in its trainer afterwards, unless it failed.
void FusedTrainer::Group::leave(Job& job) {
  if (batch == nullptr) return;
  const std::vector<Trainer*>& rows = batch->trainers();
  const auto found = std::find(rows.begin(), rows.end(), job.trainer);
  if (found == rows.end()) return;
  const auto row = static_cast<size_t>(found - rows.begin());
  if (job.trainer->position() >= job.end || job.stop->load()) batch->store(row);
  batch->release(row);
}

// Its tensors are lost or short of memory; the trainers have theirs.
void FusedTrainer::Group::give_up(size_t trainers) {
  fmt::print(stderr, "{} trials of this slot take turns: they do not fit\n",
             trainers);
  *most = std::min(*most, trainers - 1);
  if (fresh) batch.reset();
  store_all();
}

// False: they take turns.
bool FusedTrainer::Group::fuse(const std::vector<Job*>& now) {
  if (now.size() < 2 || now.size() > *most) {
    store_all();
    return false;
  }
  std::vector<Trainer*> trainers;
  trainers.reserve(now.size());
  for (const Job* job : now) trainers.push_back(job->trainer);
  if (batch != nullptr && batch->trainers() == trainers) return true;
  store_all();
  fresh = true;
  members = now;
  try {
    batch = std::make_unique<FusedBatch>(std::move(trainers));
  } catch (const std::exception&) {
    give_up(now.size());
  }
  return batch != nullptr;
}

// Whether there were any.
bool FusedTrainer::Group::train_odd_sizes(const std::vector<Job*>& now) {
  const int64_t usual = usual_size(now);
  bool any = false;
  for (size_t row = 0; row < now.size(); ++row) {
    if (now[row]->trainer->next_batch().size == usual) continue;
    any = true;
    batch->store(row);
    train_alone(*now[row]);
    batch->load(row);
  }
  return any;
}

void FusedTrainer::Group::train_fused(const std::vector<Job*>& now) {
  std::vector<FusedBatch::Result> results;
  try {
    results = batch->train();
  } catch (const std::exception&) {
    give_up(now.size());
    return;
  }
  fresh = false;
  for (size_t row = 0; row < results.size(); ++row) {
    members[row]->totals += results[row].totals;
    members[row]->failure = results[row].failure;
  }
  for (const Job* job : now) {
    if (*job->after_batch) (*job->after_batch)(job->trainer->position());
  }
}

// The batch is lost, also for those that are at their end and have not got what
// is theirs yet.
void FusedTrainer::Group::fail(const std::vector<Job*>& now,
                               const std::exception_ptr& failure) {
  for (Job* job : now) {
    if (!job->over() || (has(*job) && !job->failure)) job->failure = failure;
  }
  batch.reset();
}

void FusedTrainer::Group::train(const std::vector<Job*>& now, bool fused) {
  if (!fused) {
    for (Job* job : now) train_alone(*job);
  } else if (!train_odd_sizes(now)) {
    train_fused(now);
  }
}

void FusedTrainer::Group::train_one_batch(std::vector<Job*> now) {
  const auto over = [](const Job* job) { return job->over(); };
  const auto stops = [](const Job* job) { return job->stop->load(); };
  for (Job* job : now) {
    if (!job->over() && stops(job)) {
      job->failure = std::make_exception_ptr(StepStopped());
    }
    if (job->over()) leave(*job);
  }
  std::erase_if(now, over);
  const bool fused = fuse(now);
  for (Job* job : now) {
    if (job->together == nullptr) continue;
    *job->together = fused ? static_cast<int>(now.size()) : 1;
  }
  train(now, fused);
  for (Job* job : now) {
    if (job->over()) leave(*job);
  }
}

FusedTrainer::FusedTrainer() = default;
FusedTrainer::~FusedTrainer() = default;

SideBySide& FusedTrainer::beside(const at::Device& device) {
  const std::lock_guard lock(mutex_);
  return beside_.try_emplace(device.str(), memory_limit(device)).first->second;
}

LossTotals FusedTrainer::train_to(Trainer& trainer, int64_t end,
                                  const std::atomic<bool>& stop,
                                  const Trainer::AfterBatch& after_batch,
                                  std::atomic<int>* together) {
  if (const at::Device& device = trainer.options().device; !device.is_cpu()) {
    return beside(device).train_to(trainer, end, stop, after_batch, together);
  }
  Job job{&trainer, end, &stop, &after_batch, together};
  const std::string shape = shape_of(trainer);
  std::unique_lock lock(mutex_);
  std::shared_ptr<Group>& known = groups_[shape];
  if (known == nullptr) {
    known = std::make_shared<Group>();
    known->most = &most_.try_emplace(shape, SIZE_MAX).first->second;
  }
  const std::shared_ptr<Group> group = known;
  group->jobs.push_back(&job);
  while (!job.done) {
    if (group->led) {
      group->changed.wait(lock);
    } else {
      lead(*group, job, lock);
    }
  }
  const auto found = groups_.find(shape);
  const bool listed = found != groups_.end() && found->second == group;
  if (listed && group->jobs.empty()) groups_.erase(found);
  lock.unlock();
  if (job.failure) std::rethrow_exception(job.failure);
  return job.totals;
}

void FusedTrainer::lead(Group& group, const Job& own,
                        std::unique_lock<std::mutex>& lock) {
  group.led = true;
  while (!own.done) {
    const std::vector<Job*> now = group.jobs;
    lock.unlock();
    try {
      // Groups of other shapes take turns with this: memory is short.
      const std::lock_guard computing(computing_);
      group.train_one_batch(now);
    } catch (...) {
      group.fail(now, std::current_exception());
    }
    lock.lock();
    for (Job* job : now) job->done = job->over();
    if (std::erase_if(group.jobs, [](const Job* job) { return job->done; })) {
      group.changed.notify_all();
    }
  }
  group.led = false;
  group.changed.notify_all();
}

}  // namespace dtune
