#include "dtune/nn/conv_chain.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "dtune/base/error.h"
#include "dtune/nn/channels_last.h"
#include "dtune/nn/fast_conv.h"
#include "dtune/nn/fuse.h"
#include "dtune/nn/ranges.h"
#include "dtune/nn/workspace.h"

namespace dtune {
namespace {

struct ChainStep {
  std::unique_ptr<ConvEngine> conv;
  NormParameters norm;
  Shape output;
  bool relu;
};

// Items of a convolution that a worker has in cache.
struct Chunk {
  size_t worker;
  Range items;
  bool first;  // of the worker
};

void for_each_chunk(const ConvEngine& conv, int64_t items,
                    const std::function<void(const Chunk&)>& work) {
  for_each_range(items, [&](size_t worker, Range range) {
    const int64_t chunk = conv.chunk(range.size());
    for (int64_t at = range.begin; at < range.end; at += chunk) {
      work({worker, {at, std::min(at + chunk, range.end)}, at == range.begin});
    }
  });
}

// A chunk's part of a tensor.
struct Part {
  Part(const at::Tensor& of, Range items, int64_t item_rows, bool relu)
      : rows{items.size() * item_rows, static_cast<int>(of.size(1)), relu},
        data(of.defined()
                 ? of.data_ptr<float>() + items.begin * item_rows * of.size(1)
                 : nullptr) {}

  int64_t size() const { return rows.rows * rows.channels; }

  NormRows rows;
  float* data;
};

class ConvChain : public SumLayer {
 public:
  ConvChain(std::vector<ChainStep> steps, ParameterPool& pool)
      : steps_(std::move(steps)), workspace_(pool.workspace) {}

  at::Tensor forward_sum(const at::Tensor& input, const at::Tensor& addend,
                         Saved* saved, const PassContext& context) override {
    at::Tensor z = channels_last(input);
    std::vector<at::Tensor> kept = {z};
    NormMap map;
    for (size_t k = 0; k < steps_.size(); ++k) {
      z = convolve(k, z, map, context);
      kept.push_back(z);
      kept.push_back(map.values);
    }
    const bool relu = steps_.back().relu;
    const at::Tensor y = normalise(
        z, map, relu, addend.defined() ? channels_last(addend) : at::Tensor());
    if (saved) {
      kept.push_back(relu ? y : at::Tensor());
      saved->tensors = std::move(kept);
      saved->gradient_sums = at::Tensor();
      saved->training = context.training;
    }
    return y;
  }

  at::Tensor backward_sum(const at::Tensor& gradient, Saved& saved,
                          const InputGradient& input,
                          AddendGradient* addend) override {
    std::vector<at::Tensor> kept = std::move(saved.tensors);
    saved.tensors.clear();
    const size_t last = steps_.size() - 1;
    ResultGradient dy = result_gradient(
        channels_last(gradient), z_of(kept, last), kept.back(),
        map_of(kept, last), steps_[last].relu, saved.gradient_sums, addend);
    for (size_t k = steps_.size(); k-- > 0;) {
      InputGradient mine = k > 0 ? InputGradient{} : input;
      if (k == 0 && addend != nullptr && addend->of_input) {
        mine.target.onto = addend->values;
      }
      dy = step_back(k, dy, kept, saved.training, mine);
      kept.resize(2 * k + 1);
    }
    return dy.values;
  }

  EndNorm end_norm(Saved& saved) override {
    const size_t last = steps_.size() - 1;
    if (!steps_[last].relu || saved.tensors.empty()) return {};
    return {z_of(saved.tensors, last), map_of(saved.tensors, last).values[0],
            &saved.gradient_sums};
  }

 private:
  // Kept: x, then a convolution's result and its norm's map for each step, and
  // what came out.
  static at::Tensor z_of(const std::vector<at::Tensor>& kept, size_t step) {
    return kept[2 * step + 1];
  }
  static NormMap map_of(const std::vector<at::Tensor>& kept, size_t step) {
    return {kept[2 * step + 2]};
  }

  // What convolution k reads of `z`, the result of the one before it (or the
  // chain's input): normalised in the worker's memory.
  const float* read(size_t k, size_t worker, Part z, const NormMap& map) const {
    if (k == 0) return z.data;
    z.rows.relu = steps_[k - 1].relu;
    float* a = room_for(workspace_->workers[worker].input, z.size());
    norm_kernels().apply(z.rows, z.data, map.scale(), map.offset(), nullptr, a);
    return a;
  }

  // `map`: of the norm before; becomes the one after.
  at::Tensor convolve(size_t k, const at::Tensor& x, NormMap& map,
                      const PassContext& context) {
    ChainStep& step = steps_[k];
    const Shape& out = step.output;
    const at::Tensor z =
        at::empty({x.size(0), out.channels, out.height, out.width}, at::kFloat,
                  at::MemoryFormat::ChannelsLast);
    const int64_t items = step.conv->items(x.size(0));
    const size_t workers = range_count(items);
    std::vector<PixelStatistics> batch(workers, PixelStatistics(out.channels));
    step.conv->prepare(/*backward=*/false, items, workers);
    for_each_chunk(*step.conv, items, [&](const Chunk& chunk) {
      const Part from(x, chunk.items, step.conv->input_rows(), false);
      const Part to(z, chunk.items, step.conv->output_rows(), false);
      step.conv->forward(chunk.worker, chunk.items.size(),
                         read(k, chunk.worker, from, map), nullptr, to.data);
      if (context.training) batch[chunk.worker].add(to.rows, to.data);
    });
    for (size_t i = 1; i < workers; ++i) batch[0].merge(batch[i]);
    map = context.training ? step.norm.map_of_batch(batch[0], context)
                           : step.norm.map_of_running();
    return z;
  }

