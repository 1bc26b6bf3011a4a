#include "dtune/base/json.h"

#include <cmath>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace dtune {
namespace {

TEST_CASE("JSON is printed on one line, or indented") {
  const nlohmann::ordered_json value = {{"b", {1, 2}}, {"a", 0.5}};
  CHECK(json_text(value) == R"({"b":[1,2],"a":0.5})");
  CHECK(json_text(nlohmann::json(value)) == R"({"a":0.5,"b":[1,2]})");
  CHECK(json_text(nlohmann::json{{"a", 1}}, 2) == "{\n  \"a\": 1\n}");
  CHECK(json_text(nlohmann::json(std::nan(""))) == "null");
}

TEST_CASE("bytes that are not UTF-8 are replaced in JSON") {
  CHECK(json_text(nlohmann::json("a\xff")) == "\"a\xef\xbf\xbd\"");
  CHECK(ascii_json("\u00e4\xff") == R"("\u00e4\ufffd")");
}

TEST_CASE("text that is not JSON is an error, or a discarded value") {
  CHECK(parse_json("[1, 2]").size() == 2);
  CHECK(json_text(parse_ordered_json(R"({"b": 1, "a": 2})")) ==
        R"({"b":1,"a":2})");
  CHECK_THROWS_AS(parse_json("{"), nlohmann::json::parse_error);
  CHECK(try_parse_json("{").is_discarded());
  CHECK(try_parse_json("{}").is_object());
}

}  // namespace
}  // namespace dtune
