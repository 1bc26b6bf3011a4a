#include "dtune/cluster/coordinator.h"

#include <utility>

#include "dtune/cluster/coordinator_impl.h"

namespace dtune {

Coordinator::Coordinator(Study& study, TrialStore& store, Sampler& sampler,
                         Scheduler& scheduler, ProgressSink& sink,
                         const Clock& clock, CoordinatorOptions options)
    : impl_(new Impl(study, store, sampler, scheduler, sink, clock,
                     std::move(options))) {}

Coordinator::~Coordinator() = default;

StudyOutcome Coordinator::run(const std::atomic<int>& stop) {
  return impl_->run(stop);
}

std::string Coordinator::endpoint() const { return impl_->endpoint(); }

std::string Coordinator::remote_endpoint() const {
  return impl_->remote_endpoint();
}

}  // namespace dtune
