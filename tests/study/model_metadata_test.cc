#include "dtune/study/model_metadata.h"

#include <vector>

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"

using namespace dtune;

namespace {

ModelMetadata with_threshold(const char* threshold) {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "model.safetensors";
  TextMap metadata = {{"dtune_format", kModelFormat},
                      {"recipe", "study: x"},
                      {"input_shape", "1x2x2"},
                      {"class_names", "[\"a\",\"b\"]"},
                      {"mean", "[0.5]"},
                      {"deviation", "[1]"}};
  if (threshold != nullptr) metadata["threshold"] = threshold;
  write_safetensors(path, {}, metadata, /*durable=*/false);
  return read_model_metadata(SafetensorsFile(path));
}

}  // namespace

TEST_CASE("a model's threshold decides between two classes") {
  const ModelMetadata plain = with_threshold(nullptr);
  CHECK(plain.threshold == 0.5);
  CHECK(plain.answer(std::vector{0.4, 0.6}) == 1);
  CHECK(plain.answer(std::vector{0.5, 0.5}) == 0);  // the first of equal ones
  const ModelMetadata strict = with_threshold("0.7");
  CHECK(strict.threshold == 0.7);
  CHECK(strict.answer(std::vector{0.4, 0.6}) == 0);
  CHECK(strict.answer(std::vector{0.3, 0.7}) == 1);
  CHECK(strict.answer(std::vector{0.1, 0.2, 0.7}) == 2);
}

TEST_CASE("a threshold that is no probability is damage") {
  for (const char* text : {"1", "0", "-0.5", "nan", "x", "0.5x", ""}) {
    CAPTURE(std::string(text));
    CHECK_THROWS_WITH_AS(with_threshold(text),
                         doctest::Contains("its metadata 'threshold' are not a "
                                           "probability (the file is damaged)"),
                         Error);
  }
}
