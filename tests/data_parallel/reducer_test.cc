#include "dtune/data_parallel/reducer.h"

#include <atomic>
#include <thread>

#include "comm/local_collective.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"

using namespace dtune;

namespace {

constexpr Duration kReducerPatience = std::chrono::seconds(60);

// Three layers with weights, so that several buckets come of it.
std::vector<LayerSpec> layers() {
  std::vector<LayerSpec> all;
  for (int i = 0; i < 3; ++i) {
    LayerSpec layer;
    layer.kind = LayerKind::linear;
    layer.name = "fc" + std::to_string(i);
    layer.channels = 200;
    all.push_back(layer);
  }
  return all;
}

Network network() { return {layers(), Shape{1, 20, 20, false}, {}}; }

}  // namespace

TEST_CASE("the gradients of all ranks are summed with their weights") {
  const int ranks = 3;
  auto groups = make_local_groups(ranks);
  std::vector<Network> networks;
  for (int r = 0; r < ranks; ++r) networks.push_back(network());
  std::vector<std::vector<size_t>> reduced(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      Network& own = networks[static_cast<size_t>(r)];
      Reducer reducer(own, 1 << 18, [&](size_t bucket, MonoTime) {
        reduced[static_cast<size_t>(r)].push_back(bucket);
      });
      for (int round = 0; round < 3; ++round) {
        own.gradients().fill_(r + 1);
        reducer.begin([&] {
          return Reduction{groups[static_cast<size_t>(r)].get(), 0.5 * (r + 1),
                           kReducerPatience};
        });
        bool first = false;
        for (int layer = 2; layer >= 0; --layer) {
          const bool now = reducer.ready(layer);
          CHECK(!(first && now));
          first = first || now;
        }
        CHECK(first);
        reducer.finish();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int r = 0; r < ranks; ++r) {
    const auto at = static_cast<size_t>(r);
    // 0.5 (1 + 4 + 9)
    CHECK(networks[at].gradients().eq(7).all().item<bool>());
    REQUIRE(reduced[at].size() % 3 == 0);
    CHECK(reduced[at].size() >= 9);  // several buckets a round
    for (size_t i = 1; i < reduced[at].size() / 3; ++i) {
      CHECK(reduced[at][i] == reduced[at][i - 1] + 1);
    }
  }
}

// As a group whose sums are queued on a device: they are there at the end.
class QueuingMover final : public BucketMover {
 public:
  QueuingMover(const at::Tensor& gradient, std::vector<Bucket> buckets)
      : gradient_(gradient), buckets_(std::move(buckets)) {}

  void mark_final(size_t /*bucket*/) override {}
  bool move(size_t bucket, const Reduction& /*reduction*/) override {
    queued_.push_back(bucket);
    return false;
  }
  void finish(const Reduction& reduction) override {
    for (const size_t bucket : queued_) {
      const Bucket& range = buckets_[bucket];
      gradient_.narrow(0, range.begin, range.size()).mul_(reduction.scale);
    }
    queued_.clear();
  }

 private:
  at::Tensor gradient_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> queued_;
};

TEST_CASE("buckets that are queued are reduced when a round has ended") {
  Network own = network();
  const std::vector<Bucket> buckets = cut_buckets(
      layer_begins(own.parameter_slices()), own.gradients().numel(), 1 << 18);
  auto groups = make_local_groups(1);
  std::vector<size_t> reduced;
  Reducer reducer(
      own, buckets, [&](size_t bucket, MonoTime) { reduced.push_back(bucket); },
      std::make_unique<QueuingMover>(own.gradients(), buckets));
  for (size_t round = 1; round <= 2; ++round) {
    own.gradients().fill_(1);
    reducer.begin([&] {
      return Reduction{groups[0].get(), 3, kReducerPatience};
    });
    for (int layer = 2; layer >= 0; --layer) reducer.ready(layer);
    reducer.finish();
    CHECK(own.gradients().eq(3).all().item<bool>());
    CHECK(reduced.size() == round * buckets.size());
  }
}

TEST_CASE("what the answer throws is thrown where it is waited for") {
  Network own = network();
  Reducer reducer(own, 1 << 18, [](size_t, MonoTime) {});
  reducer.begin([]() -> Reduction {
    throw Error(ErrorKind::comm, "gang: no member answers");
  });
  reducer.ready(0);
  CHECK_THROWS_WITH_AS(reducer.finish(), "gang: no member answers", Error);

  // The next round is as if nothing had been.
  reducer.begin([] { return Reduction{}; });
  reducer.ready(0);
  reducer.finish();
}

TEST_CASE("a backward pass that fails leaves no bucket behind") {
  Network own = network();
  own.gradients().fill_(1);
  auto groups = make_local_groups(1);
  std::atomic<int> reduced = 0;
  Reducer reducer(own, 1 << 18, [&](size_t, MonoTime) { ++reduced; });
  reducer.begin([&] {
    return Reduction{groups[0].get(), 2, kReducerPatience};
  });
  reducer.cancel();
  reducer.finish();
  CHECK(reduced == 0);
  CHECK(own.gradients().eq(1).all().item<bool>());
}
