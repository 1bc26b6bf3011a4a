// The page of `dtune report`, in a real browser without a network.
#include <cstdlib>
#include <sstream>

#include "app/program.h"
#include "skip.h"
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "dtune/store/sqlite_database.h"

using namespace dtune;  // NOLINT: a test

namespace {

namespace fs = std::filesystem;

constexpr const char* kNoBrowser =
    "there is no headless Chromium (apt-get install chromium-headless-shell)";

std::string find_browser() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const char* name : {"chromium-headless-shell", "chromium"}) {
      if (fs::exists(fs::path(folder) / name)) return fs::path(folder) / name;
    }
  }
  return "";
}

// What the browser shows of a page once its script has ended.
struct Shown {
  std::string document;
  std::string log;  // the console
};

// In a network namespace of its own, where the kernel allows one.
Shown show(const Workplace& place, const std::string& address) {
  const std::string command = fmt::format(
      "cd '{0}' && cut=''; unshare -rn true 2>/dev/null && cut='unshare -rn'; "
      "HOME='{0}' $cut {1} --headless --no-sandbox --disable-gpu "
      "--enable-logging=stderr --log-level=0 --window-size=1200,900 "
      "--virtual-time-budget=20000 --dump-dom 'file://{0}/{2}' > shown 2> log",
      place.path().string(), find_browser(), address);
  const int status =
      std::system(command.c_str());  // NOLINT: a test's own words
  CHECK(status == 0);
  return {place.read("shown"), place.read("log")};
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) {
    ++found;
  }
  return found;
}

void check_drawn(const Shown& shown) {
  CHECK(contains(shown.document, "data-drawn=\"yes\""));
  CHECK_FALSE(contains(shown.document, "This view could not be drawn"));
  CHECK_MESSAGE(!contains(shown.log, "CONSOLE"), shown.log);
}

