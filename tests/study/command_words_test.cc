#include "dtune/study/command_words.h"

#include <memory>

#include <doctest/doctest.h>

#include "dtune/study/recipe.h"

using namespace dtune;

namespace {

using Words = std::vector<std::string>;

Words words_of(const Words& argv, const Point& point) {
  // On the heap: GCC 12 takes the optional for uninitialized elsewhere.
  const auto recipe = std::make_unique<Recipe>();
  recipe->command.emplace().argv = argv;
  recipe->space = SearchSpace({{"lr", "", ParameterKind::real, 0, 1},
                               {"depth", "", ParameterKind::integer, 1, 8}});
  return command_words(*recipe, point);
}

}  // namespace

TEST_CASE("values take the place of their names, as often as they stand") {
  CHECK(words_of({"x", "{lr}", "a{depth}b{depth}", "{other}"},
                 {{"lr", 0.5}, {"depth", int64_t{3}}}) ==
        Words{"x", "0.5", "a3b3", "{other}"});
}

TEST_CASE("an option goes with the value that a point does not have") {
  const Point point = {{"lr", 0.5}};
  CHECK(words_of({"x", "--depth", "{depth}", "--lr", "{lr}"}, point) ==
        Words{"x", "--lr", "0.5"});
  CHECK(words_of({"x", "-d", "{depth}", "end"}, point) == Words{"x", "end"});
  CHECK(words_of({"x", "--depth={depth}", "end"}, point) == Words{"x", "end"});
}

TEST_CASE("what is no option of its own stays") {
  const Point point = {{"lr", 0.5}};
  CHECK(words_of({"x", "--lr", "{lr}", "{depth}"}, point) ==
        Words{"x", "--lr", "0.5"});
  CHECK(words_of({"x", "--", "{depth}"}, point) == Words{"x", "--"});
  CHECK(words_of({"x", "-1", "{depth}"}, point) == Words{"x", "-1"});
  CHECK(words_of({"x", "--a=1", "{depth}"}, point) == Words{"x", "--a=1"});
  CHECK(words_of({"x", "--verbose", "d{depth}"}, point) ==
        Words{"x", "--verbose"});
  CHECK(words_of({"--x", "{depth}"}, point) == Words{"--x"});
}

TEST_CASE("a point is in the environment under names in capitals") {
  CHECK(point_environment({{"lr", 0.5}, {"conv1.size", int64_t{3}}}) ==
        std::map<std::string, std::string>{{"DTUNE_PARAM_LR", "0.5"},
                                           {"DTUNE_PARAM_CONV1_SIZE", "3"}});
}
