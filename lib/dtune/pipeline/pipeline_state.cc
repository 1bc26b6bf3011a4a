// The parts of PipelineTrainer that keep and restore what was trained.
#include <string>
#include <vector>

#include "dtune/pipeline/pipeline_trainer.h"

namespace dtune {
namespace {

at::Tensor zeros(int64_t count) { return at::zeros({count}, at::kFloat); }

bool is_of_buffers(const NamedTensor& tensor) {
  return tensor.name == "buffers" || tensor.name == "average_buffers";
}

// A whole network's state, of which `part` is a stage's.
TrainingState room_for_all(TrainingState part,
                           const std::vector<StageSlice>& slices) {
  const StageSlice& last = slices.back();
  for (NamedTensor& tensor : part.tensors) {
    tensor.values =
        zeros(is_of_buffers(tensor) ? last.first_buffer + last.buffers
                                    : last.first_weight + last.weights);
  }
  return part;
}

std::vector<std::string> optimizer_state_names(const TrainSpec& train) {
  if (train.optimizer == OptimizerKind::sgd) return {"velocity"};
  return {"first_moment", "second_moment"};
}

// A stage's part of one of a state's tensors, a view.
at::Tensor part_of_tensor(const NamedTensor& whole, const StageSlice& slice) {
  return is_of_buffers(whole)
             ? whole.values.narrow(0, slice.first_buffer, slice.buffers)
             : whole.values.narrow(0, slice.first_weight, slice.weights);
}

}  // namespace

TrainingState empty_state(const Recipe& recipe, const PreparedData& data,
                          int64_t samples) {
  const std::vector<LayerSpec> layers = layers_for(recipe.model, data);
  const std::vector<int> whole = {0};
  const StageSlice size =
      slices_of_stages(layers, data.image_shape(), whole).front();
  TrainingState state;
  state.architecture = architecture_of(recipe, data);
  state.samples = samples;
  state.tensors = {{"weights", zeros(size.weights)},
                   {"buffers", zeros(size.buffers)}};
  for (const std::string& name : optimizer_state_names(recipe.train)) {
    state.tensors.push_back({name, zeros(size.weights)});
  }
  if (recipe.train.ema > 0) {
    state.tensors.push_back({"average_weights", zeros(size.weights)});
    state.tensors.push_back({"average_buffers", zeros(size.buffers)});
  }
  return state;
}

TrainingState PipelineTrainer::state() {
  TrainingState state;
  state.architecture = architecture_;
  state.samples = count();
  state.position = position_;
  state.updates = updates();
  state.tensors = {{"weights", stage_.network().weights()},
                   {"buffers", stage_.network().buffers()}};
  for (const Optimizer::State& part : optimizer_.state()) {
    state.tensors.push_back({part.name, part.values});
  }
  append_average(average_ ? &*average_ : nullptr, state.tensors);
  return state;
}

void PipelineTrainer::set_progress(int64_t position, int64_t updates) {
  position_ = position;
  optimizer_.set_updates(updates);
}

void PipelineTrainer::set_state(const TrainingState& whole) {
  const std::vector<NamedTensor> own = state().tensors;
  DTUNE_CHECK(own.size() == whole.tensors.size());
  const StageSlice& slice = slices_[static_cast<size_t>(place_.stage.stage)];
  for (size_t i = 0; i < own.size(); ++i) {
    own[i].values.copy_(part_of_tensor(whole.tensors[i], slice));
  }
  stage_.network().gradients().zero_();
  set_progress(whole.position, whole.updates);
}

void PipelineTrainer::send_state() {
  std::vector<PipelineTransfer> sent;
  int64_t number = 0;
  for (const NamedTensor& tensor : state().tensors) {
    if (tensor.values.numel() > 0) {
      sent.push_back(links_->start_send(
          0, {PipelineMessage::Kind::state, number, 0}, tensor.values));
    }
    ++number;
  }
  for (PipelineTransfer& transfer : sent) links_->wait(transfer);
}

std::optional<TrainingState> PipelineTrainer::gather_state() {
  check_attached();
  if (place_.replica > 0) return std::nullopt;
  if (!place_.leader()) {
    send_state();
    return std::nullopt;
  }
  TrainingState whole = room_for_all(state(), slices_);
  const std::vector<NamedTensor> own = state().tensors;
  std::vector<PipelineTransfer> received;
  for (size_t i = 0; i < own.size(); ++i) {
    part_of_tensor(whole.tensors[i], slices_[0]).copy_(own[i].values);
    for (int stage = 1; stage < place_.stage.stages; ++stage) {
      const at::Tensor part =
          part_of_tensor(whole.tensors[i], slices_[static_cast<size_t>(stage)]);
      if (part.numel() == 0) continue;
      received.push_back(links_->start_receive(
          place_.member_of(stage, 0),
          {PipelineMessage::Kind::state, static_cast<int64_t>(i), 0}, part));
    }
  }
  for (PipelineTransfer& transfer : received) links_->wait(transfer);
  return whole;
}

}  // namespace dtune
