#include "dtune/base/suggest.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/base/random.h"

using namespace dtune;  // NOLINT(google-build-using-namespace)

TEST_CASE("the edit distance counts changes, a swap being one") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("abc", "abc") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("epohcs", "epochs") == 1);
  CHECK(edit_distance("lerning_rate", "learning_rate") == 1);
  CHECK(edit_distance("ca", "abc") == 3);  // optimal string alignment
}

TEST_CASE("the edit distance is symmetric and bounded") {
  Rng rng(1);
  const auto word = [&] {
    std::string text(rng.below(9), 'a');
    for (char& c : text) c = char('a' + rng.below(3));
    return text;
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string a = word();
    const std::string b = word();
    const int d = edit_distance(a, b);
    CHECK(d == edit_distance(b, a));
    CHECK((d == 0) == (a == b));
    CHECK(d <= int(std::max(a.size(), b.size())));
    CHECK(d >= std::abs(int(a.size()) - int(b.size())));
  }
}

TEST_CASE("only near words are suggested") {
  const std::vector<std::string> keys = {"epochs", "batch_size", "lr", "l2"};
  CHECK(nearest("epoch", keys) == "epochs");
  CHECK(nearest("batchsize", keys) == "batch_size");
  CHECK(nearest("l1", keys) == "lr");
  CHECK(nearest("bat", keys) == "batch_size");
  CHECK(nearest("ep", keys).empty());
  CHECK(nearest("val_acc", std::vector<std::string>{
                               "val_auc", "val_accuracy"}) == "val_accuracy");
  CHECK(nearest("resnet", std::vector<std::string>{"lenet", "resnet18",
                                                   "resnet50"}) == "resnet18");
  CHECK(nearest("lr", std::vector<std::string>{"l2", "learning_rate"}) ==
        "learning_rate");
  CHECK(nearest("momentum", keys).empty());
  CHECK(nearest("", keys).empty());
  CHECK(nearest("x", {}).empty());
  CHECK(did_you_mean("epoch", keys) == ", did you mean 'epochs'?");
  CHECK(did_you_mean("momentum", keys).empty());
}

TEST_CASE("capitals do not count as misspelt") {
  const std::vector<std::string> words = {"tpe", "gp", "SGD"};
  CHECK(nearest("TPE", words) == "tpe");
  CHECK(nearest("GP", words) == "gp");
  CHECK(nearest("sgd", words) == "SGD");
}

TEST_CASE("a single letter suggests nothing that shares none with it") {
  const std::vector<std::string> keys = {"a", "b"};
  CHECK(nearest("q", keys).empty());
}
