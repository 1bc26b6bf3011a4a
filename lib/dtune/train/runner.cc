#include "dtune/train/runner.h"

#include <filesystem>
#include <map>

#include "dtune/train/process.h"
#include "dtune/train/session.h"

namespace dtune {
namespace {

class CnnRunner final : public TrialRunner {
 public:
  explicit CnnRunner(int threads) { use({.threads = threads}); }

  std::unique_ptr<TrialSession> start(
      const TrialAssignment& assignment) override {
    return start_session(assignment, data_at(assignment.prepared_data));
  }

 private:
  // Stays mapped while this lives: the pages are the page cache's, and the
  // next trial wants the same file.
  std::shared_ptr<const PreparedData> data_at(
      const std::filesystem::path& path) {
    std::shared_ptr<const PreparedData>& data = data_[path.string()];
    if (data == nullptr) data = std::make_shared<const PreparedData>(path);
    return data;
  }

  std::map<std::string, std::shared_ptr<const PreparedData>> data_;
};

}  // namespace

std::unique_ptr<TrialRunner> make_cnn_runner(int threads) {
  return std::make_unique<CnnRunner>(threads);
}

}  // namespace dtune
