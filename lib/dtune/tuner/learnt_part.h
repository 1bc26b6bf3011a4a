// Whether what recorded studies teach has a part in a study.
#pragma once

#include <string>

namespace dtune {

class ConvLstm;
class LearntPrior;
struct Recipe;

// Why the tuner that the recipe names does without the learnt prior, as a
// clause: "the space has neither learning rate nor L2 nor dropout". "" where
// the prior takes part, and where the tuner has no use for one.
std::string why_unlearnt(const Recipe& recipe);

// Of the shipped priors the one that was learnt from trainings like the
// recipe's: of CNNs where the model has a convolution.
const LearntPrior& shipped_prior_for(const Recipe& recipe);
// The network that goes with it.
const ConvLstm& shipped_network_for(const Recipe& recipe);
bool shares_shipped_weights(const Recipe& a, const Recipe& b);
// Whether that network was trained on this task: then it is not judged on it. A
// prior can leave a task out, a network cannot.
bool shipped_network_has_seen(const Recipe& recipe, const std::string& task);

}  // namespace dtune
