// The learning rate as a function of how far the training is, in epochs; so it
// does not depend on the size of a step, nor on pauses.
#pragma once

#include "dtune/study/train_spec.h"

namespace dtune {

// What a schedule multiplies the recipe's lr with at `epoch` (passes over the
// data, fractional), of a training that takes `epochs` in all.
//
// Warm-up (Goyal et al. 2017, arXiv 1706.02677, 2.2), for epoch < warmup:
//   factor = epoch / warmup
// afterwards
//   constant: 1
//   step:     gamma ^ (number of milestones <= epoch)
//   cosine:   floor + (1 - floor) (1 + cos(pi t)) / 2,
//             t = (epoch - warmup) / (epochs - warmup), at most 1
//             (Loshchilov and Hutter 2016, arXiv 1608.03983, eq. 5, without
//             restarts)
// Milestones count from the start of the training, warm-up included. The
// trainer asks at the middle of each batch: the first batch of a warm-up does
// learn, and a milestone acts from the first batch of its epoch.
double schedule_factor(const ScheduleSpec& schedule, double epoch,
                       double epochs);

}  // namespace dtune
