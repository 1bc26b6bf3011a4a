#include "dtune/gang/step.h"

#include <algorithm>
#include <utility>

namespace dtune::gang {
namespace {

class BatchStep final : public Step {
 public:
  BatchStep(const Begin& begin, int64_t updates)
      : Step(begin, updates),
        first_updates_(updates),
        queue_(BatchCutter(begin.epoch_samples, begin.batch_size),
               begin.batch_size, begin.position, begin.end) {}

  bool trains_by_batches() const override { return true; }
  bool is_open_round() const override { return false; }
  bool is_held_by_members() const override { return false; }

  Rollback go_on_from(int64_t updates) override {
    if (updates >= this->updates()) {
      first_updates_ += updates - this->updates();
      set_updates(updates);
      return Rollback::none;
    }
    if (updates < first_updates_) return Rollback::impossible;
    queue_.keep(updates - first_updates_);
    set_updates(updates);
    if (!queue_.done()) train_again();
    return Rollback::done;
  }

  QueuedBatch plan_training(Work& work) const override {
    QueuedBatch batch = queue_.next();
    work.epoch = batch.epoch;
    work.number = batch.number;
    work.position = batch.position;
    work.batch_samples = batch.size;
    return batch;
  }

  void accept_training(const std::vector<Span>& spans) override {
    queue_.accept(spans);
    set_updates(updates() + 1);
  }
  void note_updates(int64_t /*updates*/) override {}

 protected:
  bool trained() const override { return queue_.done(); }

 private:
  int64_t first_updates_;  // applied before the step
  EpochQueue queue_;
};

class OpenStep final : public Step {
 public:
  OpenStep(const Begin& begin, int64_t updates) : Step(begin, updates) {}

  bool trains_by_batches() const override { return false; }
  bool is_open_round() const override { return phase() == Phase::train; }
  bool is_held_by_members() const override { return phase() != Phase::train; }

  Rollback go_on_from(int64_t updates) override {
    note_updates(updates);
    return Rollback::none;
  }

  QueuedBatch plan_training(Work& work) const override {
    const Begin& all = begin();
    const BatchRange first =
        BatchCutter(all.epoch_samples, all.batch_size).at(all.position);
    work.epoch = first.epoch;
    work.number = first.number;
    work.position = all.position;
    work.batch_samples = all.end - all.position;
    return {};
  }

  void accept_training(const std::vector<Span>& /*spans*/) override {
    trained_ = true;
  }
  void note_updates(int64_t updates) override {
    set_updates(std::max(this->updates(), updates));
  }

 protected:
  bool trained() const override {
    return trained_ || begin().position >= begin().end;
  }

 private:
  bool trained_ = false;
};

}  // namespace

std::unique_ptr<Step> make_step(const Begin& begin, int64_t updates) {
  if (begin.own_training) return std::make_unique<OpenStep>(begin, updates);
  return std::make_unique<BatchStep>(begin, updates);
}

Step::Step(const Begin& begin, int64_t updates)
    : begin_(begin), updates_(updates) {
  forget_predictions();
}

void Step::enter_phase() {
  if (phase_ == Phase::train && trained()) phase_ = Phase::evaluate;
  if (phase_ == Phase::evaluate && evaluation_.empty()) {
    phase_ = Phase::commit;
  }
}

void Step::restart_evaluation() {
  forget_predictions();
  if (phase_ == Phase::commit) phase_ = Phase::evaluate;
}

void Step::forget_predictions() {
  evaluation_leader_ = -1;
  evaluated_ = LossTotals();
  evaluation_.clear();
  if (begin_.evaluation_batches > 0) {
    evaluation_ = {{0, begin_.evaluation_batches}};
  }
}

LossTotals Step::accept_evaluation(std::vector<Span> spans,
                                   const LossTotals& totals, int leader) {
  if (evaluation_leader_ >= 0 && evaluation_leader_ != leader)
    forget_predictions();
  evaluation_leader_ = leader;
  evaluation_ = without(evaluation_, merged(std::move(spans)));
  return evaluated_ += totals;
}

}  // namespace dtune::gang
