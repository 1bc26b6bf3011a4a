#include "dtune/report/model_card.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/report/text.h"
#include "dtune/study/model_metadata.h"

namespace dtune {
namespace {

std::string metadata_of(const SafetensorsFile& model, const char* key) {
  const auto found = model.metadata().find(key);
  return found == model.metadata().end() ? "" : printable(found->second);
}

std::string metric_rows(const SafetensorsFile& model) {
  const auto found = model.metadata().find("metrics");
  if (found == model.metadata().end()) return "";
  const auto metrics = try_parse_json(found->second);
  if (!metrics.is_object()) return "";
  std::string rows;
  for (const auto& [name, value] : metrics.items()) {
    if (!value.is_number()) continue;
    rows += fmt::format("| {} | {} |\n", printable(name),
                        format_metric(value.get<double>()));
  }
  return rows.empty() ? "" : "| metric | value |\n|---|---|\n" + rows + "\n";
}

std::string class_line(const ModelMetadata& metadata) {
  std::vector<std::string> names;
  for (const std::string& name : metadata.class_names) {
    names.push_back(printable(name));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string answer_line(const ModelMetadata& metadata) {
  const std::string answer = answer_rule(metadata);
  return answer.empty() ? "" : fmt::format("- Answer: {}.\n", answer);
}

constexpr const char* kCard = R"md(# {study}

An image classifier, tuned and trained by dtune.

{metrics}- Trained on: {trained_on}. {chosen}
- Input: {shape} (channels x height x width), pixels in [0, 1] less the mean
  [{mean}], divided by the deviation [{deviation}].
- Classes, in the order of the logits: {classes}.
{answer}- Trial {trial}, step {step}, seed {seed}; the file's metadata hold the recipe.

## Use

```sh
dtune eval {file}                    # the metrics above again
dtune predict {file} photos/         # classify images
dtune export {file} --onnx model.onnx
dtune export {file} --pytorch model.py   # for the lines below
```

```python
import model                         # needs torch and safetensors
net = model.load({python_file})
probabilities = net(model.preprocess(images)).softmax(1)  # uint8 [N, H, W, C]
names = [model.CLASSES[i] for i in model.answers(probabilities)]
```
)md";

}  // namespace

std::string answer_rule(const ModelMetadata& metadata) {
  if (metadata.threshold == 0.5 || metadata.class_names.size() != 2) return "";
  return fmt::format("the second class where its probability is {:.4f} or more",
                     metadata.threshold);
}

std::string model_card(const SafetensorsFile& model,
                       const std::filesystem::path& file) {
  const ModelMetadata metadata = read_model_metadata(model);
  const std::string chosen = metadata_of(model, "chosen");
  return fmt::format(
      kCard, fmt::arg("study", metadata_of(model, "study")),
      fmt::arg("metrics", metric_rows(model)),
      fmt::arg("trained_on", metadata_of(model, "trained_on")),
      fmt::arg("chosen", chosen.empty() ? "" : "Chosen: " + chosen + "."),
      fmt::arg("shape", to_string(metadata.input)),
      fmt::arg("mean", fmt::join(metadata.mean, ", ")),
      fmt::arg("deviation", fmt::join(metadata.deviation, ", ")),
      fmt::arg("classes", class_line(metadata)),
      fmt::arg("answer", answer_line(metadata)),
      fmt::arg("trial", metadata_of(model, "trial")),
      fmt::arg("step", metadata_of(model, "step")),
      fmt::arg("seed", metadata_of(model, "seed")),
      fmt::arg("file", shell_quoted(file.string())),
      fmt::arg("python_file", json_text(nlohmann::json(file.string()))));
}

}  // namespace dtune