void report(const Workplace& place) {
  const Outcome outcome = place.run({"report", "shell.db"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(contains(outcome.err, "wrote shell.html ("));
}

// A study in shell.db without its trials.
void make_study(const Workplace& place, int trials) {
  place.write("shell.yaml", shell_recipe(trials, 2, "0"));
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
}

// Copies of the study's only trial.
void multiply_trials(const Workplace& place, int trials) {
  Database database(place / "shell.db", DatabaseAccess::write);
  database.execute(fmt::format(
      "CREATE TEMP TABLE number(n); WITH RECURSIVE c(n) AS (SELECT 2 UNION ALL "
      "SELECT n + 1 FROM c WHERE n < {}) INSERT INTO number SELECT n FROM c; "
      "INSERT INTO trial (id, kind, point, unit, seed, state, reason, detail, "
      "attempt, failures, target_step, node, slot, created_ms, started_ms, "
      "ended_ms, checkpoint, checkpoint_step, last_step, best_step, "
      "best_value) SELECT n, kind, json_object('lr', 0.0001 + n / "
      "100000.0), unit, seed, CASE WHEN n % 3 THEN 'cut' ELSE 'paused' END, "
      "'rung', detail, attempt, failures, target_step, node, slot, created_ms, "
      "started_ms, ended_ms, checkpoint, checkpoint_step, last_step, 2, "
      "(n + 2) / 20000.0 FROM trial, number WHERE id = 1; "
      "INSERT INTO report (trial, step, attempt, metrics, seconds, "
      "checkpoint_seconds, last, sequence) SELECT n, step, attempt, "
      "json_object('val_accuracy', (n + step) / 20000.0), seconds, "
      "checkpoint_seconds, last, 2 * (n - 1) + step FROM report, number WHERE "
      "trial = 1",
      trials));
}

}  // namespace

TEST_CASE("a report is one small file that loads nothing from outside") {
  Workplace place;
  make_study(place, 4);
  report(place);
  const std::string page = place.read("shell.html");
  CHECK(page.size() < 100'000);
  CHECK(contains(page, "default-src 'none'"));
  for (const char* part : {"src=", "href=\"http", "@import", "url(http"}) {
    CHECK_FALSE(contains(page, part));
  }
  CHECK(place.run({"report", "shell.yaml", "--output", "other.html"}).code ==
        0);
  CHECK(place.has("other.html"));
}

TEST_CASE("a report of a file that is not a study is refused") {
  Workplace place;
  CHECK(place.run({"report", "none.db"}).code == 2);
  CHECK_FALSE(place.has("none.html"));
  CHECK(place.run({"report"}).code == 2);
}

TEST_CASE("a browser draws a path for each curve, and hostile words as text") {
  if (find_browser().empty()) return skip(kNoBrowser);
  Workplace place;
  make_study(place, 6);
  Database(place / "shell.db", DatabaseAccess::write)
      .execute(
          "UPDATE trial SET detail = '</script><img src=x onerror=1>' || "
          "char(10) || '\"&' WHERE id = 2; "
          "UPDATE trial SET state = 'failed', reason = 'crashed' WHERE id "
          "= 3; UPDATE report SET metrics = '{\"val_accuracy\":\"nan\"}' "
          "WHERE trial = 4; UPDATE trial SET best_step = 0, best_value = NULL "
          "WHERE id = 4");
  report(place);
  const Shown shown = show(place, "shell.html");
  check_drawn(shown);
  // Trial 4 has no value to draw.
  CHECK(count(shown.document, "data-trial=\"") == 6);
  // The leader's curve is drawn over all others.
  CHECK(shown.document.rfind("class=\"curve leader\"") >
        shown.document.rfind("class=\"curve\""));
  CHECK_FALSE(contains(shown.document, "<img"));
  CHECK(contains(shown.document, "&lt;img src=x"));
}

TEST_CASE("a trial's page in a browser has every decision about it") {
  if (find_browser().empty()) return skip(kNoBrowser);
  Workplace place;
  make_study(place, 3);
  report(place);
  const Shown shown = show(place, "shell.html#trial-2");
  check_drawn(shown);
  CHECK(contains(shown.document, "<dialog"));
  CHECK(contains(shown.document, "Why was it trained and left as it was?"));
  Database database(place / "shell.db", DatabaseAccess::read);
  Statement whys(database, "SELECT why FROM decision WHERE trial = 2");
  while (whys.step()) {
    CHECK(contains(shown.document, whys.text(0).substr(0, 20)));
  }
}

TEST_CASE("studies of no trial and of ten thousand are drawn") {
  if (find_browser().empty()) return skip(kNoBrowser);
  Workplace place;
  make_study(place, 1);
  SUBCASE("none") {
    Database(place / "shell.db", DatabaseAccess::write)
        .execute(
            "DELETE FROM report; DELETE FROM event; DELETE FROM decision; "
            "DELETE FROM trial; UPDATE study SET state = 'interrupted', "
            "final_json = ''");
    report(place);
    check_drawn(show(place, "shell.html"));
  }
  SUBCASE("ten thousand") {
    multiply_trials(place, 10000);
    report(place);
    const Shown shown = show(place, "shell.html");
    check_drawn(shown);
    CHECK(count(shown.document, "data-trial=\"") == 10000);
  }
}

TEST_CASE("several studies are compared on one page") {
  Workplace place;
  make_study(place, 3);
  place.write("second.yaml", shell_recipe(3, 2, "0"));
  REQUIRE(place.run({"run", "second.yaml", "--quiet"}).code == 0);
  REQUIRE(place.run({"report", "shell.db", "second.db"}).code == 0);
  if (find_browser().empty()) return skip(kNoBrowser);
  const Shown shown = show(place, "shell.html");
  check_drawn(shown);
  CHECK(contains(shown.document, "Which study is better"));
}

namespace {

// Talks to `dtune serve shell.db` with curl; what came goes to `answers`.
constexpr const char* kConversation = R"sh(cd '{0}' || exit 9
'{1}' serve shell.db > address 2> log & server=$!
for i in $(seq 100); do grep -q token address && break; sleep 0.1; done
url=$(cat address); base=${{url%%/\?*}}
code() {{ curl -s -o body -w '%{{http_code}}' "$@"; }}
{{
echo "unknown $(code $base/)"
echo "foreign $(code -H 'Host: evil.example' "$url")"
echo "post $(code -X POST "$url")"
echo "wrong $(code "$base/?token=0123")"
echo "token $(curl -s -D head -o body -w '%{{http_code}}' "$url")"
grep -qi 'set-cookie: .*HttpOnly; SameSite=Strict' head && echo "cookie strict"
echo "again $(code "$url")"
cookie=$(sed -n 's/.*\(dtune-session=[0-9a-f]*\).*/\1/p' head)
echo "page $(code -b "$cookie" $base/)"
grep -q "connect-src 'self'" body && echo "policy self"
echo "data $(code -b "$cookie" $base/data)"
echo "none $(code -b "$cookie" $base/none)"
curl -sN -b "$cookie" $base/events > stream & reader=$!
sleep 0.5; touch shell.db
for i in $(seq 100); do grep -q changed stream && break; sleep 0.1; done
grep -q 'data: changed' stream && echo "stream changed"
kill -9 $reader
echo "code $(code -b "$cookie" $base/)"
kill -INT $server; wait $server; echo "end $?"
}} > answers 2>> log
)sh";

// Lets a shell talk to a server of a study of three trials; what came of it is
// in `answers`. False where this machine has no curl, or this build no server.
bool converse(const Workplace& place, const char* words) {
  if (std::system("curl --version >/dev/null 2>&1") != 0) {
    skip("there is no curl");
    return false;
  }
  make_study(place, 3);
  place.write("talk.sh", fmt::format(fmt::runtime(words), place.path().string(),
                                     DTUNE_BINARY));
  CHECK(std::system(
            fmt::format("sh '{}'", (place / "talk.sh").string()).c_str()) == 0);
  if (!contains(place.read("log"), "libcpp-httplib-dev")) return true;
  skip("this build has no server");
  return false;
}

}  // namespace

TEST_CASE("an output called - is stdout, and no file") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(2, 1, "0"));
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  const Outcome plain = place.run({"export", "shell.db", "--csv"});
  const Outcome named =
      place.run({"export", "shell.db", "--csv", "--output", "-"});
  CHECK(named.code == 0);
  CHECK(named.out == plain.out);
  CHECK(named.err == plain.err);
  const Outcome page = place.run({"report", "shell.db", "--output", "-"});
  CHECK(contains(page.out, "</html>"));
  const Outcome refused = place.run({"run", "shell.yaml", "--junit", "-"});
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, "--junit: - is stdout"));
  CHECK(refused.out.empty());
  CHECK_FALSE(std::filesystem::exists(place / "-"));
}