  ResultGradient step_back(size_t k, const ResultGradient& dy,
                           const std::vector<at::Tensor>& kept, bool training,
                           const InputGradient& input) {
    ChainStep& step = steps_[k];
    const at::Tensor x = k > 0 ? z_of(kept, k - 1) : kept[0];
    const NormMap map = k > 0 ? map_of(kept, k - 1) : NormMap{};
    const EndNorm before =
        k > 0 ? EndNorm{x, map.values[0]} : input.target.before;
    const at::Tensor z = z_of(kept, k);
    const NormGradientMap dmap = step.norm.add_gradient(
        map_of(kept, k), dy.sums, norm_rows(z, false).rows, training);
    const at::Tensor& onto = input.target.onto;
    DTUNE_CHECK(!onto.defined() ||
                onto.is_contiguous(at::MemoryFormat::ChannelsLast));
    at::Tensor dx = onto;
    if (input.need_dx && !dx.defined()) {
      dx = at::empty_like(x, at::MemoryFormat::ChannelsLast);
    }
    const int64_t items = step.conv->items(x.size(0));
    const size_t workers = range_count(items);
    std::vector<NormSums> sums(workers, NormSums(x.size(1)));
    step.conv->prepare(/*backward=*/true, items, workers);
    for_each_chunk(*step.conv, items, [&](const Chunk& chunk) {
      const int64_t rows = step.conv->input_rows();
      const Part from(x, chunk.items, rows, false);
      const float* a = read(k, chunk.worker, from, map);
      float* const to =
          input.need_dx ? Part(dx, chunk.items, rows, false).data : nullptr;
      float* const da =
          onto.defined()
              ? room_for(workspace_->workers[chunk.worker].dinput, from.size())
              : to;
      step.conv->backward(chunk.worker, chunk.items.size(), a,
                          output_gradient(step, chunk, dy, z, dmap),
                          step.conv->best_pitch(), chunk.first, da);
      const float* const addend = da == to ? nullptr : to;
      if (before.x.defined()) {
        const bool relu = k == 0 || steps_[k - 1].relu;
        add_sums(Part(before.x, chunk.items, rows, relu), before.mean,
                 {.dy = da, .y = a, .addend = addend, .masked = to},
                 sums[chunk.worker]);
      } else if (addend != nullptr) {
        for (int64_t i = 0; i < from.size(); ++i) to[i] += da[i];
      }
    });
    step.conv->finish(workers);
    for (size_t i = 1; i < workers; ++i) sums[0].add(sums[i]);
    if (k == 0 && before.sums != nullptr) *before.sums = sums[0].values();
    return {dx, {}, false, std::move(sums[0])};
  }

  // The sums of the norm that read x. Where its ReLU was off nothing goes back:
  // what came out of it passes as y.
  static void add_sums(const Part& x, const at::Tensor& mean,
                       NormGradientRows of, NormSums& sums) {
    of.x = x.data;
    norm_kernels().gradient_sums(x.rows, of, mean.data_ptr<float>(),
                                 sums.first.data(), sums.second.data());
  }

  // The gradient of a convolution's result, in the worker's memory.
  const float* output_gradient(const ChainStep& step, const Chunk& chunk,
                               const ResultGradient& dy, const at::Tensor& z,
                               const NormGradientMap& dmap) const {
    const int64_t item = step.conv->output_rows();
    Part from(z, chunk.items, item, dy.relu);
    from.rows.pitch = step.conv->best_pitch();
    const Part gradient(dy.values, chunk.items, item, false);
    float* dz = room_for(workspace_->workers[chunk.worker].gradient,
                         from.rows.rows * from.rows.pitch);
    norm_kernels().input_gradient(
        from.rows, gradient.data, from.data,
        dy.relu ? Part(dy.y, chunk.items, item, false).data : nullptr,
        dmap.scale.data(), dmap.slope.data(), dmap.offset.data(), dz);
    return dz;
  }

  std::vector<ChainStep> steps_;
  std::shared_ptr<Workspace> workspace_;
};

}  // namespace

int conv_chain_length(const std::vector<LayerSpec>& layers, size_t at,
                      const Shape& input) {
  Shape shape = input;
  size_t end = at;
  while (end + 1 < layers.size()) {
    const LayerSpec& conv = layers[end];
    if (!is_fast_conv(conv, shape) || conv.bias) break;
    const Shape output = infer_shapes({conv}, shape).back().output;
    if (!is_fast_norm(layers[end + 1], output)) break;
    shape = output;
    end += 2;
    if (end < layers.size() && layers[end].kind == LayerKind::relu) ++end;
  }
  return static_cast<int>(end - at);
}

std::unique_ptr<SumLayer> make_conv_chain(const std::vector<LayerSpec>& layers,
                                          size_t at, int count, Shape input,
                                          ParameterPool& pool, bool sum_relu) {
  std::vector<ChainStep> steps;
  for (const size_t end = at + static_cast<size_t>(count); at < end;) {
    const Shape output = infer_shapes({layers[at]}, input).back().output;
    auto conv = make_conv_engine(layers[at], input, pool);
    const LayerSpec& norm = layers[at + 1];
    at += 2;
    const bool relu = at < end && layers[at].kind == LayerKind::relu;
    if (relu) ++at;
    steps.push_back(
        {std::move(conv), NormParameters(norm, output, pool), output, relu});
    input = output;
  }
  if (sum_relu) steps.back().relu = true;
  return std::make_unique<ConvChain>(std::move(steps), pool);
}

}  // namespace dtune
