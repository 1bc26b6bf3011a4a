#include "dtune/speed/speed_lstm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/base/random.h"
#include "dtune/speed/speed_traces.h"

using namespace dtune;  // NOLINT: a test

namespace {

bool same(const SpeedLstm& a, const SpeedLstm& b) {
  const auto x = a.parameters();
  const auto y = b.parameters();
  return std::equal(x.begin(), x.end(), y.begin(), y.end());
}

}  // namespace

TEST_CASE("speed weights come back from their file") {
  const TemporaryDirectory folder("dtune-speeds");
  SpeedLstm network(6, 1);
  for (double& value : network.parameters()) {  // a file holds float32
    value = double{static_cast<float>(value)};
  }
  network.save(folder.path() / "s.safetensors", "a test");
  CHECK(same(network, SpeedLstm::load(folder.path() / "s.safetensors")));
}

TEST_CASE("damaged and foreign speed weights are refused") {
  const TemporaryDirectory folder("dtune-speeds");
  const auto path = folder.path() / "s.safetensors";
  SpeedLstm network(6, 1);
  network.save(path, "a test");
  const std::string whole = read_file(path);
  const auto refused = [&](const std::string& bytes) {
    write_file_atomic(path, bytes, false);
    CHECK_THROWS_AS(SpeedLstm::load(path), Error);
  };
  refused(whole.substr(0, whole.size() - 4));
  refused("");
  std::string foreign = whole;
  foreign.replace(foreign.find("dtune speed"), 5, "other");
  refused(foreign);
  std::string infinite = whole;
  infinite.replace(infinite.size() - 4, 4, std::string("\x00\x00\x80\x7f", 4));
  refused(infinite);
  network.parameters()[0] = std::numeric_limits<double>::quiet_NaN();
  network.save(path, "a test");
  CHECK_THROWS_AS(SpeedLstm::load(path), Error);
}

TEST_CASE("no weights predict further off than the candidates and the spread") {
  SpeedLstm wild(8, 1);
  Rng rng(4);
  for (double& value : wild.parameters()) value = 100 * rng.normal();
  const std::vector<SpeedStep> steps =
      speed_steps(make_speed_trace(Slowness::mixed, 200, 9));
  SpeedLstmState state = wild.start();
  for (const SpeedStep& step : steps) {
    const auto& moment = step.moment;
    const double predicted = wild.step(moment, state) - moment.level;
    const auto [low, high] =
        std::minmax_element(moment.candidates.begin(), moment.candidates.end());
    CHECK(predicted >= *low - moment.spread - 1e-12);
    CHECK(predicted <= *high + moment.spread + 1e-12);
  }
}
