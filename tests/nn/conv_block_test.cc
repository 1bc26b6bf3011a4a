// The kernels of every instruction set that this CPU has, against loops that
// say what they should compute.
#include "dtune/nn/kernels/conv_block.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/base/random.h"

namespace dtune {
namespace {

using Floats = std::vector<float>;

Floats random_floats(int64_t count, uint64_t seed) {
  Rng rng(seed);
  Floats values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(rng.uniform(-1, 1));
  return values;
}

struct Problem {
  BlockShape shape;
  Floats x;        // [H, W, C]
  Floats weights;  // [O, C, 3, 3]
  Floats bias;

  float input(int row, int column, int channel) const {
    const bool inside =
        row >= 0 && column >= 0 && row < shape.height && column < shape.width;
    if (!inside) return 0;
    return x[static_cast<size_t>((row * shape.width + column) * shape.channels +
                                 channel)];
  }
  float weight(int o, int c, int k) const {
    return weights[static_cast<size_t>((o * shape.channels + c) * 9 + k)];
  }
};

Problem make_problem(const BlockShape& shape) {
  return {shape, random_floats(shape.input_size(), 1),
          random_floats(int64_t{9} * shape.channels * shape.outputs, 2),
          random_floats(shape.outputs, 3)};
}

double conv_at(const Problem& problem, int row, int column, int o) {
  double sum = problem.bias[static_cast<size_t>(o)];
  for (int c = 0; c < problem.shape.channels; ++c) {
    for (int k = 0; k < 9; ++k) {
      sum += double{problem.weight(o, c, k)} *
             problem.input(row + k / 3 - 1, column + k % 3 - 1, c);
    }
  }
  return sum;
}

struct Outputs {
  Floats y;
  std::vector<uint8_t> choice;
};

Outputs expected_outputs(const Problem& problem) {
  const BlockShape& shape = problem.shape;
  Outputs outputs;
  for (int t = 0; t < shape.tiles(); ++t) {
    const int row = 2 * (t / (shape.width / 2));
    const int column = 2 * (t % (shape.width / 2));
    for (int o = 0; o < shape.outputs; ++o) {
      double best = -std::numeric_limits<double>::infinity();
      uint8_t choice = 0;
      for (uint8_t i = 0; i < 4; ++i) {
        const double v = conv_at(problem, row + i / 2, column + i % 2, o);
        if (v > best) choice = i;
        best = std::max(best, v);
      }
      outputs.y.push_back(static_cast<float>(std::max(best, 0.0)));
      outputs.choice.push_back(best > 0 ? choice : kDead);
    }
  }
  return outputs;
}

Floats padded(const Problem& problem) {
  Floats frame(static_cast<size_t>(problem.shape.padded_size()));
  pad_image(problem.shape, problem.x.data(), frame.data());
  return frame;
}

// [O, C, 9] -> [9, C, O] or, for wide ones' backward, [O, 9, C].
Floats taps(const Problem& problem) {
  const BlockShape& shape = problem.shape;
  Floats packed(problem.weights.size());
  for (int o = 0; o < shape.outputs; ++o) {
    for (int c = 0; c < shape.channels; ++c) {
      for (int k = 0; k < 9; ++k) {
        const int at = shape.narrow()
                           ? (k * shape.channels + c) * shape.outputs + o
                           : (o * 9 + k) * shape.channels + c;
        packed[static_cast<size_t>(at)] = problem.weight(o, c, k);
      }
    }
  }
  return packed;
}

Outputs run_forward(const ConvKernels& kernels, const Problem& problem) {
  const BlockShape& shape = problem.shape;
  Outputs outputs{
      Floats(static_cast<size_t>(shape.output_size())),
      std::vector<uint8_t>(static_cast<size_t>(shape.output_size()))};
  const Floats frame = padded(problem);
  if (shape.narrow()) {
    kernels.narrow_forward(shape, frame.data(), taps(problem).data(),
                           problem.bias.data(), outputs.y.data(),
                           outputs.choice.data());
    return outputs;
  }
  Floats transformed(static_cast<size_t>(16) * shape.channels * shape.outputs);
  winograd_weights(shape, problem.weights.data(), transformed.data());
  Floats scratch(static_cast<size_t>(winograd_scratch(shape)));
  kernels.wide_forward(shape, 1, frame.data(), transformed.data(),
                       problem.bias.data(), scratch.data(), outputs.y.data(),
                       outputs.choice.data());
  return outputs;
}

struct Gradients {
  Floats weights;  // packed as taps()
  Floats bias;
  Floats input;  // wide only
};

// By visiting every tap of every output that has a gradient.
Gradients expected_gradients(const Problem& problem, const Outputs& outputs,
                             const Floats& dy) {
  const BlockShape& shape = problem.shape;
  Gradients sums{Floats(problem.weights.size()),
                 Floats(static_cast<size_t>(shape.outputs)),
                 Floats(problem.x.size())};
  for (int t = 0; t < shape.tiles(); ++t) {
    for (int o = 0; o < shape.outputs; ++o) {
      const auto at = static_cast<size_t>(t * shape.outputs + o);
      const int i = outputs.choice[at];
      if (i == kDead) continue;
      sums.bias[static_cast<size_t>(o)] += dy[at];
      const int row = 2 * (t / (shape.width / 2)) + i / 2;
      const int column = 2 * (t % (shape.width / 2)) + i % 2;
      for (int c = 0; c < shape.channels; ++c) {
        for (int k = 0; k < 9; ++k) {
          const int r = row + k / 3 - 1;
          const int q = column + k % 3 - 1;
          const int tap = shape.narrow()
                              ? (k * shape.channels + c) * shape.outputs + o
                              : (o * 9 + k) * shape.channels + c;
          sums.weights[static_cast<size_t>(tap)] +=
              dy[at] * problem.input(r, q, c);
          if (r < 0 || q < 0 || r >= shape.height || q >= shape.width) continue;
          sums.input[static_cast<size_t>(
              (r * shape.width + q) * shape.channels + c)] +=
              dy[at] * problem.weight(o, c, k);
        }
      }
    }
  }
  return sums;
}

Gradients run_backward(const ConvKernels& kernels, const Problem& problem,
                       const Outputs& outputs, const Floats& dy) {
  const BlockShape& shape = problem.shape;
  Gradients sums{Floats(problem.weights.size()),
                 Floats(static_cast<size_t>(shape.outputs)),
                 Floats(problem.x.size())};
  const Floats frame = padded(problem);
  if (shape.narrow()) {
    kernels.narrow_backward(shape, frame.data(), dy.data(),
                            outputs.choice.data(), sums.weights.data(),
                            sums.bias.data());
    return sums;
  }
  std::vector<Active> actives(static_cast<size_t>(shape.output_size()));
  std::vector<int> counts(static_cast<size_t>(shape.outputs));
  find_actives(shape, dy.data(), outputs.choice.data(), actives.data(),
               counts.data(), sums.bias.data());
  kernels.wide_backward_weights(shape, frame.data(), actives.data(),
                                counts.data(), sums.weights.data());
  Floats dframe(frame.size());
  kernels.wide_backward_input(shape, actives.data(), counts.data(),
                              taps(problem).data(), dframe.data());
  unpad_image(shape, dframe.data(), sums.input.data());
  return sums;
}

double largest_difference(const Floats& a, const Floats& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
  }
  return largest;
}

// Sums of some hundred products of numbers below 1.
constexpr double kBlockTolerance = 1e-4;

const std::vector<BlockShape> kShapes = {
    {28, 28, 1, 32},  {6, 10, 2, 16}, {8, 8, 3, 48},   {4, 6, 4, 64},
    {14, 14, 32, 64}, {2, 2, 16, 16}, {10, 6, 48, 80}, {16, 24, 16, 112}};

template <typename Check>
void for_all(const Check& check) {
  for (const ConvKernels* kernels : runnable_conv_kernels()) {
    for (const BlockShape& shape : kShapes) {
      const std::string place = std::string(kernels->name) + " " +
                                std::to_string(shape.height) + "x" +
                                std::to_string(shape.width) + " " +
                                std::to_string(shape.channels) + " to " +
                                std::to_string(shape.outputs);
      CAPTURE(place);
      check(*kernels, make_problem(shape));
    }
  }
}

TEST_CASE("forward kernels convolve, rectify and pool") {
  for_all([](const ConvKernels& kernels, const Problem& problem) {
    const Outputs expected = expected_outputs(problem);
    const Outputs actual = run_forward(kernels, problem);
    CHECK(largest_difference(actual.y, expected.y) < kBlockTolerance);
    CHECK(actual.choice == expected.choice);
  });
}

TEST_CASE("backward kernels send each gradient to where its maximum was") {
  for_all([](const ConvKernels& kernels, const Problem& problem) {
    const Outputs outputs = expected_outputs(problem);
    const Floats dy = random_floats(problem.shape.output_size(), 4);
    const Gradients expected = expected_gradients(problem, outputs, dy);
    const Gradients actual = run_backward(kernels, problem, outputs, dy);
    CHECK(largest_difference(actual.weights, expected.weights) <
          kBlockTolerance);
    CHECK(largest_difference(actual.bias, expected.bias) < kBlockTolerance);
    if (!problem.shape.narrow()) {
      CHECK(largest_difference(actual.input, expected.input) < kBlockTolerance);
    }
  });
}

TEST_CASE("a NaN in a block's input is in its output") {
  for_all([](const ConvKernels& kernels, Problem problem) {
    problem.x.back() = std::numeric_limits<float>::quiet_NaN();
    const Outputs outputs = run_forward(kernels, problem);
    CHECK(std::isnan(outputs.y.back()));
    CHECK(outputs.choice.back() != kDead);
  });
}

}  // namespace
}  // namespace dtune
