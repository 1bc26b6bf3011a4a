#include "dtune/base/safetensors.h"

#include <cstdlib>
#include <cstring>

#include "skip.h"
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"

using namespace dtune;

namespace {

std::string file_of(std::string_view header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + std::string(header) + std::string(data_bytes, 'x');
}

SafetensorsHeader parse(const std::string& bytes) {
  return parse_safetensors(std::as_bytes(std::span(bytes)), "m.safetensors");
}

std::string problem(std::string_view header, size_t data_bytes) {
  try {
    parse(file_of(header, data_bytes));
    return "";
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::data);
    return error.what();
  }
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("what is written is read back") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "model.safetensors";
  const std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  const std::vector<float> bias = {0.5F};
  const std::vector<FloatTensor> tensors = {{"conv1.weight", {2, 3}, weight},
                                            {"conv1.bias", {1}, bias}};
  write_safetensors(path, tensors, {{"classes", "T-shirt \"1\"\xc3\xa9"}},
                    true);
  const SafetensorsFile file(path);
  CHECK(file.text("classes") == "T-shirt \"1\"\xc3\xa9");
  CHECK(file.header().data_begin % 8 == 0);
  const std::vector<int64_t> shape = {2, 3};
  const auto values = file.floats("conv1.weight", shape);
  CHECK(std::vector<float>(values.begin(), values.end()) == weight);
}

TEST_CASE("text that is not UTF-8 does not stop a model from being written") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "m.safetensors";
  write_safetensors(path, {}, {{"classes", "caf\xe9"}}, false);
  CHECK(SafetensorsFile(path).text("classes") == "caf\xef\xbf\xbd");
}

TEST_CASE("a tensor of another name or shape is refused with both shapes") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "m.safetensors";
  const std::vector<float> values = {1, 2};
  const std::vector<FloatTensor> tensors = {{"w", {2}, values}};
  write_safetensors(path, tensors, {}, false);
  const SafetensorsFile file(path);
  const std::vector<int64_t> other = {1, 2};
  CHECK_THROWS_WITH_AS(
      file.floats("w", other),
      doctest::Contains("tensor 'w' is F32 [2], but F32 [1, 2] is needed"),
      Error);
  CHECK_THROWS_WITH_AS(file.floats("v", other),
                       doctest::Contains("holds no tensor 'v'"), Error);
  CHECK_THROWS_WITH_AS(file.text("recipe"),
                       doctest::Contains("has no 'recipe'"), Error);
}

TEST_CASE("a header that lies is refused") {
  CHECK(has(problem("{]", 0), "not JSON"));
  CHECK(has(problem("[]", 0), "not an object"));
  CHECK(has(problem(R"({"a":1})", 0), "'a' is not an object"));
  CHECK(has(problem(R"({"__metadata__":{"k":1}})", 0), "are not text"));
  CHECK(has(
      problem(R"({"a":{"dtype":"F31","shape":[],"data_offsets":[0,4]}})", 4),
      "unknown type 'F31'"));
  CHECK(has(
      problem(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
      "an invalid size"));
  CHECK(has(
      problem(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
      "takes 8 bytes"));
  CHECK(has(
      problem(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4),
      "takes 4 bytes"));
  CHECK(has(problem(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],)"
                    R"("data_offsets":[0,0]}})",
                    0),
            "too large"));
  CHECK(has(problem(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                    1),
            "occurs twice"));
  CHECK(has(problem(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                    R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                    3),
            "overlap"));
  CHECK(has(
      problem(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 3),
      "but 3 follow"));
}

TEST_CASE("a file cut short anywhere is refused") {
  const std::vector<float> values = {1, 2, 3};
  const std::vector<FloatTensor> tensors = {{"w", {3}, values}};
  const TemporaryDirectory folder;
  write_safetensors(folder.path() / "w", tensors, {}, false);
  const std::string whole = read_file(folder.path() / "w");
  CHECK(parse(whole).tensors.size() == 1);
  for (size_t length = 0; length < whole.size(); ++length) {
    CHECK_THROWS_AS(parse(whole.substr(0, length)), Error);
  }
}

TEST_CASE("tensors may lie in any order, be empty or scalars") {
  const SafetensorsHeader header =
      parse(file_of(R"({"b":{"dtype":"F32","shape":[],"data_offsets":[2,6]},)"
                    R"("e":{"dtype":"F64","shape":[0],"data_offsets":[2,2]},)"
                    R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}  )",
                    6));
  CHECK(header.tensors.at("b").shape.empty());
}

TEST_CASE("Python's safetensors opens what is written") {
  if (std::system("python3 -c 'import safetensors.numpy' 2>/dev/null") != 0) {
    return skip("no python3 with safetensors and numpy here");
  }
  const TemporaryDirectory folder;
  const auto path = folder.path() / "m.safetensors";
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::vector<FloatTensor> tensors = {{"fc.weight", {2, 3}, values}};
  write_safetensors(path, tensors, {{"format", "pt"}}, false);
  const std::string command = fmt::format(
      "python3 -c \"from safetensors import safe_open; "
      "f = safe_open('{}', 'np'); t = f.get_tensor('fc.weight'); "
      "assert t.shape == (2, 3) and t[1, 2] == 6; "
      "assert f.metadata()['format'] == 'pt'\"",
      path.string());
  CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("tensors of other types are written and read from memory too") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "m.safetensors";
  const std::vector<double> wide = {0.1, 0.2};
  const std::vector<uint16_t> narrow = {0x3C00, 0xC000, 0};
  const std::vector<RawTensor> tensors = {
      {"wide", "F64", {2}, std::as_bytes(std::span(wide))},
      {"narrow", "F16", {3}, std::as_bytes(std::span(narrow))}};
  write_raw_safetensors(path, tensors, {}, false);
  const MappedFile bytes(path);
  const SafetensorsFile file(bytes.bytes(), "memory");
  CHECK(file.doubles("wide", file.shape("wide", 1))[1] == 0.2);
  CHECK(file.halves("narrow", file.shape("narrow", 1))[1] == 0xC000);
  CHECK(file.data().size() == 22);
  CHECK_THROWS_AS(file.shape("wide", 2), Error);
  CHECK_THROWS_AS(file.floats("wide", file.shape("wide", 1)), Error);
}
