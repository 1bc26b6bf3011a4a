#include "dtune/curves/misleading.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "dtune/base/error.h"
#include "dtune/base/random.h"

namespace dtune {
namespace {

enum Axis { kLr, kL2, kDropout };

// Where the curve comes from that lies at each place of an axis.
std::vector<size_t> sources(Misleading how, Axis axis, size_t size) {
  std::vector<size_t> order(size);
  std::iota(order.begin(), order.end(), size_t{0});
  switch (how) {
    case Misleading::none:
      break;
    case Misleading::reversed:
      if (axis == kLr) std::reverse(order.begin(), order.end());
      break;
    case Misleading::shifted:
      if (axis != kDropout) {
        std::rotate(order.begin(),
                    order.begin() + std::ptrdiff_t((size + 1) / 3),
                    order.end());
      }
      break;
    case Misleading::permuted:
      Rng rng(mix_seed({hash_text("permuted"), uint64_t(axis)}));
      rng.shuffle(std::span(order));
      break;
  }
  return order;
}

using Orders = std::array<std::vector<size_t>, 3>;

std::vector<float> reordered(const std::vector<float>& table,
                             const Orders& from, size_t epochs) {
  std::vector<float> result;
  result.reserve(table.size());
  for (const size_t lr : from[kLr]) {
    for (const size_t l2 : from[kL2]) {
      for (const size_t dropout : from[kDropout]) {
        const size_t curve =
            (lr * from[kL2].size() + l2) * from[kDropout].size() + dropout;
        const auto first =
            table.begin() + static_cast<std::ptrdiff_t>(curve * epochs);
        result.insert(result.end(), first,
                      first + static_cast<std::ptrdiff_t>(epochs));
      }
    }
  }
  return result;
}

}  // namespace

const std::vector<std::string>& misleading_names() {
  static const std::vector<std::string> names = {"reversed", "shifted",
                                                 "permuted"};
  return names;
}

Misleading misleading_of(const std::string& name) {
  const std::vector<std::string>& names = misleading_names();
  const auto found = std::find(names.begin(), names.end(), name);
  DTUNE_CHECK(found != names.end());
  return static_cast<Misleading>(1 + (found - names.begin()));
}

RecordedCurves mislead(RecordedCurves curves, Misleading how) {
  curves.weigh();  // while neighbours are alike
  const Orders from = {sources(how, kLr, curves.log10_lr.size()),
                       sources(how, kL2, curves.log10_l2.size()),
                       sources(how, kDropout, curves.dropout.size())};
  const size_t epochs = curves.epochs.size();
  curves.values = reordered(curves.values, from, epochs);
  for (auto* tables : {&curves.repeats, &curves.worth}) {
    for (std::vector<float>& table : *tables) {
      table = reordered(table, from, epochs);
    }
  }
  return curves;
}

}  // namespace dtune
