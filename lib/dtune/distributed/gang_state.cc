#include "dtune/distributed/gang_state.h"

#include <fmt/format.h>

#include "dtune/distributed/gang_link.h"
#include "dtune/nn/host_span.h"

namespace dtune {
namespace {

// What goes ahead of the tensors.
struct Header {
  MemberProgress progress;
  int64_t tensors = 0;
  int64_t elements = 0;  // of all
};

int64_t elements_of(const TrainingState& state) {
  int64_t elements = 0;
  for (const NamedTensor& tensor : state.tensors) {
    elements += tensor.values.numel();
  }
  return elements;
}

void check(const Header& header, const TrainingState& state) {
  if (header.tensors == static_cast<int64_t>(state.tensors.size()) &&
      header.elements == elements_of(state)) {
    return;
  }
  throw Error(ErrorKind::comm,
              fmt::format("gang: a peer's state has {} tensors of {} values, "
                          "ours {} of {} (all members must run one version)",
                          header.tensors, header.elements, state.tensors.size(),
                          elements_of(state)));
}

}  // namespace

void StateCopy::take(const TrainingState& state) {
  tensors_.resize(state.tensors.size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!tensors_[i].defined()) {
      tensors_[i] = at::empty({state.tensors[i].values.numel()}, at::kFloat);
    }
    tensors_[i].copy_(state.tensors[i].values);
  }
  position_ = state.position;
  updates_ = state.updates;
}

void StateCopy::put(TrainingState& state) const {
  DTUNE_CHECK(tensors_.size() == state.tensors.size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    state.tensors[i].values.copy_(tensors_[i]);
  }
  state.position = position_;
  state.updates = updates_;
}

uint64_t StateCopy::bytes() const {
  uint64_t bytes = 0;
  for (const at::Tensor& tensor : tensors_) bytes += tensor.nbytes();
  return bytes;
}

void send_state(Collective& group, int to_rank, const TrainingState& state,
                const MemberProgress& progress, Duration patience) {
  Header header{progress, static_cast<int64_t>(state.tensors.size()),
                elements_of(state)};
  header.progress.position = state.position;
  header.progress.updates = state.updates;
  group.send(to_rank, kStateTag, bytes_of_value(header), patience);
  for (const NamedTensor& tensor : state.tensors) {
    if (tensor.values.numel() == 0) continue;
    const at::Tensor host = tensor.values.to(at::kCPU);
    group.send(to_rank, kStateTag, std::as_bytes(floats(host)), patience);
  }
}

MemberProgress receive_state(Collective& group, int from_rank,
                             TrainingState& state, Duration patience) {
  Header header;
  group.receive(from_rank, kStateTag, writable_bytes_of_value(header),
                patience);
  check(header, state);
  for (const NamedTensor& tensor : state.tensors) {
    if (tensor.values.numel() == 0) continue;
    const at::Tensor host =
        tensor.values.is_cpu() ? tensor.values
                               : at::empty({tensor.values.numel()}, at::kFloat);
    group.receive(from_rank, kStateTag, std::as_writable_bytes(floats(host)),
                  patience);
    if (!tensor.values.is_cpu()) tensor.values.copy_(host);
  }
  state.position = header.progress.position;
  state.updates = header.progress.updates;
  return header.progress;
}

}  // namespace dtune
