#include "dtune/curves/misleading.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "dtune/base/error.h"
#include "dtune/base/random.h"

namespace dtune {
namespace {

enum Axis { lr_axis, l2_axis, dropout_axis };

// Where the curve comes from that lies at each place of an axis.
std::vector<size_t> sources(Misleading how, Axis axis, size_t size) {
  std::vector<size_t> order(size);
  std::iota(order.begin(), order.end(), size_t{0});
  switch (how) {
    case Misleading::none:
      break;
    case Misleading::reversed:
      if (axis == lr_axis) std::reverse(order.begin(), order.end());
      break;
    case Misleading::shifted:
      if (axis != dropout_axis) {
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
  for (const size_t lr : from[lr_axis]) {
    for (const size_t l2 : from[l2_axis]) {
      for (const size_t dropout : from[dropout_axis]) {
        const size_t curve =
            (lr * from[l2_axis].size() + l2) * from[dropout_axis].size() +
            dropout;
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
  const Orders from = {sources(how, lr_axis, curves.log10_lr.size()),
                       sources(how, l2_axis, curves.log10_l2.size()),
                       sources(how, dropout_axis, curves.dropout.size())};
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
