// The `train:` section of a recipe: how a network is trained. Plain data; sizes
// are in samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtune {

enum class OptimizerKind { sgd, adam, adamw };
enum class ScheduleKind { constant, step, cosine };
enum class LossKind { cross_entropy, focal };

// Of convolutions and matrix products; weights, gradients, their sums and the
// optimizer are float32 in any case. automatic: tf32 on a GPU, else fp32.
enum class Precision { automatic, fp32, tf32, bf16 };

struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::constant;
  double warmup = 0;               // epochs, linear from 0
  double gamma = 0.1;              // step: factor
  std::vector<double> milestones;  // step: epochs at which it applies
  double floor = 0;                // cosine: share of lr at the end
};

struct TrainSpec {
  double epochs = 12;        // the horizon in passes over the data
  int64_t step_samples = 0;  // samples a step; 0: one epoch
  int batch_size = 128;
  OptimizerKind optimizer = OptimizerKind::sgd;
  double lr = 0.05;
  double l2 = 0;  // sgd, adam: added to the gradient (coupled); adamw:
                  // w -= lr l2 w (decoupled). Not on biases and norms
                  // unless l2_on_all.
  bool l2_on_all = false;
  double momentum = 0.9;  // sgd
  bool nesterov = false;  // sgd
  double beta1 = 0.9;     // adam, adamw
  double beta2 = 0.999;   // adam, adamw
  double clip_norm = 0;   // of the whole gradient; 0: off
  double ema = 0;  // decay of the weights' moving average, by updates; 0: off
  ScheduleSpec schedule;
  LossKind loss = LossKind::cross_entropy;
  double label_smoothing = 0;   // cross_entropy
  double focal_gamma = 2;       // focal
  std::string device = "auto";  // auto, cpu, cuda, cuda:1
  Precision precision = Precision::automatic;
};

const char* to_string(OptimizerKind kind);
const char* to_string(ScheduleKind kind);
const char* to_string(LossKind kind);
const char* to_string(Precision precision);

}  // namespace dtune