TEST_CASE("no output takes the place of a study or of another's storage") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(2, 1, "0"));
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  const auto refused = [&](const std::vector<std::string>& words,
                           const std::string& text) {
    const Outcome outcome = place.run(words);
    CHECK(outcome.code == 2);
    CHECK_MESSAGE(contains(outcome.err, text), outcome.err);
    CHECK(place.run({"status", "shell.db"}).code == 0);
  };
  const std::string database = "shell.db: is a database, which is not replaced";
  refused({"report", "shell.db", "--output", "shell.db"}, database);
  refused({"export", "shell.db", "--csv", "--output", "shell.db"}, database);
  refused({"run", "shell.yaml", "--report", "shell.db"}, database);
  const std::string recipe = "shell.yaml: is a recipe, which is not replaced";
  refused({"report", "shell.db", "--output", "shell.yaml"}, recipe);
  refused({"export", "shell.db", "--json", "--output", "shell.yaml"}, recipe);
  refused({"run", "shell.yaml", "--summary", "shell.yaml"}, recipe);
  const std::string text = place.read("shell.yaml");
  refused({"run", "shell.yaml", "--junit", "shell.yaml"}, recipe);
  CHECK(place.read("shell.yaml") == text);
  refused({"run", "shell.yaml", "--junit", "shell.db"}, database);
  refused({"run", "none.yaml", "--junit", "shell.db"}, database);
  refused({"export", "shell.db", "--csv", "--output", "."},
          ".: is a folder (name a file in it)");
  refused({"export", "shell.db", "--optuna", "o.db", "--output", "x"},
          "--output has no effect here");
  for (const char* option : {"--json", "--plot"}) {
    refused({"simulate", "shell.db", "--sampler", "random", "--seeds", "1",
             option, "shell.db"},
            database);
  }
  refused({"record", "shell.yaml", "--output", "shell.db"}, database);
  refused({"record", "shell.yaml", "--output", "new.db"},
          "--output new.db: a study beside it has that name");
  refused({"surrogate", "train", "c.npz", "--prior-only", "--output-prior",
           "shell.db"},
          database);
  refused({"init", "synthetic", "shell.db", "--force"}, database);
  // The database does not exist before the run.
  for (const char* option : {"--report", "--summary", "--junit", "--events"}) {
    const std::string own = fmt::format("new{}.db", option);
    refused({"run", "shell.yaml", "--db", own, option, own},
            own + ": is a database, which is not replaced");
    CHECK(place.run({"status", own}).code == 0);
  }
  refused({"export", "shell.db", "--optuna", "shell.db"},
          "shell.db: exists, and is no export of dtune");
  place.write("theirs.log", "{\"op_code\":0,\"worker_id\":\"x\"}\n");
  refused({"export", "shell.db", "--optuna", "theirs.log"},
          "theirs.log: exists, and is no export of dtune");
  for (const char* own : {"o.db", "o.log", "o.db", "o.log"}) {
    CHECK(place.run({"export", "shell.db", "--optuna", own}).code == 0);
  }
  const std::string journal =
      place.read("o.log") +
      R"({"op_code":4,"worker_id":"6f0c-140","study_id":0})"
      "\n";
  place.write("o.log", journal);
  refused({"export", "shell.db", "--optuna", "o.log"},
          "o.log: holds what Optuna has added since dtune wrote it (name "
          "another file; 'dtune import --optuna o.log' makes a warm start");
  CHECK(place.read("o.log") == journal);
  Database(place / "o.db", DatabaseAccess::write)
      .execute("INSERT INTO trials VALUES (99, 98, 1, 'RUNNING', NULL, NULL)");
  refused({"export", "shell.db", "--optuna", "o.db"},
          "o.db: holds what Optuna has added");
  refused({"import", "--optuna", "o.db", "--output", "shell.db", "--force"},
          database);
}

