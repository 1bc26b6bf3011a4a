// `dtune help`: commands and topics.
#include "app/program.h"
#include <doctest/doctest.h>

using namespace dtune;  // NOLINT: a test

namespace {

// Topics, and the files that they print.
constexpr std::pair<const char*, const char*> kTopics[] = {
    {"recipe", "recipes/README.md"},
    {"tuning", "lib/dtune/tuner/README.md"},
    {"distributed", "lib/dtune/cluster/README.md"},
    {"benchmarks", "tests/README.md"}};

std::string source(const std::string& file) {
  return read_file(std::filesystem::path(DTUNE_SOURCE_DIR) / file);
}

// What a terminal shows of `dtune help recipe`.
std::string on_a_terminal(const std::string& pager) {
  Workplace place;
  place.environment["PAGER"] = pager;
  const Outcome outcome = place.start({"help", "recipe"}, true).wait();
  CHECK(outcome.code == 0);
  return outcome.out;
}

}  // namespace

TEST_CASE("help lists topics beside the commands") {
  const Workplace place;
  const Outcome outcome = place.run({"help"});
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.out, "Topics (dtune help TOPIC):\n"));
  for (const auto& [topic, file] : kTopics) {
    CHECK(contains(outcome.out, std::string("\n  ") + topic + " "));
  }
}

TEST_CASE("every topic is a document of the project, built in") {
  const Workplace place;
  for (const auto& [topic, file] : kTopics) {
    CAPTURE(topic);
    const Outcome outcome = place.run({"help", topic});
    CHECK(outcome.code == 0);
    CHECK(outcome.out == source(file));
  }
}

TEST_CASE("a topic that is misspelt is an error that suggests the right one") {
  const Workplace place;
  const Outcome topic = place.run({"help", "recip"});
  CHECK(topic.code == 2);
  CHECK(topic.out.empty());
  CHECK(topic.err ==
        "error: dtune help: there is no topic or command 'recip', did you mean "
        "'recipe'? (dtune help lists them)\n");
  const Outcome command = place.run({"help", "stauts"});
  CHECK(command.code == 2);
  CHECK(contains(command.err, "did you mean 'status'?"));
}

TEST_CASE("a topic is paged on a terminal alone") {
  Workplace place;
  place.environment["PAGER"] = "sed s/^/paged:/";
  const Outcome piped = place.run({"help", "recipe"});
  CHECK_FALSE(contains(piped.out, "paged:"));
  CHECK(contains(on_a_terminal("sed s/^/paged:/"), "paged:# Recipes"));
  CHECK(contains(on_a_terminal("head -n 1"), "# Recipes"));
}

TEST_CASE("a topic is printed where the pager is missing") {
  const std::string shown = on_a_terminal("/nonexistent/pager");
  CHECK(contains(shown, "# Recipes"));
  CHECK(contains(shown, "## Exit codes"));
}
