#include "dtune/train/plugin.h"

#include <cstdlib>

#include "fixture.h"
#include <doctest/doctest.h>

using namespace dtune;

TEST_CASE("a library that is not there is an error with what to do") {
  ::setenv("DTUNE_LIBRARY_PATH", "/nowhere", 1);
  CHECK_THROWS_WITH_AS(
      load_engine(),
      doctest::Contains(
          "libdtune_train.so: not found, and without it no network "
          "can be trained; looked for /nowhere/libdtune_train.so"),
      Error);
  const TemporaryDirectory folder;
  write_file_atomic(folder.path() / "libdtune_train.so", "no library", false);
  ::setenv("DTUNE_LIBRARY_PATH", folder.path().c_str(), 1);
  CHECK_THROWS_WITH_AS(load_engine(), doctest::Contains("cannot be loaded"),
                       Error);
  ::unsetenv("DTUNE_LIBRARY_PATH");  // it can be found now
  CHECK_NOTHROW(load_engine());
}

TEST_CASE("the engine says what it computes with") {
  const EngineInfo info = load_engine().info();
  CHECK_FALSE(info.torch_version.empty());
  CHECK_FALSE(info.blas.empty());
  CHECK(info.gflops_per_core > 0);
  MESSAGE("LibTorch ", info.torch_version, ", ", info.blas, ", ",
          info.gflops_per_core, " GFLOP/s, oneDNN ", info.mkldnn);
}

TEST_CASE("what the library throws is caught in the program by its type") {
  Workshop shop;
  TrialAssignment assignment = shop.assignment();
  assignment.recipe.train.lr = 1e30;
  const auto session = shop.start(assignment);
  CHECK_THROWS_AS(Workshop::run(*session, 1), TrialFailure);
  assignment.prepared_data = shop.path("no-such-file");
  try {
    shop.start(assignment);
    FAIL("the file does not exist");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::data);
    CHECK(std::string(error.what()).find("no-such-file") != std::string::npos);
  }
}

TEST_CASE(
    "a deterministic recipe sets up cuBLAS, a value that is there stays") {
  const char* name = "CUBLAS_WORKSPACE_CONFIG";
  ::unsetenv(name);
  Recipe recipe;
  load_engine_for(recipe);
  CHECK(std::getenv(name) == nullptr);
  recipe.deterministic = true;
  load_engine_for(recipe);
  CHECK(std::string(std::getenv(name)) == ":4096:8");
  ::setenv(name, ":16:8", 1);
  load_engine_for(recipe);
  CHECK(std::string(std::getenv(name)) == ":16:8");
  ::unsetenv(name);
}

TEST_CASE("the engine is loaded once") {
  CHECK(&load_engine() == &load_engine());
}