TEST_CASE("a served page is shown to one browser of this machine alone") {
  Workplace place;
  if (!converse(place, kConversation)) return;
  CHECK(place.read("answers") ==
        "unknown 401\nforeign 403\npost 405\nwrong 401\ntoken 303\n"
        "cookie strict\nagain 401\npage 200\npolicy self\ndata 200\nnone 404\n"
        "stream changed\ncode 200\nend 0\n");
}

namespace {

// A second server on the port of the first, then one after its end.
constexpr const char* kPortTalk = R"sh(cd '{0}' || exit 9
'{1}' serve shell.db > address 2> log & server=$!
for i in $(seq 100); do grep -q token address && break; sleep 0.1; done
url=$(cat address); base=${{url%%/\?*}}; port=${{base##*:}}
{{
timeout 10 '{1}' serve shell.db --port "$port" > second 2> refused
echo "second $?"
curl -s -o body -w 'token %{{http_code}}\n' "$url"
kill -INT $server; wait $server
timeout -s INT 3 '{1}' serve shell.db --port "$port" > address
grep -c "$port" address
}} > answers 2>> log
)sh";

}  // namespace

TEST_CASE("two servers do not share a port") {
  Workplace place;
  if (!converse(place, kPortTalk)) return;
  CHECK(place.read("answers") == "second 75\ntoken 303\n1\n");
  CHECK_MESSAGE(contains(place.read("refused"), "Address already in use"),
                place.read("refused"));
}

namespace {

// The same of a folder; a study comes to be meanwhile.
constexpr const char* kFolderTalk = R"sh(cd '{0}' || exit 9
'{1}' serve . > address 2> log & server=$!
for i in $(seq 100); do grep -q token address && break; sleep 0.1; done
url=$(cat address); base=${{url%%/\?*}}
curl -s -D head -o body "$url"
cookie=$(sed -n 's/.*\(dtune-session=[0-9a-f]*\).*/\1/p' head)
get() {{ curl -s -b "$cookie" -o "$2" -w '%{{http_code}}' "$base$1"; }}
{{
echo "list $(get / list) $(grep -c 'href="study/' list)"
cp shell.db z.db
echo "list $(get / list) $(grep -c 'href="study/' list)"
echo "first $(get /study/1 page)" "second $(get /study/2 page)" "third $(get /study/3 page)"
echo "data $(get /study/2/data data)"
kill -INT $server; wait $server; echo "end $?"
}} > answers 2>> log
)sh";

}  // namespace

