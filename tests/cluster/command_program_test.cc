#include "dtune/cluster/command_program.h"

#include <filesystem>

#include <doctest/doctest.h>

#include "dtune/base/file.h"
#include "dtune/study/recipe.h"

using namespace dtune;  // NOLINT: a test

namespace {

std::string why_not(const std::string& program, const std::string& folder) {
  Recipe recipe;
  recipe.command.emplace();
  recipe.command->argv = {program};
  recipe.directory = folder;
  return why_not_startable(recipe);
}

}  // namespace

TEST_CASE("a program is looked for where a trial starts it") {
  const TemporaryDirectory place;
  const std::string folder = place.path().string();
  const std::string script = folder + "/train.sh";
  CHECK(why_not("./train.sh", folder) == "there is no program " + script);
  write_file_atomic(script, "#!/bin/sh\n", false);
  std::filesystem::permissions(script, std::filesystem::perms::owner_read);
  CHECK(why_not("./train.sh", folder) ==
        script + " is not executable (chmod +x)");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  CHECK(why_not("./train.sh", folder) == "");
  CHECK(why_not(script, "/") == "");
  CHECK(why_not("train.sh", folder) ==
        "there is no program 'train.sh' in PATH");
  CHECK(why_not("sh", folder) == "");
  CHECK(why_not("sh", folder + "/none") ==
        "there is no folder " + folder + "/none");
}

TEST_CASE(
    "a program that a parameter chooses, or others run, is not looked for") {
  CHECK(why_not("./{solver}", "/") == "");
  CHECK(why_not("none", "/none") == "");
  CHECK(why_not_startable(Recipe()) == "");
}
