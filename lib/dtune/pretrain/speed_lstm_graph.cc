#include "dtune/pretrain/speed_lstm_graph.h"

#include <algorithm>
#include <tuple>

namespace dtune {
namespace {

// W by columns, gates in the order i, f, o, g, as LibTorch has it: [4 hidden]
// by columns, in the order i, f, g, o.
at::Tensor torch_gates(int64_t hidden, const at::Tensor& gates) {
  return at::cat({gates.narrow(1, 0, 2 * hidden),
                  gates.narrow(1, 3 * hidden, hidden),
                  gates.narrow(1, 2 * hidden, hidden)},
                 1)
      .t();
}

}  // namespace

SpeedBatch speed_batch(std::span<const std::vector<SpeedStep>> traces,
                       at::ScalarType type) {
  const auto count = static_cast<int64_t>(traces.size());
  size_t rounds = 0;
  for (const auto& steps : traces) rounds = std::max(rounds, steps.size());
  const auto length = static_cast<int64_t>(rounds);
  const auto of_size = [&](int64_t size) {
    return at::zeros({length, count, size}, at::kDouble);
  };
  const at::Tensor inputs = of_size(int64_t{kSpeedInputs});
  const at::Tensor candidates = of_size(int64_t{kSpeedCandidates});
  const at::Tensor rest = of_size(3);
  for (size_t i = 0; i < traces.size(); ++i) {
    const double weight = 1 / static_cast<double>(traces[i].size());
    for (size_t t = 0; t < traces[i].size(); ++t) {
      const SpeedStep& step = traces[i][t];
      const SpeedMoment& moment = step.moment;
      const size_t at = t * traces.size() + i;
      std::ranges::copy(moment.inputs,
                        inputs.data_ptr<double>() + at * kSpeedInputs);
      std::ranges::copy(moment.candidates,
                        candidates.data_ptr<double>() + at * kSpeedCandidates);
      double* more = rest.data_ptr<double>() + 3 * at;
      more[0] = moment.spread;
      more[1] = step.next - moment.level;
      more[2] = weight;
    }
  }
  return {inputs.to(type), candidates.to(type), rest.select(2, 0).to(type),
          rest.select(2, 1).to(type), rest.select(2, 2).to(type)};
}

at::Tensor speed_offsets(int64_t hidden, const at::Tensor& parameters,
                         const SpeedBatch& batch) {
  const int64_t inputs = kSpeedInputs;
  const int64_t outputs = kSpeedOutputs;
  const int64_t columns = inputs + hidden + 1;
  const int64_t split = 4 * hidden * columns;
  const at::Tensor gates = torch_gates(
      hidden, parameters.narrow(0, 0, split).view({columns, 4 * hidden}));
  const at::Tensor head = parameters.narrow(0, split, (hidden + 1) * outputs)
                              .view({hidden + 1, outputs});
  const at::Tensor bias = gates.select(1, columns - 1);
  const at::Tensor start =
      at::zeros({1, batch.inputs.size(1), hidden}, batch.inputs.options());
  const at::Tensor h = std::get<0>(
      at::lstm(batch.inputs, {start, start},
               {gates.narrow(1, 0, inputs), gates.narrow(1, inputs, hidden),
                bias, at::zeros_like(bias)},
               /*has_biases=*/true, /*num_layers=*/1, /*dropout=*/0.0,
               /*train=*/true, /*bidirectional=*/false,
               /*batch_first=*/false));
  const at::Tensor out =
      h.matmul(head.narrow(0, 0, hidden)) + head.select(0, hidden);
  const at::Tensor shares =
      out.narrow(2, 0, int64_t{kSpeedCandidates}).softmax(2);
  return (shares * batch.candidates).sum(2) +
         batch.spread * out.select(2, outputs - 1).tanh();
}

at::Tensor speed_loss(int64_t hidden, const at::Tensor& parameters,
                      const SpeedBatch& batch, const SpeedLoss& loss) {
  const at::Tensor error =
      speed_offsets(hidden, parameters, batch) - batch.next;
  const at::Tensor each =
      at::sqrt(error * error + kSpeedSmooth * kSpeedSmooth) - kSpeedSmooth +
      loss.tilt * error;
  return (batch.weight * each).sum() / batch.weight.size(1);
}

}  // namespace dtune
