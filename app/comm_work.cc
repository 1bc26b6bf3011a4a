#include "app/comm_work.h"

#include <algorithm>

namespace dtune {
namespace {

class GlooPingPong final : public PingPong {
 public:
  GlooPingPong(int rank, std::unique_ptr<Collective> group)
      : PingPong(rank), peer_(1 - rank), group_(std::move(group)) {}

 protected:
  void send(std::span<const std::byte> data) override {
    group_->send(peer_, 0, data, kCommPatience);
  }
  void receive(std::span<std::byte> data) override {
    group_->receive(peer_, 0, data, kCommPatience);
  }

 private:
  int peer_;
  std::unique_ptr<Collective> group_;
};

class GlooSum final : public CommWork {
 public:
  explicit GlooSum(std::unique_ptr<Collective> group)
      : group_(std::move(group)) {}
  bool is_sum() const override { return true; }
  void prepare(uint64_t bytes) override {
    data_.assign(bytes / sizeof(float), 0.0F);
  }
  void once() override { group_->all_reduce(data_, kCommPatience); }

  // Small whole numbers, so that the sum is exact in any order.
  uint64_t check() override {
    const auto value = [](size_t i, int rank) {
      return static_cast<float>((i * 7 + static_cast<size_t>(rank) * 3) % 101);
    };
    for (size_t i = 0; i < data_.size(); ++i) {
      data_[i] = value(i, group_->rank());
    }
    once();
    uint64_t wrong = 0;
    for (size_t i = 0; i < data_.size(); ++i) {
      float sum = 0;
      for (int rank = 0; rank < group_->size(); ++rank) sum += value(i, rank);
      if (data_[i] != sum) ++wrong;
    }
    std::fill(data_.begin(), data_.end(), 0.0F);
    // Of the rank that saw most.
    return sum_of(wrong);
  }

  uint64_t agree(uint64_t value) override {
    return sum_of(group_->rank() == 0 ? value : 0);
  }

 private:
  // Exact below 2^24.
  uint64_t sum_of(uint64_t value) {
    std::vector<float> number = {static_cast<float>(value)};
    group_->all_reduce(number, kCommPatience);
    return static_cast<uint64_t>(number.front());
  }

  std::unique_ptr<Collective> group_;
  std::vector<float> data_;
};

std::unique_ptr<Collective> gloo_group(const CommRank& rank,
                                       RendezvousStore& store) {
  return make_gloo_group({.rank = rank.rank,
                          .size = rank.ranks,
                          .name = "bench",
                          .address = rank.address,
                          .connect_timeout = kCommPatience},
                         store);
}

std::byte pattern(size_t place, unsigned salt) {
  return static_cast<std::byte>((place * 31 + (place >> 8) + salt) & 0xFF);
}

}  // namespace

void fill_pattern(std::vector<std::byte>& data, unsigned salt) {
  for (size_t i = 0; i < data.size(); ++i) data[i] = pattern(i, salt);
}

uint64_t count_wrong(const std::vector<std::byte>& data, unsigned salt) {
  uint64_t wrong = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    if (data[i] != pattern(i, salt)) ++wrong;
  }
  return wrong;
}

void PingPong::once() {
  if (rank_ == 0) {
    send(data_);
    receive(data_);
  } else {
    receive(data_);
    send(data_);
  }
}

// Each way another pattern; rank 1 tells what it got wrong.
uint64_t PingPong::check() {
  constexpr unsigned kThere = 1;
  constexpr unsigned kBack = 101;
  uint64_t theirs = 0;
  const auto number = std::as_writable_bytes(std::span(&theirs, 1));
  if (rank_ == 0) {
    fill_pattern(data_, kThere);
    send(data_);
    receive(data_);
    receive(number);
    return theirs + count_wrong(data_, kBack);
  }
  receive(data_);
  theirs = count_wrong(data_, kThere);
  fill_pattern(data_, kBack);
  send(data_);
  send(number);
  return theirs;
}

uint64_t PingPong::agree(uint64_t value) {
  const auto number = std::as_writable_bytes(std::span(&value, 1));
  if (rank_ == 0) {
    send(number);
  } else {
    receive(number);
  }
  return value;
}

std::unique_ptr<CommWork> make_gloo_work(const CommRank& rank,
                                         RendezvousStore& store) {
  return std::make_unique<GlooPingPong>(rank.rank, gloo_group(rank, store));
}

std::unique_ptr<CommWork> make_gloo_sum_work(const CommRank& rank,
                                             RendezvousStore& store) {
  return std::make_unique<GlooSum>(gloo_group(rank, store));
}

}  // namespace dtune
