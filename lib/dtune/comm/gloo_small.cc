#include "dtune/comm/gloo_small.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

namespace dtune {
namespace {

// Gloo's own operations have the prefixes 1 to 8, transfers 0x20.
constexpr uint64_t kSmallSlot = uint64_t{0x21} << 56;

}  // namespace

GlooSmallSums::GlooSmallSums(std::shared_ptr<gloo::Context> mesh)
    : mesh_(std::move(mesh)),
      arrays_(static_cast<size_t>(mesh_->size)),
      inbox_(arrays_.size()),
      outbox_(arrays_.size()) {
  if (!takes(1)) return;
  const auto mine = static_cast<size_t>(mesh_->rank);
  for (auto& array : arrays_) array.resize(kMost);
  for (size_t rank = 0; rank < arrays_.size(); ++rank) {
    if (rank == mine) continue;
    constexpr size_t kBytes = kMost * sizeof(float);
    inbox_[rank] = mesh_->createUnboundBuffer(arrays_[rank].data(), kBytes);
    outbox_[rank] = mesh_->createUnboundBuffer(arrays_[mine].data(), kBytes);
    post(rank);
  }
}

GlooSmallSums::~GlooSmallSums() = default;

bool GlooSmallSums::takes(size_t count) const {
  return count <= kMost && mesh_->size <= kMostRanks;
}

void GlooSmallSums::post(size_t rank) {
  inbox_[rank]->recv(static_cast<int>(rank), kSmallSlot, 0,
                     kMost * sizeof(float));
}

void GlooSmallSums::sum(std::span<float> data,
                        std::chrono::milliseconds timeout) {
  const auto mine = static_cast<size_t>(mesh_->rank);
  std::copy(data.begin(), data.end(), arrays_[mine].begin());
  for (size_t rank = 0; rank < arrays_.size(); ++rank) {
    if (rank == mine) continue;
    outbox_[rank]->send(static_cast<int>(rank), kSmallSlot, 0,
                        data.size_bytes());
  }
  std::fill(data.begin(), data.end(), 0.0F);
  for (size_t rank = 0; rank < arrays_.size(); ++rank) {
    if (rank != mine) inbox_[rank]->waitRecv(nullptr, timeout);
    const std::vector<float>& array = arrays_[rank];
    for (size_t i = 0; i < data.size(); ++i) data[i] += array[i];
    if (rank != mine) post(rank);
  }
  for (size_t rank = 0; rank < arrays_.size(); ++rank) {
    if (rank != mine) outbox_[rank]->waitSend(nullptr, timeout);
  }
}

}  // namespace dtune
