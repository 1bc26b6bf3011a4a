#define DOCTEST_CONFIG_IMPLEMENT
#include <atomic>
#include <cstdio>

#include "skip.h"
#include <doctest/doctest.h>

namespace dtune {
namespace {

std::atomic<int> cases_skipped = 0;
int cases_run = 0;

// Counts the cases that run; doctest tells only whether one failed.
class CaseCounter final : public doctest::IReporter {
 public:
  explicit CaseCounter(const doctest::ContextOptions& /*options*/) {}
  void test_case_start(const doctest::TestCaseData& /*data*/) override {
    ++cases_run;
  }
  void report_query(const doctest::QueryData& /*data*/) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& /*stats*/) override {}
  void test_case_reenter(const doctest::TestCaseData& /*data*/) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& /*s*/) override {}
  void test_case_exception(const doctest::TestCaseException& /*e*/) override {}
  void subcase_start(const doctest::SubcaseSignature& /*signature*/) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& /*data*/) override {}
  void log_message(const doctest::MessageData& /*data*/) override {}
  void test_case_skipped(const doctest::TestCaseData& /*data*/) override {}
};

DOCTEST_REGISTER_LISTENER("case counter", 1, CaseCounter);

}  // namespace

void skip(const std::string& reason) {
  ++cases_skipped;
  std::printf("skipped: %s\n", reason.c_str());
}

}  // namespace dtune

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int code = context.run();
  const bool all_skipped =
      dtune::cases_run > 0 && dtune::cases_skipped >= dtune::cases_run;
  return code == 0 && all_skipped ? dtune::kSkippedExit : code;
}
