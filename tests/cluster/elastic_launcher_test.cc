// Agents that an engine starts, with commands of a toy engine.
#include "dtune/cluster/elastic_launcher.h"

#include <algorithm>
#include <sstream>

#include "cluster/settle.h"
#include "eventually.h"
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test

namespace {

using std::chrono::seconds;

// Its queue is a file: a line "JOB STATE REASON" each.
class ToyEngine final : public ElasticLauncher {
 public:
  explicit ToyEngine(ElasticOptions options = {.name = "toy", .most = 4})
      : ElasticLauncher(std::move(options), clock) {
    set_queue("");
  }
  ~ToyEngine() override { finish(seconds(5)); }

  void set_queue(const std::string& text) const {
    write_file_atomic(folder.path() / "queue", text, false);
  }
  void pass(Duration by = Duration(0)) {
    clock.advance(by);
    CHECK(settle(*this));
  }
  std::string said() {
    std::string out;
    for (const std::string& notice : take_notices()) out += notice + "\n";
    return out;
  }
  std::string log() const { return read_file(folder.path() / "log"); }

  ManualClock clock;
  TemporaryDirectory folder;
  std::string submit = "echo job$N";
  int submissions = 0;

 private:
  EngineCommand command(Action action) override {
    const std::string place = "cd " + folder.path().string() + "; ";
    std::string shell = "echo cancel >> log; exit 0";
    if (action == Action::list) shell = "cat queue";
    if (action == Action::submit) {
      shell =
          fmt::format("N={}; echo submit >> log; {}", ++submissions, submit);
    }
    return {{"sh", "-c", place + shell}, ""};
  }
  std::string submitted(const std::string& words) override {
    return words.substr(0, words.find('\n'));
  }
  std::vector<ListedJob> listed(const std::string& words) override {
    std::vector<ListedJob> jobs;
    std::istringstream lines(words);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream parts(line);
      ListedJob job;
      std::string state;
      parts >> job.job >> state >> job.reason;
      job.pending = state == "PENDING";
      jobs.push_back(job);
    }
    return jobs;
  }
  LaunchFailure explain(Action, const ExitStatus&,
                        const std::string& words) override {
    const std::string line = words.substr(0, words.find('\n'));
    return {"toy: " + line, line == "bad partition"};
  }
};

Demand demand_of(int64_t slots, std::vector<PresentAgent> agents = {}) {
  return {slots, std::move(agents)};
}

}  // namespace

TEST_CASE("agents are asked for one by one, two of them pending at most") {
  ToyEngine engine;
  engine.set_demand(demand_of(0));
  engine.pass();
  CHECK(engine.submissions == 0);  // nothing could use them
  engine.set_demand(demand_of(100));
  engine.pass();
  engine.pass();
  CHECK(engine.submissions == 1);  // one a second
  engine.pass(seconds(1));
  CHECK(engine.submissions == 2);
  engine.pass(seconds(1));
  CHECK(engine.submissions == 2);  // both wait
  engine.set_demand(demand_of(100, {{"job1", 2}}));
  engine.pass(seconds(1));
  CHECK(engine.submissions == 3);
  CHECK(engine.said() ==
        "toy: asked for an agent: job job1\ntoy: asked for an agent: job "
        "job2\ntoy: asked for an agent: job job3\n");
}

TEST_CASE("no more agents are asked for than trials could use") {
  ToyEngine engine;
  engine.set_demand(demand_of(4));
  engine.pass();
  engine.pass(seconds(1));
  CHECK(engine.submissions == 2);
  engine.set_demand(demand_of(4, {{"job1", 2}}));
  // Two slots are here, and two will come.
  engine.pass(seconds(1));
  CHECK(engine.submissions == 2);
  // The successor of an agent that ends is asked for before it does.
  engine.set_demand(demand_of(4, {{"job1", 2, true}, {"job2", 2}}));
  engine.pass(seconds(1));
  CHECK(engine.submissions == 3);
}

