// A member of a gang that trains nothing, for tests: it keeps book of what the
// orders say. No data plane.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dtune/gang/client.h"

namespace dtune::toy {

struct StepSeen {
  std::vector<gang::Go> gos;
  // Of this member, in rounds that it took part in: epoch, span.
  std::vector<std::pair<int64_t, Span>> trained;
  std::vector<Span> evaluated;
  int regroups = 0;
  int catch_ups = 0;
  std::map<std::string, double> metrics;
  std::string ended;  // closed or evicted: why
};

// What a member does with its work before it says ready.
using Labour = std::function<void(const gang::Work&)>;

// One fidelity step.
inline StepSeen run_step(GangClient& client, gang::Begin begin,
                         const std::atomic<bool>& stop,
                         const Labour& labour = {}) {
  StepSeen seen;
  const int self = client.rank().member;
  int64_t updates = begin.updates;
  gang::Work work;
  const auto labours = [&](const gang::Work& next) {
    work = next;
    client.set_phase("toy", work.round);
    if (labour) labour(work);
    gang::Ready ready;
    ready.round = work.round;
    ready.updates = updates;
    for (const Span& span : work.spans) ready.totals.samples += span.size;
    if (work.phase == gang::Phase::train) {
      ready.totals.weight = static_cast<double>(ready.totals.samples);
    }
    if (work.phase == gang::Phase::commit && !work.spans.empty()) {
      ready.metrics = {{"by", self}};
    }
    ready.times.samples = ready.totals.samples;
    ready.times.backward = 0.001 * static_cast<double>(1 + work.spans.size());
    client.ready(ready);
  };
  client.begin(begin);
  while (true) {
    const gang::Order order = client.wait(stop);
    if (const auto* regroup = std::get_if<gang::Regroup>(&order)) {
      ++seen.regroups;
      updates = regroup->updates;
      labours(regroup->work);
    } else if (const auto* go = std::get_if<gang::Go>(&order)) {
      seen.gos.push_back(*go);
      if (go->last) {
        seen.metrics = go->metrics;
        return seen;
      }
      if (work.phase == gang::Phase::train) {
        ++updates;
        for (const Span& span : work.spans) {
          seen.trained.emplace_back(work.epoch, span);
        }
      } else if (work.phase == gang::Phase::evaluate) {
        seen.evaluated.insert(seen.evaluated.end(), work.spans.begin(),
                              work.spans.end());
      }
      labours(go->next);
    } else if (const auto* late = std::get_if<gang::CatchUp>(&order)) {
      ++seen.catch_ups;
      updates = late->updates;
      labours(late->work);
    } else {
      seen.ended = std::holds_alternative<gang::Closed>(order)
                       ? std::get<gang::Closed>(order).why
                       : std::get<gang::Evicted>(order).why;
      return seen;
    }
  }
}

// How often each sample of `epoch` was trained, of 0 .. samples - 1.
inline std::vector<int> counts(const std::vector<StepSeen>& members,
                               int64_t epoch, int64_t samples) {
  std::vector<int> times(static_cast<size_t>(samples), 0);
  for (const StepSeen& seen : members) {
    for (const auto& [of, span] : seen.trained) {
      for (int64_t i = 0; of == epoch && i < span.size; ++i) {
        ++times.at(static_cast<size_t>(span.first + i));
      }
    }
  }
  return times;
}

}  // namespace dtune::toy
