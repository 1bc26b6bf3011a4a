#include "dtune/store/final_result.h"

#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/json.h"
#include "dtune/store/codec.h"

namespace dtune {

using Json = nlohmann::json;

std::string encode_final_result(const FinalResult& result) {
  Json json = {{"best", result.best}, {"final_trial", result.final_trial},
               {"step", result.step}, {"model", result.model},
               {"why", result.why},   {"chosen", result.chosen}};
  json["metrics"] = parse_json(encode_metrics(result.metrics));
  return json_text(json);
}

std::optional<FinalResult> decode_final_result(const std::string& text) {
  if (text.empty()) return std::nullopt;
  try {
    const Json json = parse_json(text);
    FinalResult result;
    result.best = json.value("best", TrialId{0});
    result.final_trial = json.value("final_trial", TrialId{0});
    result.model = json.value("model", "");
    result.why = json.value("why", "");
    result.step = json.value("step", 0);
    result.chosen = json.value("chosen", "");
    if (json.contains("metrics")) {
      result.metrics = decode_metrics(json_text(json.at("metrics")));
    }
    return result;
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::store,
                std::string("the database holds a final result that cannot be "
                            "read: ") +
                    error.what());
  }
}

}  // namespace dtune