TEST_CASE("after a preemption another agent is asked for") {
  ToyEngine engine({.name = "toy", .most = 1});
  engine.set_demand(demand_of(4));
  engine.pass();
  engine.pass(seconds(1));
  REQUIRE(engine.submissions == 1);
  engine.set_demand(demand_of(4, {{"job1", 2}}));
  engine.pass(seconds(1));
  engine.set_demand(demand_of(4));  // it has left
  engine.set_queue("job1 RUNNING\n");
  engine.pass(seconds(30));
  CHECK(engine.submissions == 1);  // its place is not free yet
  engine.set_queue("");
  engine.pass(seconds(30));
  engine.pass(seconds(1));
  CHECK(engine.submissions == 2);
}

TEST_CASE("one empty listing leads to no further request") {
  ToyEngine engine({.name = "toy", .most = 1});
  engine.set_demand(demand_of(1));
  engine.pass();
  engine.pass(seconds(1));
  REQUIRE(engine.submissions == 1);
  engine.pass(seconds(30));
  engine.set_queue("job1 PENDING Priority\n");
  engine.pass(seconds(30));
  CHECK(engine.submissions == 1);
  engine.pass(seconds(30));
  CHECK(engine.said() ==
        "toy: asked for an agent: job job1\n"
        "toy: job job1 is pending: Priority\n");
  engine.set_queue("");
  engine.pass(seconds(30));
  engine.pass(seconds(30));
  engine.pass(seconds(1));
  CHECK(engine.submissions == 2);
  CHECK(engine.said() ==
        "toy: job job1 ended before its agent came here\n"
        "toy: asked for an agent: job job2\n");
}

TEST_CASE("jobs of a coordinator that died are taken over") {
  ToyEngine engine({.name = "toy", .most = 1});
  engine.set_queue("old PENDING Resources\n");
  engine.set_demand(demand_of(1));
  engine.pass();
  engine.pass(seconds(1));
  CHECK(engine.submissions == 0);
  CHECK(engine.said() ==
        "toy: job old of this study is in the queue already\n"
        "toy: job old is pending: Resources\n");
}

TEST_CASE(
    "a full quota is reported once, and asked for again at growing intervals") {
  ToyEngine engine;
  engine.submit = "echo quota is full; exit 1";
  engine.set_demand(demand_of(4));
  engine.pass();
  for (int i = 0; i < 70; ++i) engine.pass(seconds(1));
  CHECK(engine.said() == "toy: quota is full\n");
  CHECK(engine.submissions < 9);
  CHECK_FALSE(engine.given_up());
  engine.submit = "echo job$N";
  engine.pass(seconds(60));
  engine.pass(seconds(60));
  CHECK(engine.said().starts_with("toy: answers again\n"));
}

TEST_CASE("an error that only the user can mend is not retried") {
  ToyEngine engine;
  engine.submit = "echo bad partition; exit 1";
  engine.set_demand(demand_of(4));
  engine.pass();
  engine.pass(seconds(1));
  CHECK(engine.given_up());
  CHECK(engine.problem() == "toy: bad partition");
  engine.pass(seconds(60));
  CHECK(engine.submissions == 1);
}

TEST_CASE("jobs that end before their agents come are given up") {
  ToyEngine engine({.name = "toy", .most = 1});
  engine.set_demand(demand_of(1));
  for (int i = 0; i < 40 && !engine.given_up(); ++i) engine.pass(seconds(30));
  CHECK(engine.given_up());
  CHECK(engine.submissions == 5);
  CHECK(engine.problem().find("5 jobs in a row ended before their agents") !=
        std::string::npos);
}

TEST_CASE("a controller that does not answer is not waited for") {
  ToyEngine engine;
  engine.submit = "sleep 1000";
  engine.pass();  // lists
  engine.set_demand(demand_of(1));
  engine.clock.advance(seconds(1));
  engine.ensure();  // begins
  engine.ensure();
  CHECK(engine.submissions == 1);
  engine.clock.advance(seconds(61));
  engine.ensure();
  CHECK(engine.said() == "toy: no answer within 1m00s (trying on)\n");
}

TEST_CASE("at the end all jobs are cancelled, also those that pend") {
  ToyEngine engine;
  engine.set_demand(demand_of(4));
  engine.pass();
  engine.pass(seconds(1));
  engine.close();
  eventually([&] {
    engine.ensure();
    return engine.log().ends_with("cancel\n");
  });
  CHECK(engine.log() == "submit\nsubmit\ncancel\n");
}
