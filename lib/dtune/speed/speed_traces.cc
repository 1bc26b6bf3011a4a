#include "dtune/speed/speed_traces.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "dtune/base/error.h"
#include "dtune/base/random.h"

namespace dtune {
namespace {

using Logs = std::vector<double>;  // of the speed, one a round

double log_uniform(Rng& rng, double low, double high) {
  return std::exp(rng.uniform(std::log(low), std::log(high)));
}

bool chance(Rng& rng, double probability) {
  return rng.uniform() < probability;
}

void add_noise(Rng& rng, Logs& logs) {
  const double deviation = log_uniform(rng, 0.005, 0.08);
  for (double& value : logs) value += deviation * rng.normal();
}

// Each period is up to `jitter` longer or shorter than the mean one.
void add_wave(Rng& rng, Logs& logs) {
  const double depth = std::log(log_uniform(rng, 1.3, 5));
  const double period = log_uniform(rng, 6, 80);
  const double jitter = chance(rng, 0.5) ? 0 : rng.uniform(0, 0.15);
  const bool square = chance(rng, 0.5);
  const double busy = rng.uniform(0.2, 0.8);  // share of a square's period
  double phase = rng.uniform();
  double length = period;
  for (double& value : logs) {
    phase += 1 / length;
    if (phase >= 1) {
      phase -= 1;
      length = period * (1 + jitter * rng.uniform(-1, 1));
    }
    const double turn = 2 * std::numbers::pi * phase;
    const double wave =
        square ? (phase < busy ? 1.0 : 0.0) : 0.5 - 0.5 * std::cos(turn);
    value -= depth * wave;
  }
}

void add_spikes(Rng& rng, Logs& logs) {
  const double often = log_uniform(rng, 1.0 / 60, 1.0 / 8);
  const double depth = std::log(log_uniform(rng, 2, 20));
  for (size_t i = 0; i < logs.size(); ++i) {
    if (!chance(rng, often)) continue;
    const size_t length = chance(rng, 0.75) ? 1 : 2 + rng.below(2);
    const double own = depth * rng.uniform(0.5, 1);
    for (size_t k = i; k < std::min(i + length, logs.size()); ++k) {
      logs[k] -= own;
    }
    i += length;
  }
}

// Down, a while there, up again, and so on.
void add_ramps(Rng& rng, Logs& logs) {
  const double depth = std::log(log_uniform(rng, 1.2, 4));
  double now = 0;
  for (size_t i = 0; i < logs.size();) {
    const double goal = -depth * (now < -0.3 * depth ? rng.uniform(0, 0.3)
                                                     : rng.uniform(0.5, 1));
    const double slope = (goal - now) / log_uniform(rng, 8, 120);
    const auto hold = size_t(log_uniform(rng, 5, 80));
    for (; i < logs.size() && std::abs(goal - now) > std::abs(slope); ++i) {
      logs[i] += now += slope;
    }
    for (size_t k = 0; k < hold && i < logs.size(); ++k, ++i) logs[i] += now;
  }
}

// Ornstein-Uhlenbeck: a random walk that is drawn back.
void add_walk(Rng& rng, Logs& logs) {
  const double step = log_uniform(rng, 0.01, 0.12);
  const double back = 1 / log_uniform(rng, 20, 200);
  double now = 0;
  for (double& value : logs) {
    now += step * rng.normal() - back * now;
    value += now;
  }
}

void add_contention(Rng& rng, Logs& logs) {
  const double depth = std::log(log_uniform(rng, 1.3, 5));
  const double leave[] = {1 / log_uniform(rng, 5, 60),
                          1 / log_uniform(rng, 4, 40)};
  size_t state = rng.below(2);
  for (double& value : logs) {
    if (chance(rng, leave[state])) state = 1 - state;
    value -= state == 1 ? depth : 0;
  }
}

void add_slowness(Slowness kind, Rng& rng, Logs& logs) {
  switch (kind) {
    case Slowness::constant:
      return;
    case Slowness::periodic:
      return add_wave(rng, logs);
    case Slowness::spiky:
      return add_spikes(rng, logs);
    case Slowness::drifting:
      return chance(rng, 0.5) ? add_ramps(rng, logs) : add_walk(rng, logs);
    case Slowness::switching:
      return add_contention(rng, logs);
    case Slowness::mixed:
      break;
  }
  constexpr uint64_t kSimple = kSlownesses.size() - 2;  // that slow at all
  const uint64_t first = rng.below(kSimple);
  const uint64_t second = (first + 1 + rng.below(kSimple - 1)) % kSimple;
  add_slowness(kSlownesses[1 + first], rng, logs);
  add_slowness(kSlownesses[1 + second], rng, logs);
}

}  // namespace

const char* to_string(Slowness kind) {
  constexpr std::array kNames = {"constant", "periodic",  "spiky",
                                 "drifting", "switching", "mixed"};
  static_assert(kNames.size() == kSlownesses.size());
  return kNames.at(static_cast<size_t>(kind));
}

std::vector<double> make_speed_trace(Slowness kind, size_t rounds,
                                     uint64_t seed) {
  Rng rng(mix_seed({seed, static_cast<uint64_t>(kind)}));
  Logs logs(rounds, 0);
  add_slowness(kind, rng, logs);
  add_noise(rng, logs);
  for (double& value : logs) value = std::exp(value);
  return logs;
}

}  // namespace dtune
