#include "dtune/data/summary.h"

#include "data/fixtures.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/data/class_name.h"

using namespace dtune;
using namespace dtune::testing;

namespace {

// 1x1 images, `sizes[c]` of class c.
DataSummary summary_of(const std::vector<int>& sizes, double validation,
                       double test) {
  Bytes labels;
  for (size_t c = 0; c < sizes.size(); ++c) {
    labels.insert(labels.end(), size_t(sizes[c]), static_cast<uint8_t>(c));
  }
  TemporaryDirectory folder;
  const auto n = static_cast<int64_t>(labels.size());
  write_npz(folder.path() / "set.npz",
            {{"train_images", npy_bytes("|u1", {n, 1, 1}, labels)},
             {"train_labels", npy_bytes("|u1", {n}, labels)}});
  DataSpec spec;
  spec.kind = DataKind::npz;
  spec.path = (folder.path() / "set.npz").string();
  spec.validation = validation;
  spec.test = test;
  return summarize(PreparedData(prepare_data(spec, folder.path())));
}

}  // namespace

TEST_CASE("a summary counts every class of every split") {
  const DataSummary summary = summary_of({200, 100}, 30, 60);
  CHECK(summary.classes[0].test == 40);
  CHECK(summary.classes[1].test == 20);
  CHECK(summary.classes[0].validation == 20);
  CHECK(summary.classes[1].train == 70);
  CHECK(summary.imbalance == doctest::Approx(2.0));
  CHECK(summary.majority_accuracy == doctest::Approx(2.0 / 3));
  CHECK(summary_text(summary) ==
        "210 training, 30 validation and 60 test images of 1x1x1 in 2 classes "
        "(1.5 KiB)");
}

TEST_CASE("warnings say what a user should know before spending hours") {
  CHECK(data_warnings(summary_of({2000, 2000}, 600, 600), {}).empty());
  CHECK(data_warnings(summary_of({300, 100}, 100, 0), {}) ==
        std::vector<std::string>{
            "100 validation images measure an accuracy of 0.9 to +-0.030 only: "
            "smaller differences between trials are noise (a larger "
            "data.validation helps)",
            "classes are unbalanced, 3.0 to 1: always predicting the largest "
            "one gives a validation accuracy of 0.750 (tune val_auc, or set "
            "data.balance)",
            "there is no test split, so the quality of the final model is not "
            "known (set data.test)"});
  CHECK(data_warnings(summary_of({300, 300}, 0, 60), {}) ==
        std::vector<std::string>{
            "there is no validation split, so trials cannot be compared (set "
            "data.validation, e.g. to 0.1)"});
}

TEST_CASE("a remedy that the recipe takes already is not advised") {
  const DataSummary summary = summary_of({3000, 1000}, 800, 400);
  const auto warned = [&](const Recipe& recipe) {
    return data_warnings(summary, recipe).front();
  };
  const std::string what =
      "classes are unbalanced, 3.0 to 1: always predicting the largest one "
      "gives a validation accuracy of 0.750 ";
  Recipe recipe;
  CHECK(warned(recipe) == what + "(tune val_auc, or set data.balance)");
  recipe.space = SearchSpace({{.name = "weights",
                               .key = "data.balance",
                               .kind = ParameterKind::boolean}});
  CHECK(warned(recipe) == what + "(tune val_auc)");
  recipe.space = {};
  recipe.data.balance = true;
  CHECK(warned(recipe) == what + "(tune val_auc)");
  recipe.objective.metric = "val_auc";
  CHECK(data_warnings(summary, recipe).empty());
}

TEST_CASE("a validation split of one class is a warning") {
  TemporaryDirectory folder;
  auto members = npz_split("train", 4, 2);
  members.merge(npz_split("val", 600, 1));
  members.merge(npz_split("test", 2, 2));
  write_npz(folder.path() / "set.npz", members);
  DataSpec spec;
  spec.kind = DataKind::npz;
  spec.path = (folder.path() / "set.npz").string();
  CHECK(data_warnings(
            summarize(PreparedData(prepare_data(spec, folder.path()))), {}) ==
        std::vector<std::string>{
            "all 600 validation images are of class 0: a model that always "
            "predicts 0 gets an accuracy of 1 (give the split images of every "
            "class)"});
}

TEST_CASE("class names are made printable, well-formed UTF-8") {
  CHECK(printable_name("caf\xc3\xa9 \xe7\x8c\xab \xf0\x9f\x90\x88") ==
        "caf\xc3\xa9 \xe7\x8c\xab \xf0\x9f\x90\x88");
  CHECK(printable_name("caf\xe9") == "caf?");
  CHECK(printable_name("a\nb\x1b[0m\x7f") == "a?b?[0m?");
  CHECK(printable_name("\xed\xa0\x80 \xc0\xaf \xe2\x82") == "??? ?? ??");
}