TEST_CASE("a served folder lists its studies, with what came of each") {
  Workplace place;
  if (!converse(place, kFolderTalk)) return;
  CHECK(place.read("answers") ==
        "list 200 1\nlist 200 2\nfirst 200 second 200 third 404\ndata 200\n"
        "end 0\n");
  const std::string list = place.read("list");
  CHECK(contains(list, "<td class=\"number\">3</td>"));
  CHECK(contains(list, "val_accuracy"));
  CHECK(contains(list, "http-equiv=\"refresh\""));
  CHECK(contains(list, "<h1>" + place.path().filename().string() + "</h1>"));
}

TEST_CASE("a run leaves a report, a summary and GitHub's annotations") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(3, 2, "0") +
                                "expect: { val_accuracy: \">= 0.99\" }\n");
  const Outcome outcome = place.run(
      {"run", "shell.yaml", "--quiet", "--report", "page.html", "--summary",
       "summary.md", "--notify",
       "echo $DTUNE_STUDY $DTUNE_DATABASE $DTUNE_STATE $DTUNE_BEST > told"});
  CHECK(outcome.code == 1);
  CHECK(contains(outcome.err, "::error file=shell.yaml,line="));
  CHECK(contains(place.read("page.html"), "Content-Security-Policy"));
  CHECK(contains(place.read("summary.md"), "| **failed** |"));
  CHECK(contains(place.read("told"), "shell shell.db finished 0."));
}

TEST_CASE(
    "without arguments the studies of the folder are shown, and what is next") {
  Workplace place;
  CHECK(place.run({}).code == 2);  // none: the help
  make_study(place, 2);
  const Outcome outcome = place.run({});
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.out, "shell.db"));
  CHECK(contains(outcome.out, "next     dtune report shell.db"));
}

TEST_CASE("colours are forced by CLICOLOR_FORCE, and never beside NO_COLOR") {
  Workplace place;
  make_study(place, 2);
  const auto coloured = [&] {
    return contains(place.run({"status", "shell.db"}).out, "\x1b[");
  };
  CHECK_FALSE(coloured());
  place.environment["CLICOLOR_FORCE"] = "1";
  CHECK(coloured());
  place.environment["NO_COLOR"] = "1";
  CHECK_FALSE(coloured());
}

TEST_CASE("exports lie where they were asked for") {
  Workplace place;
  make_study(place, 2);
  CHECK(place.run({"export", "shell.db", "--optuna", "o.db"}).code == 0);
  CHECK(place.run({"export", "shell.db", "--optuna", "o.log"}).code == 0);
  CHECK(place.run({"export", "shell.db", "--tensorboard", "tb"}).code == 0);
  CHECK(place.run({"export", "shell.db", "--mlflow", "runs"}).code == 0);
  for (const char* file : {"o.db", "o.log", "tb/trial-0002", "runs"}) {
    CHECK_MESSAGE(place.has(file), file);
  }
  const Outcome two =
      place.run({"export", "shell.db", "--csv", "--optuna", "x.db"});
  CHECK(two.code == 2);
  CHECK(contains(two.err, "needs one of --csv"));
}
