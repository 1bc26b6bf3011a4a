// A study that is put into a store record by record, by one that knows what the
// study holds after each of them.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/store/trial_store.h"

namespace dtune::test {

// What a study holds, as far as its states differ in a story.
struct Held {
  bool study = false;
  size_t sessions = 0;
  std::vector<std::pair<int, int>> trials;  // failures, steps
  size_t events = 0;
  size_t decisions = 0;
  bool operator==(const Held&) const = default;
};

// Records of all kinds; some come in groups of three. What a store says of a
// disk that fails is kept, and the story goes on.
class Story {
 public:
  // As at the start of a run.
  void open(TrialStore& store);
  // One record, or a group; `detail` makes some of them large.
  void put(TrialStore& store, const std::string& detail = {});
  // Until all is written; false: it does not succeed.
  bool finish(TrialStore& store);

  // Number of the state that the study has now; 0 is before anything.
  size_t number() const { return states_.size() - 1; }
  // Which state the store holds, of those from `least` on; -1: none of them.
  int64_t find(TrialStore& store, size_t least) const;
  // What stores have thrown.
  const std::vector<Error>& errors() const { return errors_; }

 private:
  void put_one(TrialStore& store, const std::string& detail);
  void put_trial(TrialStore& store, TrialId id, const std::string& detail);
  void tolerate(const std::function<void()>& put);

  Rng rng_{29};
  int count_ = 0;
  Held now_;
  std::vector<Held> states_{Held{}};
  std::vector<Error> errors_;
};

}  // namespace dtune::test
