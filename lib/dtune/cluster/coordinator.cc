#include "dtune/cluster/coordinator.h"

#include <utility>

#include "dtune/cluster/conductor.h"

namespace dtune {

struct Coordinator::Impl {
  Conductor conductor;
};

Coordinator::Coordinator(Study& study, TrialStore& store, Sampler& sampler,
                         Scheduler& scheduler, ProgressSink& sink,
                         const Clock& clock, CoordinatorOptions options)
    : impl_(new Impl{Conductor(study, store, sampler, scheduler, sink, clock,
                               std::move(options))}) {}

Coordinator::~Coordinator() = default;

StudyOutcome Coordinator::run(const std::atomic<int>& stop) {
  return impl_->conductor.run(stop);
}

std::string Coordinator::endpoint() const {
  return impl_->conductor.endpoint();
}

std::string Coordinator::remote_endpoint() const {
  return impl_->conductor.remote_endpoint();
}

}  // namespace dtune
