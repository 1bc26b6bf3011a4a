// The recipes that the project ships read, and explain every key.
#include <filesystem>

#include "config/recipe_fixture.h"

#include "dtune/base/file.h"
#include "dtune/config/recipe_file.h"
#include "dtune/config/schema.h"

namespace dtune {
namespace {

const std::filesystem::path kRecipes =
    std::filesystem::path(DTUNE_SOURCE_DIR) / "recipes";

std::vector<std::filesystem::path> shipped() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(kRecipes)) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  return paths;
}

TEST_CASE("every shipped recipe reads, and resolves to itself") {
  CHECK(shipped().size() >= 8);
  for (const auto& path : shipped()) {
    CAPTURE(path.string());
    const RecipeFile file = RecipeFile::load(path);
    const std::string resolved = file.resolved_yaml();
    CHECK(RecipeFile::parse(resolved, "r.yaml", "/").resolved_yaml() ==
          resolved);
  }
}

TEST_CASE("every shipped recipe is what `dtune init` writes") {
  const auto kinds = recipe_template_kinds();
  CHECK(kinds.size() == shipped().size());
  std::vector<std::string> texts;
  for (const std::string& kind : kinds) texts.push_back(recipe_template(kind));
  for (const auto& path : shipped()) {
    CAPTURE(path.string());
    CHECK(std::count(texts.begin(), texts.end(), read_file(path)) == 1);
  }
}

TEST_CASE("an unknown kind of recipe gets a suggestion") {
  CHECK_THROWS_WITH_AS(
      recipe_template("cifra10"),
      "no recipe is called 'cifra10', did you mean 'cifar10'? (there are "
      "fashion-mnist, cifar10, npz, folder, synthetic, command, layers, ci)",
      Error);
}

TEST_CASE("the main recipe shows every key but those of commands") {
  const std::string text = read_file(kRecipes / "fashion-mnist.yaml");
  const std::string command = read_file(kRecipes / "command.yaml");
  for (const std::string& key : recipe_keys()) {
    const std::string word = key.substr(key.rfind('.') + 1) + ":";
    const std::string& place = key.starts_with("command") ? command : text;
    CHECK_MESSAGE(place.find(word) != std::string::npos, key);
  }
}

TEST_CASE("the main recipe says the defaults that it says it does") {
  const Recipe recipe =
      RecipeFile::load(kRecipes / "fashion-mnist.yaml").recipe();
  const Recipe plain;
  CHECK(recipe.train.batch_size == plain.train.batch_size);
  CHECK(recipe.train.momentum == plain.train.momentum);
  CHECK(recipe.limits.lease == plain.limits.lease);
  CHECK(recipe.limits.grace == plain.limits.grace);
  CHECK(recipe.limits.retries == plain.limits.retries);
  REQUIRE(recipe.space.dimensions() == 3);
  const SearchSpace cube = parse("seed: 1").recipe().space;
  for (size_t i = 0; i < 3; ++i) {
    CHECK(recipe.space.parameters()[i].name == cube.parameters()[i].name);
    CHECK(recipe.space.parameters()[i].low == cube.parameters()[i].low);
    CHECK(recipe.space.parameters()[i].high == cube.parameters()[i].high);
  }
}

TEST_CASE("the check for continuous integration is small and sure") {
  const Recipe recipe = RecipeFile::load(kRecipes / "ci-check.yaml").recipe();
  CHECK(recipe.deterministic);
  CHECK(recipe.data.kind == DataKind::synthetic);
  CHECK(recipe.budget.trials <= 10);
  CHECK(recipe.expect.size() >= 2);
}

}  // namespace
}  // namespace dtune
